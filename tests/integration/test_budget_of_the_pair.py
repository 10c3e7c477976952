"""Each aggregator keeps to the budget by its own ledger, for every mechanism."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from fractions import Fraction
from pathlib import Path

import pytest
from sqlalchemy import delete

from aggregator.dp.filters import Filter
from aggregator.dp.policy_table import policy_to_mapping
from aggregator.service.runtime.spending import fix_population
from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.states import LedgerState
from aggregator.service.storage.ledger.charges import list_ledger
from aggregator.service.storage.ledger.populations import Population
from aggregator.steward.planning.advise import advise
from aggregator.steward.planning.question import Question
from tests.support.pair import LEASE_SECONDS, NOW, Died, Pair, Service, nothing_happens
from tests.support.tasks import LAPLACE, TIME_PRECISION, make_task

LAST_THREE_UNITS = [NOW - units * TIME_PRECISION for units in range(3)]
TWO_RELEASES: list[Mapping[str, str | int]] = [
    {**LAPLACE, "budget": "1", "max_batches_per_person": 1},
    {**LAPLACE, "budget": "9", "max_releases": 2},
    {"mechanism": "None", "max_releases": 2},
    {"mechanism": "TruncatedGeometric", "epsilon": "1/2", "delta": "1e-5", "budget": "1.4"},
    # At delta 1e-9 rho = 1/4 implies 4.44 and rho = 3/8 implies 5.53.
    {"mechanism": "DiscreteGaussian", "rho": "1/8", "delta": "1e-9", "budget": "5"},
]


@asynccontextmanager
async def running(
    folder: Path, privacy: Mapping[str, str | int], times: Sequence[int] = LAST_THREE_UNITS
) -> AsyncIterator[Pair]:
    """Run both aggregators, with reports at some times."""
    pair = Pair(folder, make_task(privacy=privacy))
    await pair.provision()
    try:
        for seconds in times:
            await pair.upload(await pair.reports([0, 1, 2], seconds))
        yield pair
    finally:
        await pair.close()


async def ledger(service: Service) -> list[LedgerState]:
    return [entry.state for entry in await service.database.read("ledger", list_ledger)]


@pytest.mark.parametrize("privacy", TWO_RELEASES, ids=str)
@pytest.mark.parametrize("is_forgetful", [False, True], ids=["leader", "helper"])
async def test_the_release_beyond_the_budget_is_refused_by_either_before_it_draws(
    tmp_path: Path,
    privacy: Mapping[str, str | int],
    is_forgetful: bool,  # noqa: FBT001 - a parameter
) -> None:
    async with running(tmp_path, privacy) as pair:
        for units in range(2):
            await pair.collect(pair.interval(NOW - units * TIME_PRECISION))
        services = (pair.leader, pair.helper)
        if is_forgetful:  # a leader that lost its ledger, or lies: the helper keeps its own
            await pair.leader.database.run(
                "forget", lambda tx: tx.connection.execute(delete(tables.ledger))
            )
        calls = [service.entropy.calls for service in services]
        asked = await pair.ask(pair.interval(NOW - 2 * TIME_PRECISION))
        await pair.work_until_idle()
        refused = await pair.poll(asked.headers["location"])
        assert (refused.status, refused.problem_type) == (403, "budget-exceeded")
        limit = "max_releases" if "max_releases" in privacy else "is left"
        assert limit in str(refused.problem["detail"])
        assert calls == [service.entropy.calls for service in services]
        # The leader's reservation for it is taken back.
        assert await ledger(pair.leader) == ([] if is_forgetful else [LedgerState.CHARGED] * 2)
        assert await ledger(pair.helper) == [LedgerState.CHARGED] * 2


@pytest.mark.parametrize("is_forgetful", [False, True], ids=["leader", "helper"])
async def test_of_a_year_planned_with_four_releases_either_refuses_the_fifth_and_the_sixth(
    tmp_path: Path,
    is_forgetful: bool,  # noqa: FBT001 - a parameter
) -> None:
    """The worked example of docs/planning.md, as `prio plan advise` writes it."""
    question = Question.of(1800, 6, error="2%", releases=4, time_precision=TIME_PRECISION)
    policy = advise(question, "staff-2026").policy
    quarter = question.window.length
    first = question.window.first_unit(NOW // TIME_PRECISION) * TIME_PRECISION
    quarters = [first - number * quarter * TIME_PRECISION for number in range(1, 5)]
    last_units = [start + (quarter - 1) * TIME_PRECISION for start in quarters]
    async with running(tmp_path, policy_to_mapping(policy), last_units) as pair:
        pair.clock.advance(2 * quarter * TIME_PRECISION)
        # Uploaded before the releases are used up: later ones are refused at once.
        for start in (first, first + quarter * TIME_PRECISION):
            await pair.upload(await pair.reports([0, 1, 2], start))
        for start in quarters:
            await pair.collect(pair.interval(start, quarter))
        if is_forgetful:
            await pair.leader.database.run(
                "forget", lambda tx: tx.connection.execute(delete(tables.ledger))
            )
        services = (pair.leader, pair.helper)
        calls = [service.entropy.calls for service in services]
        for start in (first, first + quarter * TIME_PRECISION):
            asked = await pair.ask(pair.interval(start, quarter))
            await pair.work_until_idle()
            refused = await pair.poll(asked.headers["location"])
            assert (refused.status, refused.problem_type) == (403, "budget-exceeded")
        assert calls == [service.entropy.calls for service in services]
        assert await ledger(pair.helper) == [LedgerState.CHARGED] * 4


async def test_a_batch_that_waits_for_the_helper_has_its_cost_reserved(tmp_path: Path) -> None:
    async with running(tmp_path, {**LAPLACE, "budget": "1/2"}) as pair:
        await pair.work_until_idle()
        first = await pair.ask(pair.interval())

        def die(transaction: str, moment: str) -> None:
            if transaction == "release batch" and moment == "begin":
                raise Died

        pair.helper.on_moment = die
        await pair.work()
        assert await ledger(pair.leader) == [LedgerState.RESERVED]
        second = await pair.ask(pair.interval(NOW - TIME_PRECISION))
        await pair.work()
        refused = await pair.poll(second.headers["location"])
        assert refused.problem_type == "budget-exceeded"
        assert "0 is left" in str(refused.problem["detail"])
        pair.helper.on_moment = nothing_happens
        pair.clock.advance(LEASE_SECONDS + 1)
        await pair.work_until_idle()
        assert (await pair.poll(first.headers["location"])).status == 200
        assert await ledger(pair.leader) == [LedgerState.CHARGED]


@pytest.mark.parametrize("which", ["leader", "helper"])
async def test_the_aggregator_with_a_populations_budget_enforces_it_before_it_draws(
    tmp_path: Path, which: str
) -> None:
    async with running(tmp_path, {**LAPLACE, "population": "patients"}) as pair:
        limits = Population(Filter(epsilon=Fraction(1)))
        await getattr(pair, which).database.run(
            "fix population", lambda tx: fix_population(tx, "patients", limits)
        )
        for units in range(2):
            await pair.collect(pair.interval(NOW - units * TIME_PRECISION))
        services = (pair.leader, pair.helper)
        calls = [service.entropy.calls for service in services]
        asked = await pair.ask(pair.interval(NOW - 2 * TIME_PRECISION))
        await pair.work_until_idle()
        refused = await pair.poll(asked.headers["location"])
        assert (refused.status, refused.problem_type) == (403, "budget-exceeded")
        assert "epsilon 1 of 1, and the release 1/2" in str(refused.problem["detail"])
        assert calls == [service.entropy.calls for service in services]
        assert await ledger(pair.leader) == [LedgerState.CHARGED] * 2
