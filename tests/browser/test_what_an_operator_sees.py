"""The operator's page in a real browser: an aggregator whose reports wait, and one that is well."""

import dataclasses
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import anyio
import pytest
from fastapi import FastAPI
from playwright.sync_api import Browser, expect

from aggregator.collector.status import read_collector_health
from aggregator.service.runtime.status import read_aggregator_health
from aggregator.service.storage.engine.presence import Duty
from aggregator.service.telemetry.by_minute import ByMinute
from aggregator.service.telemetry.health import Health
from aggregator.service.telemetry.probe import Probe
from aggregator.service.transport.answer_times import AnswerTimes
from aggregator.service.web.health import create_health_app
from tests.support.album import Album
from tests.support.browser import visiting
from tests.support.collector_world import LONG, MONDAY, SCRIPT, TURNED, CollectorWorld, survey_task
from tests.support.pair import Pair, Service
from tests.support.serving import serving
from tests.support.tasks import make_task

pytestmark = pytest.mark.slow

STALLED_SECONDS = 120


async def waiting(folder: Path) -> Pair:
    pair = Pair(folder, make_task(task_info=(SCRIPT + TURNED + LONG)[:200]))
    await pair.provision()
    first = await pair.reports([0, 1, 2])
    await pair.upload([*first, first[0]])
    await pair.work_until_idle()
    await pair.upload(await pair.reports([0, 1]))
    pair.clock.advance(STALLED_SECONDS + 1)
    return pair


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    # The browser's driver has the loop of this thread.
    with ThreadPoolExecutor(1) as thread:
        made = thread.submit(anyio.run, waiting, tmp_path_factory.mktemp("pair")).result()
        running = [
            made.leader.database.presence([Duty.SERVE]),
            made.helper.database.presence([Duty.SERVE, Duty.WORK]),
        ]
        for each in running:
            each.keep()
        yield made
        for each in running:
            each.close()
        thread.submit(anyio.run, made.close).result()


def app_of(service: Service) -> FastAPI:
    """Return the service's health listener, on a disk and in a minute that are always the same."""
    role = service.role.name.lower()
    answers = AnswerTimes()
    answers.note("helper.example:8002", 0.012, is_answer=True)

    def examine() -> Health:
        found = service.database.read_sync(
            "health", partial(read_aggregator_health, role=service.role, stalled_seconds=120)
        )
        place = f"/var/lib/prio-{role}/{role}.sqlite"
        disk = {"store": place, "store_bytes": 3_200_000, "free_bytes": 51_000_000_000}
        assert disk.keys() <= found.document.keys()
        return dataclasses.replace(found, document={**found.document, **disk})

    more = {"helper_answers": answers.document()}
    return health_app(ByMinute(examine, lambda: more, now=lambda: 0.0))


def health_app(examine: ByMinute) -> FastAPI:
    """Return a health listener that has looked at the store three seconds ago."""
    now = iter((0.0, 0.0, 0.0))
    probe = Probe(examine, lambda: next(now, 3.0))
    probe.look()
    return create_health_app(probe)


@pytest.mark.parametrize(
    ("role", "verdict"), [("leader", "Not ready:"), ("helper", "Ready: nothing waits")]
)
def test_at_first_sight_it_says_whether_all_is_well_and_below_why_not(
    browser: Browser, pair: Pair, album: Album, role: str, verdict: str
) -> None:
    service: Service = getattr(pair, role)
    with serving(app_of(service)) as address, visiting(browser, address) as visit:
        page = visit.see("/")
        expect(page.get_by_role("heading", name=role.capitalize(), exact=True)).to_be_visible()
        expect(page.get_by_text("Seen 3 s ago.")).to_be_visible()
        expect(page.get_by_text(verdict)).to_be_visible()
        fingerprint = page.get_by_role("row", name=re.compile("^fingerprint"))
        expect(fingerprint).to_contain_text(pair.task.fingerprint)
        expect(page.get_by_role("cell", name="12 ms").first).to_be_visible()
        if service is pair.leader:
            expect(page.get_by_role("listitem").first).to_contain_text("2 reports and 0")
            row = page.get_by_role("row", name=re.compile("^upload report_replayed"))
            expect(row.get_by_role("img", name="per minute")).to_be_visible()
        visit.check_everywhere()
        album.compare(visit, role)


def test_a_collectors_page_shows_what_waits_for_the_leader(
    browser: Browser, tmp_path: Path
) -> None:
    task = survey_task(("surgery", "medicine"), SCRIPT)
    world = CollectorWorld(tmp_path, task)
    asked = world.ask(task, MONDAY)

    def examine() -> Health:
        return world.database.read_sync("health", read_collector_health)

    with serving(health_app(ByMinute(examine))) as address, visiting(browser, address) as visit:
        page = visit.see("/")
        expect(page.get_by_text("Ready: nothing waits")).to_be_visible()
        expect(page.get_by_role("row", name=re.compile(f"^{asked.hex()}"))).to_be_visible()
        visit.check_everywhere()
