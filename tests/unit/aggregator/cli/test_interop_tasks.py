"""A task is read from the members of the test API, under its present names and its older ones."""

import pytest

from aggregator.cli.local.interop_tasks import TASK_INFO, task_of
from aggregator.dap.auth import TokenHeader
from aggregator.dap.ids import encode_base64url
from aggregator.dap.profile import DAP_18, DAP_19, BatchMode
from aggregator.errors import ParameterError
from tests.support.tasks import collector_keypair

CONFIG = collector_keypair().config
MEMBERS: dict[str, object] = {
    "task_id": encode_base64url(bytes(32)),
    "leader": "http://leader:8080/",
    "helper": "http://helper:8080/dap",
    "vdaf": {"type": "Prio3Sum", "max_measurement": "255"},
    "batch_mode": 1,
    "min_batch_size": 10,
    "time_precision": 60,
}


def test_the_bytes_are_those_that_every_implementation_makes() -> None:
    """The API names no task_info, no extension and no policy, and all parties must agree."""
    task = task_of(MEMBERS, CONFIG, DAP_19, TokenHeader.DAP_AUTH_TOKEN)
    configuration = task.configuration
    assert configuration.task_info == TASK_INFO.encode()
    assert configuration.extensions == ()
    assert configuration.helper_aggregator_endpoint == "http://helper:8080/dap"
    assert (task.profile, task.token_header) == (DAP_19, TokenHeader.DAP_AUTH_TOKEN)


def test_older_names_say_the_same() -> None:
    older = {**MEMBERS, "query_type": 2, "vdaf": {"type": "Prio3Sum", "bits": "8"}}
    del older["batch_mode"]
    task = task_of(older, CONFIG, DAP_18, TokenHeader.AUTHORIZATION)
    assert task.configuration.batch_mode is BatchMode.LEADER_SELECTED
    assert task.prio3.circuit.parameters == {"max_measurement": 255}


def test_a_start_and_an_end_are_the_tasks_interval_and_null_is_none() -> None:
    for start, end, interval in ((None, None, None), (600, "1200", (10, 10))):
        members = {**MEMBERS, "task_start": start, "task_end": end}
        found = task_of(members, CONFIG, DAP_18, TokenHeader.AUTHORIZATION).interval
        shown = None if found is None else (found.start.units, found.duration.units)
        assert shown == interval


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"task_id": 3}, "task_id: must be text"),
        ({"time_precision": "x"}, "time_precision: must be a whole number"),
        ({"min_batch_size": None}, "min_batch_size: missing"),
        ({"batch_mode": 3}, "batch_mode: must be 1 or 2 or 240, not 3"),
        ({"vdaf": "Prio3Count"}, "vdaf: must be an object"),
        ({"vdaf": {"type": "Prio3Sum", "max_measurement": []}}, "vdaf.max_measurement: must be"),
        ({"task_start": 60}, "task_start: goes with task_end"),
        ({"task_start": 61, "task_end": 120}, "task_start: must be a multiple"),
        ({"vdaf": {"type": "Prio3Poplar", "bits": "1"}}, "Prio3Poplar"),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, object], reason: str) -> None:
    with pytest.raises(ParameterError, match=reason):
        task_of({**MEMBERS, **changes}, CONFIG, DAP_18, TokenHeader.AUTHORIZATION)


def test_a_batch_may_hold_as_many_reports_as_sums_allow() -> None:
    large = {**MEMBERS, "vdaf": {"type": "Prio3Sum", "max_measurement": str(2**50)}}
    task = task_of(large, CONFIG, DAP_18, TokenHeader.AUTHORIZATION)
    assert 10 <= task.max_reports < 2**14
