"""Reconciles a store with its journal, when the store is opened and before a share leaves.

If only the journal knows a release, it was made before the store was restored from a backup: its
batch is closed for ever and charged, and whatever was under way in it fails. If only the store
knows a release, the process that committed it died before writing the journal, so the share has not
left: the release is written to the journal now.
"""

import dataclasses
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence

from sqlalchemy import insert, select, update

from aggregator.dap.ids import BatchId, TaskId
from aggregator.dap.problems import CollectionFailed, problem_document
from aggregator.dap.report_errors import ReportError
from aggregator.protocol.batches import Batch
from aggregator.service.storage.batches import closed as closed_batches
from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.states import COLLECTION_JOB, CollectionJobState, LedgerState
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.ledger import charges as ledger
from aggregator.service.storage.ledger.charges import LedgerEntry
from aggregator.service.storage.ledger.journal import (
    Contradiction,
    DamagedJournal,
    ForeignJournal,
    Journal,
    JournalError,
    Owner,
    Release,
    Released,
)
from aggregator.service.storage.reports.counters import counted_reason
from aggregator.service.storage.reports.rejecting import reject_waiting
from aggregator.service.storage.tasks.tasks import end_task, list_tasks
from aggregator.service.telemetry.lines import log

_LOST = "a part of the batch was released before the store was restored from a backup"


def reconcile(
    database: Database,
    role: str,
    journal: Journal,
    *,
    may_be_missing: bool = False,
    may_be_damaged: bool = False,
    damage_is_told: bool = True,
) -> int:
    """Bring both up to date with each other; return how many releases the store had forgotten.

    Args:
        database: The store.
        role: The aggregator's role, in lower case.
        journal: Its journal, which is created if the store never had one.
        may_be_missing: Whether to create a missing journal even if the store has had one.
        may_be_damaged: Whether to go on if the journal cannot be read: the aggregator then takes
            and verifies reports, but releases no share.
        damage_is_told: Whether the log says that; a command that mends it says what it has done.

    Raises:
        JournalError: The journal is missing, or cannot be used.
    """
    # The mark comes after the journal, so it is looked for first: another process may just be
    # making both.
    number = database.read_sync("look for the journal", _number_of)
    has_had_one = number is not None or bool(database.read_sync("look for releases", _charged))
    if not journal.exists():
        if has_had_one and not may_be_missing:
            raise JournalError(
                f"the journal of releases {journal.name} does not exist or is empty, and this "
                "store has had one: bring it back. If it is lost, `prio store after-restore "
                "--journal-damaged` rewrites it from a store that never went back to a backup; for "
                "one that did, `prio store after-restore --backup-time` closes what may have been "
                "released since"
            )
        journal.create(Owner(role, _new_number(database) if number is None else number))
    try:
        owner = Owner(role, journal.owner().store if number is None else number)
        journal.belongs_to(owner)
        written = journal.releases()
        if number is None:
            database.run_sync("mark the journal", lambda tx: mark_journal(tx, owner.store))
    except DamagedJournal as error:
        if not may_be_damaged:
            raise
        if damage_is_told:
            log.error("no share leaves", reason=str(error))
        return 0
    forgotten = 0
    if database.read_sync("look for forgotten releases", lambda tx: _forgotten(tx, written)):
        forgotten = database.run_sync("enter releases", lambda tx: enter_releases(tx, written))
        log.warning("releases taken over from the journal", releases=forgotten)
    if missing := write_down(database, journal):
        log.warning(
            "releases were missing in the journal and are in it now: a process died before it "
            "wrote them, or the journal has lost its end",
            releases=missing,
            journal=journal.name,
        )
    return forgotten


@dataclasses.dataclass(frozen=True, slots=True)
class Mended:
    """What a damaged journal was rebuilt from.

    Attributes:
        kept: How many of its releases could be read.
        added: How many releases came from the store.
        was_damaged: Whether it was damaged at all; if not, nothing was done.
    """

    kept: int
    added: int
    was_damaged: bool = True


def mend(database: Database, role: str, journal: Journal, *, went_back: bool) -> Mended:
    """Rebuild a damaged journal from its readable lines and from the store.

    Args:
        database: The store; the releases that it knows are taken to be exact.
        role: The aggregator's role, in lower case.
        journal: The journal.
        went_back: Whether the store may be from a backup. Releases that only the journal knows are
            then closed and charged; the caller closes what else may have been released.

    Raises:
        JournalError: The store is older than a release that can be read, and `went_back` is false;
            or the journal is that of another store.
    """
    try:
        present = journal.releases()
    except ForeignJournal:
        raise
    except DamagedJournal:
        pass
    else:  # for example, it was lost, and created anew when the store was opened
        return Mended(len(present), 0, was_damaged=False)
    charged = database.read_sync("list charges", _charged)
    own = {(each.task_id, each.batch): _release(each) for each in charged}
    tasks = {each.task_id for each in database.read_sync("list tasks", list_tasks)}
    since = database.read_sync("look for the journal", marked_at) or 0

    def is_forgotten(release: Release) -> bool:
        known = own.get((release.task_id, release.batch))
        if known is None:
            # An older release of an unknown task belongs to a task lost with an earlier store.
            return release.task_id in tasks or release.charged_at >= since
        return (
            None not in (shares := {known.share_sha256, release.share_sha256}) and len(shares) > 1
        )

    kept = list[Release]()
    chosen = list[Release]()

    def choose(readable: Sequence[Release], changed: Sequence[Release]) -> Sequence[Release]:
        copies = [each for each in changed if _is_nearly_one_of(each, own.values())]
        readable = [each for each in readable if each not in copies]
        forgotten = [each for each in readable if is_forgotten(each)]
        if forgotten and not went_back:
            raise JournalError(
                f"this store is older than the journal {journal.name}: it does not know "
                f"{len(forgotten):,} releases that can be read there, the last of task "
                f"{TaskId(forgotten[-1].task_id)}. Bring the newest store back; if it is lost, "
                "give --backup-time too: what may have been released since is then closed and "
                "charged"
            )
        exact = [
            each if is_forgotten(each) else own.get((each.task_id, each.batch), each)
            for each in readable
        ]
        kept.extend(_without_contradictions(exact))
        chosen.extend(_without_contradictions([*exact, *own.values()]))
        return chosen

    number = database.read_sync("look for the journal", _number_of)
    owner = Owner(role, _new_number(database) if number is None else number)
    journal.belongs_to(owner)
    journal.rebuild(owner, choose)
    if number is None:
        database.run_sync("mark the journal", lambda tx: mark_journal(tx, owner.store))
    database.run_sync("enter releases", lambda tx: enter_releases(tx, kept))
    return Mended(len(kept), len(chosen) - len(kept))


def _is_nearly_one_of(changed: Release, own: Iterable[Release]) -> bool:
    """Return whether a release with a wrong checksum differs from one of ours in a single part.

    That is what one changed byte does. Two real releases of a task differ in their batch, their
    share and their time.
    """

    def parts(release: Release) -> tuple[object, ...]:
        batch, charge = release.batch, release.charge
        of_charge = (charge.mechanism, charge.population, charge.cost)
        share, at = release.share_sha256, release.charged_at
        return (release.task_id, batch.first, batch.last, share, at, *of_charge)

    found = parts(changed)
    return any(sum(a != b for a, b in zip(found, parts(each), strict=True)) == 1 for each in own)


def write_down(database: Database, journal: Journal) -> int:
    """Write all charges that the journal lacks into it; return how many there were."""
    written = journal.releases()
    known = {(each.task_id, each.batch): each.share_sha256 for each in written}
    missing = []
    for entry in database.read_sync("list charges", _charged):
        share = known.get((entry.task_id, entry.batch), b"")
        if share == b"" or entry.share_sha256 not in (share, None):
            missing.append(_release(entry))
    if not missing:
        return 0
    _append(journal, missing)
    return len(journal.releases()) - len(written)


def write_down_without_share(database: Database, journal: Journal) -> None:
    """Write into the journal the charges of batches for which no share of ours leaves."""
    charges = database.read_sync("list charges", ledger.list_without_share)
    _append(journal, [_release(each) for each in charges])


def write_down_share(
    database: Database, journal: Journal, task_id: bytes, share_sha256: bytes
) -> None:
    """Write the release of a sealed share into the journal, before the share leaves.

    Raises:
        JournalError: The store has no such release, or the journal has another one of its batch.
    """
    entry = database.read_sync(
        "find release", lambda tx: ledger.find_charged(tx, task_id, share_sha256)
    )
    if entry is None:
        raise JournalError("the ledger does not know the share that is about to leave")
    journal.append([_release(entry)])


def enter_releases(
    tx: Transaction, releases: Sequence[Release], task_id: bytes | None = None
) -> int:
    """Close the batches of releases that the store has forgotten, and charge for them.

    Args:
        tx: The transaction.
        releases: The journal's releases.
        task_id: The task to enter them for; None for all tasks.

    Returns:
        How many were entered. Releases of tasks that the store does not have are left for later.
    """
    forgotten = [
        each for each in _forgotten(tx, releases) if task_id is None or each.task_id == task_id
    ]
    for release in forgotten:
        close(tx, release.task_id, release.batch)
        ledger.enter(
            tx,
            release.task_id,
            release.batch,
            release.charge,
            release.charged_at,
            release.share_sha256,
        )
        if len(release.batch.first) == BatchId.size:
            close_selected(tx, release.task_id)
    return len(forgotten)


def close_selected(tx: Transaction, task_id: bytes) -> None:
    """End a task whose batches have ids for good, and close all that it has stored.

    Its reports name no batch. The store has forgotten the ids of those that were released since the
    backup, so in another batch they could be released again.
    """
    close(tx, task_id, Batch(bytes(BatchId.size), b"\xff" * BatchId.size))
    reject_waiting(tx, task_id, Batch(b"", b""), counted_reason(ReportError.BATCH_COLLECTED))
    end_task(tx, task_id)


def close(tx: Transaction, task_id: bytes, batch: Batch) -> None:
    """Close a range of buckets for ever: its collections fail, its waiting reports are rejected."""
    closed_batches.close_for_ever(tx, task_id, batch)
    _fail_collections(tx, task_id, batch)
    ledger.cancel_in(tx, task_id, batch)
    reject_waiting(tx, task_id, batch, counted_reason(ReportError.BATCH_COLLECTED))


def _fail_collections(tx: Transaction, task_id: bytes, batch: Batch) -> None:
    job, transition = tables.collection_jobs, COLLECTION_JOB.transition("fail_collection_job")
    problem = problem_document(CollectionFailed(_LOST, TaskId(task_id)))
    tx.connection.execute(
        update(job)
        .where(
            job.c.task == tx.task_key(task_id),
            job.c.state == CollectionJobState.FROZEN,
            job.c.first_bucket <= batch.last,
            job.c.last_bucket >= batch.first,
        )
        .values(
            state=transition.target,
            problem=json.dumps(problem),
            lease_token=None,
            ended_at=tx.now,
        )
    )


def _forgotten(tx: Transaction, releases: Sequence[Release]) -> list[Release]:
    """Return the releases of our tasks that the ledger has not charged."""
    tasks = {each.task_id for each in list_tasks(tx)}
    known = {(each.task_id, each.batch) for each in _charged(tx)}
    return [
        each
        for each in releases
        if each.task_id in tasks and (each.task_id, each.batch) not in known
    ]


def _charged(tx: Transaction) -> list[LedgerEntry]:
    entries = ledger.list_ledger(tx)
    return [each for each in entries if each.state is not LedgerState.RESERVED]


def _without_contradictions(releases: Sequence[Release]) -> list[Release]:
    """Return each release once, without those that contradict one before them."""
    known, left = defaultdict[bytes, Released](Released), []
    for release in releases:
        try:
            if known[release.task_id].add(release):
                left.append(release)
        except Contradiction as error:
            log.error("a release contradicts the journal", reason=str(error))
    return left


def _append(journal: Journal, releases: Sequence[Release]) -> None:
    """Write releases into the journal; leave out, with their shares, those that contradict it."""
    try:
        journal.append(releases)
    except Contradiction:
        for release in releases:
            try:
                journal.append([release])
            except Contradiction as error:
                log.error("a release contradicts the journal", reason=str(error))


def _release(entry: LedgerEntry) -> Release:
    return Release(
        task_id=entry.task_id,
        batch=entry.batch,
        share_sha256=entry.share_sha256,
        charge=entry.charge,
        charged_at=entry.created_at if entry.charged_at is None else entry.charged_at,
    )


def marked_at(tx: Transaction) -> int | None:
    """Return when the store got its journal, in seconds; None if it never had one."""
    found: int | None = tx.connection.execute(select(tables.release_journals.c.made_at)).scalar()
    return found


def mark_journal(tx: Transaction, number: int) -> None:
    """Record for ever that the store has a journal, without which it does not open.

    Thus even a backup from before the first release says that there is a journal, which knows the
    releases since, and which one.
    """
    if marked_at(tx) is None:
        tx.connection.execute(insert(tables.release_journals).values(id=number, made_at=tx.now))


def _number_of(tx: Transaction) -> int | None:
    """Return the number by which the journal knows the store; None if it never had a journal."""
    found: int | None = tx.connection.execute(select(tables.release_journals.c.id)).scalar()
    return found


def _new_number(database: Database) -> int:
    return database.read_sync(
        "draw a number", lambda tx: int.from_bytes(tx.entropy.bytes(4), "big") >> 1
    )
