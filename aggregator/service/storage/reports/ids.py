"""The narrow tables of report ids, which serve as duplicate check and replay check."""

import dataclasses
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from typing import Any, Self

from sqlalchemy import Column, ColumnElement, Select, Table, bindparam, select
from sqlalchemy.sql.dml import ReturningInsert

from aggregator.dap.report_errors import ReportError
from aggregator.protocol.replay import refusal
from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.backends import Insert
from aggregator.service.storage.engine.joined_values import number_in, numbers, part_of
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.reports.id_memory import check_memory

_ID_SIZE = 16
_DIGITS = 8


@dataclasses.dataclass(eq=False, slots=True)
class Room:
    """Room for more reports in a batch; the buckets of one batch share it.

    Attributes:
        left: How many more reports fit.
    """

    left: int


def admit(
    tx: Transaction,
    table: Table,
    task_id: bytes,
    arrivals: Sequence[tuple[bytes, bytes]],
    days: Sequence[int],
    closed: Container[bytes],
    room: Mapping[bytes, Room],
    first_day: int | None = None,
) -> list[ReportError | None]:
    """Decide which reports count, and remember their ids, in the transaction that counts them.

    If a report is refused because of its batch, its id is only looked up, and stays unused.

    Args:
        tx: The transaction.
        table: `report_ids` or `aggregated_reports`.
        task_id: The task.
        arrivals: Each report's id, and the key of its bucket.
        days: The day of each report's time (`Time.day`).
        closed: The buckets that take no more reports.
        room: What is left for a bucket, for those with a limit; it is taken from.
        first_day: The day, in days since the epoch, from which ids must be kept to recognise any
            replay among these reports; None to skip that check.

    Returns:
        For each report, why it does not count, or None. Of two with the same id and day, the first
        is new; those of different days are different reports.

    Raises:
        IdsForgotten: Ids from `first_day` on were deleted.
    """
    task = tx.task_key(task_id)
    dated = _Dated.of(days)
    keyed = dated.keyed(arrivals, days)
    chosen = choose(keyed, closed, room, lambda keys: _known(tx, table, task, dated, keys))
    fresh = _inserted(tx, table, task, dated, chosen.entering)
    if first_day is not None:
        check_memory(tx, table.name, task_id, first_day)
    return chosen.outcomes(fresh)


@dataclasses.dataclass(frozen=True, slots=True)
class Chosen:
    """Arrivals of which some are let in, if their ids are new.

    Attributes:
        arrivals: Each report's id, and the key of its bucket.
        entering: The ids of those that are let in.
    """

    arrivals: Sequence[tuple[bytes, bytes]]
    entering: set[bytes]
    _enters: Sequence[bool]
    _known: Container[bytes]
    _shut: Container[bytes]

    def outcomes(self, fresh: set[bytes]) -> list[ReportError | None]:
        """Return for each report why it does not count, or None.

        Args:
            fresh: The ids that were new; those of reports that count are taken from it.
        """
        if len(fresh) == len(self.arrivals):  # nearly always
            return [None] * len(self.arrivals)
        errors = []
        for (report_id, bucket), is_let_in in zip(self.arrivals, self._enters, strict=True):
            is_seen = report_id not in fresh if is_let_in else report_id in self._known
            is_closed = bucket in self._shut
            errors.append(refusal(is_seen=is_seen, is_closed=is_closed, is_full=not is_let_in))
            if is_let_in:
                fresh.discard(report_id)
        return errors


def choose(
    arrivals: Sequence[tuple[bytes, bytes]],
    closed: Container[bytes],
    room: Mapping[bytes, Room],
    known_among: Callable[[Sequence[bytes]], set[bytes]],
) -> Chosen:
    """Choose the arrivals that batches take; only if these do not take all are ids looked up."""
    shut, tight = _refusing(Counter([bucket for _, bucket in arrivals]), closed, room)
    entering = {report_id for report_id, _ in arrivals}
    known: set[bytes] = set()
    enters = [True] * len(arrivals)
    if shut or tight:
        known = known_among(
            [each for each, bucket in arrivals if bucket in shut or bucket in tight]
        )
        entering, enters = _let_in_new(arrivals, shut, tight, known)
    return Chosen(arrivals, entering, enters, known, shut)


def _refusing(
    of_bucket: Counter[bytes], closed: Container[bytes], room: Mapping[bytes, Room]
) -> tuple[set[bytes], dict[bytes, Room]]:
    """Return the closed buckets of arrivals, and the room of those that have too little for all."""
    arriving: Counter[Room] = Counter()
    for bucket, reports in of_bucket.items():
        if bucket in room:
            arriving[room[bucket]] += reports
    shut = {bucket for bucket in of_bucket if bucket in closed}
    return shut, {bucket: each for bucket, each in room.items() if each.left < arriving[each]}


def _let_in_new(
    arrivals: Sequence[tuple[bytes, bytes]],
    shut: Container[bytes],
    tight: Mapping[bytes, Room],
    known: Container[bytes],
) -> tuple[set[bytes], list[bool]]:
    """Choose among arrivals that cannot all count; return the ids let in, and a flag for each."""
    entering: set[bytes] = set()
    enters = []
    for report_id, bucket in arrivals:
        is_let_in = bucket not in shut and report_id not in known
        if is_let_in and bucket in tight and report_id not in entering:
            is_let_in = tight[bucket].left > 0
            tight[bucket].left -= is_let_in
        if is_let_in:
            entering.add(report_id)
        enters.append(is_let_in)
    return entering, enters


def let_in(
    buckets: Sequence[bytes], closed: Container[bytes], room: Mapping[bytes, Room]
) -> list[ReportError | None]:
    """Decide which reports count if all their ids are new; return as `admit` does.

    Args:
        buckets: The key of each report's bucket.
        closed: The buckets that take no more reports.
        room: What is left for a bucket, for those with a limit; it is taken from.
    """
    of_bucket = Counter(buckets)
    shut, tight = _refusing(of_bucket, closed, room)
    if not shut and not tight:  # nearly always
        for bucket, reports in of_bucket.items():
            if bucket in room:
                room[bucket].left -= reports
        return [None] * len(buckets)
    errors = []
    for bucket in buckets:
        shared = room.get(bucket)
        error = refusal(is_closed=bucket in closed, is_full=shared is not None and shared.left <= 0)
        if shared is not None and error is None:
            shared.left -= 1
        errors.append(error)
    return errors


@dataclasses.dataclass(frozen=True, slots=True)
class _Dated:
    """Ids of reports of one day, or of several: then each has its day before it, in digits.

    Attributes:
        day: The one day; None if there are several, or none.
        size: The bytes that ids have before them.
    """

    day: int | None
    size: int

    @classmethod
    def of(cls, days: Iterable[int]) -> Self:
        """Return how ids of these days are told apart."""
        different = {*days}
        if len(different) == 1:  # nearly always
            return cls(different.pop(), 0)
        return cls(None, _DIGITS)

    def keyed(
        self, arrivals: Sequence[tuple[bytes, bytes]], days: Sequence[int]
    ) -> Sequence[tuple[bytes, bytes]]:
        """Return arrivals, with what their ids have before them."""
        if not self.size:
            return arrivals
        each = zip(arrivals, days, strict=True)
        return [(_digits(day) + report_id, bucket) for (report_id, bucket), day in each]

    def values(self, task: int, keys: Iterable[bytes]) -> dict[str, object]:
        """Return the parameters of a statement about ids, which are one string of bytes, sorted."""
        in_order, size = sorted(keys), self.size
        values: dict[str, object] = {"task": task, "count": len(in_order)}
        if not size:
            return {**values, "day": self.day, "ids": b"".join(in_order)}
        days = b"".join([key[:size] for key in in_order])
        return {**values, "days": days, "ids": b"".join([key[size:] for key in in_order])}

    def read(self, rows: Iterable[Sequence[Any]]) -> set[bytes]:
        """Return ids, with what they have before them, from rows of a day and an id."""
        if not self.size:
            return {report_id for _, report_id in rows}
        return {_digits(day) + report_id for day, report_id in rows}


def _digits(day: int) -> bytes:
    return b"%0*d" % (_DIGITS, day)


def _inserted(
    tx: Transaction, table: Table, task: int, dated: _Dated, keys: Collection[bytes]
) -> set[bytes]:
    """Insert ids, in sorted order; return those that were new."""
    if not keys:
        return set()
    inserting = tx.prepared(_INSERTING[table.name, dated.size])
    return dated.read(tx.run(inserting, dated.values(task, keys)))


def _known(
    tx: Transaction, table: Table, task: int, dated: _Dated, keys: Collection[bytes]
) -> set[bytes]:
    """Return the ids that are there."""
    if not keys:
        return set()
    looking = tx.prepared(_LOOKING[table.name, dated.size])
    rows = tx.run(looking, dated.values(task, keys))
    return dated.read([(day, report_id) for day, report_id, found in rows if found is not None])


def _each(table: Table, size: int) -> Select[Any]:
    """Select a task, a day and an id for each id of `_Dated.values`.

    So a statement has four parameters, however many ids and days there are.
    """
    number, of_ids = numbers(), table.c
    day: ColumnElement[int] = bindparam("day", type_=of_ids.day.type)
    if size:
        day = number_in("days", number, size)
    return select(
        bindparam("task", type_=of_ids.task.type).label("task"),
        day.label("day"),
        part_of("ids", number, _ID_SIZE).label("report_id"),
    ).where(number >= 0)  # without WHERE, SQLite parses ON CONFLICT as a join's ON


def _inserting(
    table: Table, size: int
) -> Callable[[Callable[[Table], Insert]], ReturningInsert[Any]]:
    """Return the builder of the statement that inserts ids."""

    def inserting(insert: Callable[[Table], Insert]) -> ReturningInsert[Any]:
        of_ids = table.c
        columns = [of_ids.task, of_ids.day, of_ids.report_id]
        each = _each(table, size)
        statement = insert(table).from_select(columns, each, include_defaults=False)
        return statement.on_conflict_do_nothing().returning(of_ids.day, of_ids.report_id)

    return inserting


def _looking(
    table: Table, size: int, *columns: Column[Any]
) -> Callable[[Callable[[Table], Insert]], Select[Any]]:
    """Return the builder of the statement that looks columns up by ids; null where none is."""

    def looking(_insert: Callable[[Table], Insert]) -> Select[Any]:
        of_ids = table.c
        wanted = _each(table, size).subquery("wanted").c
        # Subqueries and no join: no plan then reads all of a task's ids.
        found = [
            select(each)
            .where(
                of_ids.task == wanted.task,
                of_ids.day == wanted.day,
                of_ids.report_id == wanted.report_id,
            )
            .scalar_subquery()
            for each in columns
        ]
        return select(wanted.day, wanted.report_id, *found)

    return looking


class Lookup:
    """Looks up what a table of ids has beside them, by many days and ids at once."""

    def __init__(self, table: Table, *columns: Column[Any]) -> None:
        """Look for these columns, the first of which is never null."""
        self._looking = _looking(table, _DIGITS, *columns)

    def rows(
        self, tx: Transaction, task: int, keys: Iterable[tuple[int, bytes]]
    ) -> list[Sequence[Any]]:
        """Return a row of day, id and columns for each of the keys that is there."""
        wanted = [_digits(day) + report_id for day, report_id in keys]
        if not wanted:
            return []
        values = _Dated(None, _DIGITS).values(task, wanted)
        return [row for row in tx.run(tx.prepared(self._looking), values) if row[2] is not None]


_TABLES = (tables.report_ids, tables.aggregated_reports)
_SIZES = (0, _DIGITS)
_INSERTING = {(table.name, size): _inserting(table, size) for table in _TABLES for size in _SIZES}
_LOOKING = {
    (table.name, size): _looking(table, size, table.c.day) for table in _TABLES for size in _SIZES
}
