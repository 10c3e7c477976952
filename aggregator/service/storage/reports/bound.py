"""Binds the ids of reports to batches where collectors select these, and lets dropped ones go.

A report counts in one release, ever. But a collector whose batch comes to nothing, having too few
reports, hands in the same reports again. So an id is bound to its batch, with a hash of the
report's bytes. It may be bound to another one if these are the very bytes, and if the first was
dropped: closed for ever, its sum destroyed in the same transaction, before this aggregator has
drawn noise for it or sent its share. Each aggregator decides that for itself. What the other says
frees nothing.

Other bytes under a used id would be another sharing of somebody's measurement: two releases might
then count one person, and Prio3 would verify two proofs with one nonce.

- **Leader.** A batch is dropped when its collection job fails, or is deleted before the helper was
  asked for its share. Its ids are free once none of its reports waits: whatever jobs carry them to
  the helper have ended, so that the helper sees them in the later batch later.
- **Helper.** Nobody tells it that a job came to nothing. It drops a batch when reports that are
  bound to it come in another one: then the leader has given it up, or will find that it has.
"""

from collections.abc import Collection, Container, Mapping, Sequence
from enum import Enum, auto

from sqlalchemy import bindparam, insert, update

from aggregator.dap.report_errors import ReportError
from aggregator.protocol.batches import Batch
from aggregator.service.storage.batches.closed import drop, is_dropped
from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.reports.counters import counted_reason
from aggregator.service.storage.reports.ids import Lookup, Room, let_in
from aggregator.service.storage.reports.rejected import forget_rejected
from aggregator.service.storage.reports.rejecting import reject_waiting
from aggregator.service.storage.reports.waiting import waiting_in_batch

_Key = tuple[int, bytes]
_BOUND = tables.bound_reports


class _Fate(Enum):
    """What became of the batch to which an id is bound."""

    HELD = auto()  # it is under way, or was released
    LEAVING = auto()  # it was dropped, and some of its reports are still with the helper
    FREE = auto()


def bind(
    tx: Transaction,
    task_id: bytes,
    arrivals: Sequence[tuple[bytes, bytes]],
    days: Sequence[int],
    digests: Sequence[bytes],
    admitted: Sequence[ReportError | None],
    closed: Container[bytes],
    room: Mapping[bytes, Room],
    *,
    may_drop: bool = False,
) -> tuple[list[ReportError | None], set[int]]:
    """Bind the reports that `admit` let in, and let in those replays that are free.

    Args:
        tx: The transaction.
        task_id: The task.
        arrivals: Each report's id, and the key of its bucket, as for `admit`.
        days: The day of each report's time.
        digests: A hash of each report's bytes.
        admitted: What `admit` has returned.
        closed: The buckets that take no more reports.
        room: What is left for a bucket, for those with a limit; it is taken from.
        may_drop: Whether a batch under way is dropped if its reports come in another one. Then the
            transaction holds `locks.change_batches`.

    Returns:
        For each report, why it does not count, or None; and the places of the replays that are no
        repetitions: they are bound to another batch, or had other bytes.
    """
    task = tx.task_key(task_id)
    keys = [(day, report_id) for day, (report_id, _) in zip(days, arrivals, strict=True)]
    errors, others = [*admitted], set[int]()

    fresh = [
        {"task": task, "day": day, "report_id": report_id, "bucket": bucket, "sha256": digest}
        for (day, report_id), (_, bucket), digest, error in zip(
            keys, arrivals, digests, admitted, strict=True
        )
        if error is None
    ]
    if fresh:
        tx.run(_BINDING, *fresh)
    again = [place for place, error in enumerate(errors) if error is ReportError.REPORT_REPLAYED]
    bound = _bound(tx, task, {keys[place] for place in again})
    fates = _Fates(tx, task_id, may_drop=may_drop)
    # In one order, or two transactions that bind the same ids would wait for each other.
    for place in sorted(again, key=lambda place: keys[place]):
        now = arrivals[place][1], digests[place]
        held, digest = bound.get(keys[place], (b"", b""))
        if (held, digest) == now:
            continue
        others.add(place)
        if digest != now[1]:
            continue
        error = _refusal(fates, held, now[0], closed, room)
        if error is None and not _rebind(tx, task, keys[place], digest, held, now[0]):
            error = ReportError.REPORT_REPLAYED  # another transaction was faster
        if error is None:
            bound[keys[place]] = now
            forget_rejected(tx, task, keys[place][1])
        errors[place] = error
    return errors, others


def _rebind(
    tx: Transaction, task: int, key: _Key, digest: bytes, held: bytes, bucket: bytes
) -> bool:
    """Bind an id to another batch; return whether it was bound to `held` until now."""
    of_report = {"its_task": task, "its_day": key[0], "its_id": key[1], "its_sha256": digest}
    return bool(tx.run(_REBINDING, {**of_report, "held": held, "new_bucket": bucket}))


def _refusal(
    fates: "_Fates",
    held: bytes,
    bucket: bytes,
    closed: Container[bytes],
    room: Mapping[bytes, Room],
) -> ReportError | None:
    """Return why a report that is bound to another batch does not count in this one, or None."""
    if bucket in closed:
        return ReportError.BATCH_COLLECTED
    fate = fates.of(held)
    if fate is _Fate.FREE:
        return let_in([bucket], closed, room)[0]
    return ReportError.REPORT_TOO_EARLY if fate is _Fate.LEAVING else ReportError.REPORT_REPLAYED


def give_up(tx: Transaction, task_id: bytes, batch: Batch) -> None:
    """Drop a batch at the leader: reports that are in no job leave, the others when their job ends.

    One that is frozen or was closed for another reason is left as it is.
    """
    drop(tx, task_id, batch)
    reject_waiting(tx, task_id, batch, counted_reason(ReportError.BATCH_COLLECTED))


class _Fates:
    """Looks once in a transaction what became of each batch."""

    def __init__(self, tx: Transaction, task_id: bytes, *, may_drop: bool) -> None:
        self._tx, self._task_id, self._may_drop = tx, task_id, may_drop
        self._known: dict[bytes, _Fate] = {}

    def of(self, bucket: bytes) -> _Fate:
        """Return what became of a batch; one that is under way is dropped, if it may be."""
        if bucket not in self._known:
            self._known[bucket] = self._look(Batch(bucket, bucket))
        return self._known[bucket]

    def _look(self, batch: Batch) -> _Fate:
        tx, task_id = self._tx, self._task_id
        if self._may_drop:
            drop(tx, task_id, batch)
        if not is_dropped(tx, task_id, batch.first):
            return _Fate.HELD
        return _Fate.LEAVING if waiting_in_batch(tx, task_id, batch) else _Fate.FREE


def _bound(tx: Transaction, task: int, keys: Collection[_Key]) -> dict[_Key, tuple[bytes, bytes]]:
    """Return to which batch ids are bound, and the hash of what their reports were."""
    return {
        (day, bytes(report_id)): (bytes(bucket), bytes(sha256))
        for day, report_id, bucket, sha256 in _LOOKUP.rows(tx, task, keys)
    }


_BINDING = insert(_BOUND).values(
    {name: bindparam(name) for name in ("task", "day", "report_id", "bucket", "sha256")}
)
_LOOKUP = Lookup(_BOUND, _BOUND.c.bucket, _BOUND.c.sha256)
_REBINDING = (
    update(_BOUND)
    .where(
        _BOUND.c.task == bindparam("its_task"),
        _BOUND.c.day == bindparam("its_day"),
        _BOUND.c.report_id == bindparam("its_id"),
        _BOUND.c.sha256 == bindparam("its_sha256"),
        _BOUND.c.bucket == bindparam("held"),
    )
    .values(bucket=bindparam("new_bucket"))
    .returning(_BOUND.c.report_id)
)
