"""Exact rationals as text: epsilon, delta, rho and what they cost.

Epsilons are exact from the task file ("1/10", "0.1", "1e-6") to the sampler. A TOML or JSON float
is refused: 0.1 as a float is 3602879701896397/2^55, which nobody meant.
"""

import decimal
import re
from decimal import Decimal
from fractions import Fraction

from aggregator.errors import ParameterError

MAX_RATIONAL_TEXT = 255
"""The most characters of a rational: what one length byte can count."""

_RATIONAL = re.compile(
    r"(?P<numerator>[0-9]+)"
    r"(?:/(?P<denominator>[0-9]+)|(?:\.(?P<decimals>[0-9]+))?(?:[eE](?P<exponent>-?[0-9]{1,3}))?)"
)


def parse_rational(text: object, name: str) -> Fraction:
    """Return the positive rational in `text`, exactly.

    Args:
        text: "1/10", "0.1", "3" or "1e-6", or a positive integer.
        name: The parameter's name, for the error message.

    Raises:
        ParameterError: A float, zero, a negative number, a zero denominator, or not a number.
    """
    if isinstance(text, float):
        raise ParameterError(
            f'{name} must be written as text, such as "1/10" or "0.1", for it to be exact: '
            f"{text!r} is a float"
        )
    if isinstance(text, int) and not isinstance(text, bool):
        if abs(text) >= 10**MAX_RATIONAL_TEXT:
            raise ParameterError(f"{name} has more than {MAX_RATIONAL_TEXT} digits")
        text = str(text)
    if not isinstance(text, str):
        raise ParameterError(f"{name} must be a positive rational written as text, not {text!r}")
    if len(text) > MAX_RATIONAL_TEXT:
        raise _no_rational(text, name, "positive ")
    value = _exact(text, name, "positive ")
    if value <= 0:
        raise ParameterError(f"{name} must be positive, not {text!r}")
    if len(format_rational(value)) > MAX_RATIONAL_TEXT:
        raise ParameterError(f"{name} has more than {MAX_RATIONAL_TEXT} digits: {text[:40]!r}")
    return value


def parse_cost(text: str, name: str) -> Fraction:
    """Return the rational in `text`, exactly; a cost may be zero, and of any length.

    Raises `ParameterError` for a negative number, a zero denominator, and what is not a number.
    """
    return _exact(text, name, "")


def parse_probability(text: object, name: str) -> Fraction:
    """Return the rational in `text`, strictly between 0 and 1, exactly.

    Raises `ParameterError` as `parse_rational` does, or if the value is 1 or more.
    """
    value = parse_rational(text, name)
    require_probability(value, name)
    return value


def require_positive(value: object, name: str) -> None:
    """Refuse anything but a positive `Fraction`."""
    if not isinstance(value, Fraction):
        raise ParameterError(f"{name} must be an exact rational, not {type(value).__name__}")
    if value <= 0:
        raise ParameterError(f"{name} must be positive, not {format_rational(value)}")


def require_probability(value: Fraction, name: str) -> None:
    """Refuse anything but a `Fraction` strictly between 0 and 1."""
    require_positive(value, name)
    if value >= 1:
        raise ParameterError(f"{name} must be below 1, not {format_rational(value)}")


def format_rational(value: Fraction) -> str:
    """Return the canonical text of a rational: "1/10", or "3" for an integer."""
    return str(value)


def at_most(value: Fraction, digits: int = 3) -> str:
    """Return a number with `digits` digits, rounded up so that it stays an upper bound."""
    with decimal.localcontext(prec=digits, rounding=decimal.ROUND_CEILING):
        text = f"{Decimal(value.numerator) / Decimal(value.denominator):g}"
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text


def _exact(text: str, name: str, kind: str) -> Fraction:
    match = _RATIONAL.fullmatch(text)
    if match is None:
        raise _no_rational(text, name, kind)
    if match["denominator"] is not None and int(match["denominator"]) == 0:
        raise ParameterError(f"{name} must have a denominator other than zero: {text!r}")
    return Fraction(text)


def _no_rational(text: str, name: str, kind: str) -> ParameterError:
    return ParameterError(
        f'{name} must be a {kind}rational such as "1/10" or "0.1", not {text[:40]!r}'
    )
