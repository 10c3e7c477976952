"""Two aggregators and a task of attribution: budgets of reports, and the epsilon of a collection.

Each aggregator holds collectors, reports and the other one to what it was given itself.
"""

import dataclasses
from collections.abc import AsyncIterator
from fractions import Fraction
from pathlib import Path

import pytest
from sqlalchemy import update

from aggregator.codec import decode
from aggregator.collector.results.result import Result, UnusableResult
from aggregator.dap.attribution import min_dp_budget
from aggregator.dap.extensions import Extension
from aggregator.dap.messages import AggregateShareReq, CollectionJobReq
from aggregator.protocol.batches import Batch, BatchTotals
from aggregator.protocol.collection import aggregate_share_request
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import task_to_toml
from aggregator.service.leader import collections
from aggregator.service.storage.engine import tables
from aggregator.service.storage.reports.counters import Stage
from tests.support.bundles import charged, with_extensions
from tests.support.helper_jobs import errors_of, send_job
from tests.support.pair import Answer, Pair, Service
from tests.support.permitted import names
from tests.support.tasks import ATTRIBUTION, NO_NOISE, make_task

MILLION = 10**6
HISTOGRAM = {"type": "Prio3L1BoundSum", "length": 3, "max_value": 8, "chunk_length": 4}
LAPLACE = {"mechanism": "PureDpDiscreteLaplace", "epsilon": "2", "bound": False}
MEASUREMENTS = [[1, 0, 7], [2, 0, 0], [0, 8, 0]]

pytestmark = pytest.mark.usefixtures("engine")


def task_of(privacy: dict[str, str | bool] | None = None) -> Task:
    return make_task(HISTOGRAM, privacy or LAPLACE, attribution=ATTRIBUTION, task_info="")


@pytest.fixture(params=["noised", "exact"])
async def pair(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Pair]:
    async with Pair(
        tmp_path, task_of(dict(NO_NOISE) if request.param == "exact" else None)
    ) as made:
        yield made


@pytest.fixture
async def noised(tmp_path: Path) -> AsyncIterator[Pair]:
    async with Pair(tmp_path, task_of()) as made:
        yield made


async def ask(pair: Pair, budget: int | None) -> Answer:
    """Collect at a budget: return the leader's answer, the last one if it took the request."""
    pair.min_dp_budget = budget
    answer = await pair.ask()
    if answer.status != 201:
        return answer
    await pair.work_until_idle()
    return await pair.poll(answer.headers["location"])


async def collected(pair: Pair, budget: int) -> Result:
    answer = await ask(pair, budget)
    assert not answer.problem, answer.problem
    return pair.open(answer.body)


def journaled(service: Service) -> list[Fraction | None]:
    costs = [each.charge.cost for each in service.journal.releases()]
    return [None if each is None else each.epsilon for each in costs]


async def test_reports_are_counted_that_pay_and_each_other_is_refused_for_its_reason(
    pair: Pair,
) -> None:
    paying = await pair.reports(MEASUREMENTS, budget=MILLION)
    (one,) = await pair.reports([[8, 0, 0]], budget=MILLION)
    others = [
        with_extensions(one),
        with_extensions(one, Extension(0xFF62, bytes(4))),
        with_extensions(one, Extension(0xFFF0, bytes(4))),
        with_extensions(one, *one.report_metadata.public_extensions, Extension(0xFFF0, b"")),
    ]
    reasons = ["report_dropped", "report_dropped", "invalid_message", "invalid_message"]
    assert names(pair, await pair.upload([*paying, *others])) == reasons
    assert [names(pair, await pair.upload([each]))[0] for each in others] == reasons
    assert pair.leader.counts(pair.task, Stage.UPLOAD) == {
        "stored": 3,
        "privacy_budget_missing": 2,
        "privacy_budget_too_small": 2,
        "invalid_message": 4,
    }
    result = await collected(pair, MILLION)
    assert (result.report_count, result.min_dp_budget) == (3, MILLION)
    if result.mechanism == "None":
        assert result.values == (3, 8, 7)


async def test_a_helper_refuses_what_pays_nothing_from_a_leader_that_lets_it_through(
    noised: Pair,
) -> None:
    pair = noised
    sent = await pair.reports(MEASUREMENTS, budget=MILLION)
    job = await pair.job(sent)
    head = bytes.fromhex("0008ff62000400")
    assert job.count(head) == 3
    place = job.index(head)
    without = job[:place] + b"\0\0" + job[place + 10 :]
    nothing = job[:place] + bytes.fromhex("0008ff620004") + bytes(4) + job[place + 10 :]
    raised = job[:place] + bytes.fromhex("0008ff620004") + b"\xff" * 4 + job[place + 10 :]
    for changed, reason in (
        (without, "report_dropped"),
        (nothing, "report_dropped"),
        (raised, "hpke_decrypt_error"),
    ):
        found = errors_of((await send_job(pair, changed)).body, pair.task.profile)
        assert found[0] is not None
        assert found[0].draft_name == reason
    refused = pair.helper.counts(pair.task)
    assert refused["privacy_budget_missing"] == refused["privacy_budget_too_small"] == 1


@pytest.mark.parametrize("budget", [MILLION // 2, 2 * MILLION])
async def test_store_and_journal_of_both_have_the_epsilon_of_the_collection(
    noised: Pair, budget: int
) -> None:
    await noised.upload(await noised.reports(MEASUREMENTS, budget=2 * MILLION))
    result = await collected(noised, budget)
    assert result.guarantee.epsilon == Fraction(budget, MILLION)
    for service in (noised.leader, noised.helper):
        assert charged(service) == journaled(service) == [Fraction(budget, MILLION)]


@pytest.mark.parametrize(
    ("budget", "problem"), [(None, "invalidExtension"), (2 * MILLION + 1, "task-refused")]
)
async def test_a_collection_without_a_budget_or_above_the_ceiling_is_not_begun(
    noised: Pair, budget: int | None, problem: str
) -> None:
    await noised.upload(await noised.reports(MEASUREMENTS, budget=2**32 - 1))
    answer = await ask(noised, budget)
    assert (answer.status, answer.problem_type) == (400, problem)
    assert charged(noised.leader) == charged(noised.helper) == []


async def test_a_helper_keeps_to_its_own_ceiling_and_then_nothing_is_released(
    noised: Pair,
) -> None:
    strict = task_of({**LAPLACE, "epsilon": "1/2"})
    await noised.helper.database.run(
        "give another policy",
        lambda tx: tx.connection.execute(
            update(tables.tasks).values(definition=task_to_toml(strict))
        ),
    )
    await noised.upload(await noised.reports(MEASUREMENTS, budget=2 * MILLION))
    answer = await ask(noised, MILLION)
    assert answer.problem_type == "task-refused"
    assert charged(noised.leader) == charged(noised.helper) == []
    # Nothing was drawn, so the collector may ask for less.
    assert (await collected(noised, MILLION // 2)).guarantee.epsilon == Fraction(1, 2)


async def test_a_batch_with_a_report_that_pays_less_than_is_asked_is_refused_by_the_leader(
    noised: Pair,
) -> None:
    await noised.upload(await noised.reports(MEASUREMENTS, budget=2 * MILLION))
    await noised.upload(await noised.reports(MEASUREMENTS[:1], budget=MILLION - 1))
    answer = await ask(noised, MILLION)
    assert answer.problem_type == "batchInvalid"
    assert charged(noised.helper) == []
    assert (await collected(noised, MILLION - 1)).report_count == 4


async def test_a_helper_refuses_such_a_batch_from_a_leader_that_does_not(
    noised: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unchecked(*_: object) -> None:
        pass

    await noised.upload(await noised.reports(MEASUREMENTS, budget=2 * MILLION))
    await noised.upload(await noised.reports(MEASUREMENTS[:1], budget=MILLION - 1))
    monkeypatch.setattr(collections, "check_totals", unchecked)
    answer = await ask(noised, MILLION)
    assert answer.problem_type == "batchInvalid"
    assert "min_dp_budget is 1000000" in str(answer.problem["detail"])
    assert charged(noised.leader) == charged(noised.helper) == []


async def test_a_leader_that_tells_its_helper_less_has_no_result_to_show(
    noised: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a report that pays less, or for more noise in the sum than the collector expects."""

    def lowered(
        task: Task, request: CollectionJobReq, batch: Batch, totals: BatchTotals
    ) -> AggregateShareReq:
        told = dataclasses.replace(request, extensions=min_dp_budget(1))
        return aggregate_share_request(task, told, batch, totals)

    await noised.upload(await noised.reports(MEASUREMENTS, budget=2 * MILLION))
    monkeypatch.setattr(collections, "aggregate_share_request", lowered)
    answer = await ask(noised, MILLION)
    assert not answer.problem
    with pytest.raises(UnusableResult, match="helper's aggregate share does not open"):
        noised.open(answer.body)
    # What the helper released is charged as what it was.
    assert charged(noised.helper) == [Fraction(1, MILLION)]


def test_a_request_with_a_budget_comes_back_from_its_bytes() -> None:
    extensions = min_dp_budget(MILLION)
    assert extensions == (Extension(0xFF63, bytes.fromhex("000f4240")),)
    data = bytes.fromhex("0100100000000000000005" + "0000000000000001" + "00000000" + "0008")
    assert decode(CollectionJobReq, data + bytes.fromhex("ff630004000f4240")).extensions == (
        extensions
    )
