"""Exact numbers, as survey files write them."""

import re
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, PlainSerializer

from aggregator.dp.rationals import format_rational, parse_rational
from aggregator.errors import ParameterError

_MAX_DIGITS = 30
_NUMBER = re.compile(r"-?[0-9]{1,30}(\.[0-9]{1,30}|/[1-9][0-9]{0,29})?")


def _exact(value: object) -> Fraction:
    match value:
        case bool():
            pass
        case int() | Fraction():
            return Fraction(value)
        case Decimal() if value.is_finite() and abs(value.adjusted()) <= _MAX_DIGITS:
            return Fraction(value)
        case str() if _NUMBER.fullmatch(value):
            return Fraction(value)
    raise ValueError(f'must be an exact number such as 12, 0.5 or "1/3", not {value!r}')


def _positive(value: object) -> Fraction:
    try:
        return parse_rational(str(value), "number")
    except ParameterError as error:
        raise ValueError(str(error).removeprefix("number ")) from None


Exact: TypeAlias = Annotated[
    Fraction, BeforeValidator(_exact), PlainSerializer(format_rational, return_type=str)
]
"""An exact number: an integer, a decimal number, or text such as "1/3"."""

Positive: TypeAlias = Annotated[
    Fraction, BeforeValidator(_positive), PlainSerializer(format_rational, return_type=str)
]
"""An exact number above 0 that fits into a privacy policy."""
