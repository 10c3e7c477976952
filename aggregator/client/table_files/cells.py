"""What a cell of a table says: one of a few values, whatever file and type it comes from.

A number has no type here: 17, 17.0 and a 32-bit 17 are one value. Text is without blanks at its
ends and in NFC; an empty cell, NaN and blank text are None. `laws` says what a value means where a
number, a label or a person is expected.
"""

import dataclasses
import enum
import math
from datetime import date, datetime, time
from decimal import Decimal
from typing import TypeAlias

from aggregator.client.text.strings import composed
from aggregator.errors import ParameterError

_SHOWN = 40
_MOST_DIGITS = 30
"""Of a decimal number, before its point, or zeros after it."""


class CellError(ParameterError):
    """A cell that cannot be read; the message says what is allowed, and names no person."""


class Truth(enum.Enum):
    """A truth value: neither text nor a number."""

    TRUE = "true"
    FALSE = "false"


class Inexact(Decimal):
    """A whole number that may have been another before its file had it, for lack of digits.

    It counts as it is, but names nobody.
    """


@dataclasses.dataclass(frozen=True, slots=True)
class Labelled:
    """A number or a code that its file gives a label, as Stata and SPSS do."""

    value: "Decimal | str"
    label: str


@dataclasses.dataclass(frozen=True, slots=True)
class Strange:
    """What no table of answers has, such as a duration or bytes: refused wherever it is read."""

    kind: str


Value: TypeAlias = str | Decimal | Truth | datetime | Labelled | Strange
Cell: TypeAlias = Value | tuple[Value | None, ...] | None
"""A time has no zone if the cell names none; a tuple is a list in one cell."""


def text_cell(text: str) -> str | None:
    """Return what text says; None if it is blank."""
    return composed(text.strip()) or None


def cell_of(value: object) -> Cell:
    """Return what a value of Python or NumPy says that a file's reader gave."""
    match value:
        case None:
            return None
        case str():
            return text_cell(value)
        case list() | tuple():
            return tuple(map(_item, value))
        case _:
            return _typed(value)


def plain(number: Decimal) -> str:
    """Return a number as decimal digits: 17 for 17.0, and 0.5 for 0.50."""
    if number == number.to_integral_value():
        return f"{number.to_integral_value():f}" if number else "0"
    return f"{number:f}".rstrip("0")


def shown(cell: Cell) -> str:
    """Return the beginning of a cell for a message."""
    match cell:
        case str():
            written = repr(cell)
        case Decimal():
            written = repr(plain(cell) if abs(cell.adjusted()) < _SHOWN else f"{cell:e}")
        case Labelled(value, label):
            written = f"{shown(value)} ({label!r})"
        case Truth():
            written = cell.value
        case datetime():
            written = f"the time {cell}"
        case Strange(kind):
            return kind  # which is no one's data, and may say what helps
        case None:
            written = "empty"
        case _:
            written = f"[{', '.join(map(shown, cell))}]"
    return written if len(written) <= _SHOWN else written[:_SHOWN] + "…"


def _item(value: object) -> Value | None:
    cell = cell_of(value)
    return Strange("a list in a list") if isinstance(cell, tuple) else cell


def _typed(value: object) -> Value | None:  # noqa: PLR0911  one for each type
    match value:
        case bool():
            return Truth.TRUE if value else Truth.FALSE
        case int():
            return Decimal(int(value))
        case float():
            # Not `repr`: NumPy's numbers are floats that add their type to it.
            return _of_float(value, float.__repr__(value))
        case Decimal():
            return _of_decimal(value)
        case date():
            return value if isinstance(value, datetime) else datetime.combine(value, time())
        case _ if hasattr(value, "dtype") and not getattr(value, "shape", True):
            return _of_numpy(value)
        case _:
            return Strange(f"a value of the type {type(value).__name__}")


def _of_numpy(value: object) -> Value | None:
    # Here, as a command that reads no table needs no arrays.
    import numpy as np

    match value:
        case np.bool_():
            return Truth.TRUE if value else Truth.FALSE
        case np.integer():
            return Decimal(int(value))
        case np.floating():
            return _of_float(float(value), np.format_float_scientific(value, unique=True))
        case _:
            return Strange(f"a value of the type {type(value).__name__}")


def _of_float(value: float, written: str) -> Decimal | Strange | None:
    if math.isnan(value):
        return None
    return Decimal(written) if math.isfinite(value) else Strange(repr(value))


def _of_decimal(value: Decimal) -> Decimal | Strange | None:
    if value.is_nan():
        return None
    if not value.is_finite() or abs(value.adjusted()) > _MOST_DIGITS:
        return Strange("a number of too many digits")
    return value
