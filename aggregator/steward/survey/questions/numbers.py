"""Questions that are answered with one number."""

import itertools
from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

from pydantic import Field, model_validator
from typing_extensions import override

from aggregator.collector.results import Noised, Quantile, Variance, combination
from aggregator.steward.survey.cells import AnswerError, Cell, Reading, label, number, shown, step
from aggregator.steward.survey.designs import Answer, Design, Figure
from aggregator.steward.survey.exact import Exact, Grid
from aggregator.steward.survey.questions.base import (
    MAX_LABELS,
    Question,
    as_text,
    bin_of,
    check_labels,
    counts,
    first,
    grid_of,
    range_labels,
    sum_and_mean,
)
from aggregator.vdaf.circuits.measurements import Measurement
from aggregator.vdaf.instances import HISTOGRAM, SUM, SUM_VEC

_QUARTILES = (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4))
_PERCENT = 100
_MOST_BINS = 1000
"""A number with more possible values is not asked for by a histogram of them."""


class Number(Question):
    """A number on a grid: its sum and mean, and its variance if that is asked for.

    Attributes:
        low: The least possible.
        high: The largest possible.
        step: What possible numbers lie apart; others are rounded to the nearest.
        unit: In what it is measured.
        clip: Whether a number beyond the range counts as the nearest in it, or is refused.
        variance: Whether squares are added up, too.
    """

    kind: Literal["number"]
    low: Exact
    high: Exact
    step: Exact = Fraction(1)
    unit: str = ""
    clip: bool = False
    variance: bool = False

    @model_validator(mode="after")
    def _check(self) -> "Number":
        _ = self.grid
        return self

    @property
    def grid(self) -> Grid:
        """The possible numbers."""
        return grid_of(self.low, self.high, self.step)

    @override
    def read(self, cells: Sequence[Cell], decimal_mark: str = ".") -> Reading:
        steps, is_clipped = step(cells[0], self.grid, decimal_mark, clips=self.clip)
        return Reading((steps,), is_clipped)

    @override
    def designs(self) -> tuple[Design, ...]:
        steps = self.grid.steps
        histogram = Design("histogram", HISTOGRAM, {"length": steps + 1}, first, self._of_histogram)
        histograms = (histogram,) if steps < _MOST_BINS else ()
        if not self.variance:
            return Design("sum", SUM, {"max_measurement": steps}, first, self._of_sum), *histograms

        # Both entries reach steps^2, so neither pays for the other's range.
        def moments(answer: Answer) -> Measurement:
            return [answer[0] * steps, answer[0] ** 2]

        def figures(values: Sequence[Noised], reports: int) -> list[Figure]:
            return self._of_moments(values[0] / steps, values[1], reports)

        parameters = {"length": 2, "max_measurement": steps**2}
        return Design("sum and squares", SUM_VEC, parameters, moments, figures), *histograms

    def _of_sum(self, values: Sequence[Noised], reports: int) -> list[Figure]:
        return sum_and_mean(values[0] * self.step + self.low * reports, reports, self.unit)

    def _of_histogram(self, values: Sequence[Noised], reports: int) -> list[Figure]:
        steps = combination((value, index) for index, value in enumerate(values))
        if not self.variance:
            return self._of_sum([steps], reports)
        squares = combination((value, index**2) for index, value in enumerate(values))
        return self._of_moments(steps, squares, reports)

    def _of_moments(self, steps: Noised, squares: Noised, reports: int) -> list[Figure]:
        figures = self._of_sum([steps], reports)
        if not reports:
            return figures
        unit = f"{self.unit}²" if self.unit else ""
        # A variance is the same wherever one counts from, so here from the least number.
        variance = Variance(
            steps * self.step,
            squares * self.step**2,
            reports,
            least=0,
            most=self.grid.steps * self.step,
            unit=unit,
        )
        return [*figures, Figure("variance", variance)]


class Bins(Question):
    """In which of some bins a number lies: counts and quantiles.

    Attributes:
        edges: In ascending order; a bin holds its lower edge, and the last one its upper, too.
        unit: In what they are measured.
        clip: Whether a number beyond the edges counts in the nearest bin, or is refused.
        quantiles: Which: 1/2 is the median.
    """

    kind: Literal["bins"]
    edges: tuple[Exact, ...] = Field(strict=False)
    unit: str = ""
    clip: bool = False
    quantiles: tuple[Exact, ...] = Field(default=_QUARTILES, strict=False)

    @model_validator(mode="after")
    def _check(self) -> "Bins":
        if not 3 <= len(self.edges) <= MAX_LABELS:  # noqa: PLR2004 - those of two bins
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

    @property
    def labels(self) -> tuple[str, ...]:
        """What the bins are called."""
        return tuple(range_labels(self.edges))

    @override
    def read(self, cells: Sequence[Cell], decimal_mark: str = ".") -> Reading:
        return bin_of(cells[0], self.edges, decimal_mark, clips=self.clip)

    @override
    def designs(self) -> tuple[Design, ...]:
        return (
            Design("histogram", HISTOGRAM, {"length": len(self.edges) - 1}, first, self._figures),
        )

    def _figures(self, values: Sequence[Noised], reports: int) -> list[Figure]:
        figures = counts(values, self.labels, reports)
        for part in self.quantiles if reports else ():
            name = "median" if part == Fraction(1, 2) else f"{float(part * _PERCENT):.6g} %"
            quantile = Quantile(values, self.edges, part, reports, label=name, unit=self.unit)
            figures.append(Figure("quantile", quantile))
        return figures


class Scale(Question):
    """A whole number of a scale such as 1 to 5: how often each, and the mean.

    Attributes:
        low: Its first point.
        high: Its last.
        labels: What the points are called, if they have other names than their numbers.
    """

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

    @property
    def points(self) -> tuple[str, ...]:
        """What the points are called."""
        return self.labels or tuple(str(point) for point in range(self.low, self.high + 1))

    @override
    def read(self, cells: Sequence[Cell], decimal_mark: str = ".") -> Reading:
        (cell,) = cells
        if self.labels and isinstance(cell, str) and cell.strip() in self.labels:
            return Reading((label(cell, self.labels),))
        value = number(cell, decimal_mark)
        if value.denominator != 1 or not self.low <= value <= self.high:
            raise AnswerError(
                f"must be a whole number from {self.low} to {self.high}, not {shown(cell)}"
            )
        return Reading((int(value) - self.low,))

    @override
    def designs(self) -> tuple[Design, ...]:
        return (Design("histogram", HISTOGRAM, {"length": len(self.points)}, first, self._figures),)

    def _figures(self, values: Sequence[Noised], reports: int) -> list[Figure]:
        above = combination((value, index) for index, value in enumerate(values))
        mean = sum_and_mean(above + self.low * reports, reports, "")
        return counts(values, self.points, reports) + mean
