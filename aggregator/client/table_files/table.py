"""A table as its file has it: named columns, of which only those that are asked for are read."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from aggregator.client.table_files.cells import Cell, CellError, cell_of
from aggregator.client.text.strings import composed

Line: TypeAlias = tuple[int, Sequence[Cell]]
"""A row's line, as a spreadsheet shows it: that of the names is 1. And its cells."""

_SHOWN = 40


@dataclasses.dataclass(frozen=True, slots=True)
class Table:
    """A table whose rows are read as they are iterated over, once.

    Attributes:
        source: The name of its file, for messages.
        names: Those of its columns, also if it has no rows; they may repeat.
        lines: Yields each row's line, and its cells in the columns at these places.
        hint: What is said besides if a column is not in the table.
    """

    source: str
    names: Sequence[str]
    lines: Callable[[Sequence[int]], Iterator[Line]]
    hint: str = ""

    @classmethod
    def of_rows(
        cls, names: Sequence[str], rows: Iterable[Sequence[object]], source: str = "the table"
    ) -> "Table":
        """Return the table of rows in memory, of values of Python or NumPy."""

        def lines(places: Sequence[int]) -> Iterator[Line]:
            for number, row in enumerate(rows, start=2):
                yield number, [cell_of(row[place]) for place in places]

        return cls(source, [*map(name_of, names)], lines)

    def read(self, columns: Sequence[str]) -> Iterator[Line]:
        """Yield each row's line, and its cells in some columns.

        Raises `CellError` at once if one is not there or is there twice, and while iterating for a
        line that is not as wide as the table.
        """
        return self.lines(self.places(columns))

    def has(self, name: str) -> bool:
        """Whether there is a column of this name."""
        return name_of(name) in self.names

    @property
    def said_names(self) -> str:
        """The names of columns for a message, which says if some have none, as below a title."""
        given = [*filter(None, self.names)]
        more = f" and {len(given) - _SHOWN} more" if len(given) > _SHOWN else ""
        unnamed = len(self.names) - len(given)
        title = "; if these are no names of columns, delete the lines above those that are"
        hint = f" and {unnamed} without names{title}" if unnamed else ""
        return f"{', '.join(given[:_SHOWN]) or 'none'}{more}{hint}"

    def places(self, columns: Sequence[str]) -> list[int]:
        """Return the places of columns, or raise `CellError`."""
        absent = [name for name in dict.fromkeys(columns) if not self.has(name)]
        if absent:
            plural = "s" if len(absent) > 1 else ""
            raise CellError(
                f"column{plural} {', '.join(map(repr, absent))}: not in {self.source}, which has "
                f"{self.said_names}{self.hint}"
            )
        return [self._place(name_of(name)) for name in columns]

    def _place(self, name: str) -> int:
        found = [place for place, each in enumerate(self.names) if each == name]
        if len(found) > 1:
            at = " and ".join(letters(place) for place in found)
            raise CellError(
                f"column {name!r}: {self.source} has it {len(found)} times, as columns {at}; "
                "rename the one to read"
            )
        return found[0]


def name_of(text: str) -> str:
    """Return a column's name, in NFC: any white space in it is one blank, as people see it."""
    return composed(" ".join(text.split()))


def letters(place: int) -> str:
    """Return what a spreadsheet calls a column: A for the first, and AA after Z."""
    called = ""
    place += 1
    while place:
        place, last = divmod(place - 1, 26)
        called = chr(ord("A") + last) + called
    return called
