"""Client, leader and helper each refuse a task that gives less than they require."""

from contextlib import closing
from fractions import Fraction
from pathlib import Path

import httpx
import pytest

from aggregator.client import AlreadyAnswered, AsyncClient, Client, Outbox, UploadError, bulk
from aggregator.dap.problems import TaskRefused
from aggregator.dap.profile import Role
from aggregator.errors import ParameterError
from aggregator.protocol.provisioning import provision
from aggregator.protocol.requirements import Requirements
from aggregator.protocol.task_file import task_to_toml
from aggregator.service.storage.reports.waiting import waiting_in_batch
from tests.support.collector_world import task_asking
from tests.support.commands import run_here, service_text
from tests.support.entropy import SeededEntropy
from tests.support.pair import NOW, Pair, pair_of
from tests.support.store import units
from tests.support.tasks import LAPLACE, NO_NOISE, make_task, task_text
from tests.support.through_http import ThroughHttp

pair = pair_of(privacy=LAPLACE)


async def stored(pair: Pair) -> int:
    return await pair.leader.database.read(
        "waiting", lambda tx: waiting_in_batch(tx, pair.task.task_id.value, units(0, 2**40))
    )


async def test_a_client_sends_one_persons_reports_up_to_the_bound(
    pair: Pair, tmp_path: Path
) -> None:
    with closing(Outbox(tmp_path / "outbox.sqlite")) as outbox:
        sender = ThroughHttp(pair.http)
        client = AsyncClient(pair.task, outbox, sender=sender, clock=pair.clock)
        with pytest.raises(ParameterError):  # no measurement of the task: not counted either
            await client.upload([4], person="17")
        with pytest.raises(AlreadyAnswered):
            await client.upload([0, 1], person="17")
        assert await stored(pair) == 0
        assert (await client.upload([2], person="17")).accepted == 1
        again = AsyncClient(pair.task, outbox, sender=sender)
        with pytest.raises(AlreadyAnswered):
            await again.upload([2], time=NOW, person="17")
        assert await stored(pair) == 1


async def test_a_report_that_was_not_answered_is_counted_and_goes_with_the_next_upload(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk._Call, "_pause", lambda *_: None)
    is_broken = {"hpke_config": True, "reports": True}

    async def break_some(request: httpx.Request) -> None:
        if is_broken[request.url.path.rsplit("/", 1)[-1]]:
            raise httpx.ReadError("the connection broke")

    pair.http.event_hooks["request"] = [break_some]
    with closing(Outbox(tmp_path / "outbox.sqlite")) as outbox:
        client = AsyncClient(pair.task, outbox, sender=ThroughHttp(pair.http), clock=pair.clock)
        with pytest.raises(UploadError, match="unreachable"):
            await client.upload([2], time=NOW, person="17")
        is_broken["hpke_config"] = False
        with pytest.raises(AlreadyAnswered):
            await client.upload([2], time=NOW, person="17")
        with pytest.raises(UploadError, match="unreachable"):
            await client.upload([])
        is_broken["reports"] = False
        assert (await client.upload([])).accepted == 1
    assert await stored(pair) == 1


@pytest.mark.parametrize(
    ("limit", "is_allowed"),
    [(None, True), (Fraction(1, 2), True), (Fraction(49, 100), False)],
    ids=["none", "equal", "less"],
)
async def test_a_client_refuses_a_task_above_its_own_epsilon(
    pair: Pair,
    limit: Fraction | None,
    is_allowed: bool,  # noqa: FBT001 - a parameter
) -> None:
    if is_allowed:
        requirements = Requirements(max_epsilon=limit)
        sender = ThroughHttp(pair.http)
        client = AsyncClient(pair.task, sender=sender, clock=pair.clock, requirements=requirements)
        assert (await client.upload([0])).accepted == 1
    else:
        with pytest.raises(ParameterError, match="this client accepts at most epsilon 49/100"):
            Client(pair.task, requirements=Requirements(max_epsilon=limit))


def test_a_client_with_a_limit_refuses_a_task_without_noise_unless_allowed() -> None:
    task = make_task(privacy=NO_NOISE)
    Client(task).close()
    Client(task, requirements=Requirements(max_epsilon=Fraction(1), exact_results=True)).close()
    with pytest.raises(ParameterError, match="this client accepts no task without noise"):
        Client(task, requirements=Requirements(max_epsilon=Fraction(1)))
    noised = make_task(privacy=LAPLACE)
    with pytest.raises(ParameterError, match="epsilon 1/2"):
        Client(noised, requirements=Requirements(max_epsilon=Fraction(1, 3), exact_results=True))


async def test_aggregators_and_clients_refuse_a_large_delta_unless_they_are_told(
    tmp_path: Path,
) -> None:
    large = {"mechanism": "TruncatedGeometric", "epsilon": "1/1000", "delta": "1/1000"}
    pair = Pair(tmp_path, make_task(privacy=large))
    await pair.provision()
    for runtime in (pair.leader.runtime, pair.helper.runtime):
        with pytest.raises(TaskRefused, match="at most delta 1/100000; the task has delta 1/1000"):
            await runtime.task(pair.task.task_id)
    with pytest.raises(ParameterError, match="this client accepts at most delta 1/100000"):
        Client(pair.task)
    Client(pair.task, requirements=Requirements(max_delta=Fraction(1, 1000))).close()
    await pair.close()


@pytest.mark.parametrize("role", ["leader", "helper"])
@pytest.mark.parametrize(
    ("requirements", "message"),
    [
        (
            Requirements(min_batch_size=4),
            "min_batch_size: this aggregator requires at least 4, not 3",
        ),
        (Requirements(max_epsilon=Fraction(1, 3)), "at most epsilon 1/3; the task has epsilon 1/2"),
        (Requirements(max_rho=Fraction(1, 99)), "at most rho 1/99"),
        (Requirements(limit_required=True), "only tasks with a budget or max_releases"),
    ],
    ids=["batch", "epsilon", "rho", "limit"],
)
async def test_an_aggregator_serves_no_task_that_protects_too_little(
    tmp_path: Path, role: str, requirements: Requirements, message: str
) -> None:
    leader_requirements, helper_requirements = (
        (requirements, None) if role == "leader" else (None, requirements)
    )
    pair = Pair(
        tmp_path,
        make_task(privacy=LAPLACE),
        leader_requirements=leader_requirements,
        helper_requirements=helper_requirements,
    )
    await pair.provision()
    served, other = pair.leader.runtime, pair.helper.runtime
    if role == "helper":
        served, other = other, served
    with pytest.raises(TaskRefused, match=message):
        await served.task(pair.task.task_id)
    assert await served.tasks() == []
    assert len(await other.tasks()) == 1
    await pair.close()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("requirements.min_batch_size = 4", "min_batch_size: this aggregator requires at least 4"),
        ('requirements.max_epsilon = "1/3"', "at most epsilon 1/3; the task has epsilon 1/2"),
        (
            'requirements.population_required = "staff"',
            "takes only tasks of staff, and the task names none",
        ),
        ('requirements.max_rho = "1/99"', "at most rho 1/99"),
        ("requirements.limit_required = true", "only tasks with a budget or max_releases"),
    ],
)
def test_an_aggregator_adds_no_task_below_the_floor_of_its_settings(
    tmp_path: Path, settings: str, message: str
) -> None:
    config, file = tmp_path / "service.toml", tmp_path / "helper.toml"
    file.write_text(provision(make_task(privacy=LAPLACE), SeededEntropy(1))[Role.HELPER])
    config.write_text(
        f'service.role = "helper"\nservice.database = "helper.sqlite"\n'
        f'keys.store_key_file = "helper.key"\n{settings}\n'
    )
    refused = run_here("task", "add", file, "--config", config)
    assert refused.returncode == 2
    assert message in refused.stderr
    config.write_text(service_text("helper"))
    assert run_here("task", "add", file, "--config", config).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["0", "--max-epsilon", "1/3"], "this client accepts at most epsilon 1/3"),
        (["0", "--max-epsilon", "0.x"], "max-epsilon"),
        (["0", "--max-rho", "1/99"], "this client accepts at most rho 1/99"),
        (["0", "--max-delta", "1"], "max-delta must be below 1"),
        (["0", "--min-batch-size", "4"], "this client requires at least 4"),
        (["0", "--limit-required"], "only tasks with a budget or max_releases"),
        (["0", "--population-required", "staff"], "takes only tasks of staff, and the task names"),
        (["0", "--population-required", "a,,b"], "population-required: must be names joined by"),
        (["0", "--person-column", "who"], "person-column: goes with --csv"),
    ],
    ids=lambda value: value[1] if isinstance(value, list) else None,
)
def test_the_command_line_has_the_clients_limits(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    file = tmp_path / "task.toml"
    file.write_text(task_text(privacy=LAPLACE))
    done = run_here("upload", file, *arguments)
    assert done.returncode == 2
    assert message in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--max-epsilon", "1/3"], "privacy: this client accepts at most epsilon 1/3"),
        (["--min-batch-size", "4"], "min_batch_size: this client requires at least 4"),
        (["--max-delta", "x"], "max-delta"),
        (["--max-epsilon", "1"], "when"),  # it gets as far as the answers
    ],
)
def test_a_survey_is_uploaded_only_if_it_protects_enough(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    weighted = '[[question]]\nname = "{}"\nkind = "yes-no"\nweight = {}\n'
    task = task_asking(weighted.format("first", 1) + weighted.format("second", 3))
    (tmp_path / "task.toml").write_text(task_to_toml(task))
    (tmp_path / "answers.csv").write_text("no such column\nyes\n")
    for option in ([], ["--dry-run"]):
        done = run_here(
            *("survey", "upload", tmp_path / "task.toml", tmp_path / "answers.csv"),
            *("--time-column", "when", *option, *arguments),
        )
        assert done.returncode == 2
        assert message in done.stderr


@pytest.mark.parametrize(
    ("privacy", "arguments", "message"),
    [
        (NO_NOISE, ["--no-exact-results"], "accepts no task without noise"),
        (NO_NOISE, ["--max-epsilon", "9"], "accepts no task without noise"),
        (NO_NOISE, ["--max-epsilon", "8"], "accepts no task without noise"),
        (
            {"mechanism": "DiscreteGaussian", "rho": "1", "delta": "1/1000"},
            ["--max-epsilon", "100"],
            "this client accepts at most delta 1/100000; the task has delta 1/1000",
        ),
    ],
    ids=["exact", "no epsilon", "the default epsilon", "delta"],
)
def test_the_command_line_refuses_exact_results_and_large_deltas(
    tmp_path: Path, privacy: dict[str, str], arguments: list[str], message: str
) -> None:
    file = tmp_path / "task.toml"
    file.write_text(task_text(privacy=privacy))
    done = run_here("upload", file, "0", *arguments)
    assert done.returncode == 2
    assert message in done.stderr


def test_the_command_line_holds_the_persons_of_a_file_to_the_bound(tmp_path: Path) -> None:
    file, table = tmp_path / "task.toml", tmp_path / "table.csv"
    file.write_text(task_text(privacy=LAPLACE))
    table.write_text("who,bucket\nada,1\nada,1\n")
    done = run_here("upload", file, "--csv", table, "--column", "bucket", "--person-column", "who")
    assert done.returncode == 2
    assert "line 3, who: report 2 of one person; max_reports_per_person is 1" in done.stderr
