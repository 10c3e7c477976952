"""Real numbers enclosed by pairs of rationals, narrowed until a question is settled.

Every decision that privacy or a printed interval rests on compares real numbers built from e^x and
ln x at rational x. Here such a number is a function from a number of digits to an `Enclosure` that
is certain to contain it; `is_positive`, `floor_of` and `round_up` ask for more digits until the
interval settles the answer. They end unless the number is itself the border, which never happens:
e^x is transcendental for every rational x other than 0 (Lindemann).

The digits come from `decimal`, whose `exp` and `ln` are correctly rounded.
"""

import dataclasses
import decimal
import math
import sys
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias

from aggregator.dp.decimals import context_of

_FIRST_DIGITS = 40
_LEAST_FLOAT = Fraction(1, 2**1075)


class TooWide(ArithmeticError):
    """An enclosure reaches outside a function's domain; more digits are needed."""


@dataclasses.dataclass(frozen=True, slots=True)
class Enclosure:
    """All reals from `low` to `high`; arithmetic encloses every possible result."""

    low: Fraction
    high: Fraction

    def __add__(self, other: "Enclosure | Fraction | int") -> "Enclosure":
        other = _enclosure(other)
        return Enclosure(self.low + other.low, self.high + other.high)

    __radd__ = __add__

    def __neg__(self) -> "Enclosure":
        return Enclosure(-self.high, -self.low)

    def __sub__(self, other: "Enclosure | Fraction | int") -> "Enclosure":
        return self + -_enclosure(other)

    def __rsub__(self, other: Fraction | int) -> "Enclosure":
        return _enclosure(other) + -self

    def __mul__(self, other: "Enclosure | Fraction | int") -> "Enclosure":
        other = _enclosure(other)
        corners = [a * b for a in (self.low, self.high) for b in (other.low, other.high)]
        return Enclosure(min(corners), max(corners))

    __rmul__ = __mul__

    def __truediv__(self, other: "Enclosure | Fraction | int") -> "Enclosure":
        other = _enclosure(other)
        if other.low <= 0 <= other.high:
            raise TooWide("the divisor's interval contains zero")
        return self * Enclosure(1 / other.high, 1 / other.low)

    def __rtruediv__(self, other: Fraction | int) -> "Enclosure":
        return _enclosure(other) / self


Enclosed: TypeAlias = Callable[[int], Enclosure]
"""A real number: more digits, a narrower interval."""


def exp(x: Fraction | Enclosure, digits: int) -> Enclosure:
    """Return an enclosure of e^x, relative width about 10^-digits."""
    low, high = (x.low, x.high) if isinstance(x, Enclosure) else (x, x)
    return Enclosure(_exp_of(low, digits, up=False), _exp_of(high, digits, up=True))


def ln(x: Fraction | Enclosure, digits: int) -> Enclosure:
    """Return an enclosure of ln x for x > 0, absolute width about 10^-digits if x is near 1."""
    low, high = (x.low, x.high) if isinstance(x, Enclosure) else (x, x)
    if low <= 0:
        raise TooWide("the argument's interval reaches zero")
    return Enclosure(_ln_of(low, digits, up=False), _ln_of(high, digits, up=True))


def sqrt(x: Fraction | Enclosure, digits: int) -> Enclosure:
    """Return an enclosure of the square root of x >= 0."""
    low, high = (x.low, x.high) if isinstance(x, Enclosure) else (x, x)
    scale = 10**digits
    # isqrt rounds down: floor(sqrt(floor(v s^2))) = floor(sqrt(v) s).
    return Enclosure(
        Fraction(math.isqrt(math.floor(low * scale**2)), scale),
        Fraction(math.isqrt(math.ceil(high * scale**2)) + 1, scale),
    )


def is_positive(number: Enclosed) -> bool:
    """Return whether the real number is above zero; it must not be zero."""
    digits = _FIRST_DIGITS
    while True:
        interval = _evaluate(number, digits)
        if interval is not None and interval.low > 0:
            return True
        if interval is not None and interval.high <= 0:
            return False
        digits *= 2


def floor_of(number: Enclosed, first_digits: int = _FIRST_DIGITS) -> int:
    """Return the largest integer below the real number, which must not itself be an integer."""
    digits = first_digits
    while True:
        interval = _evaluate(number, digits)
        if interval is not None and math.floor(interval.low) == math.floor(interval.high):
            return math.floor(interval.low)
        digits *= 2


def round_up(number: Enclosed, decimals: int = 12) -> Fraction:
    """Return a rational with `decimals` decimals that is at or just above the real number."""
    digits = _FIRST_DIGITS
    while True:
        interval = _evaluate(number, digits)
        if interval is not None and interval.high - interval.low < Fraction(
            1, 10 ** (decimals + 1)
        ):
            return Fraction(math.ceil(interval.high * 10**decimals), 10**decimals)
        digits *= 2


def round_up_closely(number: Enclosed) -> Fraction:
    """Return a rational at or above the positive real number, to twelve digits, however small."""
    digits = _FIRST_DIGITS
    while True:
        interval = _evaluate(number, digits)
        if interval is not None and interval.low > 0:
            zeros = len(str(math.floor(1 / interval.low))) if interval.low < 1 else 0
            return round_up(number, 12 + zeros)
        digits *= 2


def to_float(number: Enclosed) -> float:
    """Return a float within a relative error of about 10^-17 of the real number.

    A number too small for a float is 0.0, and one too large is infinite.
    """
    digits = _FIRST_DIGITS
    while True:
        interval = _evaluate(number, digits)
        if interval is not None:
            width = interval.high - interval.low
            if max(-interval.low, interval.high) < _LEAST_FLOAT:
                return 0.0
            if interval.low > sys.float_info.max:
                return math.inf
            if interval.high < -sys.float_info.max:
                return -math.inf
            if width * 10**17 <= min(abs(interval.low), abs(interval.high)):
                return float((interval.low + interval.high) / 2)
        digits *= 2


def binary_digits(probability: Enclosed, bits: int) -> int:
    """Return floor(2^bits * p) for a real p that is not a multiple of 2^-bits."""
    digits = bits * 31 // 100 + 20
    return floor_of(lambda n: probability(n) * 2**bits, digits)


def _evaluate(number: Enclosed, digits: int) -> Enclosure | None:
    """Return the enclosure, or None if an operand is still too wide."""
    try:
        return number(digits)
    except TooWide:
        return None


def _enclosure(value: Enclosure | Fraction | int) -> Enclosure:
    return value if isinstance(value, Enclosure) else Enclosure(Fraction(value), Fraction(value))


def _context(digits: int, *, up: bool) -> decimal.Context:
    return context_of(digits, decimal.ROUND_CEILING if up else decimal.ROUND_FLOOR)


def _exp_of(x: Fraction, digits: int, *, up: bool) -> Fraction:
    """Return a bound on e^x, from above if `up`, else from below."""
    if x < -24 * digits:
        # e^x < 10^(-10 digits): zero and that bound enclose it; its own digits are never needed.
        return Fraction(1, 10 ** (10 * digits)) if up else Fraction(0)
    # Round the quotient towards the wanted side, with enough digits after the point that its error,
    # multiplied by e^x, is one unit of the last place. `exp` then rounds to nearest, at most half a
    # unit off, and the next number on the wanted side is a bound.
    whole_digits = len(str(abs(math.floor(x))))
    context = _context(digits + whole_digits + 5, up=up)
    quotient = context.divide(Decimal(x.numerator), Decimal(x.denominator))
    value = context.exp(quotient)
    return Fraction(context.next_plus(value) if up else context.next_minus(value))


def _ln_of(x: Fraction, digits: int, *, up: bool) -> Fraction:
    """Return a bound on ln x, from above if `up`, else from below."""
    context = _context(digits + 5, up=up)
    quotient = context.divide(Decimal(x.numerator), Decimal(x.denominator))
    value = context.ln(quotient)
    if value == 0:
        # ln is exactly 0 only at 1; the quotient may have been rounded to 1.
        step = Fraction(1, 10 ** (digits + 4))
        return Fraction(0) if x == 1 else step if up else -step
    return Fraction(context.next_plus(value) if up else context.next_minus(value))
