"""Numbers for a reader: rounded so that an interval still holds what it held."""

import math
from fractions import Fraction

from aggregator.service.web.pages.charts import Mark

_LARGE = 10**12
"""From this half width on, digits are not worth counting."""


def said(mark: Mark) -> tuple[str, str, str]:
    """Return an estimate and its interval for a reader: value, from, to.

    Two digits of the half width are shown, with the ends rounded outward; JSON and files have all
    digits. An estimate without bounds is shown with two digits, though none is certain.
    """
    digits = _digits(mark)
    if digits is None and mark.value is not None and not math.isfinite(mark.high - mark.low):
        return number(float(f"{mark.value:.2g}")), number(mark.low), number(mark.high)
    if digits is None:
        return number(mark.value), number(mark.low), number(mark.high)
    unit = 10**digits
    low, high = math.floor(mark.low * unit) / unit, math.ceil(mark.high * unit) / unit
    value = "none" if mark.value is None else f"{mark.value:,.{digits}f}"
    return value, f"{low:,.{digits}f}", f"{high:,.{digits}f}"


def beside(mark: Mark, truth: float) -> str:
    """Return a true value with as many digits as the estimate beside it.

    It has more if it lies so near an end of the interval that they would hide on which side.
    """
    digits = _digits(mark)
    if digits is None:
        return number(truth)
    rounded = round(truth, digits)
    is_held, seems_held = (mark.low <= each <= mark.high for each in (truth, rounded))
    return f"{rounded:,.{digits}f}" if is_held == seems_held else number(truth)


def _digits(mark: Mark) -> int | None:
    """Return how many digits after the point to show; None if there is no interval to tell."""
    half = (mark.high - mark.low) / 2
    if not (math.isfinite(half) and 0 < half < _LARGE):
        return None
    shown = [each for each in (mark.value, mark.low, mark.high) if each is not None]
    is_whole = all(each.is_integer() for each in shown)
    return 0 if is_whole else max(0, 1 - math.floor(math.log10(half)))


def number(value: float | Fraction | None) -> str:
    """Return a number for a reader."""
    if value is None:
        return "none"
    if not math.isfinite(value):
        return "unbounded"
    return f"{float(value):,.6g}"
