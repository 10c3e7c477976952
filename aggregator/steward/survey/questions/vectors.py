"""A question that is answered with several numbers at once."""

from collections.abc import Sequence
from fractions import Fraction
from typing import ClassVar, Literal

from pydantic import Field, model_validator
from typing_extensions import override

from aggregator.client.survey.alternatives import comparable
from aggregator.client.survey.answers import Answer
from aggregator.client.table_files.cells import Cell, CellError
from aggregator.client.table_files.laws import number_of
from aggregator.steward.survey.designs import NO_ANSWER, Design, Figure, Sums
from aggregator.steward.survey.exact import Exact
from aggregator.steward.survey.questions.base import (
    NumberField,
    Question,
    check_ends,
    spread_over,
    sum_and_mean,
)
from aggregator.steward.survey.questions.column_order import in_order
from aggregator.steward.survey.questions.on_grid import OnGrid


class Column(OnGrid):
    """One column of a vector, with its own range.

    Attributes:
        name: Its name, here and in tables of answers.
    """

    name: str = Field(min_length=1)
    low: Exact = Fraction(0)


class Vector(Question):
    """Several numbers of one person, each with its own range: their sums and means.

    Each column is its own section, whose noise is in proportion to the column's range. A person who
    leaves a column out has given no answer.

    Attributes:
        entries: The columns, as `[[question.column]]`.
    """

    is_answered_by: ClassVar = "Several numbers at once"
    planned_by: ClassVar = ("columns",)

    kind: Literal["vector"]
    entries: tuple[Column, ...] = Field(alias="column", strict=False, min_length=1)

    @model_validator(mode="after")
    def _check(self) -> "Vector":
        for entry in self.entries:
            check_ends("column: name", entry.name)
        if len({comparable(entry.name) for entry in self.entries}) != len(self.entries):
            raise ValueError("column: two have the same name")
        return self

    @property
    @override
    def columns(self) -> tuple[str, ...]:
        return tuple(entry.name for entry in self.entries)

    @override
    def order(self, columns: Sequence[str]) -> Sequence[int]:
        super().order(columns)
        return in_order(self.name, columns, self.columns)

    @override
    def given(self, cells: Sequence[Cell], decimal_mark: str) -> object:
        numbers = dict[str, Fraction]()
        for entry, cell in zip(self.entries, cells, strict=True):
            try:
                numbers[entry.name] = number_of(cell, decimal_mark)
            except CellError as error:
                raise CellError(f"{entry.name}: {error}") from None
        return numbers

    @override
    def designs(self) -> tuple[Design, ...]:
        steps = [entry.grid.steps for entry in self.entries]

        def figures(sums: Sums) -> list[Figure]:
            people, nobody, *numbers = sums.best
            found = [Figure("count", people.named("answered"))]
            for value, entry in zip(numbers, self.entries, strict=True):
                sum_ = value * entry.step + people * entry.low
                within = entry.low, entry.high
                found += sum_and_mean(sum_, people, within, sums.reports, entry.unit, entry.name)
            return [*found, Figure("count", nobody.named(NO_ANSWER))]

        extremes = (tuple(0 for _ in steps), tuple(steps))
        return (Design("sums", self.client_question("sums"), figures, extremes),)

    @property
    @override
    def number_fields(self) -> Sequence[NumberField]:
        return [NumberField(each.grid, each.unit, each.name) for each in self.entries]

    @override
    def made_up_answers(self) -> Sequence[Answer]:
        return spread_over([entry.grid.steps for entry in self.entries])
