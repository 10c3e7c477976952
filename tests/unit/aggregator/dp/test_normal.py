"""The normal distribution function, to as many digits as are asked for, against a library's."""

from fractions import Fraction

import mpmath
import pytest

from aggregator.dp.normal import normal_below, pi

POINTS = [Fraction(0), Fraction(1, 10), Fraction(-1), Fraction(33, 7), Fraction(-123457, 10**4)]


def close(value: mpmath.mpf) -> Fraction:
    return Fraction(mpmath.nstr(value, 100))


@pytest.mark.parametrize("digits", [5, 30, 80])
def test_pi_lies_in_its_enclosure(digits: int) -> None:
    with mpmath.workdps(120):
        exact = close(+mpmath.pi)
    found = pi(digits)
    assert found.low < exact < found.high
    assert found.high - found.low < Fraction(1, 10**digits)


@pytest.mark.parametrize("digits", [12, 30, 80])
@pytest.mark.parametrize("point", [*POINTS, Fraction(-40)])
def test_what_is_below_a_point_lies_in_its_enclosure(point: Fraction, digits: int) -> None:
    with mpmath.workdps(500):
        exact = close(mpmath.ncdf(mpmath.mpf(point.numerator) / point.denominator))
    found = normal_below(point)(digits)
    unsure = Fraction(1, 10**99)  # of what the other library prints
    assert found.low - unsure < exact < found.high + unsure
    assert found.high - found.low < Fraction(1, 10**digits)
