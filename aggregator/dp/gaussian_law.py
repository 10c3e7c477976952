"""The law of one discrete Gaussian draw, and of the sum of two, which is not Gaussian."""

from __future__ import annotations

import dataclasses
import functools
import math
from fractions import Fraction
from typing import TYPE_CHECKING

from typing_extensions import override

from aggregator.dp.certified import Enclosed, Enclosure, exp, floor_of, ln, round_up, sqrt
from aggregator.dp.laws import NoiseLaw

if TYPE_CHECKING:
    from aggregator.dp.spectrum import Floats

EXACT_UP_TO = 2**24
"""The largest noise variance for which tails are summed term by term."""

_REACH = 16
"""From this many standard deviations on, the subgaussian tail bound replaces erfc."""


@dataclasses.dataclass(frozen=True, slots=True)
class DiscreteGaussianLaw(NoiseLaw):
    """The sum of discrete Gaussian draws with the same sigma^2.

    Two draws x and s - x have x^2 + (s - x)^2 = s^2 / 2 + 2 (x - s/2)^2, and 2 (x - s/2)^2 runs
    through r^2 / 2 for all r of the parity of s. So with w(s) = e^(-s^2 / (4 sigma^2)), and E and O
    the sums of w over all even and all odd integers,

        P(S = s) = w(s) E / (E^2 + O^2) for even s,   w(s) O / (E^2 + O^2) for odd s

    Beyond `EXACT_UP_TO` the upper tail is an upper bound, at z standard deviations too large by a
    relative (z / sd)^2 at most: an interval is then almost always the same, else wider by 1.
    """

    sigma_squared: Fraction

    @override
    def probability(self, value: int) -> Enclosed:
        width = 2 * self.aggregators * self.sigma_squared
        return lambda digits: exp(-(value**2) / width, digits) * self._share(value % 2, digits)

    @override
    def upper_tail(self, value: int) -> Enclosed:
        variance = self.aggregators * self.sigma_squared
        if variance > EXACT_UP_TO:
            return _continuous_bound(variance, value)

        def enclosure(digits: int) -> Enclosure:
            table = _table(variance, digits)
            same = table.from_(value) * self._share(value % 2, digits)
            return same + table.from_(value + 1) * self._share((value + 1) % 2, digits)

        return enclosure

    @property
    @override
    def has_exact_tails(self) -> bool:
        return self.aggregators * self.sigma_squared <= EXACT_UP_TO

    @property
    @override
    def largest_draw(self) -> int | None:
        return None

    @override
    def spread(self) -> float:
        return math.sqrt(self.sigma_squared)

    @override
    def characteristic(self, angles: Floats) -> tuple[Floats, Floats]:
        from aggregator.dp import spectrum

        errors = spectrum.rounding_errors(self.spread(), angles)
        return spectrum.gaussian(float(self.sigma_squared), angles), errors

    @override
    def log_moment(self, rates: Floats) -> Floats:
        # It is subgaussian with its sigma^2: [CKS20], "Tail bounds, and variance".
        return float(self.sigma_squared) * rates**2 / 2

    @override
    def steepest_rate(self) -> float:
        return math.inf

    @override
    def variance(self) -> Enclosed:
        if self.sigma_squared > EXACT_UP_TO:
            # Equal except for a factor of about 1 - 4 pi^2 sigma^2 e^(-2 pi^2 sigma^2).
            # [CKS20], "Tail bounds, and variance".
            return lambda _: _point(self.aggregators * self.sigma_squared)

        def enclosure(digits: int) -> Enclosure:
            table = _table(self.sigma_squared, digits)
            return self.aggregators * table.second_moment / (table.even + table.odd)

        return enclosure

    @override
    def mean_magnitude(self) -> Enclosed:
        variance = self.aggregators * self.sigma_squared
        if variance > EXACT_UP_TO:
            # Euler and Maclaurin: the sum of |s| e^(-s^2 / 2v) is 2v - 1/6 but for 1/(120 v), a
            # relative 10^-17; even and odd sums are equal, as in `_share`.
            return lambda digits: (
                (2 * variance - Fraction(1, 6)) / (sqrt(variance, digits) * _SQRT_TWO_PI)
            )

        def enclosure(digits: int) -> Enclosure:
            table = _table(variance, digits)
            even = table.even_magnitudes * self._share(0, digits)
            return even + table.odd_magnitudes * self._share(1, digits)

        return enclosure

    def _share(self, parity: int, digits: int) -> Enclosure:
        """Return the factor of e^(-s^2 / (2 aggregators sigma^2)) for s of that parity."""
        variance = self.aggregators * self.sigma_squared
        if variance > EXACT_UP_TO:
            # Even and odd sums are equal up to a relative e^(-2^24).
            return 1 / (sqrt(Fraction(variance), digits) * _SQRT_TWO_PI)
        table = _table(variance, digits)
        if self.aggregators == 1:
            return 1 / (table.even + table.odd)
        own = table.odd if parity else table.even
        return own / (table.even * table.even + table.odd * table.odd)


def tail_bound(variance: Fraction, miss: Fraction) -> int:
    """Return an m with P(|S| > m) <= miss for a sum of discrete Gaussians.

    Each is subgaussian with its sigma^2, so their sum is subgaussian with the sum of these, and
    P(|S| >= m) <= 2 e^(-m^2 / (2 variance)).

    Source: [CKS20], "Tail bounds, and variance".
    """
    return math.ceil(
        round_up(lambda digits: sqrt(2 * variance * ln(2 / miss, digits), digits), decimals=3)
    )


_SQRT_TWO_PI = Enclosure(
    Fraction("2.506628274631000502415765284811"), Fraction("2.506628274631000502415765284812")
)


class _Table:
    """Sums of w(s) = e^(-s^2 / (2 variance)) in fixed point, each within a known error.

    They are over all even and all odd integers s; magnitudes are sums of |s| w(s), and the second
    moment is that of s^2 w(s) over all integers.
    """

    __slots__ = (
        "_beyond",
        "_bits",
        "_error",
        "_suffixes",
        "even",
        "even_magnitudes",
        "odd",
        "odd_magnitudes",
        "second_moment",
    )

    def __init__(self, variance: Fraction, digits: int) -> None:
        # Beyond the reach R, w(R) = e^(-R^2 / (2 variance)) is below 10^-(digits + 12).
        reach = 2 + math.isqrt(math.ceil(5 * (digits + 12) * variance))
        self._bits = bits = digits * 10 // 3 + 3 * reach.bit_length() + 12
        # w(s + 1) = w(s) c^(2 s + 1) with c = e^(-1 / (2 variance)). Every number is at most 1 and
        # each product is rounded down by less than u = 2^-bits, so c^(2 s + 1) is less than 3 (s +
        # 1) u too small and w(s) less than 4 (s + 1)^2 u.
        unit = floor_of(lambda digits: exp(-1 / (2 * variance), digits) * 2**bits, digits + 60)
        square, factor, weight = unit * unit >> bits, unit, 1 << bits
        weights = []
        for _ in range(reach + 1):
            weights.append(weight)
            weight = weight * factor >> bits
            factor = factor * square >> bits
        self._suffixes = [0] * (reach + 3)
        for s in range(reach, -1, -1):
            self._suffixes[s] = weights[s] + self._suffixes[s + 2]
        self._error = Fraction(2 * (reach + 2) ** 3, 2**bits)
        # The sum of w beyond the reach R is less than the integral from R, (variance / R) w(R).
        edge = exp(-(reach**2) / (2 * variance), digits).high
        self._beyond = variance / reach * edge
        self.even = 2 * self.from_(2) + 1
        self.odd = 2 * self.from_(1)
        # s w(s) falls beyond the reach, and its integral is variance w(R).
        self.even_magnitudes, self.odd_magnitudes = (
            Enclosure(part, part + 2 * reach**2 * self._error + 2 * variance * edge)
            for part in (
                Fraction(2 * sum(s * weights[s] for s in range(first, reach + 1, 2)), 2**bits)
                for first in (0, 1)
            )
        )
        moment = Fraction(2 * sum(s * s * w for s, w in enumerate(weights)), 2**bits)
        # s^2 w(s) falls beyond the reach, and its integral is at most (R variance + variance^2 / R)
        # w(R).
        rest = 2 * (reach * variance + variance**2 / reach + reach**2) * edge
        self.second_moment = Enclosure(moment, moment + 2 * reach**2 * self._error + rest)

    def from_(self, first: int) -> Enclosure:
        """Return the sum of w over first, first + 2, first + 4, ... for `first` >= 0."""
        if first >= len(self._suffixes):
            return Enclosure(Fraction(0), self._beyond)
        low = Fraction(self._suffixes[first], 2**self._bits)
        return Enclosure(low, low + self._error + self._beyond)


@functools.lru_cache(maxsize=8)
def _table(variance: Fraction, digits: int) -> _Table:
    return _Table(variance, digits)


def _continuous_bound(variance: Fraction, value: int) -> Enclosed:
    """Return an upper bound on P(S >= value) from the normal law of that variance, above 2^24.

    The weight of each integer s is at most the integral of the normal density from s - 1/2 to s +
    1/2 where the density is convex, beyond one standard deviation, and from s - 1 to s where it is
    not. By Poisson summation the norms only make the bound smaller, up to a relative e^(-2^24).
    """
    is_convex = (value - 1) ** 2 >= variance
    distance = (value - Fraction(1, 2) if is_convex else Fraction(value - 1)) ** 2 / variance
    if distance > _REACH**2:
        return lambda digits: exp(-Fraction(value**2) / (2 * variance), digits)
    # erfc is within a few units of the last place; 10^-9 is far more than that.
    bound = math.erfc(math.sqrt(distance / 2)) / 2 * (1 + 1e-9)
    return lambda _: _point(Fraction(bound))


def _point(value: Fraction) -> Enclosure:
    return Enclosure(value, value)
