"""Uploads, claims, reads, drops and generations that turn, from eight connections at once.

Over PostgreSQL: an SQLite file has one writer at a time.
"""

import random
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.reports import generations, groups
from aggregator.service.storage.reports.bodies import current_generation, put_bodies
from aggregator.service.storage.reports.claims import reports_of_job, return_reports
from aggregator.service.storage.reports.generations import rotate_generations
from aggregator.service.storage.reports.groups import StoredReport
from aggregator.service.storage.reports.rejecting import drop_reports
from aggregator.service.storage.reports.reports import has_reports, put_reports
from aggregator.service.storage.secrets.crypter import Crypter
from tests.support.engines import ON_POSTGRESQL
from tests.support.racers import run_at_once
from tests.support.store import (
    STORE_KEY,
    TASK_ID,
    bodies_left,
    count_bodiless,
    create_job,
    make_store,
    pieces,
    report_id,
    store_url,
    unit,
)

pytestmark = ON_POSTGRESQL

UPLOADERS, WORKERS, TURNERS = 3, 3, 2
EMPTIED = 15
"""How often a generation is emptied while the uploads go on."""
GROUP = 5
PAUSES = (0, 0.01, 0.06)
STAYING = 9
"""One report in this many is given back for another job, as one that waits is."""


def body_of(report: bytes) -> bytes:
    return report * 200


class Race:
    """One store, opened by each of those who race."""

    def __init__(self, path: Path) -> None:
        self.store = make_store(path)
        crypter, url = Crypter([STORE_KEY]), store_url(path)
        racers = UPLOADERS + WORKERS + TURNERS
        self.stores = [Database.open(url, crypter) for _ in range(racers)]
        self.stored: list[bytes] = []
        self.dropped: list[bytes] = []
        self.emptied = 0
        self.bodiless = 0
        self._errors: list[BaseException] = []
        self._uploading = UPLOADERS

    def run(self) -> None:
        """Let all race to the end; raise what the first to fail has raised."""
        roles = [self._upload] * UPLOADERS + [self._work] * WORKERS + [self._turn] * TURNERS
        threads = [
            threading.Thread(target=self._race, args=(role, store, number))
            for number, (role, store) in enumerate(zip(roles, self.stores, strict=True))
        ]
        run_at_once(threads)
        if self._errors:
            raise self._errors[0]

    def close(self) -> None:
        for store in (self.store, *self.stores):
            store.close()

    @property
    def _is_over(self) -> bool:
        return bool(self._errors) or not (self._uploading or has_reports_left(self.store))

    def _race(self, role: Callable[[Database, int], None], store: Database, number: int) -> None:
        try:
            role(store, number)
        except BaseException as error:  # noqa: BLE001  raised by `run`, in the test's thread
            self._errors.append(error)

    def _upload(self, store: Database, number: int) -> None:
        count = 0
        while self.emptied < EMPTIED and not self._errors:
            ids = [report_id(number << 32 | count + each) for each in range(GROUP)]
            count += GROUP
            sent = [StoredReport(each, unit(5), 0, body_of(each)) for each in ids]
            errors = store.run_sync("put", partial(put_reports, **to_task(sent)))
            assert errors == [None] * GROUP
            self.stored += ids
        with LOCK:
            self._uploading -= 1

    def _work(self, store: Database, _: int) -> None:
        turn = 0
        while not self._is_over:
            job = create_job(store, GROUP + 2, stored_bytes=10**6)
            if job is None:
                time.sleep(0.005)
                continue
            read, drop = partial(reports_of_job, job=job.key), partial(drop_reports, job=job.key)
            found = store.read_sync("read", read)
            assert pieces(found) == [body_of(each) for each in found.ids]
            turn += 1
            if turn % STAYING == 0:
                store.run_sync("return", partial(return_reports, job=job.key))
            else:
                assert store.run_sync("drop", partial(drop, task_id=TASK_ID)) == len(found)
                self.dropped += found.ids

    def _turn(self, store: Database, _: int) -> None:
        while not self._is_over:
            before = bodies_left(store)
            store.run_sync("turn", rotate_generations)
            self.emptied += bodies_left(store) < before
            self.bodiless += store.run_sync("bodiless", count_bodiless)


LOCK = threading.Lock()


def to_task(sent: list[StoredReport]) -> dict[str, Any]:
    return {"task_id": TASK_ID, "reports": sent, "max_reports": 10**6}


def has_reports_left(store: Database) -> bool:
    return store.read_sync("left", lambda tx: has_reports(tx, TASK_ID))


@pytest.fixture
def race(tmp_path: Path) -> Iterator[Race]:
    made = Race(tmp_path)
    yield made
    made.close()


def test_no_body_of_a_live_report_is_ever_missing(
    race: Race, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Uploads pause between their looks and their inserts, and the ring turns meanwhile."""
    for name in ("TURN_SECONDS", "UNUSED_SECONDS"):
        monkeypatch.setattr(generations, name, 0)
    monkeypatch.setattr(generations, "STEP_GROUPS", 3)
    chance = random.Random(7)  # noqa: S311  no secrets

    def slowly_put(tx: Transaction, generation: int, bodies: dict[int, bytes]) -> None:
        time.sleep(chance.choice(PAUSES))
        put_bodies(tx, generation, bodies)
        time.sleep(chance.choice(PAUSES))

    def slowly_look(tx: Transaction) -> int:
        generation = current_generation(tx)
        time.sleep(chance.choice(PAUSES))
        return generation

    monkeypatch.setattr(groups, "put_bodies", slowly_put)
    monkeypatch.setattr(groups, "current_generation", slowly_look)
    race.run()
    assert race.bodiless == 0
    assert sorted(race.dropped) == sorted(race.stored)
    while bodies_left(race.store):
        race.store.run_sync("turn", rotate_generations)
