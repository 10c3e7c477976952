"""Questions that are answered with one number."""

import dataclasses
import itertools
from collections.abc import Sequence
from fractions import Fraction
from typing import ClassVar, Literal

from pydantic import Field, model_validator
from typing_extensions import override

from aggregator.client.survey.answers import Answer
from aggregator.client.survey.numbers import as_text
from aggregator.client.table_files.cells import Cell, CellError, Labelled, shown
from aggregator.client.table_files.laws import number_of, words_of
from aggregator.collector.results import Noised, Quantile, VarianceOfSome, combination
from aggregator.steward.survey.designs import NO_ANSWER, Design, Figure, Sums
from aggregator.steward.survey.exact import Exact
from aggregator.steward.survey.questions.base import (
    MAX_LABELS,
    NumberField,
    Question,
    answered,
    check_labels,
    counts,
    spread_over,
    sum_and_mean,
)
from aggregator.steward.survey.questions.on_grid import OnGrid
from aggregator.steward.survey.said import Own, Said

_QUARTILES = (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4))
_PERCENT = 100
_MOST_BINS = 1000
"""The most possible values of a number that is asked with a histogram."""


class Number(OnGrid, Question):
    """A number on a grid: its sum and mean, and its variance if that is asked for.

    Attributes:
        variance: Whether squares are added up as well.
    """

    is_answered_by: ClassVar = "A number: its mean"
    planned_by: ClassVar = ("low", "high", "step", "unit")

    kind: Literal["number"]
    variance: bool = False

    @override
    def given(self, cells: Sequence[Cell], decimal_mark: str) -> object:
        return number_of(cells[0], decimal_mark)

    @override
    def designs(self) -> tuple[Design, ...]:
        steps = self.grid.steps
        name = "sum and squares" if self.variance else "sum"
        usual = tuple(self.made_up_answers())
        moments = Design(name, self.client_question(name), self._of_moments, usual)
        if steps >= _MOST_BINS:
            return (moments,)
        names = [as_text(self.grid.low + index * self.grid.step) for index in range(steps + 1)]
        histogram = self.labelled("histogram", self._of_histogram, names)
        return moments, dataclasses.replace(histogram, usual=usual)

    @override
    def crossed_designs(self) -> tuple[Design, ...]:
        return self.designs()[:1]

    @property
    @override
    def number_fields(self) -> Sequence[NumberField]:
        return (NumberField(self.grid, self.unit),)

    @override
    def made_up_answers(self) -> Sequence[Answer]:
        return spread_over([self.grid.steps])

    def _of_moments(self, sums: Sums) -> list[Figure]:
        people, nobody, *moments = sums.best
        figures = self.moments(people, moments, sums.reports)
        return [*figures, Figure("count", nobody.named(NO_ANSWER))]

    def _of_histogram(self, sums: Sums) -> list[Figure]:
        *values, nobody = sums.best
        powers = range(1, 3 if self.variance else 2)
        moments = [
            combination((value, index**power) for index, value in enumerate(values))
            for power in powers
        ]
        people = combination((value, 1) for value in values)
        figures = self.moments(people, moments, sums.reports)
        return [*figures, Figure("count", nobody.named(NO_ANSWER))]

    def moments(
        self, people: Noised, moments: Sequence[Noised], reports: int, group: str = ""
    ) -> list[Figure]:
        """Return what moments show, for numbers counted in steps from the least.

        Of `reports`, those of `people` gave a number; the moments are the sum and, for the
        variance, the sum of squares. A group is named if these are not all people.
        """
        count = Figure("count", people.named("answered"), group=group)
        sum_ = moments[0] * self.step + people * self.low
        within = self.low, self.high
        figures = [count, *sum_and_mean(sum_, people, within, reports, self.unit, group=group)]
        if len(moments) == 1:
            return figures
        unit = f"{self.unit}²" if self.unit else ""
        # A variance is the same whatever the origin, so count from the least number.
        variance = VarianceOfSome(
            people,
            moments[0] * self.step,
            moments[1] * self.step**2,
            most=self.grid.steps * self.step,
            unit=unit,
        )
        most = (self.high - self.low) ** 2 / 4
        return [*figures, Figure("variance", variance, group=group, range=most)]


class Bins(Question):
    """In which of several bins a number lies: counts and quantiles.

    Attributes:
        edges: In ascending order; a bin includes its lower edge, the last bin its upper edge, too.
        unit: The unit of the edges.
        clip: Whether a number beyond the edges counts in the nearest bin; otherwise it is refused.
        quantiles: Which quantiles: 1/2 is the median.
    """

    is_answered_by: ClassVar = "A number: in which range"
    planned_by: ClassVar = ("edges", "unit")

    kind: Literal["bins"]
    edges: tuple[Exact, ...] = Field(strict=False)
    unit: str = ""
    clip: bool = False
    quantiles: tuple[Exact, ...] = Field(default=_QUARTILES, strict=False)

    @model_validator(mode="after")
    def _check(self) -> "Bins":
        if not 3 <= len(self.edges) <= MAX_LABELS:  # noqa: PLR2004 - the edges of two bins
            raise ValueError(f"edges: must be at least 3, those of two bins, not {len(self.edges)}")
        if any(low >= high for low, high in itertools.pairwise(self.edges)):
            raise ValueError("edges: must be in ascending order")
        for part in self.quantiles:
            if not 0 < part <= 1:
                raise ValueError(
                    'quantiles: must be above 0 and at most 1, as "1/2" is the median, '
                    f"not {as_text(part)}"
                )
        return self

    @override
    def given(self, cells: Sequence[Cell], decimal_mark: str) -> object:
        # A table may have the range in place of the number, as results and synthetic rows do.
        edge = dict(zip(self.choices, self.edges, strict=False)).get(
            self.label_in(cells[0], decimal_mark) or ""
        )
        return number_of(cells[0], decimal_mark) if edge is None else edge

    @override
    def designs(self) -> tuple[Design, ...]:
        design = self.labelled("histogram", self._counts_and_quantiles)
        return (dataclasses.replace(design, usual=tuple((j,) for j in range(len(design.labels)))),)

    @property
    @override
    def options(self) -> Sequence[Own | Said]:
        ranges = itertools.pairwise(map(as_text, self.edges))
        words = [*["range"] * (len(self.edges) - 2), "range_last"]
        return [
            Said(word, {"low": low, "high": high}, self.unit)
            for word, (low, high) in zip(words, ranges, strict=True)
        ]

    def _counts_and_quantiles(self, sums: Sums) -> list[Figure]:
        figures = counts(sums, self.choices)
        for part in self.quantiles:
            name = "median" if part == Fraction(1, 2) else f"{float(part * _PERCENT):.6g} %"
            # Use the released values: a quantile needs bins with independent noise.
            quantile = Quantile(sums.released[:-1], self.edges, part, label=name, unit=self.unit)
            span = self.edges[-1] - self.edges[0]
            figures.append(Figure("quantile", quantile, range=span))
        return figures


class Scale(Question):
    """A point on a scale of whole numbers, such as 1 to 5: how often each, and the mean.

    Attributes:
        low: The first point.
        high: The last point.
        labels: The names of the points, if they are not their numbers.
    """

    is_answered_by: ClassVar = "A scale, such as 1 to 5"
    planned_by: ClassVar = ("low", "high")

    kind: Literal["scale"]
    low: int = 1
    high: int
    labels: tuple[str, ...] = Field(default=(), strict=False)

    @model_validator(mode="after")
    def _check(self) -> "Scale":
        points = self.high - self.low + 1
        if not 2 <= points <= MAX_LABELS:  # noqa: PLR2004 - one point is no scale
            raise ValueError(f"high: a scale has from 2 to {MAX_LABELS:,} points, not {points}")
        if self.labels:
            check_labels(self.labels)
            if len(self.labels) != points:
                raise ValueError(
                    f"labels: must be {points}, one for each point, not {len(self.labels)}"
                )
        return self

    @override
    def given(self, cells: Sequence[Cell], decimal_mark: str) -> object:
        label = self.label_in(cells[0], decimal_mark)
        if label in self.labels:
            return label
        is_other = isinstance(cells[0], Labelled) and label not in words_of(
            cells[0].value, decimal_mark
        )
        if self.labels and is_other:
            # Its numbers may run the other way, as German marks do, of which 1 is the best.
            raise CellError(
                f"must be one of {', '.join(map(repr, self.labels))}, not {shown(cells[0])}: label "
                "the numbers as the survey does, or not at all"
            )
        try:
            return number_of(cells[0], decimal_mark)
        except CellError:
            return None

    @property
    @override
    def options(self) -> Sequence[Own | Said]:
        points = range(self.low, self.high + 1)
        return (
            super().options if self.labels else [Said("", {"number": str(each)}) for each in points]
        )

    @override
    def designs(self) -> tuple[Design, ...]:
        return (self.labelled("histogram", self._counts_and_mean),)

    def _counts_and_mean(self, sums: Sums) -> list[Figure]:
        mean = self.of_counts(sums.best[:-1], answered(sums), sums.reports)
        return [*counts(sums, self.choices), *mean]

    @override
    def of_counts(
        self, values: Sequence[Noised], people: Noised, reports: int, group: str = ""
    ) -> list[Figure]:
        places = enumerate(values, start=self.low)
        total = combination((value, point) for point, value in places)
        within = Fraction(self.low), Fraction(self.high)
        return sum_and_mean(total, people, within, reports, group=group)
