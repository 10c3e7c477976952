"""Bundles of reports that browsers made, each collected at an epsilon that its reports pay."""

from collections.abc import AsyncIterator
from fractions import Fraction
from pathlib import Path

import pytest

from aggregator.dap.extensions import Extension
from aggregator.dap.messages import Report
from aggregator.service.leader import collections, routes
from aggregator.service.storage.reports.counters import Stage
from tests.support.bundles import Site, charged, with_extensions
from tests.support.tasks import ATTRIBUTION, make_task

MILLION = 10**6
SIZE = 20
LAPLACE = {"mechanism": "PureDpDiscreteLaplace", "epsilon": "2", "bound": False}

pytestmark = pytest.mark.usefixtures("engine")


@pytest.fixture(params=[LAPLACE, {"mechanism": "None"}], ids=["noised", "exact"])
async def site(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Site]:
    task = make_task(
        {"type": "Prio3L1BoundSum", "length": 8, "max_value": 100, "chunk_length": 8},
        request.param,
        attribution=ATTRIBUTION,
        batch_mode="collector_selected",
        min_batch_size=SIZE,
        time_precision=5,
        task_info="",
    )
    made = await Site.of(tmp_path, task)
    yield made
    await made.pair.close()


async def reports_at(site: Site, budget: int, count: int = SIZE) -> list[Report]:
    return await site.pair.reports([[100] + [0] * 7] * count, budget=budget)


async def test_of_a_bundle_those_are_counted_that_pay_what_is_asked(site: Site) -> None:
    site.pair.min_dp_budget = MILLION
    job = await site.begin()
    paying = await reports_at(site, MILLION)
    poor, bare, strange = await reports_at(site, MILLION - 1, 3)
    others = [poor, with_extensions(bare), with_extensions(strange, Extension(0xFFF0, b"1234"))]
    said = ["report_dropped", "report_dropped", "invalid_message"]
    assert await site.hand_in(job, [*others, *paying]) == said
    assert [(await site.hand_in(job, [each]))[0] for each in others] == said
    result = await site.result(job)
    assert (result.report_count, result.min_dp_budget) == (SIZE, MILLION)
    assert abs(result.values[0] - 100 * SIZE) <= result.half_width * 20
    found = site.pair.leader.counts(site.pair.task, Stage.UPLOAD)
    refused = {"privacy_budget_too_small": 2, "privacy_budget_missing": 2, "invalid_message": 2}
    assert found == {"stored": SIZE, **refused}
    epsilon = Fraction(1) if result.mechanism != "None" else None
    assert charged(site.pair.leader) == charged(site.pair.helper) == [epsilon]


async def test_one_task_has_bundles_of_several_epsilons_and_a_report_pays_for_one(
    site: Site,
) -> None:
    for budget in (MILLION // 2, 2 * MILLION):
        site.pair.min_dp_budget = budget
        sent = await reports_at(site, 2 * MILLION)
        job = await site.begin()
        assert await site.hand_in(job, sent) == []
        result = await site.result(job)
        assert result.report_count == SIZE
        if result.mechanism != "None":
            assert result.guarantee.epsilon == Fraction(budget, MILLION)
        again = await site.begin()
        assert await site.hand_in(again, sent) == ["report_replayed"] * SIZE


async def test_a_bundle_with_a_report_that_pays_too_little_comes_to_nothing_at_an_honest_helper(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leader says that it is right; the site finds out, and hands in the others again."""
    paying, poor = await reports_at(site, MILLION), await reports_at(site, 1, 1)
    site.pair.min_dp_budget = MILLION
    with monkeypatch.context() as patch:
        patch.setattr(routes, "least_budget", lambda *_: 1)
        patch.setattr(collections, "check_totals", lambda *_: None)
        job = await site.begin()
        assert await site.hand_in(job, [*paying, *poor]) == []
        assert await site.failure(job) == "batchInvalid"
    assert charged(site.pair.leader) == charged(site.pair.helper) == []
    second = await site.begin()
    assert await site.hand_in(second, [*paying, *poor]) == ["report_dropped"]
    assert (await site.result(second)).report_count == SIZE
