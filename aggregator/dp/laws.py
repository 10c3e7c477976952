"""The exact law of the noise in a result: one aggregator's draw, or the sum of two.

Both aggregators add noise from the same distribution, each its own draw. Privacy needs one draw; a
result's error comes from both. q stands for e^(-1/scale) throughout.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from fractions import Fraction
from typing import TYPE_CHECKING

from typing_extensions import override

from aggregator.dp.certified import Enclosed, Enclosure, exp
from aggregator.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable

    from aggregator.dp.spectrum import Floats


@dataclasses.dataclass(frozen=True, slots=True)
class NoiseLaw(ABC):
    """A symmetric distribution on the integers.

    Attributes:
        aggregators: How many independent draws are added, 1 or 2.
    """

    aggregators: int

    def __post_init__(self) -> None:
        if self.aggregators not in {1, 2}:
            raise ParameterError(f"aggregators must be 1 or 2, not {self.aggregators}")

    @abstractmethod
    def probability(self, value: int) -> Enclosed:
        """Return P(S = value)."""

    @abstractmethod
    def upper_tail(self, value: int) -> Enclosed | None:
        """Return P(S >= value) for a value of at least 1; None if it is zero."""

    @abstractmethod
    def variance(self) -> Enclosed:
        """Return the variance of S."""

    @abstractmethod
    def mean_magnitude(self) -> Enclosed:
        """Return E|S|, the mean absolute error of a value."""

    @property
    def has_exact_tails(self) -> bool:
        """Whether `upper_tail` is exact, and not only an upper bound."""
        return True

    @property
    @abstractmethod
    def largest_draw(self) -> int | None:
        """The largest size of one draw, if there is one."""

    @abstractmethod
    def spread(self) -> float:
        """Return an upper bound on a draw's standard deviation, close to it if that is above 1."""

    @abstractmethod
    def characteristic(self, angles: Floats) -> tuple[Floats, Floats]:
        """Return E cos(angle Z) for one draw Z, and a bound on the error of each value.

        Args:
            angles: In radians; each may be off by four units in the last place.
        """

    @abstractmethod
    def log_moment(self, rates: Floats) -> Floats:
        """Return upper bounds on ln E e^(rate Z) for a draw Z, at rates above 0; maybe infinite."""

    @abstractmethod
    def steepest_rate(self) -> float:
        """Return the rate from which on `log_moment` is infinite."""


@dataclasses.dataclass(frozen=True, slots=True)
class _GeometricLaw(NoiseLaw):
    """The sum of draws with probabilities in proportion to q^|z|, for all z or without the tails.

    Bounds are those of discrete Laplace noise: E Z^2 and E cosh(rate Z) only fall when large |Z|
    are left out.
    """

    scale: Fraction

    @override
    def spread(self) -> float:
        from aggregator.dp import spectrum

        return spectrum.geometric_spread(float(self.scale))

    @override
    def log_moment(self, rates: Floats) -> Floats:
        from aggregator.dp import spectrum

        return spectrum.geometric_log_moment(float(self.scale), rates)

    @override
    def steepest_rate(self) -> float:
        return 1 / float(self.scale)


@dataclasses.dataclass(frozen=True, slots=True)
class DiscreteLaplaceLaw(_GeometricLaw):
    """The sum of discrete Laplace draws of the same positive scale.

    One draw: P(Z >= m) = q^m / (1 + q). Two, with c = (1 + q^2) / (1 - q^2), from
    sum over x of q^(|x| + |s - x|) = q^|s| (|s| + 1 + 2 q^2 / (1 - q^2)) = q^|s| (|s| + c):

        P(S = s)  = ((1 - q) / (1 + q))^2 q^|s| (|s| + c)
        P(S >= m) = q^m / (1 + q)^2 [(m + c)(1 - q) + q]
    """

    @override
    def probability(self, value: int) -> Enclosed:
        def enclosure(digits: int) -> Enclosure:
            q, power = self._powers(abs(value), digits)
            single = (1 - q) / (1 + q)
            if self.aggregators == 1:
                return single * power
            return single * single * power * (abs(value) + _c(q))

        return enclosure

    @override
    def upper_tail(self, value: int) -> Enclosed:
        def enclosure(digits: int) -> Enclosure:
            q, power = self._powers(value, digits)
            if self.aggregators == 1:
                return power / (1 + q)
            return power / ((1 + q) * (1 + q)) * ((value + _c(q)) * (1 - q) + q)

        return enclosure

    @override
    def variance(self) -> Enclosed:
        def enclosure(digits: int) -> Enclosure:
            q = exp(-1 / self.scale, digits)
            return self.aggregators * 2 * q / ((1 - q) * (1 - q))

        return enclosure

    @override
    def mean_magnitude(self) -> Enclosed:
        def enclosure(digits: int) -> Enclosure:
            # The sum of P(|S| >= m) over m from 1 on.
            q = exp(-1 / self.scale, digits)
            if self.aggregators == 1:
                return 2 * q / (1 - q * q)
            return 2 * q / ((1 + q) * (1 + q)) * ((1 + q) / (1 - q) + _c(q))

        return enclosure

    @property
    @override
    def largest_draw(self) -> int | None:
        return None

    @override
    def characteristic(self, angles: Floats) -> tuple[Floats, Floats]:
        from aggregator.dp import spectrum

        errors = spectrum.rounding_errors(self.spread(), angles)
        return spectrum.laplace(float(self.scale), angles), errors

    def _powers(self, exponent: int, digits: int) -> tuple[Enclosure, Enclosure]:
        """Return q and q^exponent."""
        return exp(-1 / self.scale, digits), exp(-exponent / self.scale, digits)


@dataclasses.dataclass(frozen=True, slots=True)
class TruncatedGeometricLaw(_GeometricLaw):
    """The sum of truncated symmetric geometric draws: P(X = x) = q^|x| / n for |x| <= bound.

    n = (1 + q - 2 q^(k+1)) / (1 - q), where k is the bound. For two draws, counting pairs with the
    sum s:

        n^2 P(S = s) = (s + 1) q^s + 2 q^s (q^2 + q^4 + ... + q^(2 (k - s)))   for 0 <= s <= k
        n^2 P(S = s) = (2k + 1 - s) q^s                                        for k < s <= 2k
    """

    bound: int

    @override
    def probability(self, value: int) -> Enclosed:
        s, k = abs(value), self.bound

        def enclosure(digits: int) -> Enclosure:
            power = self._power(digits)
            q, norm = power(1), self._norm(digits)
            if s > k * self.aggregators:
                return Enclosure(Fraction(0), Fraction(0))
            if self.aggregators == 1:
                return power(s) / norm
            if s > k:
                return (2 * k + 1 - s) * power(s) / (norm * norm)
            inner = q * q * (1 - power(2 * (k - s))) / (1 - q * q)
            return power(s) * (s + 1 + 2 * inner) / (norm * norm)

        return enclosure

    @override
    def upper_tail(self, value: int) -> Enclosed | None:
        m, k = value, self.bound
        if m > k * self.aggregators:
            return None

        def enclosure(digits: int) -> Enclosure:
            sums = _PowerSums(self._power(digits))
            q, norm = sums.q, self._norm(digits)
            if self.aggregators == 1:
                return sums.plain(m, k) / norm
            outer = max(m, k + 1)
            mass = (2 * k + 1) * sums.plain(outer, 2 * k) - sums.weighted(outer, 2 * k)
            if m <= k:
                # The sum of 2 q^s q^2 (1 - q^(2 (k - s))) / (1 - q^2) over s from m to k.
                pairs = 2 * q * q / (1 - q * q) * (sums.plain(m, k) - sums.plain(k, 2 * k - m))
                mass = mass + sums.weighted(m, k) + sums.plain(m, k) + pairs
            return mass / (norm * norm)

        return enclosure

    @override
    def variance(self) -> Enclosed:
        k = self.bound

        def enclosure(digits: int) -> Enclosure:
            # Var X = 2 (1^2 q + 2^2 q^2 + ... + k^2 q^k) / n.
            squares = _PowerSums(self._power(digits)).squared(k)
            return self.aggregators * 2 * squares / self._norm(digits)

        return enclosure

    @override
    def mean_magnitude(self) -> Enclosed:
        k = self.bound

        def enclosure(digits: int) -> Enclosure:
            sums = _PowerSums(self._power(digits))
            q, norm = sums.q, self._norm(digits)
            if self.aggregators == 1:
                return 2 * sums.weighted(1, k) / norm
            # The sum of s n^2 P(S = s) over s from 1 to k, then from k + 1 to 2k. In the first part
            # s q^(2k - s) is (2k - j) q^j for j = 2k - s from k to 2k - 1.
            far = 2 * k * sums.plain(k, 2 * k - 1) - sums.weighted(k, 2 * k - 1)
            pairs = 2 * q * q / (1 - q * q) * (sums.weighted(1, k) - far)
            inner = sums.squared(k) + sums.weighted(1, k) + pairs
            squares = sums.squared(2 * k) - sums.squared(k)
            outer = (2 * k + 1) * sums.weighted(k + 1, 2 * k) - squares
            return 2 * (inner + outer) / (norm * norm)

        return enclosure

    @property
    @override
    def largest_draw(self) -> int | None:
        return self.bound

    @override
    def characteristic(self, angles: Floats) -> tuple[Floats, Floats]:
        from aggregator.dp import spectrum

        values, own = spectrum.truncated(float(self.scale), self.bound, angles)
        return values, own + spectrum.rounding_errors(self.spread(), angles)

    def _norm(self, digits: int) -> Enclosure:
        power = self._power(digits)
        return (1 + power(1) - 2 * power(self.bound + 1)) / (1 - power(1))

    def _power(self, digits: int) -> Callable[[int], Enclosure]:
        return lambda exponent: exp(-exponent / self.scale, digits)


class _PowerSums:
    """Sums of the powers of q in closed form.

    Args:
        power: Returns q to an exponent of at least 0.
    """

    def __init__(self, power: Callable[[int], Enclosure]) -> None:
        self.q = power(1)
        self._power = power

    def plain(self, first: int, last: int) -> Enclosure:
        """Return q^first + ... + q^last."""
        return (self._power(first) - self._power(last + 1)) / (1 - self.q)

    def weighted(self, first: int, last: int) -> Enclosure:
        """Return first q^first + ... + last q^last."""
        edges = first * self._power(first) - (first - 1) * self._power(first + 1)
        edges = edges - (last + 1) * self._power(last + 1) + last * self._power(last + 2)
        return edges / ((1 - self.q) * (1 - self.q))

    def squared(self, last: int) -> Enclosure:
        """Return 1^2 q + 2^2 q^2 + ... + last^2 q^last."""
        k, q = last, self.q
        tail = (k + 1) ** 2 * self._power(k + 1) - (2 * k * k + 2 * k - 1) * self._power(k + 2)
        tail = tail + k * k * self._power(k + 3)
        return (q * (1 + q) - tail) / ((1 - q) * (1 - q) * (1 - q))


def _c(q: Enclosure) -> Enclosure:
    return (1 + q * q) / (1 - q * q)
