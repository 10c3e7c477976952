"""Permits in the store: reports count whose permits are given out for their window, and not spent.

Whether a permit was signed is verified before the transaction; here it is only spent.

A permit is spent by the id of its report, in the transaction that stores or counts the report:
there is no other memory of the ids of such tasks. Ids are by window, which is sound since an entry
of a list counts in one window alone, and so does the id that it is a hash of; the id of a signed
permit says for which window it is.
"""

import dataclasses
import itertools
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

from sqlalchemy import Select, Table, bindparam, select
from sqlalchemy.sql.dml import ReturningInsert

from aggregator.dap.report_errors import ReportError
from aggregator.protocol.permits import MARK_SIZE, SIZE, Permits
from aggregator.service.storage.engine import locks, tables
from aggregator.service.storage.engine.backends import Insert
from aggregator.service.storage.engine.joined_values import numbers, part_of
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.reports.ids import Chosen, Room, choose

_GIVEN, _SPENT = tables.permits, tables.spent_permits
_IDS_PER_QUERY = 500
_DOMAIN = tables.permit_domains.c


class Domain(NamedTuple):
    """A domain: its key in the store, and the first window whose permits count."""

    key: int
    first_window: int


def find_domain(tx: Transaction, domain: bytes) -> Domain | None:
    """Return the domain of 32 bytes, if a task has it; whoever writes keeps its permits locked."""
    rows = tx.run(_FINDING, {"domain": domain})
    return Domain(*rows[0]) if rows else None


_FINDING = select(_DOMAIN.id, _DOMAIN.first_window).where(
    _DOMAIN.domain == bindparam("domain"), _DOMAIN.forgotten_at.is_(None)
)


@dataclasses.dataclass(frozen=True, slots=True)
class Presented:
    """Reports of one task, with what their permits are looked at for; see `ids.admit`.

    Attributes:
        arrivals: Each report's id, and the key of its bucket.
        marks: What tells each report from another one with the same permit (`mark_of`).
        window_of: Returns the number of a bucket's window.
        closed: The buckets that take no more reports.
        room: What is left for a bucket, for those with a limit; it is taken from.
        is_signed: Whether their permits were signed, and verified; otherwise they must be listed.
    """

    arrivals: Sequence[tuple[bytes, bytes]]
    marks: Sequence[bytes]
    window_of: Callable[[bytes], int]
    closed: Container[bytes]
    room: Mapping[bytes, Room]
    is_signed: bool = False


def spend(
    tx: Transaction, permits: Permits, presented: Sequence[Presented]
) -> list[list[ReportError | None]]:
    """Decide which reports count, and spend their permits, in the transaction that counts them.

    Args:
        tx: The transaction.
        permits: The permits of the tasks.
        presented: The reports of each task of the domain, all of this transaction: spent at once,
            in one order, two transactions with reports of several tasks never wait for each other.

    Returns:
        For each report of each task, why it does not count, or None. Of two with the same permit,
        the first counts.
    """
    locks.keep_permits(tx, permits.domain)
    domain = find_domain(tx, permits.domain)
    if domain is None:  # its tasks were forgotten
        return [[ReportError.PERMIT_UNKNOWN] * len(each.arrivals) for each in presented]
    entry_of = permits.entry
    entries = [
        [] if each.is_signed else [entry_of(report_id) for report_id, _ in each.arrivals]
        for each in presented
    ]
    given = windows_of(tx, domain.key, [*itertools.chain.from_iterable(entries)])
    tasks = [
        _OfTask.of(tx, domain, each, of_task, given)
        for each, of_task in zip(presented, entries, strict=True)
    ]
    rows: dict[tuple[int, bytes], bytes] = {}
    for each in tasks:
        for row, mark in each.rows():
            rows.setdefault(row, mark)
    fresh = _inserted(tx, domain, rows)
    return [each.outcomes(tx, domain, fresh) for each in tasks]


@dataclasses.dataclass(frozen=True, slots=True)
class _OfTask:
    """The reports of one task: why some have no permit of their window, and which others enter."""

    presented: Presented
    refused: Mapping[int, ReportError]
    windows: Mapping[bytes, int]
    places: Sequence[int]
    chosen: Chosen

    @classmethod
    def of(
        cls,
        tx: Transaction,
        domain: Domain,
        presented: Presented,
        entries: Sequence[bytes],
        given: Mapping[bytes, int],
    ) -> Self:
        """Choose among the reports of a task, with their entries and the windows of all given."""
        arrivals = presented.arrivals
        windows = {bucket: presented.window_of(bucket) for _, bucket in arrivals}
        in_order = [windows[bucket] for _, bucket in arrivals]
        listed = in_order if presented.is_signed else map(given.get, entries)
        refused: dict[int, ReportError] = {}
        for place, (window, found) in enumerate(zip(in_order, listed, strict=True)):
            if found != window or window < domain.first_window:
                is_known = (found is not None and found >= 0) or window < domain.first_window
                refused[place] = (
                    ReportError.PERMIT_OF_ANOTHER_WINDOW if is_known else ReportError.PERMIT_UNKNOWN
                )
        places: Sequence[int] = range(len(arrivals))
        if refused:
            places = [place for place in places if place not in refused]
            arrivals = [arrivals[place] for place in places]
        of_id = {report_id: windows[bucket] for report_id, bucket in arrivals}
        chosen = choose(
            arrivals,
            presented.closed,
            presented.room,
            lambda ids: {*_spent(tx, domain, {(of_id[each], each) for each in ids})},
        )
        return cls(presented, refused, windows, places, chosen)

    def rows(self) -> Iterable[tuple[tuple[int, bytes], bytes]]:
        """Yield what is to be spent, window and id, each with its mark."""
        chosen, marks = self.chosen, self.presented.marks
        for place, (report_id, bucket) in zip(self.places, chosen.arrivals, strict=True):
            if report_id in chosen.entering:
                yield (self.windows[bucket], report_id), marks[place]

    def outcomes(
        self, tx: Transaction, domain: Domain, fresh: set[bytes]
    ) -> list[ReportError | None]:
        """Return the outcomes of all reports; see `Chosen.outcomes`."""
        chosen = self.chosen
        mine = fresh & chosen.entering
        fresh -= mine
        errors = chosen.outcomes(mine)
        if ReportError.REPORT_REPLAYED in errors:
            errors = self._told_apart(tx, domain, errors)
        if not self.refused:
            return errors
        found: list[ReportError | None] = [None] * len(self.presented.arrivals)
        for place, error in zip(self.places, errors, strict=True):
            found[place] = error
        for place, error in self.refused.items():
            found[place] = error
        return found

    def _told_apart(
        self, tx: Transaction, domain: Domain, errors: Sequence[ReportError | None]
    ) -> list[ReportError | None]:
        """Tell reports that come again from others whose permit another report has spent."""
        arrivals, marks = self.chosen.arrivals, self.presented.marks
        seen = {
            (self.windows[bucket], report_id)
            for (report_id, bucket), error in zip(arrivals, errors, strict=True)
            if error is ReportError.REPORT_REPLAYED
        }
        spent = _spent(tx, domain, seen)
        return [
            ReportError.PERMIT_SPENT
            if error is ReportError.REPORT_REPLAYED and spent.get(report_id) != marks[place]
            else error
            for place, (report_id, _), error in zip(self.places, arrivals, errors, strict=True)
        ]


def replaced(window: int) -> int:
    """Return what a permit of a window has instead of it once another one has replaced it."""
    return -1 - window


def windows_of(tx: Transaction, domain: int, entries: Sequence[bytes]) -> dict[bytes, int]:
    """Return the windows of those entries that were given out, negative if they were `replaced`."""
    if not entries:
        return {}
    values = {"domain": domain, "count": len(entries), "entries": b"".join(entries)}
    looked_up = tx.run(tx.prepared(_looking), values)
    return {bytes(entry): window for entry, window in looked_up if window is not None}


def _looking(_insert: Callable[[Table], Insert]) -> Select[Any]:
    number, given = numbers(), _GIVEN.c
    wanted = select(part_of("entries", number, SIZE).label("entry")).subquery("wanted")
    # A subquery and no join: no plan then reads all of a domain's permits.
    window = select(given.window).where(
        given.domain == bindparam("domain", type_=given.domain.type), given.entry == wanted.c.entry
    )
    return select(wanted.c.entry, window.scalar_subquery())


def _inserted(
    tx: Transaction, domain: Domain, rows: Mapping[tuple[int, bytes], bytes]
) -> set[bytes]:
    """Spend permits, in sorted order; return the ids that were new."""
    if not rows:
        return set()
    found: set[bytes] = set()
    windows = sorted({window for window, _ in rows})
    for window in windows:
        ids = sorted(report_id for of, report_id in rows if of == window)
        values = {
            "domain": domain.key,
            "window": window,
            "count": len(ids),
            "ids": b"".join(ids),
            "marks": b"".join([rows[window, each] for each in ids]),
        }
        found.update(report_id for (report_id,) in tx.run(tx.prepared(_spending), values))
    return found


def _spending(insert: Callable[[Table], Insert]) -> ReturningInsert[Any]:
    spent, number = _SPENT.c, numbers()
    each = select(
        bindparam("domain", type_=spent.domain.type),
        bindparam("window", type_=spent.window.type),
        part_of("ids", number, SIZE),
        part_of("marks", number, MARK_SIZE),
    ).where(number >= 0)  # without WHERE, SQLite parses ON CONFLICT as a join's ON
    columns = [spent.domain, spent.window, spent.report_id, spent.mark]
    statement = insert(_SPENT).from_select(columns, each, include_defaults=False)
    return statement.on_conflict_do_nothing().returning(spent.report_id)


def _spent(
    tx: Transaction, domain: Domain, wanted: Iterable[tuple[int, bytes]]
) -> dict[bytes, bytes]:
    """Return the marks of spent permits, by their ids."""
    of_window: dict[int, list[bytes]] = {}
    for window, report_id in sorted(wanted):
        of_window.setdefault(window, []).append(report_id)
    found: dict[bytes, bytes] = {}
    for window, ids in of_window.items():
        for start in range(0, len(ids), _IDS_PER_QUERY):
            some = ids[start : start + _IDS_PER_QUERY]
            values = {"domain": domain.key, "window": window, "ids": some}
            for report_id, mark in tx.run(_LOOKING_AT_SPENT, values):
                found[bytes(report_id)] = bytes(mark)
    return found


_LOOKING_AT_SPENT = select(_SPENT.c.report_id, _SPENT.c.mark).where(
    _SPENT.c.domain == bindparam("domain"),
    _SPENT.c.window == bindparam("window"),
    _SPENT.c.report_id.in_(bindparam("ids", expanding=True)),
)
