"""Numbers for a reader: rounded so that an interval still holds what it held."""

import math
from collections.abc import Sequence
from fractions import Fraction

from aggregator.untrusted_text import escaped

_LARGE = 10**12
"""From this half width on, digits are not worth counting."""


def said(value: float | None, low: float, high: float) -> tuple[str, str, str]:
    """Return an estimate and its interval for a reader: value, from, to.

    Two digits of the half width are shown, with the ends rounded outward; JSON and files have all
    digits. An estimate without bounds is shown with two digits, though none is certain.
    """
    digits = digits_of(value, low, high)
    if digits is None and value is not None and not math.isfinite(high - low):
        return number(float(f"{value:.2g}")), number(low), number(high)
    if digits is None:
        return number(value), number(low), number(high)
    unit = 10**digits
    ends = math.floor(low * unit) / unit, math.ceil(high * unit) / unit
    shown = "none" if value is None else f"{value:,.{digits}f}"
    return shown, f"{ends[0]:,.{digits}f}", f"{ends[1]:,.{digits}f}"


def digits_of(value: float | None, low: float, high: float) -> int | None:
    """Return how many digits after the point to show; None if there is no interval to tell."""
    half = (high - low) / 2
    if not (math.isfinite(half) and 0 < half < _LARGE):
        return None
    shown = [each for each in (value, low, high) if each is not None]
    is_whole = all(each.is_integer() for each in shown)
    return 0 if is_whole else max(0, 1 - math.floor(math.log10(half)))


def number(value: float | Fraction | None) -> str:
    """Return a number for a reader."""
    if value is None:
        return "none"
    if not math.isfinite(value):
        return "unbounded"
    return f"{float(value):,.6g}"


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows of cells as lines of text in columns, safe for a terminal."""
    cells = [[escaped(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(f"{cell:<{size}}" for cell, size in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]
