"""Two groups or two periods: what can be concluded about their difference, and what cannot."""

import dataclasses
from collections.abc import Sequence
from fractions import Fraction

from typing_extensions import override

from aggregator.collector.results.differences import difference
from aggregator.collector.results.intervals import ConfidenceInterval
from aggregator.collector.results.values import Quantity, joint_intervals
from aggregator.dp.utility import DEFAULT_CONFIDENCE

ONLY_NOISE = (
    "This is about those who reported: whether it would hold for others is a question of sampling, "
    "which no interval here answers."
)


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """The difference of two values by their labels, first minus second, and what it says.

    The estimate is None if one of the values has none.
    """

    first: str
    second: str
    unit: str
    estimate: Fraction | None
    interval: ConfidenceInterval

    @property
    def is_larger(self) -> bool | None:
        """Whether the first is larger; None if that cannot be concluded."""
        if self.interval.low > 0:
            return True
        return False if self.interval.high < 0 else None

    @property
    def can_be_concluded(self) -> str:
        """What the interval says, as a sentence."""
        at = f"at {_number(100 * self.interval.confidence)} % confidence"
        if self.interval.jointly > 1:
            at += f" for all {self.interval.jointly} comparisons at once"
        low, high = self._measure(self.interval.low), self._measure(self.interval.high)
        if self.is_larger is None:
            return f"{self.first} less {self.second} is from {low} to {high}, {at}."
        larger, smaller = self.first, self.second
        least, most = low, high
        if not self.is_larger:
            larger, smaller = smaller, larger
            least, most = self._measure(-self.interval.high), self._measure(-self.interval.low)
        return f"{larger} is larger than {smaller}, by {least} to {most}, {at}."

    @property
    def cannot_be_concluded(self) -> str:
        """What must not be concluded from it, as a sentence."""
        if self.is_larger is None and self.interval.is_bounded:
            most = self._measure(max(-self.interval.low, self.interval.high))
            return (
                f"Which of the two is larger cannot be concluded, nor that they are equal: they "
                f"may differ by as much as {most}. {ONLY_NOISE}"
            )
        if self.is_larger is None:
            return f"Nothing can be concluded of the difference. {ONLY_NOISE}"
        return ONLY_NOISE

    @override
    def __str__(self) -> str:
        return f"{self.can_be_concluded} {self.cannot_be_concluded}"

    def _measure(self, value: Fraction | float) -> str:
        return f"{_number(value)} {self.unit}".rstrip()


def compare(
    first: Quantity, second: Quantity, confidence: Fraction = DEFAULT_CONFIDENCE
) -> Comparison:
    """Compare two quantities.

    The difference of two noised values has an interval by the exact law of its noise, and so has
    the part of ratios, variances and quantiles that is linear in the noise. The rest is bounded
    term by term, which is wider and named as such; see `differences`.
    """
    (comparison,) = compare_all([(first, second)], confidence)
    return comparison


def compare_all(
    pairs: Sequence[tuple[Quantity, Quantity]], confidence: Fraction = DEFAULT_CONFIDENCE
) -> list[Comparison]:
    """Compare pairs so that all conclusions hold at once.

    Raises `ParameterError` if there are no pairs, or the confidence is out of its range.
    """
    differences = [difference(first, second) for first, second in pairs]
    intervals = joint_intervals(differences, confidence)
    return [
        Comparison(first.label, second.label, first.unit, value.estimate, interval)
        for (first, second), value, interval in zip(pairs, differences, intervals, strict=True)
    ]


def _number(value: Fraction | float) -> str:
    return f"{float(value):.6g}"
