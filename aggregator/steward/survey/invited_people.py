"""The people of a table, for a mail merge, and the windows for which they are invited."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Final

from aggregator.client.table_files.cells import Cell, CellError, Labelled, plain, shown
from aggregator.client.table_files.table import Table
from aggregator.errors import ParameterError
from aggregator.protocol.task import Task
from aggregator.steward.survey.invitations import Windows
from aggregator.written_times import IN_UTC

MADE: Final = ("number", "code", "link")
"""The columns that are added."""

_WINDOWS: Final = "windows"


def people_in(
    table: Table, task: Task, windows: Windows
) -> tuple[list[dict[str, str]], list[Windows]]:
    """Return the rows of a table as text, and the windows of each person.

    A row's cell in the column "windows", such as 2026-11-02..2026-11-30 (the end is not included),
    says for which windows its person is invited; for all of `windows` if it is empty. Names of
    columns may be in any case.

    Raises `ParameterError` for a table without people, or a cell that cannot be read.
    """
    named = {name.casefold(): name for name in table.names}  # as programs for mail merges tell them
    for name in MADE:
        if name in named:
            raise ParameterError(
                f"people: the column {name!r} is made by this command: rename {named[name]!r} in "
                "the table"
            )
    if sum(name.casefold() == _WINDOWS for name in table.names) > 1:
        raise ParameterError(f"people: {_WINDOWS}: there are several such columns")
    rows, invited = [], []
    for line, cells in table.read(table.names):
        row = dict(zip(table.names, map(_text, cells), strict=True))
        try:
            within = row.pop(named[_WINDOWS]) if _WINDOWS in named else ""
            invited.append(_windows(within, task, windows))
        except ParameterError as error:
            raise CellError(f"line {line}: {_WINDOWS}: {error}") from None
        rows.append(row)
    if not rows:
        raise ParameterError("people: the table has no row")
    return rows, invited


def windows_between(task: Task, start: int, end: int) -> Windows:
    """Return the windows of times from `start` until before `end`, in seconds since the epoch."""
    if start >= end:
        raise ParameterError(f"must end after {IN_UTC.moment(start)}, when it begins")
    first, last = (task.permit_window_at(task.time(each)) for each in (start, end - 1))
    return first, last


def _windows(text: str, task: Task, every: Windows) -> Windows:
    if not text:
        return every
    start, dots, end = text.partition("..")
    if not dots:
        raise ParameterError("must be two days, such as 2026-11-02..2026-11-30")
    first, last = windows_between(
        task, IN_UTC.read(start.strip(), "its begin"), IN_UTC.read(end.strip(), "its end")
    )
    within = max(first, every[0]), min(last, every[1])
    if within[0] > within[1]:
        raise ParameterError("has none of the windows for which links are made")
    return within


def _text(cell: Cell) -> str:
    match cell:
        case None:
            return ""
        case str():
            return cell
        case Decimal():
            return plain(cell)
        case datetime():
            return cell.isoformat()
        case Labelled():
            return cell.label
        case _:
            raise CellError(f"a cell is {shown(cell)}, which a mail merge cannot have")


def repeated(rows: Sequence[dict[str, str]]) -> int:
    """Return how many rows are like one before, perhaps of one person; empty ones are not."""
    said = [tuple(row.items()) for row in rows if any(row.values())]
    return len(said) - len({*said})


def columns_of(rows: Sequence[dict[str, str]]) -> list[str]:
    """Return the columns of a mail merge."""
    return [*(rows[0] if rows else ()), *MADE]
