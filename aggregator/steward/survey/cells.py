"""The contents of one cell in a table of answers."""

import dataclasses
import math
import re
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias

from aggregator.client.survey.answers import Answer
from aggregator.errors import ParameterError
from aggregator.steward.survey.exact import MAX_DIGITS, Grid

Cell: TypeAlias = str | int | float | Decimal | Sequence[str] | None
"""Text from CSV; numbers and lists of texts from Parquet; None for an empty cell."""

_SHOWN = 40
_NUMBER = re.compile(r"[+-]?[0-9]{1,30}(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,2})?")


class AnswerError(ParameterError):
    """A cell holds no answer to the question; the message says what an answer looks like."""


@dataclasses.dataclass(frozen=True, slots=True)
class Reading:
    """An answer that was read from cells, in whole numbers.

    A clipped number was beyond the range and was replaced by the nearest in it.
    """

    answer: Answer
    is_clipped: bool = False


def is_missing(cell: Cell) -> bool:
    """Whether a cell holds no answer at all."""
    match cell:
        case None:
            return True
        case str():
            return not cell.strip()
        case float():
            return math.isnan(cell)
        case _:
            return False


def text(cell: Cell) -> str:
    """Return a cell as text, without blanks around it."""
    return str(cell).strip()


def number(cell: Cell, decimal_mark: str) -> Fraction:
    """Return the exact number in a cell, or raise `AnswerError`.

    A float counts as the shortest decimal number that reads back as the same float. The decimal
    mark, "." or ",", is for text.
    """
    match cell:
        case bool():
            pass
        case int():
            return Fraction(cell)
        case float() if math.isfinite(cell):
            return Fraction(Decimal(repr(cell)))
        case Decimal() if cell.is_finite() and abs(cell.adjusted()) <= MAX_DIGITS:
            return Fraction(cell)
        case str():
            written = cell.strip()
            if decimal_mark == ",":
                written = written.replace(".", "_").replace(",", ".")
            if _NUMBER.fullmatch(written):
                return Fraction(Decimal(written))
        case _:
            pass
    raise AnswerError(f"must be a number, not {shown(cell)}")


def step(cell: Cell, grid: Grid, decimal_mark: str, *, clips: bool) -> tuple[int, bool]:
    """Return how many steps above the least number a cell is, and whether it was clipped.

    Raises `AnswerError` for no number, or one beyond the range that may not be clipped.
    """
    value = number(cell, decimal_mark)
    if grid.low <= value <= grid.high:
        return grid.nearest(value), False
    if not clips:
        raise AnswerError(
            f"must be from {float(grid.low):.12g} to {float(grid.high):.12g}, not {shown(cell)}; "
            "`clip = true` would take the nearest"
        )
    return (0 if value < grid.low else grid.steps), True


def label(cell: Cell, labels: Sequence[str]) -> int:
    """Return the index of a cell's label, or raise `AnswerError`."""
    written = text(cell)
    try:
        return labels.index(written)
    except ValueError:
        raise AnswerError(f"must be {_one_of(labels)}, not {shown(cell)}") from None


def shown(cell: Cell) -> str:
    """Return the beginning of a cell for a message."""
    written = repr(cell if isinstance(cell, str) else str(cell))
    return written if len(written) <= _SHOWN else written[:_SHOWN] + "…"


def _one_of(labels: Sequence[str]) -> str:
    most = 8
    names = ", ".join(repr(each) for each in labels[:most])
    return f"one of {names}" + (f" and {len(labels) - most} more" if len(labels) > most else "")
