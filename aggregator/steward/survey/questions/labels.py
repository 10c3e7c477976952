"""Questions that are answered with labels: one, some, or yes and no."""

from collections.abc import Sequence
from typing import Literal

from pydantic import Field, model_validator
from typing_extensions import override

from aggregator.steward.survey.cells import AnswerError, Cell, Reading, label, shown, text
from aggregator.steward.survey.designs import Design
from aggregator.steward.survey.questions.base import Question, check_labels, counts

_YES_AND_NO = ("yes", "no")
_YES = frozenset({"yes", "true", "1"})
_NO = frozenset({"no", "false", "0"})


class Choice(Question):
    """One label out of several."""

    kind: Literal["choice"]
    labels: tuple[str, ...] = Field(strict=False)

    @model_validator(mode="after")
    def _check(self) -> "Choice":
        check_labels(self.labels)
        return self

    @property
    @override
    def choices(self) -> tuple[str, ...]:
        return self.labels

    @override
    def read(self, cells: Sequence[Cell], decimal_mark: str = ".") -> Reading:
        return Reading((label(cells[0], self.labels),))

    @override
    def designs(self) -> tuple[Design, ...]:
        return (self.labelled("one answer", self.labels),)


class Multiple(Question):
    """Several labels out of a list.

    Attributes:
        labels: All labels.
        at_most: How many labels one person may choose; all unless given.
        separator: What separates the labels in one cell of text.
        nothing: A cell's text for choosing none of them; an empty cell is a missing answer.
    """

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
        if self.nothing in self.labels:
            raise ValueError(f"nothing: {self.nothing!r} is one of the labels")
        return self

    @property
    @override
    def choices(self) -> tuple[str, ...]:
        return self.labels

    @override
    def read(self, cells: Sequence[Cell], decimal_mark: str = ".") -> Reading:
        (cell,) = cells
        if isinstance(cell, Sequence) and not isinstance(cell, str):
            chosen = [text(each) for each in cell]
        elif text(cell) == self.nothing:
            chosen = []
        else:
            chosen = [each.strip() for each in text(cell).split(self.separator)]
        places = {label(each, self.labels) for each in chosen}
        if len(places) != len(chosen):
            raise AnswerError(f"names a label twice: {shown(text(cell))}")
        if self.at_most is not None and len(places) > self.at_most:
            raise AnswerError(f"must be at most {self.at_most} labels, not {len(places)}")
        return Reading(tuple(sorted(places)))

    @override
    def designs(self) -> tuple[Design, ...]:
        name = "several answers"
        return (Design(name, self.as_asked(name), lambda sums: counts(sums, self.labels)),)


class YesNo(Question):
    """Yes or no; true, false, 1 and 0 are understood as well."""

    kind: Literal["yes-no"]

    @property
    @override
    def choices(self) -> tuple[str, ...]:
        return _YES_AND_NO

    @override
    def read(self, cells: Sequence[Cell], decimal_mark: str = ".") -> Reading:
        written = text(cells[0]).lower()
        if written not in _YES | _NO:
            raise AnswerError(f"must be yes or no, not {shown(cells[0])}")
        return Reading((int(written in _NO),))

    @override
    def designs(self) -> tuple[Design, ...]:
        return (self.labelled("one answer", _YES_AND_NO),)
