"""The normal distribution function, enclosed by rationals to any number of digits."""

import functools
from fractions import Fraction

from aggregator.dp.certified import Enclosed, Enclosure, exp, sqrt


@functools.lru_cache(maxsize=32)
def pi(digits: int) -> Enclosure:
    """Return an enclosure of pi: 16 arctan(1/5) - 4 arctan(1/239), Machin's formula."""
    unit = 10 ** (digits + 10)

    def arctan_of_inverse(base: int) -> tuple[int, int]:
        """Return the sum of a series in units, and by how many units it may be off."""
        power, total, terms = unit // base, 0, 0
        while power:
            total += (-1) ** (terms % 2) * (power // (2 * terms + 1))
            power //= base**2
            terms += 1
        # Each power is less than 2 units too small, and so each term, which is rounded down by
        # less than one more; what follows the last term is less than a unit.
        return total, 3 * terms + 1

    (first, off), (second, also_off) = arctan_of_inverse(5), arctan_of_inverse(239)
    middle, error = 16 * first - 4 * second, 16 * off + 4 * also_off
    return Enclosure(Fraction(middle - error, unit), Fraction(middle + error, unit))


def normal_below(point: Fraction) -> Enclosed:
    """Return the probability that a standard normal variable is below a point.

    With the density f it is 1/2 + f(x) (x + x^3 / 3 + x^5 / (3 5) + x^7 / (3 5 7) + ...): all terms
    have the sign of x.

    Returns:
        For a number of digits, an enclosure about 10^-digits wide.
    """

    def enclosure(digits: int) -> Enclosure:
        inner = digits + int(point**2 / 4)  # the series is as large as the density is small
        density = exp(-(point**2) / 2, inner) / sqrt(2 * pi(inner), inner)
        half = Enclosure(Fraction(1, 2), Fraction(1, 2))
        above = density * _series(abs(point), inner)
        return half - above if point < 0 else half + above

    return enclosure


def _series(x: Fraction, digits: int) -> Enclosure:
    """Return x + x^3 / 3 + x^5 / (3 5) + ... for x >= 0, in fixed point, rounded both ways."""
    bits = digits * 10 // 3 + 20
    low, high = x.numerator << bits, -((-x.numerator << bits) // x.denominator)
    low //= x.denominator
    low_square, high_square = low * low >> bits, -((-high * high) >> bits)
    below = above = 0
    odd = 1
    while high:
        below, above = below + low, above + high
        odd += 2
        low = (low * low_square >> bits) // odd
        high = -(-high * high_square >> bits)
        high = -(-high // odd)
        # From here on terms halve, at least: all that follow are less than this one.
        if 2 * high_square < odd << bits and high <= 1:
            above += 2 * high
            break
    return Enclosure(Fraction(below, 2**bits), Fraction(above, 2**bits))
