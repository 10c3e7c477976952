"""What every question has and does."""

import bisect
import itertools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction

from pydantic import BaseModel, ConfigDict, Field

from aggregator.collector.results import Noised, mean
from aggregator.errors import ParameterError
from aggregator.steward.survey.cells import AnswerError, Cell, Reading, number, shown
from aggregator.steward.survey.designs import Answer, Design, Figure
from aggregator.steward.survey.exact import Grid
from aggregator.vdaf.circuits.measurements import Measurement

MAX_LABELS = 100_000
MAY_HAVE_LINES = frozenset({"text"})
"""Members of a question that may be more than one line of text."""

_PERCENT = 100


class Question(BaseModel, ABC):
    """What every question has.

    Attributes:
        name: In files, commands and results.
        text: The question as people are asked it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$")
    text: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a table of answers that it is read from, unless others are named."""
        return (self.name,)

    @abstractmethod
    def read(self, cells: Sequence[Cell], decimal_mark: str = ".") -> Reading:
        """Return the answer in some cells, none of which is missing.

        Args:
            cells: One for each of `columns`.
            decimal_mark: "." or ",", in numbers that are text.

        Raises:
            AnswerError: There is no answer in them; the message says what would be one.
        """

    @abstractmethod
    def designs(self) -> tuple[Design, ...]:
        """Return every way to ask it, the simplest first."""

    def design(self, name: str) -> Design:
        """Return the design of this name.

        Raises:
            ParameterError: The question has none of this name.
        """
        for design in self.designs():
            if design.name == name:
                return design
        names = ", ".join(design.name for design in self.designs())
        raise ParameterError(f"question {self.name}: design: must be one of {names}, not {name!r}")


def grid_of(low: Fraction, high: Fraction, step: Fraction) -> Grid:
    """Return a grid.

    Raises:
        ValueError: There is none.
    """
    try:
        return Grid(low, high, step)
    except ParameterError as error:
        raise ValueError(str(error)) from None


def check_labels(labels: Sequence[str], least: int = 2) -> None:
    """Refuse labels that are too few, empty, or the same.

    Raises:
        ValueError: Names the label.
    """
    if not least <= len(labels) <= MAX_LABELS:
        raise ValueError(f"labels: from {least} to {MAX_LABELS:,} are possible, not {len(labels)}")
    if len(set(labels)) != len(labels):
        twice = next(label for label in labels if labels.count(label) > 1)
        raise ValueError(f"labels: {twice!r} is there twice")
    if not all(label.strip() for label in labels):
        raise ValueError("labels: one of them is empty")


def first(answer: Answer) -> Measurement:
    """Return the only number of an answer as the measurement."""
    return answer[0]


def counts(values: Sequence[Noised], labels: Sequence[str], reports: int) -> list[Figure]:
    """Return counts and shares by label."""
    named = [value.named(label) for value, label in zip(values, labels, strict=True)]
    return [Figure("count", value, is_wanted=True) for value in named] + shares(named, reports)


def shares(counts: Sequence[Noised], reports: int) -> list[Figure]:
    """Return what part of all reports each count is."""
    if not reports:
        return []
    return [
        Figure("share", (count * Fraction(_PERCENT, reports)).named(count.label, "%"))
        for count in counts
    ]


def sum_and_mean(sum_: Noised, reports: int, unit: str, label: str = "") -> list[Figure]:
    """Return a sum and the mean that belongs to it."""
    figures = [Figure("sum", sum_.named(label, unit))]
    if reports:
        figures.append(Figure("mean", mean(sum_, reports).named(label, unit), is_wanted=True))
    return figures


def bin_of(cell: Cell, edges: Sequence[Fraction], decimal_mark: str, *, clips: bool) -> Reading:
    """Return the bin in which a cell's number lies; the last one holds its upper edge, too.

    Raises:
        AnswerError: It holds no number, or one beyond the edges where none is clipped.
    """
    value = number(cell, decimal_mark)
    is_beyond = not edges[0] <= value <= edges[-1]
    if is_beyond and not clips:
        raise AnswerError(
            f"must be from {as_text(edges[0])} to {as_text(edges[-1])}, not {shown(cell)}; "
            "`clip = true` would take the nearest bin"
        )
    last = len(edges) - 2
    return Reading((min(max(bisect.bisect_right(edges, value) - 1, 0), last),), is_beyond)


def range_labels(edges: Sequence[Fraction]) -> list[str]:
    """Return what the ranges between edges are called, each with the edge that it has.

    They are display only: a task is bound to the edges.
    """
    *others, last = itertools.pairwise(edges)
    return [
        *(f"{as_text(low)} to under {as_text(high)}" for low, high in others),
        f"{as_text(last[0])} to {as_text(last[1])}",
    ]


def as_text(number: Fraction) -> str:
    """Return a number for a reader."""
    return str(number) if number.denominator == 1 else f"{float(number):.6g}"
