"""A random history of all four parties in one process, and what must hold of it at its end.

A seed decides all of it: what clients and the collector do and when, which requests the network
loses, repeats, delays or reorders, which answers it drops, at which moment of which transaction an
aggregator dies, when keys change, and how time passes. At the end the network recovers, every party
repeats what it was never answered, and the books are compared.
"""

import dataclasses
import random
import shutil
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
from sqlalchemy import func, select

from aggregator.codec import decode, encode
from aggregator.dap.messages import Report, UploadErrors, UploadRequest
from aggregator.dap.profile import DAP_18
from aggregator.dap.report_errors import AnyReportError, ReportError
from aggregator.dap.times import Interval
from aggregator.protocol.hpke_rotation import HpkeRotation
from aggregator.service.config import HelperSettings
from aggregator.service.helper.deferring import DeferredJobs
from aggregator.service.leader.collections import CollectionDriver
from aggregator.service.leader.job_creator import JobCreator
from aggregator.service.leader.job_driver import JobDriver
from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.states import LedgerState
from aggregator.service.storage.ledger.charges import list_ledger
from aggregator.service.storage.reports.generations import (
    TURN_SECONDS,
    UNUSED_SECONDS,
    rotate_generations,
)
from aggregator.service.storage.reports.reports import has_reports
from aggregator.service.transport.driver import DriverSettings
from tests.support.balance import check_books
from tests.support.entropy import SeededEntropy
from tests.support.light import lightly
from tests.support.lossy_network import Network
from tests.support.pair import LEASE_SECONDS, Answer, Died, Pair, nothing_happens
from tests.support.reports import make_reports
from tests.support.rotation import rotate
from tests.support.store import bodies_left, count_bodiless
from tests.support.tasks import HELPER_URL, LAPLACE, LEADER_URL, NO_NOISE, TIME_PRECISION, make_task

if TYPE_CHECKING:
    from aggregator.collector.results.result import Result
    from aggregator.dap.hpke import HpkeConfig
    from aggregator.protocol.task import Task

HISTORIES = 75
"""How many are lived without being asked for."""
PER_TEST = 25
ROTATION = HpkeRotation(cache_seconds=60, age_seconds=400, wait_seconds=5_000)
QUIET_SECONDS = 10_000
"""Longer than any retired key is kept."""
ERAS = (1, 1, 2)
STEPS = (3, 5, 8, 14)
"""Steps of one era: most faults need a few, some need many."""
COLLECTION_STEPS = 3
LONGEST_PAUSE = 700
"""More than a collection that waits is put off, in seconds."""
DEATHS = 0.02
"""How likely an aggregator dies at one moment of a transaction that writes."""
SPARED = ("look for keys", "destroy keys", "books")
"""Transactions of a process that starts, which would have to be started again, and the check."""
SETTINGS = DriverSettings(
    concurrency=1, lease_seconds=LEASE_SECONDS, max_attempts=1_000, peer_attempts=1
)
LONGEST_WORK = 100
"""Rounds in which a recovered pair must come to rest: a history ends, whatever is wrong."""
DEFERRING = HelperSettings(database="none", defer_jobs=True)
EVERY_DEFERRING = 3
"""One history of this many has a helper that defers."""
SIZE = 3
"""The least size of a batch whose leader selects."""


async def live(folder: Path, seeds: Iterable[int]) -> None:
    """Live the histories of some seeds, each with stores of its own, removed if all holds."""
    with lightly():
        for seed in seeds:
            place = folder / str(seed)
            place.mkdir()
            try:
                await History(place, seed).run()
            except BaseException as error:
                error.add_note(f"in the history of seed {seed}")
                raise
            shutil.rmtree(place)


@dataclasses.dataclass(slots=True)
class Sent:
    """A report of a client: what it says, and what the client was told of it."""

    report: Report
    measurement: int
    unit: int
    error: AnyReportError | None = None
    is_answered: bool = False
    was_unsure: bool = False

    @property
    def must_count(self) -> bool:
        return self.is_answered and self.error is None

    @property
    def may_count(self) -> bool:
        """Whether it may have been stored by an attempt that was never answered."""
        return self.must_count or self.was_unsure


class History:
    """One history; `run` lives it, and raises what does not hold."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.choose = random.Random(seed)  # noqa: S311  no secrets
        mode = self.choose.choice(["time_interval", "leader_selected"])
        self.task: Task = make_task(
            privacy=self.choose.choice([NO_NOISE, LAPLACE]),
            batch_mode=mode,
            min_batch_size=SIZE if mode == "leader_selected" else 1,
        )
        self.defers = seed % EVERY_DEFERRING == 0
        self.pair = Pair(
            folder,
            self.task,
            rotation=ROTATION,
            job_size=self.choose.choice([1, 2, 5]),
            helper_settings=DEFERRING if self.defers else None,
        )
        self.pair.client_entropy = SeededEntropy(b"client %d" % seed)
        self.network = Network(
            self.choose, {LEADER_URL: self.pair.leader, HELPER_URL: self.pair.helper}
        )
        self.sent: list[Sent] = []
        self.asked: dict[str, Interval | None] = {}
        self.results: dict[str, tuple[bytes, Result]] = {}
        self._unanswered: list[Interval] = []
        self._configs: tuple[int, tuple[HpkeConfig, HpkeConfig]] | None = None

    async def run(self) -> None:
        """Live an era, or two with a long silence between them, and compare the books."""
        await self.pair.http.aclose()
        self.pair.http = httpx.AsyncClient(transport=self.network)
        try:
            await self.pair.provision()
            for _ in range(self.choose.choice(ERAS)):
                await self._era()
                await self._recover()
                self.pair.clock.advance(QUIET_SECONDS)
                await self._rotate()
            await self._collect_the_rest()
            await self._check()
        finally:
            await self.pair.close()

    async def _era(self) -> None:
        self.network.is_calm = True
        self._configs = self.pair.clock.now(), await self.pair.configs()  # or nobody might upload
        self.network.is_calm = False
        for service in (self.pair.leader, self.pair.helper):
            service.on_moment = self._may_die
        steps: Sequence[Callable[[], Awaitable[object]]] = (
            self._upload,
            self._upload,
            self._repeat,
            self._aggregate,
            self._aggregate,
            self._aggregate,
            self._aggregate,
            self._drive_collections,
            self._drive_collections,
            self._drive_collections,
            self._ask,
            self._ask,
            self._poll,
            self._rotate,
            self._turn,
            self._turn,
            self.network.deliver_late,
            *([self._answer_deferred] * 4 if self.defers else []),
        )
        for step in [self._upload, *self.choose.choices(steps, k=self.choose.choice(STEPS))]:
            await self._survive(step)
            await self._check_books()
            self.pair.clock.advance(self.choose.choice([0, 1, 7, LEASE_SECONDS + 1, 60]))

    def _may_die(self, transaction: str, _moment: str) -> None:
        if transaction not in SPARED and self.choose.random() < DEATHS:
            raise Died

    async def _survive(self, step: Callable[[], Awaitable[object]]) -> None:
        """Take a step; a leader whose worker died is started again."""
        try:
            await step()
        except* Died:
            self.pair.leader.restart()
        except* httpx.TransportError:
            pass

    # Clients.

    async def _upload(self) -> None:
        now = self.pair.clock.now()
        seconds = now - self.choose.choice([0, 0, 30, TIME_PRECISION])
        measurements = [self.choose.randrange(4) for _ in range(self.choose.randint(1, 4))]
        if self._configs is None or now - self._configs[0] > ROTATION.cache_seconds:
            self._configs = now, await self.pair.configs()
        time = self.task.time(seconds)
        made = make_reports(
            self.task, *self._configs[1], measurements, time, self.pair.client_entropy
        )
        new = [
            Sent(report, measurement, time.units)
            for report, measurement in zip(made, measurements, strict=True)
        ]
        self.sent += new
        await self._send(new)

    async def _repeat(self) -> None:
        """Send reports again, some of which were answered before.

        One that was refused might be taken now, if the collection that closed its batch has failed.
        """
        taken = [each for each in self.sent if each.error is None]
        await self._send([each for each in taken if self.choose.random() < 0.3])

    async def _send(self, chosen: list[Sent]) -> None:
        if not chosen:
            return
        body = encode(UploadRequest(tuple(each.report for each in chosen)))
        unsure = [(each, each.was_unsure) for each in chosen if not each.is_answered]
        for each, _ in unsure:
            each.was_unsure = True
        answer = await self.pair.send(
            "POST", self.pair.url_of("reports"), UploadRequest.message, body
        )
        assert answer.status == 200, answer.problem
        errors = {
            status.id: DAP_18.report_error(status.error)
            for status in decode(UploadErrors, answer.body).status
        }
        for each, was_unsure in unsure:
            error = errors.get(each.report.report_metadata.report_id)
            each.is_answered, each.error = True, error
            each.was_unsure = was_unsure or error is ReportError.REPORT_REPLAYED

    # The leader's workers, and what both aggregators do by themselves.

    async def _aggregate(self) -> int:
        runtime = self.pair.leader.runtime
        creator = JobCreator(runtime, job_size=self.pair.job_size, linger_seconds=0)
        done = await creator.run_once()
        return done + await JobDriver(runtime, self.pair.http, SETTINGS).run_once()

    async def _answer_deferred(self) -> int:
        """Let workers of the helper answer what it has put off, while others may hold some."""
        most = DEFERRING.max_report_age_seconds
        workers = DeferredJobs(
            self.pair.helper.runtime, most, at_once=2, lease_seconds=LEASE_SECONDS
        )
        try:
            return await workers.run_once()
        except* Died:
            self.pair.helper.restart()
        return 0

    async def _drive_collections(self) -> None:
        await CollectionDriver(self.pair.leader.runtime, self.pair.http, SETTINGS).run_once()

    async def _rotate(self) -> None:
        for service in (self.pair.leader, self.pair.helper):
            try:
                await rotate(service)
            except Died:
                service.restart()

    async def _turn(self) -> int:
        return await self.pair.leader.database.run("rotate generations", rotate_generations)

    # The collector.

    async def _ask(self) -> None:
        unit = self.pair.clock.now() // TIME_PRECISION - self.choose.randint(0, 2)
        await self._ask_for(Interval.of(unit, self.choose.choice([1, 1, 2])))

    async def _ask_for(self, interval: Interval) -> Answer:
        asked = None if self.task.batching.leader_selects else interval
        self._unanswered.append(interval)
        answer = await self.pair.ask(asked)
        self._unanswered.remove(interval)
        if answer.status == 201:
            self.asked[answer.headers["location"]] = asked
        return answer

    async def _poll(self) -> None:
        for location in list(self.asked):
            await self._poll_for(location)

    async def _poll_for(self, location: str) -> bool:
        """Return whether there is a result, which is the same however often it is fetched."""
        answer = await self.pair.poll(location)
        if answer.problem or not answer.body:
            return False
        interval = self.asked[location]
        known = self.results.setdefault(
            location, (answer.body, self.pair.open(answer.body, interval))
        )
        assert known[0] == answer.body
        if interval is None:  # the leader gives the next batch when this one is forgotten
            await self.pair.forget(location, may_be_gone=True)  # carried twice
            del self.asked[location]
        return True

    # The end.

    async def _recover(self) -> None:
        """Let everything arrive that is under way, and everybody finish what was begun."""
        self.network.is_calm = True
        for service in (self.pair.leader, self.pair.helper):
            service.on_moment = nothing_happens
        await self.network.deliver_all()
        await self._send([each for each in self.sent if not each.is_answered])
        for interval in list(self._unanswered):
            await self._ask_for(interval)
            self._unanswered.remove(interval)
        await self._work()
        await self._poll()

    async def _work(self) -> None:
        """Aggregate all that waits, then step each collection, as late as it is put off."""
        idle = 0
        for _ in range(LONGEST_WORK):
            done = await self._aggregate()
            if self.defers:
                done += await self._answer_deferred()
            idle = 0 if done else idle + 1
            self.pair.clock.advance(LEASE_SECONDS + 1)
            if idle == 2:
                break
        else:
            raise AssertionError("the leader's workers never come to rest")
        for _ in range(COLLECTION_STEPS + len(self.asked)):  # a step is one collection's
            await self._drive_collections()
            self.pair.clock.advance(LONGEST_PAUSE)

    async def _collect_the_rest(self) -> None:
        if self.task.batching.leader_selects:
            await self._collect_selected()
        else:
            await self._collect_units()

    async def _collect_units(self) -> None:
        covered = {
            unit
            for location in self.results
            if (interval := self.asked[location]) is not None
            for unit in range(interval.start.units, interval.end.units)
        }
        asked = []
        for unit in sorted({each.unit for each in self.sent if each.must_count} - covered):
            answer = await self._ask_for(Interval.of(unit, 1))
            assert answer.status == 201, (unit, answer.problem)
            asked.append(answer.headers["location"])
        await self._work()
        for location in asked:
            assert await self._poll_for(location)

    async def _collect_selected(self) -> None:
        for _ in range(len(self.sent) + 1):  # the last asks in vain
            answer = await self._ask_for(Interval.of(0, 1))
            assert answer.status == 201, answer.problem
            await self._work()
            if not await self._poll_for(answer.headers["location"]):
                return
        raise AssertionError("there are more batches than reports")

    async def _check(self) -> None:
        await self._check_ledgers()
        await self._check_bodies()
        await self._check_deferred()
        await self._check_books()
        results = [result for _, result in self.results.values()]
        certain = Counter(each.measurement for each in self.sent if each.must_count)
        possible = Counter(each.measurement for each in self.sent if each.may_count)
        counted = sum(result.report_count for result in results)
        left = SIZE - 1 if self.task.batching.leader_selects else 0
        assert certain.total() - left <= counted <= possible.total(), (certain, possible, counted)
        bound = self.task.policy.mechanism.tail_bound(self.task.prio3.circuit, aggregators=2)
        slack = bound * len(results)
        for bucket in range(4):
            values = [result.values[bucket] for result in results]
            total = sum(value for value in values if value is not None)
            assert certain[bucket] - left - slack <= total <= possible[bucket] + slack

    async def _check_deferred(self) -> None:
        """Nothing that the helper has put off waits for its answer for ever."""
        count = select(func.count()).select_from(tables.deferred_jobs)
        waiting = await self.pair.helper.database.read(
            "count deferred jobs", lambda tx: tx.connection.execute(count).scalar_one()
        )
        assert waiting == 0

    async def _check_bodies(self) -> None:
        """Each report that waits has its body, and if none does there is none."""
        for _ in range(2 * tables.GENERATIONS):
            while await self._turn():
                pass
            self.pair.clock.advance(max(TURN_SECONDS, UNUSED_SECONDS))
        store = self.pair.leader.database
        assert await store.read("bodiless", count_bodiless) == 0
        waits = await store.read("waits", lambda tx: has_reports(tx, self.task.task_id.value))
        assert waits or not bodies_left(store)

    async def _check_books(self) -> None:
        """No report is lost or there twice, no matter who has just died."""
        task_id = self.task.task_id.value
        await self.pair.leader.database.read("books", lambda tx: check_books(tx, task_id))

    async def _check_ledgers(self) -> None:
        """Both charged the same batches, each once, and counted the same reports."""
        ledgers, counts = [], []
        for service in (self.pair.leader, self.pair.helper):
            entries = await service.database.read("ledger", list_ledger)
            assert all(entry.state is LedgerState.CHARGED for entry in entries)
            batches = [entry.batch for entry in entries]
            assert len(set(batches)) == len(batches)
            ledgers.append(set(batches))
            counts.append(service.counts(self.task))
        assert ledgers[0] == ledgers[1]
        assert len(ledgers[0]) == len(self.results)
        assert counts[0] == counts[1], counts
