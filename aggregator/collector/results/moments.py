"""Means and variances of what was reported, from noised sums and the public number of reports."""

import dataclasses
from fractions import Fraction

from typing_extensions import override

from aggregator.collector.results.intervals import NO_UPPER, ConfidenceInterval
from aggregator.collector.results.sums import check_confidence
from aggregator.collector.results.values import (
    Exact,
    LinearPart,
    Noised,
    Quantity,
    Source,
    check_noised,
    rational,
)
from aggregator.dp.decimals import integer_in
from aggregator.dp.utility import DEFAULT_CONFIDENCE
from aggregator.errors import ParameterError

_MISS_OF_MEAN = Fraction(1, 40)
"""The part of the miss that is set aside, twice, for the noise of the mean."""

_PIECES = 4
"""Into how many pieces the possible means are split: more pieces leave a smaller rest."""

_LITTLE = Fraction(1, 8)
"""One piece is enough if the rest is at most this part of the width."""


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

    With m the true mean, X and Y the noise of the mean of squares and of the mean, what is known of
    the true variance is (mean of squares - 2 m mean) + m^2 = variance + X - 2 m Y. Its noise is
    beyond a width w(m) with the probability of the miss. At any c it is found exactly, and
    |X - 2 m Y| <= |X - 2 c Y| + 2 |m - c| |Y|. That |Y| = |mean - m| is below a bound is set aside
    from the miss, for the means that are possible and for w(m): each piece of them has a c of its
    own. Numbers from a to b of mean m have no variance above (b - m) (m - a).

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
        return max(Fraction(0), min([self._centre, *self._largest()]))

    @override
    def sources(self) -> frozenset[Source]:
        return self.sum_of_reports.sources() | self.sum_of_squares.sources()

    @override
    def interval(self, confidence: Fraction = DEFAULT_CONFIDENCE) -> ConfidenceInterval:
        check_confidence(confidence)
        aside = _MISS_OF_MEAN * (1 - confidence)
        average = self.sum_of_reports / self.report_count
        furthest = average.law.width(1 - aside).size
        half, rest, pieces = self._pieces(average, furthest, confidence + 2 * aside)
        highest, found = Fraction(0), list[tuple[Fraction, Fraction]]()
        for centre, width in pieces:
            # It is width around the noised variance, and (m - mean)^2 above.
            apart = [abs(centre + end - average.value) for end in (-half, half)]
            is_inside = centre - half <= average.value <= centre + half
            nearest = Fraction(0) if is_inside else min(apart)
            low = max(Fraction(0), self._centre - width - rest + nearest**2)
            most = self._largest(centre - half, centre + half)
            high = min([self._centre + width + rest + max(apart) ** 2, *most])
            highest = max(highest, high)
            if low <= high:  # otherwise the mean is not in this piece
                found.append((low, high))
        low = min((low for low, _ in found), default=highest)
        high = max((high for _, high in found), default=highest)
        method = "exact law at possible means, with a bound of the rest"
        return ConfidenceInterval(low, high, confidence, method)

    @override
    def linear_part(self, aside: Fraction) -> LinearPart:
        """Return what is linear in the noise.

        The noised variance less the true one is X - 2 m Y - Y^2; see the class.
        """
        average = self.sum_of_reports / self.report_count
        furthest = average.law.width(1 - aside).size
        noise = self.sum_of_squares / self.report_count - average * (2 * average.value)
        # Of the truth's limits one event, of the width's one.
        return LinearPart(
            dataclasses.replace(noise, value=self._centre),
            3 * furthest**2,
            asides=2,
            low=Fraction(0),
            high=min(self._largest(), default=NO_UPPER),
        )

    @property
    def _centre(self) -> Fraction:
        average = self.sum_of_reports.value / self.report_count
        return self.sum_of_squares.value / self.report_count - average**2

    def _pieces(
        self, average: Noised, furthest: Fraction, confidence: Fraction
    ) -> tuple[Fraction, Fraction, list[tuple[Fraction, Fraction]]]:
        """Return half of a piece, the rest, and each piece's c with its width: one piece if it can.

        How many pieces there are may depend on the noise: each width holds for whatever mean.
        """
        first, last = self._means(average.value, furthest)

        def divided(pieces: int) -> tuple[Fraction, list[tuple[Fraction, Fraction]]]:
            half = (last - first) / (2 * pieces)
            centres = [first + (2 * piece + 1) * half for piece in range(pieces)]
            squares = self.sum_of_squares / self.report_count
            laws = [(squares - average * (2 * centre)).law for centre in centres]
            return half, [
                (c, law.width(confidence).size) for c, law in zip(centres, laws, strict=True)
            ]

        half, found = divided(1)
        if 2 * half * furthest > _LITTLE * found[0][1]:
            half, found = divided(_PIECES)
        return half, 2 * half * furthest, found

    def _means(self, mean: Fraction, furthest: Fraction) -> tuple[Fraction, Fraction]:
        """Return the least and the largest possible mean."""
        first, last = mean - furthest, mean + furthest
        if self.least is not None:
            first, last = (max(each, rational(self.least)) for each in (first, last))
        if self.most is not None:
            first, last = (min(each, rational(self.most)) for each in (first, last))
        return first, last

    def _largest(self, *means: Fraction) -> list[Fraction]:
        """Return the largest variance of reports with a mean between two, any unless given.

        Empty if it has no limit.
        """
        if self.least is None or self.most is None:
            return []
        low, high = rational(self.least), rational(self.most)
        middle = (low + high) / 2
        if means:
            middle = min(max(middle, means[0]), means[-1])
        return [(high - middle) * (middle - low)]
