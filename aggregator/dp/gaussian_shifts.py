"""What releases with discrete Gaussian noise cost together, by the exact law of normal noise.

The (epsilon, delta) that zero-concentrated differential privacy implies is not the least. For
continuous noise the least is known: a move by m_j of entries with variances s_j^2 is a shift by mu
of one normal variable, mu^2 = sum of m_j^2 / s_j^2, and

    delta(epsilon) = F(mu/2 - epsilon/mu) - e^epsilon F(-mu/2 - epsilon/mu)                     (*)

with F the normal distribution function. Discrete Gaussian noise is, very nearly, made out of
continuous noise of a variance that is smaller by less than 1:

*Theorem.* Let K entries have independent discrete Gaussian noise of variances sigma_j^2, and let
0 < t < sigma_j^2 for all j. With h = 2 (q + q^4 + q^9 + ...), q = e^(-2 pi^2 t), the delta at
epsilon of a move by integers m_j is at most (1 + h)^K times (*) at epsilon - K ln((1 + h)/(1 - h)),
for mu^2 = sum of m_j^2 / (sigma_j^2 - t).

*Proof.* Draw y from the normal law with mean m, an integer, and variance sigma^2 - t, and then an
integer x with probability e^(-(x - y)^2 / 2t) / theta(y), theta(y) the sum of such terms over all
integers. By Poisson summation theta(y) = sqrt(2 pi t) (1 + 2 q cos(2 pi y) + 2 q^4 cos(4 pi y) +
...), which is sqrt(2 pi t) but for a factor from 1 - h to 1 + h. The integral of the normal density
times e^(-(x - y)^2 / 2t) is e^(-(x - m)^2 / 2 sigma^2) sqrt(t) / sigma. So x has the probability
P'(x) = e^(-(x - m)^2 / 2 sigma^2) / (sigma sqrt(2 pi)) but for a factor from 1/(1 + h) to
1/(1 - h), and discrete Gaussian noise added to m has P(x) = e^(-(x - m)^2 / 2 sigma^2) / N, where N
does not depend on m and, by Poisson summation again, is at least sigma sqrt(2 pi). With
c = sigma sqrt(2 pi) / N, which is at most 1, P lies between c (1 - h) P' and c (1 + h) P', entry by
entry and under either neighbour: over all entries and neighbours P, Q, with C the product of the c,

    (P - e^epsilon Q)_+ <= C (1 + h)^K (P' - e^epsilon ((1 - h)/(1 + h))^K Q')_+

What is summed on the right is the delta of post-processing of continuous noise.  QED

(*) grows with mu, so of all moves of one person's reports the one with the largest sum of m_j^2 /
(sigma_j^2 - t) is the worst. Where all entries of a part have one variance that is the part's
furthest in the squared L2 norm, whatever else moves: nothing is asked of a circuit but that norm.

Releases add up, chosen after seeing others or not, if their number is fixed beforehand: given all
that came before, the same inequality holds of the next. So mu^2 and K are those of all entries of
all releases.

Source: [BW18], Theorem 8, for (*).
"""

import dataclasses
import functools
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction

from aggregator.dp.certified import exp, ln, sqrt
from aggregator.dp.normal import normal_below, pi
from aggregator.dp.zcdp import implied_epsilon

_FINENESS = 10**9
"""An epsilon is a multiple of one over this."""

_LARGEST_EPSILON = 100
"""Beyond it there is nothing to gain, and floats would overflow."""

_SMOOTHINGS = tuple(Fraction(tenths, 20) for tenths in (*range(6, 31), 40, 60, 80))
"""The t that are tried: a smaller t costs epsilon, a larger one costs variance."""


@dataclasses.dataclass(frozen=True, slots=True)
class Shifts:
    """`count` releases of `entries` with discrete Gaussian noise of one variance.

    A person moves them by at most `squared`, in the squared L2 norm.
    """

    entries: int
    squared: int
    sigma_squared: Fraction
    count: int = 1


def epsilon_of(shifts: Iterable[Shifts], delta: Fraction) -> Fraction:
    """Return an epsilon such that all of it together is (epsilon, delta)-DP, rounded up.

    It is the theorem's, or what zero-concentrated differential privacy implies if that is less.
    """
    entries: Counter[Fraction] = Counter()
    squared: Counter[Fraction] = Counter()
    for each in shifts:
        if each.squared and each.count:
            entries[each.sigma_squared] += each.count * each.entries
            squared[each.sigma_squared] += each.count * each.squared
    found = (Shifts(entries[variance], squared[variance], variance) for variance in entries)
    return _epsilon_of(tuple(found), delta)


@functools.lru_cache(maxsize=256)
def _epsilon_of(shifts: tuple[Shifts, ...], delta: Fraction) -> Fraction:
    if not shifts:
        return Fraction(0)
    rho = sum((each.count * each.squared / (2 * each.sigma_squared) for each in shifts), Fraction())
    implied = implied_epsilon(rho, delta)
    guess = _guess(shifts, float(delta))
    if guess is None:
        return implied
    epsilon, smoothing = guess
    # Floating point only picks t and the start; a few steps make up for its error.
    stated = Fraction(math.ceil(epsilon * _FINENESS), _FINENESS)
    for _ in range(8):
        if stated >= implied:
            return implied
        if is_enough(shifts, stated, delta, smoothing):
            return stated
        stated += Fraction(1, _FINENESS)
    return implied


def _guess(shifts: Sequence[Shifts], delta: float) -> tuple[float, Fraction] | None:
    """Return roughly the least epsilon of the theorem, and its t; None if out of floats' range."""
    entries = sum(each.count * each.entries for each in shifts)
    least = min(each.sigma_squared for each in shifts)
    found: tuple[float, Fraction] | None = None
    for smoothing in _SMOOTHINGS:
        if smoothing >= least or not delta:
            break
        mu = math.sqrt(_mu_squared(shifts, smoothing))
        q = math.exp(-2 * math.pi**2 * smoothing)
        h = 2 * q / (1 - q**3)
        taken, left = 2 * entries * math.atanh(h), delta * math.exp(-entries * h)
        most = _LARGEST_EPSILON if found is None else found[0]
        if most > taken and _normal_delta(most - taken, mu) < left:
            found = taken + _bisected(mu, left, most - taken), smoothing
    return found


def _bisected(mu: float, delta: float, most: float) -> float:
    """Return roughly the least epsilon at which a shift by mu has this delta, at most `most`."""
    low, high = 0.0, most
    for _ in range(60):
        middle = (low + high) / 2
        if _normal_delta(middle, mu) > delta:
            low = middle
        else:
            high = middle
    return high


def _normal_delta(epsilon: float, mu: float) -> float:
    above, below = ((epsilon / mu - sign * mu / 2) / math.sqrt(2) for sign in (1, -1))
    return math.erfc(above) / 2 - math.exp(epsilon) * math.erfc(below) / 2


def is_enough(
    shifts: Sequence[Shifts], epsilon: Fraction, delta: Fraction, smoothing: Fraction
) -> bool:
    """Return whether the theorem with this t certainly gives (epsilon, delta).

    Every quantity is rounded to the side on which the bound is larger.
    """
    digits = 40 + delta.denominator.bit_length() // 3 + math.ceil(epsilon)
    if any(each.sigma_squared <= smoothing for each in shifts):
        return False
    q = exp(-2 * pi(digits).low ** 2 * smoothing, digits).high
    h = _up(2 * q / (1 - q**3), digits)  # the squares 1, 4, 9, ... are at least 1, 4, 7, ...
    entries = sum(each.count * each.entries for each in shifts)
    if h >= 1:
        return False
    left = -_up(entries * ln((1 + h) / (1 - h), digits).high - epsilon, digits)
    if left < 0:
        return False
    mu = _up(sqrt(_mu_squared(shifts, smoothing), digits).high, digits)
    above = normal_below(mu / 2 - left / mu)(digits)
    below = normal_below(-mu / 2 - left / mu)(digits)
    total = exp(entries * h, digits) * (above - exp(left, digits) * below)
    return total.high <= delta


def _mu_squared(shifts: Sequence[Shifts], smoothing: Fraction) -> Fraction:
    return sum(
        (each.count * each.squared / (each.sigma_squared - smoothing) for each in shifts),
        Fraction(),
    )


def _up(value: Fraction, digits: int) -> Fraction:
    """Return a rational with `digits` decimals at or just above a value."""
    return Fraction(math.ceil(value * 10**digits), 10**digits)
