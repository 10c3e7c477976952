"""Exact numbers and grids of numbers, as survey files write them."""

import dataclasses
import re
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, PlainSerializer

from aggregator.dp.rationals import format_rational, parse_rational
from aggregator.errors import ParameterError

MAX_DIGITS = 30
_NUMBER = re.compile(r"-?[0-9]{1,30}(\.[0-9]{1,30}|/[1-9][0-9]{0,29})?")

MAX_STEPS = 2**40
"""The most steps of a grid: their squares must fit into a measurement."""


def _exact(value: object) -> Fraction:
    match value:
        case bool():
            pass
        case int() | Fraction():
            return Fraction(value)
        case Decimal() if value.is_finite() and abs(value.adjusted()) <= MAX_DIGITS:
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


@dataclasses.dataclass(frozen=True, slots=True)
class Grid:
    """The numbers low, low + step, ... up to high; the step is above 0."""

    low: Fraction
    high: Fraction
    step: Fraction

    def __post_init__(self) -> None:
        if self.step <= 0:
            raise ParameterError(f"step must be above 0, not {self.step}")
        if self.high <= self.low:
            raise ParameterError(f"high must be above low ({self.low}), not {self.high}")
        steps = (self.high - self.low) / self.step
        if steps.denominator != 1 or steps > MAX_STEPS:
            raise ParameterError(
                f"high must be a whole number of steps of {self.step} above low, at most 2^40, "
                f"not {float(steps):.12g}"
            )

    @property
    def steps(self) -> int:
        """How many steps high is above low."""
        return int((self.high - self.low) / self.step)

    def nearest(self, number: Fraction) -> int:
        """Return how many steps above low the nearest number of the grid is; ties to even."""
        return round((number - self.low) / self.step)
