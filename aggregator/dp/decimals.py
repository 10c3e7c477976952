"""Decimal arithmetic for planning: probabilities far beyond a double's range and precision.

Doubles end near 1e-308 and keep sixteen digits near 1; the figures a steward compares go down to
1e-561 and up to 1 - 1e-300. The standard library's decimals have no such limits: exponents reach
10^18, and `exp` and `ln` are correctly rounded. Every function here works in its caller's context;
`working` opens one. Convert results with `float` where a double will do.
"""

import decimal
import operator
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from fractions import Fraction
from typing import SupportsIndex

from aggregator.errors import ParameterError

Number = int | float | str | Decimal | Fraction

DIGITS = 60
"""Digits carried by default; results hold at least forty."""

# More decimal places than this are a mistake, and exact rationals would grow large.
_MOST_PLACES = 5000


@contextmanager
def working(digits: int = DIGITS) -> Iterator[decimal.Context]:
    """Open a context of `digits` digits whose exponents cannot run out."""
    with decimal.localcontext(context_of(digits)) as opened:
        yield opened


def context_of(digits: int, rounding: str = decimal.ROUND_HALF_EVEN) -> decimal.Context:
    """Return a context of `digits` digits whose exponents cannot run out."""
    return decimal.Context(
        prec=digits,
        rounding=rounding,
        Emin=decimal.MIN_EMIN,
        Emax=decimal.MAX_EMAX,
        traps=[decimal.InvalidOperation, decimal.DivisionByZero, decimal.Overflow],
    )


def exact(value: Number, name: str) -> Fraction:
    """Return `value` as a rational; a float counts as the binary number it holds.

    Raises `ParameterError` if `value` is not a finite number of at most 5,000 decimal places.
    """
    problem = ParameterError(
        f"{name} must be a finite number of at most 5000 places, not {value!r}"
    )
    try:
        if isinstance(value, str) and "/" not in value:
            value = Decimal(value)
        if isinstance(value, Decimal):
            places = value.as_tuple().exponent
            if not isinstance(places, int) or abs(value.adjusted()) + abs(places) > _MOST_PLACES:
                raise problem
        return Fraction(value)
    except (ValueError, OverflowError, ZeroDivisionError, decimal.InvalidOperation) as error:
        raise problem from error


def rational_in(
    value: Number,
    name: str,
    low: int,
    high: int | None,
    *,
    open_low: bool = False,
    open_high: bool = False,
) -> Fraction:
    """Return `value` as a rational in that range, or raise a ParameterError that names both."""
    left = "(" if open_low else "["
    right = "infinity)" if high is None else f"{high}{')' if open_high else ']'}"
    try:
        number = exact(value, name)
    except ParameterError as error:
        raise ParameterError(f"{error}; it must lie in {left}{low}, {right}") from error
    below = number <= low if open_low else number < low
    above = high is not None and (number >= high if open_high else number > high)
    if below or above:
        raise ParameterError(f"{name} must lie in {left}{low}, {right}, not {value}")
    return number


def integer_in(value: object, name: str, low: int, high: int | None) -> int:
    """Return `value`, an integer from `low` to `high`, or raise a ParameterError that says so."""
    number = low - 1
    if isinstance(value, SupportsIndex) and not isinstance(value, bool):
        number = operator.index(value)
    if number < low or (high is not None and number > high):
        span = f"at least {low}" if high is None else f"from {low} to {high}"
        raise ParameterError(f"{name} must be an integer {span}, not {value!r}")
    return number


def to_decimal(value: Fraction) -> Decimal:
    """Return `value` rounded once, to the digits of the current context."""
    return Decimal(value.numerator) / Decimal(value.denominator)


def expm1(x: Decimal) -> Decimal:
    """Return e^x - 1 without cancellation near zero."""
    if _is_linear(x):
        return +x if x else Decimal(0)
    with decimal.localcontext() as context:
        context.prec += max(0, -x.adjusted()) + 3
        value = x.exp() - 1
    return +value


def log1p(x: Decimal) -> Decimal:
    """Return ln(1 + x) without cancellation near zero; `x` is above -1."""
    if _is_linear(x):
        return +x if x else Decimal(0)
    with decimal.localcontext() as context:
        context.prec += max(0, -x.adjusted()) + 3
        value = (1 + x).ln()
    return +value


def _is_linear(x: Decimal) -> bool:
    """Return whether e^x - 1 and ln(1 + x) are x, to the digits of the current context.

    Sums with 1 would need as many digits as `x` has zeros, which may be 10^10.
    """
    return x == 0 or -x.adjusted() > decimal.getcontext().prec + 3
