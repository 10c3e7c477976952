"""The contents of one cell in a table of answers."""

import dataclasses
import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias

from aggregator.client.survey.answers import Answer
from aggregator.client.survey.numbers import Unfit
from aggregator.client.survey.numbers import number as exact_number
from aggregator.errors import ParameterError

Cell: TypeAlias = str | int | float | Decimal | Sequence[str] | None
"""Text from CSV; numbers and lists of texts from Parquet; None for an empty cell."""

_SHOWN = 40


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

    The decimal mark, "." or ",", is for text.
    """
    written: object = cell
    if isinstance(cell, str) and decimal_mark == ",":
        # A point would be a separator of thousands, or a decimal mark after all: refuse it.
        written = cell.replace(".", "_").replace(",", ".")
    try:
        return exact_number(written)
    except Unfit as unfit:
        raise AnswerError(f"{unfit}, not {shown(cell)}") from None


def shown(cell: Cell) -> str:
    """Return the beginning of a cell for a message."""
    written = repr(cell if isinstance(cell, str) else str(cell))
    return written if len(written) <= _SHOWN else written[:_SHOWN] + "…"
