"""Questions that are answered with labels: one, some, or yes and no."""

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field, model_validator
from typing_extensions import override

from aggregator.client.survey.alternatives import comparable
from aggregator.client.survey.answers import Answer
from aggregator.client.table_files.cells import Cell, CellError, Labelled, shown, text_cell
from aggregator.client.table_files.laws import truth_of, words_of
from aggregator.steward.survey.designs import Design
from aggregator.steward.survey.questions.base import (
    Question,
    Reading,
    check_ends,
    check_labels,
    counts,
)
from aggregator.steward.survey.questions.column_order import in_order
from aggregator.steward.survey.said import Own, Said

_CHOSEN = 2
"""How many labels a made-up answer has if several may be chosen."""
_TICKS = {
    **dict.fromkeys(("x", "✓", "✔", "☑", "☒", "checked", "selected"), True),
    **dict.fromkeys(("☐", "unchecked", "not checked", "not selected"), False),
}
"""What stands in the column of a label, besides truth values and the label itself."""


class Choice(Question):
    """One label out of several."""

    is_answered_by: ClassVar = "One answer from a list"
    planned_by: ClassVar = ("labels",)

    kind: Literal["choice"]
    labels: tuple[str, ...] = Field(strict=False)

    @model_validator(mode="after")
    def _check(self) -> "Choice":
        check_labels(self.labels)
        return self

    @override
    def designs(self) -> tuple[Design, ...]:
        return (self.labelled("one answer"),)


class Multiple(Question):
    """Several labels out of a list.

    Attributes:
        labels: All labels.
        at_most: How many labels one person may choose; all unless given.
        separator: What separates the labels in one cell of text.
        nothing: A cell's text for choosing none of them; an empty cell is a missing answer.
    """

    is_answered_by: ClassVar = "Several answers from a list"
    planned_by: ClassVar = ("labels", "at_most")

    kind: Literal["multiple"]
    labels: tuple[str, ...] = Field(strict=False)
    at_most: int | None = None
    separator: str = Field(default=";", min_length=1)
    nothing: str = Field(default="none", min_length=1)

    @model_validator(mode="after")
    def _check(self) -> "Multiple":
        check_labels(self.labels, least=1)
        if self.at_most is not None and not 1 <= self.at_most <= len(self.labels):
            raise ValueError(f"at_most: must be from 1 to {len(self.labels)}, not {self.at_most}")
        if any(self.separator in each for each in self.labels):
            raise ValueError(f"separator: {self.separator!r} is in one of the labels")
        check_ends("nothing", self.nothing)
        if comparable(self.nothing) in map(comparable, self.labels):
            raise ValueError(f"nothing: {self.nothing!r} is one of the labels")
        return self

    @property
    @override
    def parts(self) -> Sequence[str]:
        return self.labels

    @override
    def order(self, columns: Sequence[str]) -> Sequence[int]:
        if len(columns) == 1:
            return [0]
        if len(columns) != len(self.labels):
            raise CellError(
                f"{self.name}: is read from one column, or from {len(self.labels)}, one for each "
                f"label, and not from {len(columns)}"
            )
        unclear = [label for label in self.labels if truth_of(comparable(label), ".") is not None]
        if unclear:
            raise CellError(
                f"{self.name}: has the label {unclear[0]!r}, so that columns of each label would "
                "mean two things: give one column"
            )
        return in_order(self.name, columns, self.labels)

    @override
    def is_missing(self, cells: Sequence[Cell]) -> bool:
        return all(cell is None for cell in cells)

    @override
    def given(self, cells: Sequence[Cell], decimal_mark: str) -> object:
        if len(cells) > 1:
            each = zip(self.labels, cells, strict=True)
            return [label for label, cell in each if _is_chosen(label, cell, decimal_mark)]
        (cell,) = cells
        if isinstance(cell, tuple):
            return [self.label_in(each, decimal_mark) for each in cell]
        nothing = comparable(self.nothing)
        if nothing in words_of(cell, decimal_mark):
            return []
        word = self.label_in(cell, decimal_mark)
        if word is None or word in self.labels or not isinstance(cell, str):
            return [word]
        parts = [*filter(None, map(text_cell, cell.split(self.separator)))]
        if parts == [nothing]:
            return []
        found: list[str | None] = [self.label_in(each, decimal_mark) for each in parts]
        return found or [word]

    @override
    def read(self, cells: Sequence[Cell], decimal_mark: str = ".") -> Reading:
        try:
            return super().read(cells, decimal_mark)
        except CellError as error:
            (cell, *others) = cells
            is_list = isinstance(cell, str) and any(label in cell for label in self.labels)
            if others or not is_list:
                raise
            hint = f"; labels in one cell have {self.separator!r} between them"
            raise CellError(f"{error}{hint}") from None

    @override
    def designs(self) -> tuple[Design, ...]:
        name = "several answers"
        return (Design(name, self.client_question(name), lambda sums: counts(sums, self.labels)),)

    @override
    def made_up_answers(self) -> Sequence[Answer]:
        chosen = min(_CHOSEN, self.at_most or len(self.labels))
        places = range(len(self.labels))
        return [tuple(places[first : first + chosen]) for first in places]


class YesNo(Question):
    """Yes or no, as `truth_of` reads them: Y, N, true, false, 1, 0, ja, wahr and others."""

    is_answered_by: ClassVar = "Yes or no"

    kind: Literal["yes-no"]

    @property
    @override
    def options(self) -> Sequence[Own | Said]:
        return Said("yes"), Said("no")

    @override
    def given(self, cells: Sequence[Cell], decimal_mark: str) -> object:
        truth = truth_of(cells[0], decimal_mark)
        if truth is None and isinstance(cells[0], Labelled):
            raise CellError(
                f"must be yes or no, not {shown(cells[0])}: label the numbers yes and no"
            )
        return truth

    @override
    def designs(self) -> tuple[Design, ...]:
        return (self.labelled("one answer"),)


def _is_chosen(label: str, cell: Cell, decimal_mark: str) -> bool:
    """Return whether the cell in a label's own column says that the label was chosen."""
    if cell is None:
        return False
    words = words_of(cell, decimal_mark)
    if comparable(label) in words:
        return True
    ticks = [_TICKS[word.lower()] for word in words if word.lower() in _TICKS]
    chosen = ticks[0] if ticks else truth_of(cell, decimal_mark)
    if chosen is None and isinstance(cell, Labelled):
        # Whatever words say it, as quoted and not quoted: 1 is chosen.
        chosen = truth_of(cell.value, decimal_mark)
    if chosen is None:
        raise CellError(
            f"must be empty, yes or no, or {label!r} in the column of {label!r}, not {shown(cell)}"
        )
    return chosen
