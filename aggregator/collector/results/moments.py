"""Means and variances of what was reported, from noised sums and the public number of reports."""

import dataclasses
from fractions import Fraction
from functools import cached_property

from typing_extensions import override

from aggregator.collector.results.intervals import Bound, ConfidenceInterval
from aggregator.collector.results.moments_of_some import VarianceOfSome
from aggregator.collector.results.sums import check_confidence
from aggregator.collector.results.values import (
    Exact,
    Noised,
    Quantity,
    Source,
    check_noised,
    rational,
)
from aggregator.dp.decimals import integer_in
from aggregator.dp.utility import DEFAULT_CONFIDENCE
from aggregator.errors import ParameterError


def mean(sum_of_reports: Noised, report_count: int, *, label: str = "", unit: str = "") -> Noised:
    """Return the mean of the reports; their number is public, so this is an exact multiple.

    Raises `ParameterError` if there is no report.
    """
    check_noised(sum_of_reports)
    integer_in(report_count, "report_count", 1, None)
    return (sum_of_reports / report_count).named(
        label or sum_of_reports.label, unit or sum_of_reports.unit
    )


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Variance(Quantity):
    """The variance of what was reported: the mean of squares less the square of the mean.

    It is that of the people who reported, divided by their number and not by one less.

    Attributes:
        sum_of_reports: The noised sum.
        sum_of_squares: The noised sum of squares.
        report_count: How many reports.
        least: The least that a report can be, if that is known.
        most: The most.
        unit: The square of the reports'.
    """

    sum_of_reports: Noised
    sum_of_squares: Noised
    report_count: int
    least: Exact | None = None
    most: Exact | None = None

    def __post_init__(self) -> None:
        check_noised(self.sum_of_reports, self.sum_of_squares)
        integer_in(self.report_count, "report_count", 1, None)
        if self.least is not None and self.most is not None and self.least > self.most:
            raise ParameterError(f"least: {self.least} is above the most, {self.most}")

    @property
    @override
    def estimate(self) -> Fraction:
        """The variance of the noised moments, cut where no variance can be."""
        found = self.of_all.estimate
        assert found is not None  # noqa: S101  there are reports
        return found

    @override
    def sources(self) -> frozenset[Source]:
        return self.sum_of_reports.sources() | self.sum_of_squares.sources()

    @property
    @override
    def limits(self) -> tuple[Bound, Bound]:
        return self.of_all.limits

    @override
    def interval(self, confidence: Fraction = DEFAULT_CONFIDENCE) -> ConfidenceInterval:
        if self.least is not None and self.least == self.most:
            check_confidence(confidence)
            return ConfidenceInterval(Fraction(0), Fraction(0), confidence, "all reports are equal")
        return self.of_all.interval(confidence)

    @cached_property
    def of_all(self) -> VarianceOfSome:
        """The same of numbers counted from the least, given by a number of people without noise."""
        least = rational(self.least or 0)
        count, sum_ = self.report_count, self.sum_of_reports
        most = None
        if self.least is not None and self.most is not None:
            most = rational(self.most) - least or None
        return VarianceOfSome(
            Noised.exact(count),
            sum_ - least * count,
            self.sum_of_squares - 2 * least * sum_ + least**2 * count,
            most,
        )
