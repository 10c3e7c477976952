"""Questions that are answered with labels: one, some, or yes and no."""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from pydantic import Field, model_validator
from typing_extensions import override

from aggregator.client.survey.alternatives import comparable
from aggregator.client.survey.answers import Answer
from aggregator.steward.survey.cells import Cell, text
from aggregator.steward.survey.designs import Design
from aggregator.steward.survey.questions.base import Question, check_ends, check_labels, counts

_CHOSEN = 2
"""How many labels a made-up answer has if several may be chosen."""


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

    @override
    def given(self, cells: Sequence[Cell], decimal_mark: str) -> object:
        (cell,) = cells
        if isinstance(cell, Sequence) and not isinstance(cell, str):
            return [text(each) for each in cell]
        if text(cell) == self.nothing:
            return []
        return [each.strip() for each in text(cell).split(self.separator)]

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
    """Yes or no; true, false, 1 and 0 are understood as well."""

    is_answered_by: ClassVar = "Yes or no"

    kind: Literal["yes-no"]

    @override
    def options(self, words: Mapping[str, str]) -> Sequence[str]:
        return words["yes"], words["no"]

    @override
    def designs(self) -> tuple[Design, ...]:
        return (self.labelled("one answer"),)
