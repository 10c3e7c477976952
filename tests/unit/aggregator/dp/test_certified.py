import math
from fractions import Fraction

import mpmath
import pytest

from aggregator.dp.certified import (
    Enclosed,
    Enclosure,
    TooWide,
    binary_digits,
    exp,
    floor_of,
    is_positive,
    ln,
    round_up,
    round_up_closely,
    sqrt,
    to_float,
)

ARGUMENTS = [
    Fraction(1, 7),
    Fraction(-3, 2),
    Fraction(-1, 10**30),
    Fraction(-700),
    Fraction(12345, 11),
    Fraction(-(10**6)),
]


@pytest.mark.parametrize("digits", [20, 40, 97])
@pytest.mark.parametrize("x", ARGUMENTS, ids=str)
def test_exp_is_enclosed_narrowly(x: Fraction, digits: int) -> None:
    with mpmath.workdps(2 * digits + 20):
        truth = mpmath.exp(mpmath.mpf(x.numerator) / x.denominator)
        enclosure = exp(x, digits)
        assert mpmath_of(enclosure.low) < truth < mpmath_of(enclosure.high)
        width = mpmath_of(enclosure.high) - mpmath_of(enclosure.low)
        assert width < truth * mpmath.mpf(10) ** (2 - digits) or width < mpmath.mpf(10) ** (
            -9 * digits
        )


@pytest.mark.parametrize(
    "x", [Fraction(1, 10**9), Fraction(2, 3), 1 + Fraction(1, 10**45), Fraction(9)]
)
def test_ln_and_sqrt_are_enclosed(x: Fraction) -> None:
    with mpmath.workdps(120):
        value = mpmath_of(x)
        for enclosure, truth in ((ln(x, 30), mpmath.log(value)), (sqrt(x, 30), mpmath.sqrt(value))):
            assert mpmath_of(enclosure.low) <= truth <= mpmath_of(enclosure.high)
            assert enclosure.high - enclosure.low < Fraction(1, 10**25)


def test_ln_of_one_is_zero_and_of_a_number_that_rounds_to_one_is_not() -> None:
    assert ln(Fraction(1), 20) == Enclosure(Fraction(0), Fraction(0))
    just_below = ln(1 - Fraction(1, 10**60), 20)
    assert just_below.low < 0 <= just_below.high


def test_arithmetic_encloses_every_combination_of_endpoints() -> None:
    left, right = Enclosure(Fraction(-2), Fraction(3)), Enclosure(Fraction(1), Fraction(5))
    assert left * right == Enclosure(Fraction(-10), Fraction(15))
    assert left - right == Enclosure(Fraction(-7), Fraction(2))
    assert left / right == Enclosure(Fraction(-2), Fraction(3))
    assert 1 / right == Enclosure(Fraction(1, 5), Fraction(1))
    assert 1 - right == Enclosure(Fraction(-4), Fraction(0))
    with pytest.raises(TooWide):
        right / left


def test_a_decision_asks_for_digits_until_it_is_settled() -> None:
    asked = []

    def almost_one(digits: int) -> Enclosure:
        asked.append(digits)
        return exp(Fraction(-1, 10**150), digits)

    assert floor_of(almost_one) == 0
    assert not is_positive(lambda digits: almost_one(digits) - 1)
    assert is_positive(lambda digits: 1 - almost_one(digits))
    assert max(asked) >= 160


def test_a_division_by_an_interval_around_zero_is_tried_again_with_more_digits() -> None:
    tiny: Enclosed = lambda digits: 1 - exp(Fraction(-1, 10**90), digits)  # noqa: E731 - one expression
    assert math.isclose(to_float(lambda digits: 1 / tiny(digits)), 1e90, rel_tol=1e-15)


def test_rounding_up_never_falls_below() -> None:
    third = round_up(lambda _: Enclosure(Fraction(1, 3), Fraction(1, 3)), 5)
    assert third == Fraction(33334, 100000)


def test_binary_digits_are_those_of_the_number() -> None:
    with mpmath.workdps(200):
        truth = int(mpmath.floor(mpmath.exp(mpmath.mpf(-5) / 3) * 2**300))
    assert binary_digits(lambda digits: exp(Fraction(-5, 3), digits), 300) == truth
    # A probability that a word cannot resolve has zeros only.
    assert binary_digits(lambda digits: exp(Fraction(-(10**12)), digits), 96) == 0


def mpmath_of(value: Fraction) -> mpmath.mpf:
    return mpmath.mpf(value.numerator) / value.denominator


def test_a_number_beyond_the_floats_becomes_zero_or_infinite() -> None:
    for exponent, value in ((-(10**12), 0.0), (10**6, math.inf)):
        assert to_float(lambda digits, x=Fraction(exponent): exp(x, digits)) == value
        assert to_float(lambda digits, x=Fraction(exponent): -exp(x, digits)) == -value


def test_rounding_up_closely_keeps_twelve_digits_of_a_small_number() -> None:
    rounded = round_up_closely(lambda digits: exp(Fraction(-100), digits))
    with mpmath.workdps(40):
        true = mpmath.exp(-100)
        excess = (mpmath.mpf(rounded.numerator) / rounded.denominator - true) / true
    assert 0 <= excess < 1e-12
