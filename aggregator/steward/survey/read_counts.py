"""What was read from the columns of a question, for a person who must see a wrong column."""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction

from aggregator.client.survey.answers import Answer
from aggregator.client.survey.numbers import Grid
from aggregator.client.table_files.cells import CellError

TEXT_AND_NUMBER = ("text", "number")
"""What the columns of a text question hold that asks for a number, too."""

_MOST_FREQUENT = 5
_MOST_KEPT = 100_000


@dataclasses.dataclass(slots=True)
class Seen:
    """What some cells are, and in how many rows: an answer, none, or a fault."""

    answer: Answer | None = None
    given: object = None
    fault: CellError | None = None
    is_clipped: bool = False
    count: int = 0


@dataclasses.dataclass(slots=True)
class ReadCounts:
    """What was read of one question.

    Attributes:
        columns: The columns that it was read from.
        parts: What each of several columns holds, such as a label; in the order of the columns.
        answers: How many rows have an answer.
        missing: How many have none.
        halves: How many of these have only one of the text and the number that are asked for, or
            text and no answer by which it is counted.
        clipped: How many numbers beyond the range count as the nearest.
        by: The question by whose answers text is counted; empty if by none.
        ranges: The least and the largest number, as the table has it, by the name of a vector's
            column, or under "" for another question; empty if there are no numbers.
    """

    columns: Sequence[str]
    parts: Sequence[str] = ()
    answers: int = 0
    missing: int = 0
    halves: int = 0
    clipped: int = 0
    by: str = ""
    ranges: dict[str, tuple[Fraction, Fraction]] = dataclasses.field(default_factory=dict)
    _often: Counter[str] = dataclasses.field(default_factory=Counter)

    def add(self, found: Iterable[Seen]) -> None:
        """Count what was seen."""
        for seen in found:
            if seen.answer is None:
                self.missing += seen.count
                continue
            self.answers += seen.count
            self.clipped += seen.count if seen.is_clipped else 0
            self._add(seen.given, seen.count)

    def add_text(self, written: str, *, counts: bool = True) -> None:
        """Count what a person wrote, or that it is nothing, or does not count."""
        if not written or not counts:
            self.missing += 1
            self.halves += bool(written)
            return
        self.answers += 1
        self._often_wrote(written)

    def add_amount(self, written: str, value: Fraction | None, grid: Grid) -> None:
        """Count what a person wrote and the number beside it; one alone is no answer."""
        if not written or value is None:
            self.missing += 1
            self.halves += bool(written) or value is not None
            return
        self.answers += 1
        self.clipped += not grid.low <= value <= grid.high
        self._add(value, 1)
        self._often_wrote(written)

    def _often_wrote(self, written: str) -> None:
        if written in self._often or len(self._often) < _MOST_KEPT:
            self._often[written] += 1

    @property
    def frequent(self) -> list[tuple[str, int]]:
        """The most frequent labels or texts, and in how many rows each is."""
        return self._often.most_common(_MOST_FREQUENT)

    def _add(self, given: object, count: int, name: str = "") -> None:
        match given:
            case bool():
                self._often["yes" if given else "no"] += count
            case str():
                self._often[given] += count
            case Fraction():
                least, largest = self.ranges.get(name, (given, given))
                self.ranges[name] = min(least, given), max(largest, given)
            case dict():
                for of, each in given.items():
                    self._add(each, count, of)
            case [*labels]:
                for label in labels or ["(none of them)"]:
                    self._add(label, count)
            case _:
                pass
