"""Whatever happens to sites and aggregators in whatever order, a report is in one result at most.

Each report votes for an entry of its own, so that a result says which reports are in it.
"""

import random
from pathlib import Path

import httpx
import pytest

from aggregator.dap.messages import Report
from tests.support.between import Between, refusal
from tests.support.bundles import LINGER_SECONDS, Site
from tests.support.engines import ON_SQLITE
from tests.support.pair import LEASE_SECONDS, Died
from tests.support.tasks import NO_NOISE, make_task

REPORTS, LEAST, STEPS, SEEDS = 24, 2, 100, range(12)
WAYS = ("begin", "hand in", "hand in", "work", "work", "look", "delete", "wait")
INVALID_SIZE = "urn:ietf:params:ppm:dap:error:invalidBatchSize"


class History:
    """One site, and all that happens to it."""

    def __init__(self, site: Site, reports: list[Report], seed: int) -> None:
        self.site, self.reports = site, reports
        self.draw = random.Random(seed)  # noqa: S311  a test repeats it
        self.jobs: list[str] = []
        self.results: dict[str, tuple[int | None, ...]] = {}
        self.between = Between(site.pair)
        self.between.gate, self.between.change = self.gate, self.change

    def is_share(self, request: httpx.Request) -> bool:
        return request.url.path.endswith("/aggregate_shares")

    def gate(self, request: httpx.Request) -> httpx.Response | None:
        """Refuse some shares before the helper has heard of them."""
        if self.is_share(request) and self.draw.random() < 0.2:
            return refusal(400, INVALID_SIZE)
        return refusal(503) if self.draw.random() < 0.1 else None

    def change(self, request: httpx.Request, answer: httpx.Response) -> httpx.Response:
        """Turn some shares into refusals after the helper has drawn its noise."""
        is_lost = self.is_share(request) and self.draw.random() < 0.2
        return refusal(400, INVALID_SIZE) if is_lost else answer

    def die(self, _transaction: str, moment: str) -> None:
        if moment in ("before commit", "committed") and self.draw.random() < 0.02:
            raise Died

    async def step(self) -> None:
        draw, site = self.draw, self.site
        what = draw.choice(WAYS)
        if what == "begin":
            self.jobs.append(await site.begin())
        elif what == "work":
            await self.work()
        elif what == "wait":
            site.pair.clock.advance(draw.choice([1, LINGER_SECONDS, LEASE_SECONDS + 1]))
        elif self.jobs:
            job = draw.choice(self.jobs)
            if what == "hand in":
                some = draw.sample(self.reports, draw.randint(1, 6))
                assert (await site.try_to_hand_in(job, some)).status in (200, 404)
            elif what == "look":
                await self.look(job)
            elif draw.random() < 0.3:
                assert await site.delete(job) in (200, 404)

    async def look(self, job: str) -> None:
        answer = await self.site.look(job)
        if answer.status == 200 and answer.body:
            values = self.site.pair.open(answer.body).values
            assert self.results.setdefault(job, values) == values

    async def work(self) -> None:
        try:
            await self.site.pair.work()
        except* Died:
            self.site.pair.leader.restart()
            self.site.pair.helper.restart()

    async def end(self) -> None:
        """Let nothing fail any more, and collect what there is, and what is new."""
        self.between.gate = self.between.change = None
        for service in (self.site.pair.leader, self.site.pair.helper):
            service.on_moment = lambda *_: None
        new = await self.site.begin()
        assert await self.site.hand_in(new, await self.site.pair.reports([0] * LEAST)) == []
        for job in [*self.jobs, new]:
            await self.site.collect(job)
            await self.look(job)
        assert self.results.pop(new) == (LEAST, *[0] * (REPORTS - 1))


@ON_SQLITE
@pytest.mark.usefixtures("engine")
@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
async def test_no_report_is_in_two_results(tmp_path: Path, seed: int) -> None:
    kind = {"type": "Prio3Histogram", "length": REPORTS, "chunk_length": 4}
    task = make_task(kind, NO_NOISE, batch_mode="collector_selected", min_batch_size=LEAST)
    site = await Site.of(tmp_path, task, job_size=5)
    history = History(site, await site.pair.reports(list(range(REPORTS))), seed)
    for service in (site.pair.leader, site.pair.helper):
        service.on_moment = history.die
    for _ in range(STEPS):
        await history.step()
    await history.end()
    results = history.results.values()
    counted = [sum(entry or 0 for entry in of_one) for of_one in zip(*results, strict=True)]
    assert max(counted, default=0) <= 1
    assert all(sum(entry or 0 for entry in each) >= LEAST for each in results)
    await history.between.close()
    await site.pair.close()
