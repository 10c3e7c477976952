"""A store restored from a backup of any moment releases nothing twice and forgets no charge."""

import contextlib
import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from aggregator.errors import StoreError
from aggregator.protocol.batches import Batch
from aggregator.service.storage.backup.reconciliation import (
    Mended,
    mend,
    reconcile,
    write_down_without_share,
)
from aggregator.service.storage.batches.closed import closed_batches, mark_collected
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.states import BatchState, CollectionJobState, LedgerState
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.jobs.aggregation_jobs import finish_aggregation_job, store_request
from aggregator.service.storage.jobs.collection_jobs import get_collection_job
from aggregator.service.storage.ledger.charges import Charge, charge, enter, list_ledger
from aggregator.service.storage.ledger.journal import JournalError, Owner, Release
from aggregator.service.storage.ledger.journal_file import JournalFile
from aggregator.service.storage.operator.interventions import abandon_aggregation_job
from aggregator.service.storage.reports.claims import reports_of_job
from aggregator.service.storage.reports.counters import Stage, report_counts
from tests.support.balance import check_books
from tests.support.clock import ManualClock
from tests.support.empty_store import copy_store, remove_store
from tests.support.store import (
    TASK_ID,
    TENTH,
    aggregate,
    collect,
    create_job,
    freeze_collection,
    lease_collection,
    lease_job,
    read_shares,
    stored,
    stored_in,
    units,
    upload,
)
from tests.support.store_world import BATCH, READS, World, make_world


class Crash(BaseException):
    """The process is gone."""


def committed_after(number: int, commits: list[str]) -> Callable[[str, str], None]:
    """Return a hook that crashes at the commit with this number, and lists the commits."""

    def hook(name: str, moment: str) -> None:
        if moment == "committed":
            commits.append(name)
            if len(commits) == number:
                raise Crash

    return hook


def check(world: World) -> None:
    """Go on as far as that is possible, and check what must hold."""
    for step in (world.aggregate, world.collect):
        with contextlib.suppress(StoreError, AssertionError):
            step()
    assert sorted(share.split()[0] for share in world.shown) == [b"helper", b"leader"]
    for store in (world.leader, world.helper):
        (entry,) = store.read_sync("ledger", list_ledger)
        assert (entry.state, entry.batch, entry.charge) == (LedgerState.CHARGED, BATCH, TENTH)
        closed = store.read_sync("closed", lambda tx: closed_batches(tx, TASK_ID, BATCH).overall())
        assert closed is BatchState.COLLECTED
        assert store.read_sync("sums", lambda tx: read_shares(tx, TASK_ID, BATCH)) == []


@pytest.mark.slow
def test_a_backup_of_any_transaction_is_brought_up_to_the_journal(
    engine: str, tmp_path: Path
) -> None:
    """A backup after every transaction that writes; on PostgreSQL, after the first of each kind.

    Copies of databases on a server take their time: there both are restored at once only.
    """
    both = ("leader", "helper")
    restorations = [both] if engine == "postgresql" else [both, both[:1], both[1:]]
    commits: list[str] = []
    make_world(tmp_path / "whole")
    whole = World(tmp_path / "whole", ManualClock(0), committed_after(0, commits))
    whole.run()
    whole.close()
    assert {"freeze", "release", "finish collection"} <= set(commits)
    writes = [number for number, name in enumerate(commits, 1) if not name.startswith(READS)]
    if engine == "postgresql":
        first = {commits[number - 1]: number for number in reversed(writes)}
        writes = sorted(first.values())
    assert len(writes) > 10
    for number in writes:
        folder, backup, clock = tmp_path / f"{number}", tmp_path / f"b{number}", ManualClock(0)
        make_world(folder)
        dying = World(folder, clock, committed_after(number, []))
        with pytest.raises(Crash):
            dying.run()
        dying.close()
        for name in both:
            copy_store(*(stored_in(each / name) for each in (folder, backup)))
        successor = World(folder, clock, lambda *_: None)
        successor.shown = dying.shown
        successor.run()
        successor.close()
        for restored in restorations:
            for name in restored:
                remove_store(stored_in(folder / name))
                copy_store(*(stored_in(each / name) for each in (backup, folder)))
            world = World(folder, clock, lambda *_: None)
            world.shown = successor.shown
            try:
                check(world)
            except BaseException as error:
                error.add_note(f"{restored} from after {commits[number - 1]}, number {number}")
                raise
            world.close()


OWNER = Owner("leader", 2)
RELEASED = Release(TASK_ID, units(0, 10), bytes(32), TENTH, 7)


@pytest.fixture
def journal(tmp_path: Path) -> JournalFile:
    made = JournalFile(tmp_path / "journal")
    made.create(OWNER)
    return made


def test_what_only_the_journal_knows_is_closed_and_charged(
    store: Database, journal: JournalFile
) -> None:
    aggregate(store, range(3))
    upload(store, range(3, 5))
    journal.append([RELEASED])
    assert reconcile(store, "leader", journal) == 1
    (entry,) = store.read_sync("ledger", list_ledger)
    assert (entry.state, entry.batch, entry.charge) == (LedgerState.CHARGED, RELEASED.batch, TENTH)
    assert (entry.charged_at, entry.share_sha256) == (7, bytes(32))
    closed = store.read_sync("closed", lambda tx: closed_batches(tx, TASK_ID, units(9, 20)))
    assert [closed.state(units(n, n + 1).first) for n in (9, 10)] == [BatchState.COLLECTED, None]
    assert store.read_sync("sums", lambda tx: read_shares(tx, TASK_ID, BATCH)) == []
    counts = store.read_sync("counts", lambda tx: report_counts(tx, TASK_ID, Stage.AGGREGATION))
    assert counts == {"aggregated": 3, "batch_collected": 2}
    assert reconcile(store, "leader", journal) == 0


@pytest.mark.parametrize("way", ["returned", "postponed before it is sent", "postponed"])
def test_reports_that_a_job_gives_back_to_a_released_batch_are_counted_as_late(
    store: Database, journal: JournalFile, way: str
) -> None:
    upload(store, range(2))
    upload(store, range(2, 5), time=12)
    create_job(store)
    journal.append([RELEASED])
    assert reconcile(store, "leader", journal) == 1
    leased = lease_job(store)

    def give_back(tx: Transaction) -> None:
        ids = reports_of_job(tx, leased.job.key).ids
        if way == "returned":
            abandon_aggregation_job(tx, leased.job.job_id, returned=True)
        elif way == "postponed":
            finish_aggregation_job(tx, leased.lease, [], {}, ids)
        else:
            store_request(tx, leased.lease, b"request", {}, ids)

    store.run_sync("give back", give_back)
    counts = store.read_sync("counts", lambda tx: report_counts(tx, TASK_ID, Stage.AGGREGATION))
    assert counts == {"batch_collected": 2}
    assert stored(store) == 3
    store.run_sync("books", lambda tx: check_books(tx, TASK_ID))


def test_a_collection_under_way_fails_if_the_batch_was_released_already(
    store: Database, journal: JournalFile
) -> None:
    aggregate(store, range(3))
    job_id = collect(store)
    freeze_collection(store, lease_collection(store))
    journal.append([Release(TASK_ID, units(5, 15), bytes(32), TENTH, 7)])
    reconcile(store, "leader", journal)
    job = store.read_sync("job", lambda tx: get_collection_job(tx, TASK_ID, job_id))
    assert job is not None
    assert job.state is CollectionJobState.FAILED
    assert "restored" in (job.problem or "")
    (entry,) = store.read_sync("ledger", list_ledger)
    assert (entry.state, entry.batch) == (LedgerState.CHARGED, units(5, 15))


def test_what_was_collected_around_it_stays_so(store: Database, journal: JournalFile) -> None:
    for batch in (units(2, 4), units(6, 7)):
        store.run_sync("collect", lambda tx, b=batch: mark_collected(tx, TASK_ID, b))
    journal.append([RELEASED])
    reconcile(store, "leader", journal)
    closed = store.read_sync("closed", lambda tx: closed_batches(tx, TASK_ID, units(0, 12)))
    states = [closed.state(units(n, n + 1).first) for n in range(12)]
    assert states == [BatchState.COLLECTED] * 10 + [None] * 2


def test_every_batch_can_be_closed(store: Database, journal: JournalFile) -> None:
    everything = Batch(bytes(8), b"\xff" * 8)
    journal.append([Release(TASK_ID, everything, None, Charge("None", None), 7)])
    assert reconcile(store, "leader", journal) == 1
    closed = store.read_sync("closed", lambda tx: closed_batches(tx, TASK_ID, everything))
    assert closed.state(everything.last) is BatchState.COLLECTED


def test_releases_of_a_task_that_is_gone_wait_for_it(store: Database, journal: JournalFile) -> None:
    journal.append([Release(bytes(32), units(0, 1), None, TENTH, 7)])
    assert reconcile(store, "leader", journal) == 0
    assert store.read_sync("ledger", list_ledger) == []


def test_a_store_that_has_released_is_not_opened_without_its_journal(
    store: Database, tmp_path: Path
) -> None:
    first = JournalFile(tmp_path / "lost")
    reconcile(store, "leader", first)
    journal = JournalFile(tmp_path / "another")
    journal.create(first.owner())
    (tmp_path / "lost").unlink()
    lost = JournalFile(tmp_path / "lost")
    journal.append([RELEASED])
    reconcile(store, "leader", journal)
    with pytest.raises(JournalError, match=r"does not exist.*prio store after-restore"):
        reconcile(store, "leader", lost)
    assert not lost.exists()
    reconcile(store, "leader", lost, may_be_missing=True)
    assert lost.releases() == [RELEASED]


def test_a_store_from_before_its_first_release_is_not_opened_without_its_journal(
    store: Database, tmp_path: Path
) -> None:
    """Who restores it would release, with other noise, what was released since."""
    reconcile(store, "leader", JournalFile(tmp_path / "journal"))
    assert store.read_sync("ledger", list_ledger) == []
    (tmp_path / "journal").unlink()
    for _ in range(2):
        with pytest.raises(JournalError, match=r"does not exist.*--journal-damaged.*--backup-time"):
            reconcile(store, "leader", JournalFile(tmp_path / "journal"))


@pytest.mark.parametrize("moment", ["exists", "create"])
def test_several_processes_may_make_the_journal_of_a_new_store_at_once(
    store: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Containers of one aggregator start together; none is to say that the journal is lost."""
    journal = JournalFile(tmp_path / "journal")
    method = getattr(journal, moment)

    def while_another_process_makes_it(*given: Owner) -> object:
        found = method(*given)
        reconcile(store, "leader", JournalFile(tmp_path / "journal"))
        return found

    monkeypatch.setattr(journal, moment, while_another_process_makes_it)
    assert reconcile(store, "leader", journal) == 0
    assert journal.releases() == []


def test_a_journal_that_lost_its_end_is_healed_and_that_is_said(
    store: Database, journal: JournalFile, tmp_path: Path
) -> None:
    journal.append([RELEASED])
    reconcile(store, "leader", journal)
    file = tmp_path / "journal"
    whole = file.read_bytes()
    file.write_bytes(whole.splitlines(keepends=True)[0])
    with capture_logs() as lines:
        reconcile(store, "leader", JournalFile(file))
        reconcile(store, "leader", JournalFile(file))
    (line,) = lines
    assert line["releases"] == 1
    assert "the journal has lost its end" in line["event"]
    assert file.read_bytes() == whole


def test_a_damaged_journal_takes_from_the_store_what_cannot_be_read(
    store: Database, journal: JournalFile, tmp_path: Path
) -> None:
    others = [dataclasses.replace(RELEASED, batch=units(n, n + 1)) for n in (20, 30)]
    lost = dataclasses.replace(RELEASED, task_id=b"?" * 32, charged_at=-1)  # with its store
    journal.append([lost, RELEASED, *others])
    reconcile(store, "leader", journal)
    assert mend(store, "leader", damaged(tmp_path), went_back=False) == Mended(kept=3, added=1)
    assert set(JournalFile(tmp_path / "journal").releases()) == {lost, RELEASED, *others}
    assert len(store.read_sync("ledger", list_ledger)) == 3


def test_a_store_that_is_older_than_a_damaged_journal_is_not_taken_for_whole(
    store: Database, journal: JournalFile, tmp_path: Path
) -> None:
    """Nobody knows what the line that cannot be read was: perhaps a release since the backup."""
    reconcile(store, "leader", journal)
    others = [dataclasses.replace(RELEASED, batch=units(n, n + 1)) for n in (20, 30)]
    journal.append([RELEASED, *others])
    with pytest.raises(JournalError, match=r"older than the journal.*2 releases.*--backup-time"):
        mend(store, "leader", damaged(tmp_path), went_back=False)
    assert store.read_sync("ledger", list_ledger) == []
    assert mend(store, "leader", JournalFile(tmp_path / "journal"), went_back=True) == Mended(2, 0)
    assert len(store.read_sync("ledger", list_ledger)) == 2


def test_a_release_that_was_drawn_again_makes_a_store_older_than_its_journal(
    store: Database, journal: JournalFile, tmp_path: Path
) -> None:
    reconcile(store, "leader", journal)
    other = dataclasses.replace(RELEASED, batch=units(20, 21))
    journal.append([RELEASED, other])
    store.run_sync(
        "enter", lambda tx: enter(tx, TASK_ID, other.batch, TENTH, 7, share_sha256=b"2" * 32)
    )
    with pytest.raises(JournalError, match="older than the journal"):
        mend(store, "leader", damaged(tmp_path, line=1), went_back=False)


def test_no_byte_of_a_journal_makes_a_whole_store_older_than_it(
    store: Database, journal: JournalFile, tmp_path: Path
) -> None:
    """A line that names another task, batch or share after its damage is none of a release."""
    others = [dataclasses.replace(RELEASED, batch=units(n, n + 1)) for n in (20, 30)]
    journal.append([RELEASED, *others])
    reconcile(store, "leader", journal)
    file = tmp_path / "journal"
    whole = file.read_bytes()
    line = whole.index(whole.splitlines()[2])
    for before in (b'"task":"', b'"batch":["', b'","', b'"share":"', b'"charged_at":', b"} "):
        content = bytearray(whole)
        content[whole.index(before, line) + len(before)] ^= 1
        file.write_bytes(content)
        assert mend(store, "leader", JournalFile(file), went_back=False).was_damaged
        assert set(JournalFile(file).releases()) == {RELEASED, *others}, before
    assert len(store.read_sync("ledger", list_ledger)) == 3


def test_a_changed_line_of_a_release_that_the_store_does_not_know_makes_it_older(
    store: Database, journal: JournalFile, tmp_path: Path
) -> None:
    journal.append([RELEASED])
    reconcile(store, "leader", journal)
    since = dataclasses.replace(RELEASED, batch=units(20, 30), share_sha256=b"3" * 32)
    journal.append([since])
    content = (tmp_path / "journal").read_bytes()
    (tmp_path / "journal").write_bytes(content.replace(b'"share":"33', b'"share":"43'))
    with pytest.raises(JournalError, match=r"older than the journal.*1 releases"):
        mend(store, "leader", JournalFile(tmp_path / "journal"), went_back=False)


def damaged(folder: Path, line: int = 2) -> JournalFile:
    """Return the journal with a byte of one line changed."""
    file = folder / "journal"
    lines = file.read_bytes().splitlines(keepends=True)
    lines[line] = lines[line].replace(b'"batch"', b'"botch"')
    file.write_bytes(b"".join(lines))
    return JournalFile(file)


def test_a_charge_that_the_journal_contradicts_keeps_no_other_out_of_it(
    store: Database, journal: JournalFile
) -> None:
    journal.append([RELEASED])
    for batch in (units(5, 15), units(20, 21), RELEASED.batch, units(30, 31)):
        store.run_sync("charge", lambda tx, b=batch: charge(tx, TASK_ID, b, TENTH))
    write_down_without_share(store, journal)
    batches = [each.batch for each in journal.releases()]
    assert batches == [RELEASED.batch, units(20, 21), units(30, 31)]
