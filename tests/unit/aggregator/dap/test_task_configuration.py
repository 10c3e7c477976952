import dataclasses

import pytest

from aggregator.codec import DecodeError, decode, encode
from aggregator.dap.extensions import Extension
from aggregator.dap.profile import BatchMode
from aggregator.dap.task import TaskConfiguration, task_extensions
from aggregator.dap.times import Interval
from aggregator.errors import ParameterError
from tests.support.dap_messages import TASK_CONFIGURATION


def test_extensions_are_found_by_their_type() -> None:
    assert TASK_CONFIGURATION.task_interval == Interval.of(1000, 24)
    assert TASK_CONFIGURATION.privacy == b"policy"
    bare = dataclasses.replace(TASK_CONFIGURATION, extensions=())
    assert bare.task_interval is None
    assert bare.privacy is None


def test_unknown_extensions_are_kept_so_that_the_protocol_can_refuse_them() -> None:
    extended = dataclasses.replace(
        TASK_CONFIGURATION, extensions=(Extension(2, b"?"), Extension(0xFF7F, b""))
    )
    assert decode(TaskConfiguration, encode(extended)) == extended


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"task_info": bytes(256)}, "task_info must be 0 to 255 bytes long, not 256"),
        ({"leader_aggregator_endpoint": ""}, "leader_aggregator_endpoint must be 1 to 65535"),
        ({"helper_aggregator_endpoint": "http://é/"}, "helper_aggregator_endpoint must be ASCII"),
        ({"time_precision": 0}, "time_precision must be 1 to"),
        ({"min_batch_size": -1}, "min_batch_size must be 0 to"),
        ({"min_batch_size": 2**64}, "min_batch_size must be 0 to"),
        ({"vdaf_type": 2**32}, "vdaf_type must be 0 to 4294967295"),
        ({"vdaf_configuration": bytes(65536)}, "vdaf_configuration must be 0 to 65535"),
        ({"extensions": (Extension(2, b""), Extension(2, b""))}, r"increase, not be \[2, 2\]"),
        ({"extensions": (Extension(1, bytes(15)),)}, "task_interval is not an interval"),
        ({"extensions": (Extension(1, b"\xff" * 16),)}, "task_interval is not an interval"),
    ],
)
def test_a_field_out_of_range_is_refused_by_name(changes: dict[str, object], reason: str) -> None:
    with pytest.raises(ParameterError, match=reason):
        dataclasses.replace(TASK_CONFIGURATION, **changes)  # type: ignore[arg-type]  # any field


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("0000000000000e10", "0000000000000000", "time_precision must be 1 to"),
        ("01000000000004", "03000000000004", "3 is not a batch mode"),
        ("01000000000004", "0100016100000004", "batch_config must be 0 to 0"),
        (b"helper.example".hex(), "ff" + b"elper.example".hex(), "endpoint must be ASCII"),
        ("ff500006", "00010006", "must strictly increase"),
    ],
)
def test_hostile_bytes_are_refused(old: str, new: str, reason: str) -> None:
    encoded = encode(TASK_CONFIGURATION).hex()
    assert encoded.count(old) == 1
    with pytest.raises(DecodeError, match=reason):
        decode(TaskConfiguration, bytes.fromhex(encoded.replace(old, new)))


def test_one_more_slash_makes_another_configuration() -> None:
    other = dataclasses.replace(
        TASK_CONFIGURATION, leader_aggregator_endpoint="https://leader.example/dap"
    )
    assert encode(other) != encode(TASK_CONFIGURATION)


def test_a_leader_selected_task_round_trips() -> None:
    task = dataclasses.replace(
        TASK_CONFIGURATION,
        batch_mode=BatchMode.LEADER_SELECTED,
        extensions=task_extensions(privacy=b""),
    )
    assert task.privacy == b""
    assert decode(TaskConfiguration, encode(task)) == task


def test_extensions_are_made_of_what_is_given_in_order() -> None:
    interval = Interval.of(1, 2)
    assert task_extensions() == ()
    assert [extension.extension_type for extension in task_extensions(interval)] == [1]
    both = task_extensions(interval, b"policy")
    assert [extension.extension_type for extension in both] == [1, 0xFF50]
