"""Compares decimals with printed values, to as many digits as were printed."""

from decimal import Decimal, localcontext

from aggregator.dp.certified import to_float
from aggregator.dp.laws import NoiseLaw


def agrees(value: Decimal | float | None, printed: str) -> bool:
    """Whether `value`, rounded to the digits of `printed`, is within one unit of its last digit."""
    if value is None:
        return False
    expected = Decimal(printed)
    exponent = expected.as_tuple().exponent
    assert isinstance(exponent, int)
    with localcontext() as context:
        context.prec = 80
        return abs(Decimal(value) - expected) <= Decimal(1).scaleb(exponent)


def relative_error(value: Decimal | float, expected: object) -> float:
    """Return |value - expected| / |expected|; `expected` may be an mpmath number."""
    with localcontext() as context:
        context.prec = 80
        truth = Decimal(str(expected))
        if truth == 0:
            return float(abs(Decimal(value)))
        return float(abs(Decimal(value) - truth) / abs(truth))


def rows(table: str) -> list[list[str]]:
    """Return the cells of a printed table: rows by line or by |, cells by spaces."""
    return [cell.split() for line in table.strip().split("\n") for cell in line.split("|")]


def coverage(law: NoiseLaw, width: int) -> float:
    """Return P(|S| <= width)."""
    tail = law.upper_tail(width + 1)
    return 1.0 if tail is None else to_float(lambda digits: 1 - 2 * tail(digits))
