"""Either aggregator dies before or after the commit of every write; nothing is lost or doubled."""

import dataclasses
from pathlib import Path

import httpx
import pytest

from aggregator.dap.messages import Report, UploadErrors
from aggregator.protocol.batches import Batch
from aggregator.protocol.task import Task
from aggregator.service.storage.engine.states import LedgerState
from aggregator.service.storage.ledger.charges import LedgerEntry, list_ledger
from tests.support.balance import check_books
from tests.support.engines import ON_SQLITE
from tests.support.pair import LEASE_SECONDS, Answer, Died, Pair, Service
from tests.support.store import read_shares
from tests.support.tasks import LAPLACE, NO_NOISE, make_task
from tests.support.transactions import WRITES

TRIED = {
    "sqlite": (("before commit", "committed"), ("time_interval", "leader_selected")),
    "postgresql": (("committed",), ("time_interval",)),
}
"""Moments and batch modes. A death as a transaction begins leaves what one before its commit does.

Over PostgreSQL `test_death_between_transactions.py` has those before a commit."""
CRASHES = [
    pytest.param(
        engine,
        service,
        name,
        moment,
        privacy,
        mode,
        id=f"{engine}, {service}, {name}, {moment}, {label}, {mode}",
    )
    for engine, (moments, modes) in TRIED.items()
    for service, names in WRITES.items()
    for name in names
    for moment in moments
    for label, privacy in (("None", NO_NOISE), ("Laplace", LAPLACE))
    for mode in modes
    if privacy is NO_NOISE or name in ("freeze batch", "release batch")
]
MEASUREMENTS = [0, 1, 1, 3, 3, 3]
TRUE_COUNTS = (1, 2, 0, 3)
EVERYTHING = Batch(bytes(32), b"\xff" * 32)
"""All buckets of a task of either mode."""


@dataclasses.dataclass
class Killer:
    """Kills a service the first time that it comes to a moment, and counts how often it came."""

    transaction: str
    moment: str
    is_spent: bool = False

    def __call__(self, transaction: str, moment: str) -> None:
        if not self.is_spent and (transaction, moment) == (self.transaction, self.moment):
            self.is_spent = True
            raise Died


async def persistent_upload(pair: Pair, reports: list[Report]) -> UploadErrors:
    """Upload as a client does that sends the same reports again when the answer is lost."""
    for _ in range(3):
        try:
            return await pair.upload(reports)
        except httpx.TransportError:
            continue
    raise AssertionError("the leader never answered")


async def persistent_ask(pair: Pair) -> Answer:
    for _ in range(3):
        try:
            return await pair.ask()
        except httpx.TransportError:
            continue
    raise AssertionError("the leader never answered")


async def persistent_work(pair: Pair) -> None:
    """Drive the jobs; a party that dies is started again, and leases expire as time goes by."""
    idle = 0
    for _ in range(60):
        try:
            idle = 0 if await pair.work() else idle + 1
        except* Died:
            pair.leader.restart()
            pair.helper.restart()
            await check_books_of(pair)
            idle = 0
        if idle > 1:
            return
        pair.clock.advance(LEASE_SECONDS + 1)
    raise AssertionError("the workers never came to rest")


async def check_books_of(pair: Pair) -> None:
    task_id = pair.task.task_id.value
    await pair.leader.database.read("books", lambda tx: check_books(tx, task_id))


async def ledger_of(service: Service) -> list[LedgerEntry]:
    return await service.database.read("ledger", list_ledger)


def aggregated(service: Service, task: Task) -> int:
    counts = service.counts(task)
    assert set(counts) == {"aggregated"}
    return counts["aggregated"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "service", "transaction", "moment", "privacy", "mode"), CRASHES, indirect=["engine"]
)
@pytest.mark.usefixtures("engine")
async def test_a_crash_changes_nothing_that_anybody_sees(
    tmp_path: Path, service: str, transaction: str, moment: str, privacy: dict[str, str], mode: str
) -> None:
    task = make_task(privacy=privacy, batch_mode=mode, min_batch_size=len(MEASUREMENTS))
    pair = Pair(tmp_path, task, job_size=3)
    await pair.provision()
    victim = pair.leader if service == "leader" else pair.helper
    killer = Killer(transaction, moment)
    victim.on_moment = killer

    assert (await persistent_upload(pair, await pair.reports(MEASUREMENTS))).status == ()
    await check_books_of(pair)
    await persistent_work(pair)
    await check_books_of(pair)
    location = (await persistent_ask(pair)).headers["location"]
    await persistent_work(pair)
    finished = await pair.poll(location)

    assert killer.is_spent
    result = pair.open(finished.body)
    assert result.report_count == len(MEASUREMENTS)
    for value, true_count in zip(result.values, TRUE_COUNTS, strict=True):
        bound = task.policy.mechanism.tail_bound(task.prio3.circuit, aggregators=2)
        assert abs(value - true_count) <= bound
    for party in (pair.leader, pair.helper):
        assert aggregated(party, task) == len(MEASUREMENTS)
        (entry,) = await ledger_of(party)
        assert entry.state is LedgerState.CHARGED
        shares = await party.database.read(
            "shares", lambda tx: read_shares(tx, task.task_id.value, EVERYTHING)
        )
        assert shares == []

    pair.leader.restart()
    pair.helper.restart()
    assert (await pair.ask()).body == finished.body
    await persistent_work(pair)
    assert (await pair.poll(location)).body == finished.body
    await pair.close()


@ON_SQLITE
@pytest.mark.usefixtures("engine")
async def test_a_helper_that_released_and_died_gives_the_same_sealed_share_again(
    tmp_path: Path,
) -> None:
    """The leader never heard the answer; asking again must not cost a second draw."""
    task = make_task(privacy=LAPLACE)
    pair = Pair(tmp_path, task)
    await pair.provision()
    await pair.upload(await pair.reports(MEASUREMENTS))
    await pair.work_until_idle()
    pair.helper.on_moment = Killer("release batch", "committed")
    asked = await pair.ask()
    await pair.work()  # freezes, asks, and hears nothing
    (entry,) = await ledger_of(pair.helper)
    draws_before = pair.helper.entropy.calls
    await persistent_work(pair)
    assert pair.helper.entropy.calls == draws_before
    assert await ledger_of(pair.helper) == [entry]
    assert pair.open((await pair.poll(asked.headers["location"])).body).report_count == 6
    await pair.close()


@ON_SQLITE
@pytest.mark.usefixtures("engine")
async def test_a_leader_that_died_between_its_two_transactions_has_drawn_nothing(
    tmp_path: Path,
) -> None:
    task = make_task(privacy=LAPLACE)
    pair = Pair(tmp_path, task)
    await pair.provision()
    await pair.upload(await pair.reports(MEASUREMENTS))
    await pair.work_until_idle()
    calls = pair.leader.entropy.calls
    pair.leader.on_moment = Killer("release batch", "begin")
    await pair.ask()
    with pytest.raises(BaseExceptionGroup):
        await pair.work()
    assert pair.leader.entropy.calls == calls
    (entry,) = await ledger_of(pair.leader)
    assert entry.state is LedgerState.RESERVED
    await pair.close()
