"""A question that is answered with several numbers at once."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from typing_extensions import override

from aggregator.collector.results import Noised
from aggregator.steward.survey.cells import AnswerError, Cell, Reading, step
from aggregator.steward.survey.designs import Answer, Design, Figure
from aggregator.steward.survey.exact import Exact, Grid
from aggregator.steward.survey.questions.base import Question, grid_of, sum_and_mean
from aggregator.vdaf.circuits.measurements import Measurement
from aggregator.vdaf.instances import SUM_VEC

_MOST_LOST = Fraction(1, 50)
_MOST_FINER = 64


class Column(BaseModel):
    """One column of a vector, with a range of its own.

    Attributes:
        name: What it is called, here and in tables of answers.
        low: The least possible number.
        high: The largest.
        step: What possible numbers lie apart.
        unit: In what it is measured.
        clip: Whether a number beyond the range counts as the nearest in it, or is refused.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str = Field(min_length=1)
    low: Exact = Fraction(0)
    high: Exact
    step: Exact = Fraction(1)
    unit: str = ""
    clip: bool = False

    @model_validator(mode="after")
    def _check(self) -> "Column":
        _ = self.grid
        return self

    @property
    def grid(self) -> Grid:
        """The possible numbers."""
        return grid_of(self.low, self.high, self.step)


class Vector(Question):
    """Several numbers of one person, each with a range of its own: their sums and means.

    Each column is multiplied by a whole number that takes its range to nearly the largest, so that
    its noise is in proportion to its own range and nothing is rounded.

    Attributes:
        entries: The columns, as `[[question.column]]`.
    """

    kind: Literal["vector"]
    entries: tuple[Column, ...] = Field(alias="column", strict=False, min_length=1)

    @model_validator(mode="after")
    def _check(self) -> "Vector":
        if len({entry.name for entry in self.entries}) != len(self.entries):
            raise ValueError("column: two have the same name")
        return self

    @property
    @override
    def columns(self) -> tuple[str, ...]:
        return tuple(entry.name for entry in self.entries)

    @override
    def read(self, cells: Sequence[Cell], decimal_mark: str = ".") -> Reading:
        steps, is_clipped = list[int](), False
        for entry, cell in zip(self.entries, cells, strict=True):
            try:
                steps_of_entry, was = step(cell, entry.grid, decimal_mark, clips=entry.clip)
            except AnswerError as error:
                raise AnswerError(f"{entry.name}: {error}") from None
            steps.append(steps_of_entry)
            is_clipped |= was
        return Reading(tuple(steps), is_clipped)

    @override
    def designs(self) -> tuple[Design, ...]:
        most, factors = _scaled([entry.grid.steps for entry in self.entries])

        def measurement(answer: Answer) -> Measurement:
            return [number * factor for number, factor in zip(answer, factors, strict=True)]

        def figures(values: Sequence[Noised], reports: int) -> list[Figure]:
            return [
                figure
                for value, factor, entry in zip(values, factors, self.entries, strict=True)
                for figure in sum_and_mean(
                    value * (entry.step / factor) + entry.low * reports,
                    reports,
                    entry.unit,
                    entry.name,
                )
            ]

        parameters = {"length": len(factors), "max_measurement": most}
        return (Design("scaled vector", SUM_VEC, parameters, measurement, figures),)


def _scaled(ranges: Sequence[int]) -> tuple[int, list[int]]:
    """Return the largest entry, and by what whole number to multiply each column.

    A range that divides the largest badly would end at little more than its half, so all may be
    made finer until none loses more than a fiftieth.
    """
    finer = 1
    while True:
        most = max(ranges) * finer
        factors = [most // each for each in ranges]
        lost = max(
            1 - Fraction(each * factor, most) for each, factor in zip(ranges, factors, strict=True)
        )
        if lost <= _MOST_LOST or finer == _MOST_FINER:
            return most, factors
        finer *= 2
