"""Intervals of values that are shown only because they are large.

A noised count that passed a threshold did so with the help of its noise more often than not, so the
usual interval covers the true count less often than it says. Two that do cover:

- `Selected`, for one released value: by the law of its noise given that the value passed. The
  truths that are not ruled out are those under which a value so far up, or so far down, has at
  least half the miss.
- `after_selection`, for any values and any rule: Bonferroni over all that could have been shown.

`Withheld` stands in the place of a value that did not pass.
"""

import dataclasses
from collections.abc import Sequence
from fractions import Fraction
from typing import Never, NoReturn

from typing_extensions import override

from aggregator.collector.results.intervals import NO_UPPER, Bound, ConfidenceInterval
from aggregator.collector.results.sums import check_confidence
from aggregator.collector.results.values import (
    Exact,
    Noised,
    Quantity,
    Source,
    check_noised,
    not_noised,
    rational,
)
from aggregator.dp.certified import Enclosed, Enclosure, is_positive
from aggregator.dp.laws import NoiseLaw
from aggregator.dp.search import least
from aggregator.dp.utility import DEFAULT_CONFIDENCE
from aggregator.errors import ParameterError


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Selected(Quantity):
    """A released value that is shown because it is above a threshold, or an exact multiple of it.

    It can be multiplied and divided by exact numbers; sums are refused, as their law given that all
    values passed is not known (`after_selection` serves them).

    The laws of all mechanisms are log-concave, so a larger truth makes larger values likelier also
    among those that pass, and the truths that are not ruled out have no gaps.

    Attributes:
        released: One value as it was released, with its noise.
        threshold: It is above this; smaller ones were not shown.
        least: The least that the true value can be; a count is at least 0.
        most: The most that it can be; None if there is no such limit.
        factor: The factor by which all of these are multiplied.
    """

    released: Noised
    threshold: int
    least: int = 0
    most: int | None = None
    factor: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        check_noised(self.released)
        if list(self.released.terms.values()) != [1] or self.released.value.denominator != 1:
            raise ParameterError(
                "Selected: a threshold chooses single released values; of values calculated from "
                "them use `after_selection`"
            )
        if self.released.value <= self.threshold:
            raise ParameterError(
                f"Selected: {self.released.value} is not above the threshold {self.threshold}"
            )

    @property
    @override
    def estimate(self) -> Fraction:
        """The released value: given that it is shown, more often too large than too small."""
        return self.released.value * self.factor

    @override
    def sources(self) -> frozenset[Source]:
        return self.released.sources()

    @override
    def interval(self, confidence: Fraction = DEFAULT_CONFIDENCE) -> ConfidenceInterval:
        """Return an interval by the law of the noise given that the value passed.

        If the noise is so wide that only bounds of its tails are known, that law is not, and
        nothing is learned but the certain limits; `after_selection` with `.released` may know more.
        """
        check_confidence(confidence)
        if not self._law.has_exact_tails:
            return self._scaled(
                self.least, NO_UPPER, confidence, "nothing is learned: noise too wide"
            )
        half_miss = (1 - confidence) / 2
        # Of truths that grow, the first is false and then true, the second true and then false.
        low = least(lambda truth: self._could_be_so_large(truth, half_miss), self.least)
        beyond = least(lambda truth: not self._could_be_so_small(truth, half_miss), self.least)
        high = max(low, beyond - 1)
        return self._scaled(
            low, Fraction(high), confidence, "exact law, given that the value passed"
        )

    def _scaled(
        self, low: int, high: Bound, confidence: Fraction, method: str
    ) -> ConfidenceInterval:
        """Return an interval of the truth within its certain limits, times the factor."""
        most = NO_UPPER if self.most is None else Fraction(self.most)
        found = ConfidenceInterval(Fraction(low), high, confidence, method)
        found = found.within(Fraction(self.least), most)
        low_end, high_end = sorted((found.low * self.factor, found.high * self.factor))
        return dataclasses.replace(found, low=low_end, high=high_end)

    def __mul__(self, factor: Exact) -> "Selected":
        return dataclasses.replace(self, factor=self.factor * rational(factor))

    __rmul__ = __mul__

    def __truediv__(self, divisor: Exact) -> "Selected":
        return self * (1 / rational(divisor))

    def __neg__(self) -> "Selected":
        return self * -1

    def __add__(self, other: Never) -> NoReturn:
        """Refuse: the error says what to do instead."""
        raise not_noised(self)

    __radd__ = __sub__ = __rsub__ = __add__

    @property
    def _law(self) -> NoiseLaw:
        (source,) = self.released.terms
        return source.law

    def _could_be_so_large(self, truth: int, probability: Fraction) -> bool:
        """Return whether P(truth + noise >= value, given that it passes) > probability."""
        passes = self._at_least(self.threshold + 1 - truth)
        reaches = self._at_least(self.released.value.numerator - truth)
        if reaches is None or passes is None:
            return False
        return is_positive(lambda digits: reaches(digits) - probability * passes(digits))

    def _could_be_so_small(self, truth: int, probability: Fraction) -> bool:
        """Return whether P(truth + noise <= value, given that it passes) > probability."""
        passes = self._at_least(self.threshold + 1 - truth)
        exceeds = self._at_least(self.released.value.numerator + 1 - truth)
        if exceeds is None or passes is None:
            return True
        return is_positive(lambda digits: (1 - probability) * passes(digits) - exceeds(digits))

    def _at_least(self, noise: int) -> Enclosed | None:
        """Return P(N >= noise); None if it is zero."""
        if noise >= 1:
            return self._law.upper_tail(noise)
        beyond = self._law.upper_tail(1 - noise)
        if beyond is None:
            return lambda _: Enclosure(Fraction(1), Fraction(1))
        return lambda digits: 1 - beyond(digits)


WITHHELD = "withheld"
"""The one mark of a value that is not shown, whatever the reason."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Withheld(Quantity):
    """A value that the task's policy does not show: nothing is learned but its certain limits.

    Attributes:
        most: The most that the true value can be; the least is 0.
    """

    most: int

    @property
    @override
    def estimate(self) -> None:
        """None: it is not shown."""

    @override
    def sources(self) -> frozenset[Source]:
        return frozenset()

    @override
    def interval(self, confidence: Fraction = DEFAULT_CONFIDENCE) -> ConfidenceInterval:
        check_confidence(confidence)
        return ConfidenceInterval(Fraction(0), Fraction(self.most), confidence, WITHHELD)

    @override
    def __repr__(self) -> str:
        return f"{self.label or 'value'}: {WITHHELD}"


def after_selection(
    shown: Sequence[Quantity], could_be_shown: int, confidence: Fraction = DEFAULT_CONFIDENCE
) -> list[ConfidenceInterval]:
    """Return intervals for values that any rule chose among a known number, all at once.

    The intervals of all values that could have been shown hold at once, so those chosen do too.

    Args:
        shown: The values that are shown.
        could_be_shown: How many the rule could choose from; at least as many as are shown.
        confidence: That all intervals hold.

    Raises:
        ParameterError: More are shown than could be.
    """
    check_confidence(confidence)
    if could_be_shown < max(1, len(shown)):
        raise ParameterError(
            f"could_be_shown must be at least 1 and the {len(shown)} shown, not {could_be_shown}"
        )
    each = 1 - (1 - confidence) / could_be_shown
    note = f"; Bonferroni over the {could_be_shown} that could have been shown"
    return [value.interval(each).jointly_of(could_be_shown, confidence, note) for value in shown]
