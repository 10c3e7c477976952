"""Means and variances of what was reported, from noised sums and the public number of reports."""

import dataclasses
from fractions import Fraction

from typing_extensions import override

from aggregator.collector.results.intervals import ConfidenceInterval
from aggregator.collector.results.sums import check_confidence
from aggregator.collector.results.values import Noised, Quantity, Source, check_noised
from aggregator.dp.decimals import integer_in
from aggregator.protocol.results import DEFAULT_CONFIDENCE

_ASIDE = Fraction(1, 40)
"""The part of the miss that is set aside, twice, for the noise of the mean."""


def mean(sum_of_reports: Noised, report_count: int, *, label: str = "", unit: str = "") -> Noised:
    """Return the mean of the reports; their number is public, so this is an exact multiple.

    Raises:
        ParameterError: There is no report.
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

    With m the true mean, X and Y the noise of the mean of squares and of the mean, what is known of
    the true variance is (mean of squares - 2 m mean) + m^2 = variance + X - 2 m Y. Its noise is
    beyond a width w(m) with the probability of the miss. At the noised mean c it is found
    exactly, and |X - 2 m Y| <= |X - 2 c Y| + 2 |m - c| |Y|, where |m - c| = |Y| is bounded as
    well: the two allowances are set aside from the miss.

    Attributes:
        sum_of_reports: The noised sum.
        sum_of_squares: The noised sum of squares.
        report_count: How many reports.
        unit: The square of the reports'.
    """

    sum_of_reports: Noised
    sum_of_squares: Noised
    report_count: int

    def __post_init__(self) -> None:
        check_noised(self.sum_of_reports, self.sum_of_squares)
        integer_in(self.report_count, "report_count", 1, None)

    @property
    @override
    def estimate(self) -> Fraction:
        """The variance of the noised moments, 0 if that is negative."""
        return max(Fraction(0), self._centre)

    @override
    def sources(self) -> frozenset[Source]:
        return self.sum_of_reports.sources() | self.sum_of_squares.sources()

    @override
    def interval(self, confidence: Fraction = DEFAULT_CONFIDENCE) -> ConfidenceInterval:
        check_confidence(confidence)
        aside = _ASIDE * (1 - confidence)
        average = self.sum_of_reports / self.report_count
        furthest = average.law.width(1 - aside).size
        tangent = self.sum_of_squares / self.report_count - average * (2 * average.value)
        width = tangent.law.width(confidence + 2 * aside).size + 2 * furthest**2
        # The square of the mean is seen with that of its noise in it, at most furthest^2.
        interval = ConfidenceInterval(
            self._centre - width,
            self._centre + width + furthest**2,
            confidence,
            "exact law at the noised mean, with a bound of the rest",
        )
        return interval.within(0, max(Fraction(0), self._centre + width + furthest**2))

    @property
    def _centre(self) -> Fraction:
        average = self.sum_of_reports.value / self.report_count
        return self.sum_of_squares.value / self.report_count - average**2
