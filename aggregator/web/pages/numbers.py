"""Numbers for a reader: rounded so that an interval still holds what it held."""

import math
from fractions import Fraction

from aggregator.web.pages.charts import Mark

_LARGE = 10**12
"""A half width from which on nobody counts digits."""


def said(mark: Mark) -> tuple[str, str, str]:
    """Return an estimate and its interval for a reader: value, from, to.

    Two digits of the half width are shown, ends rounded outward; JSON and files have all digits.
    """
    half = (mark.high - mark.low) / 2
    if not (math.isfinite(half) and 0 < half < _LARGE):
        return number(mark.value), number(mark.low), number(mark.high)
    shown = [each for each in (mark.value, mark.low, mark.high) if each is not None]
    is_whole = all(each.is_integer() for each in shown)
    digits = 0 if is_whole else max(0, 1 - math.floor(math.log10(half)))
    unit = 10**digits
    low, high = math.floor(mark.low * unit) / unit, math.ceil(mark.high * unit) / unit
    value = "none" if mark.value is None else f"{mark.value:,.{digits}f}"
    return value, f"{low:,.{digits}f}", f"{high:,.{digits}f}"


def number(value: float | Fraction | None) -> str:
    """Return a number for a reader."""
    if value is None:
        return "none"
    if not math.isfinite(value):
        return "unbounded"
    return f"{float(value):,.6g}"
