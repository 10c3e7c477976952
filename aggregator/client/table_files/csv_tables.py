"""Tables in CSV: lines of text, whatever separates the cells."""

import csv
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence

from aggregator.client.table_files.cells import CellError, text_cell
from aggregator.client.table_files.table import Line, Table, name_of
from aggregator.errors import ParameterError

DELIMITERS = ",;\t|"
"""What separates the cells of a line in files called CSV."""

_NO_LIMIT = 2**31 - 1
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
_SEPARATOR = re.compile(r'"?sep=(.)"?\r?\n?', re.IGNORECASE)
"""A line before that of names by which Excel knows the delimiter, and which it does not show."""
_MOST_KEPT = 100_000


def check_delimiter(delimiter: str) -> None:
    """Refuse a delimiter that cannot separate the cells of CSV."""
    if len(delimiter) != 1:
        raise ParameterError(f"delimiter: must be one character, not {delimiter!r}")
    if delimiter in '"\r\n\0':
        raise ParameterError(f"delimiter: {delimiter!r} cannot separate cells")


def csv_table(
    lines: Iterable[str], delimiter: str | None = None, source: str = "the table"
) -> Table:
    """Return the table in lines of CSV, which a file opened with `newline=""` has.

    The delimiter is by default the one that the line of names has most often outside quotes. Raises
    `CellError` if this is no CSV, and while iterating.
    """
    rest = iter(lines)
    first = next(rest, "")
    if found := _SEPARATOR.fullmatch(first):
        delimiter = found[1] if delimiter is None else delimiter
        first = next(rest, "")
    at = 1
    while first and not first.strip("\r\n"):
        at, first = at + 1, next(rest, "")
    head = _whole_row(first, rest)
    bare = _QUOTED.sub("", "".join(head))
    chosen = max(DELIMITERS, key=bare.count) if delimiter is None else delimiter
    # The limit is one of the module and not of a reader; columns that nobody reads may be long.
    csv.field_size_limit(_NO_LIMIT)
    rows = csv.reader(itertools.chain(head, rest), delimiter=chosen, strict=True)
    names = next(_rows(rows, source, at), (at, []))[1]
    return Table(
        source,
        [*map(name_of, names)],
        lambda places: _lines(rows, places, len(names), source, at + 1),
        _hint(names, bare, chosen),
    )


def _whole_row(first: str, rest: Iterator[str]) -> list[str]:
    """Return the lines of a row whose first is this; a line may break within quotation marks."""
    row = [first]
    is_open = first.count('"') % 2
    while is_open and (line := next(rest, "")):
        row.append(line)
        is_open ^= line.count('"') % 2
    return row


def _lines(
    rows: Iterator[list[str]], places: Sequence[int], width: int, source: str, first: int
) -> Iterator[Line]:
    cells = _Cells()
    for number, row in _rows(rows, source, first):
        if not row or (width > 1 and not any(map(str.strip, row))):
            continue  # an empty line, or a row that a spreadsheet has after the last one
        if len(row) != width:
            row = _of_width(row, width, f"{source}, line {number}")  # noqa: PLW2901  without what Excel adds
        yield number, [cells[row[place]] for place in places]
        if len(cells) > _MOST_KEPT:
            cells.clear()


def _of_width(row: list[str], width: int, place: str) -> list[str]:
    if len(row) > width and not any(row[width:]):
        return row[:width]
    names = "the line of names has none for the first" if len(row) == width + 1 else ""
    hint = f"; if {names}, as R writes it, add one" if names else ""
    raise CellError(f"{place}: has {len(row)} cells, not {width}{hint}")


class _Cells(dict[str, str | None]):
    """What texts say; most texts of a table recur."""

    def __missing__(self, text: str) -> str | None:
        self[text] = cell = text_cell(text)
        return cell


def _rows(
    rows: Iterator[list[str]], source: str, first: int = 1
) -> Iterator[tuple[int, list[str]]]:
    """Yield each row with its line: a spreadsheet shows lines within a cell as one."""
    number = first - 1
    try:
        for row in rows:
            number += 1
            yield number, row
    except csv.Error as error:
        raise CellError(
            f"{source}, line {number + 1}: not CSV: {error}; a quotation mark within quotation "
            "marks is written twice"
        ) from None


def _hint(names: Sequence[str], bare: str, delimiter: str) -> str:
    """Return a hint if the only column looks like several with another delimiter."""
    others = [each for each in DELIMITERS if each != delimiter and each in bare]
    if len(names) > 1 or not others:
        return ""
    return f"; is it separated by {others[0]!r} and not by {delimiter!r}?"
