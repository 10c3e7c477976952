"""What an operator does with permits: adds lists of them, replaces some, ends windows, counts."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from sqlalchemy import Table, bindparam, delete, func, select, update
from sqlalchemy.sql.dml import ReturningInsert

from aggregator.errors import ParameterError
from aggregator.protocol.permit_lists import PermitList, Replacements, WindowList
from aggregator.protocol.permits import SIZE, Permits
from aggregator.protocol.task_file import permits_in
from aggregator.service.storage.engine import locks, tables
from aggregator.service.storage.engine.backends import Conflict, Insert
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.joined_values import numbers, part_of
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.reports.permits import Domain, find_domain, replaced, windows_of

ROWS_PER_STEP = 5_000
_GIVEN, _SPENT = tables.permits.c, tables.spent_permits.c


class Added(NamedTuple):
    """How many permits of a list are new, and how many are of windows that were ended."""

    new: int
    ended: int


def add_permits(database: Database, permits: PermitList) -> Added:
    """Add a list, in short transactions; adding it again changes nothing.

    Raises:
        ParameterError: No task here has its domain, or an issuer signs its permits.
        Conflict: An entry counts in another window already; those before it are added.
    """
    database.read_sync("find domain", partial(check_listed, domain=permits.domain))
    new = ended = 0
    for window, entries in permits.windows.items():
        for start in range(0, len(entries), ROWS_PER_STEP):
            some = entries[start : start + ROWS_PER_STEP]
            adding = partial(_add, domain=permits.domain, window=window, entries=some)
            added = database.run_sync("add permits", adding)
            new += added or 0
            ended += len(some) if added is None else 0
    return Added(new, ended)


def _add(tx: Transaction, domain: bytes, window: int, entries: Sequence[bytes]) -> int | None:
    """Add entries of one window; return how many are new, None if the window was ended."""
    locks.change_permits(tx, domain)
    found = _domain_here(tx, domain)
    if window < found.first_window:
        return None
    values = {"domain": found.key, "window": window, "count": len(entries)}
    rows = tx.run(tx.prepared(_adding), {**values, "entries": b"".join(entries)})
    if len(rows) < len(entries):
        _check_of(tx, window, windows_of(tx, found.key, entries).values())
    return len(rows)


def _check_of(tx: Transaction, window: int, listed: Iterable[int]) -> None:
    """Refuse entries that are in another window here: an id would count in each."""
    others = {*listed} - {window, replaced(window)}
    if others:
        raise tx.refuse(
            Conflict(f"permits: an entry of window {window} is in another window here already")
        )


def _adding(insert: Callable[[Table], Insert]) -> ReturningInsert[Any]:
    number = numbers()
    each = select(
        bindparam("domain", type_=_GIVEN.domain.type),
        part_of("entries", number, SIZE),
        bindparam("window", type_=_GIVEN.window.type),
    ).where(number >= 0)  # without WHERE, SQLite parses ON CONFLICT as a join's ON
    columns = [_GIVEN.domain, _GIVEN.entry, _GIVEN.window]
    statement = insert(tables.permits).from_select(columns, each, include_defaults=False)
    return statement.on_conflict_do_nothing().returning(_GIVEN.entry)


def replace_permits(database: Database, pairs: Replacements) -> Replacements:
    """Let new permits count in place of others that nobody has spent; return those replaced.

    A permit that is spent here stays, and the new one does not count, nor does it in place of any
    other. So at most one of a pair ever counts at an aggregator, and both must count it. An old one
    never counts again, even if a list with it is added later.

    Raises:
        ParameterError: No task here has their domain, or an issuer signs its permits.
        Conflict: An entry is in another window already.
    """
    database.read_sync("find domain", partial(check_listed, domain=pairs.domain))
    done = {
        window: database.run_sync(
            "replace permits",
            partial(_replace, domain=pairs.domain, window=window, pairs=some),
        )
        for window, some in pairs.windows.items()
    }
    return Replacements(pairs.domain, {window: some for window, some in done.items() if some})


def _replace(
    tx: Transaction, domain: bytes, window: int, pairs: Sequence[tuple[bytes, bytes]]
) -> list[tuple[bytes, bytes]]:
    locks.change_permits(tx, domain)  # nothing is spent meanwhile
    found = _domain_here(tx, domain)
    if window < found.first_window:
        return []
    entry_of = Permits(domain).entry
    spent = {entry_of(report_id) for report_id in _spent_in(tx, found, window)}
    refused = {new for old, new in pairs if old in spent}
    done = [(old, new) for old, new in pairs if new not in refused]
    both = [each for pair in done for each in pair]
    _check_of(tx, window, windows_of(tx, found.key, both).values())
    if done:
        # Not deleted: a list with the old ones may be added again, or late.
        olds = [{"domain": found.key, "entry": old, "window": replaced(window)} for old, _ in done]
        tx.run(tx.prepared(_revoking), *olds)
        news = sorted({new for _, new in done})
        values = {"domain": found.key, "window": window, "count": len(news)}
        tx.run(tx.prepared(_adding), {**values, "entries": b"".join(news)})
    return done


def _revoking(insert: Callable[[Table], Insert]) -> Insert:
    statement = insert(tables.permits)
    return statement.on_conflict_do_update(
        index_elements=["domain", "entry"], set_={"window": statement.excluded.window}
    )


def _spent_in(tx: Transaction, domain: Domain, window: int) -> Iterator[bytes]:
    query = select(_SPENT.report_id).where(_SPENT.domain == domain.key, _SPENT.window == window)
    for report_id in tx.connection.execute(query).scalars():
        yield bytes(report_id)


def end_permits(database: Database, domain: bytes, first_window: int) -> int:
    """Let no permit of a window before `first_window` count, and delete them, given and spent.

    Returns how many rows there were. If it is interrupted, call it again. Raises `ParameterError`
    if no task here has the domain.
    """
    database.run_sync("end permits", lambda tx: _end(tx, domain, first_window))
    gone = 0
    while deleted := database.run_sync("delete permits", lambda tx: _delete_spent(tx, domain)):
        gone += deleted
    after: bytes | None = b""
    while after is not None:
        deleting = partial(_delete_given, domain=domain, after=after)
        deleted, after = database.run_sync("delete permits", deleting)
        gone += deleted
    return gone


def _end(tx: Transaction, domain: bytes, first_window: int) -> None:
    """Refuse the windows, in a transaction before those that forget what was spent in them."""
    locks.change_permits(tx, domain)
    found = _domain_here(tx, domain)
    first = max(found.first_window, first_window)
    row = tables.permit_domains
    tx.connection.execute(update(row).where(row.c.id == found.key).values(first_window=first))


def _delete_spent(tx: Transaction, domain: bytes) -> int:
    """Delete some spent permits of windows that were ended: one range of their key."""
    found = _domain_here(tx, domain)
    ended = (_SPENT.domain == found.key, _SPENT.window < found.first_window)
    in_order = select(_SPENT.window, _SPENT.report_id).where(*ended).order_by(*_SPENT_KEY)
    last = tx.connection.execute(in_order.offset(ROWS_PER_STEP - 1).limit(1)).one_or_none()
    some = delete(tables.spent_permits).where(*ended)
    if last is not None:
        is_before = _SPENT.window < last.window
        is_there = (_SPENT.window == last.window) & (_SPENT.report_id <= last.report_id)
        some = some.where(is_before | is_there)
    return tx.connection.execute(some).rowcount


_SPENT_KEY = (_SPENT.window, _SPENT.report_id)


def _delete_given(tx: Transaction, domain: bytes, after: bytes) -> tuple[int, bytes | None]:
    """Delete those among the next entries whose windows were ended; return where to go on."""
    found = _domain_here(tx, domain)
    left = (_GIVEN.domain == found.key, _GIVEN.entry > after)
    query = select(_GIVEN.entry).where(*left).order_by(_GIVEN.entry)
    last = tx.connection.execute(query.offset(ROWS_PER_STEP - 1).limit(1)).scalar()
    some = left if last is None else (*left, _GIVEN.entry <= last)
    of_ended = _GIVEN.window.between(replaced(found.first_window - 1), found.first_window - 1)
    ended = delete(tables.permits).where(*some, of_ended)
    return tx.connection.execute(ended).rowcount, None if last is None else bytes(last)


@dataclasses.dataclass(frozen=True, slots=True)
class WindowCount:
    """A window's permits: how many are given out, a digest of their list, how many are spent."""

    window: int
    given: int
    digest: str
    spent: int


def count_permits(tx: Transaction, domain: bytes, since: int = 0) -> list[WindowCount]:
    """Return the counts of all windows with permits, in order, from the one numbered `since` on.

    Raises `ParameterError` if no task here has the domain.
    """
    found = _domain_here(tx, domain)
    first = max(found.first_window, min(since, 2**63 - 1))  # a peer may ask for any
    lists: dict[int, WindowList] = {}
    query = (
        select(_GIVEN.entry, _GIVEN.window)
        .where(_GIVEN.domain == found.key, _GIVEN.window >= first)
        .order_by(_GIVEN.entry)
        .execution_options(yield_per=ROWS_PER_STEP)
    )
    for entry, window in tx.connection.execute(query):
        if window not in lists:
            lists[window] = WindowList(domain, window)
        lists[window].add(bytes(entry))
    of_window = select(_SPENT.window, func.count()).where(
        _SPENT.domain == found.key, _SPENT.window >= first
    )
    rows = tx.connection.execute(of_window.group_by(_SPENT.window))
    spent = {int(window): int(count) for window, count in rows}
    for window in spent.keys() - lists.keys():
        lists[window] = WindowList(domain, window)
    return [
        WindowCount(window, given.count, given.digest, spent.get(window, 0))
        for window, given in sorted(lists.items())
    ]


def _domain_here(tx: Transaction, domain: bytes) -> Domain:
    """Return a domain that tasks here have, or raise `ParameterError`."""
    found = find_domain(tx, domain)
    if found is None:
        raise ParameterError(
            "permits: no task here has their domain; add the task first, with `prio task add`"
        )
    return found


def check_listed(tx: Transaction, domain: bytes) -> None:
    """Refuse a domain that no task here has, or whose tasks all count signed permits."""
    tasks = tables.tasks.c
    of_domain = select(tasks.definition).where(
        tasks.permit_domain == _domain_here(tx, domain).key, tasks.forgotten_at.is_(None)
    )
    found = tx.connection.execute(of_domain).scalars().all()
    if all(each.is_signed for each in map(permits_in, found) if each is not None):
        raise ParameterError(
            "permits: an issuer signs those of their domain, so no list of them has an effect here"
        )
