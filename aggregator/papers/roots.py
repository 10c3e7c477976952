"""Roots of functions in decimal arithmetic."""

from collections.abc import Callable, Iterator
from decimal import Decimal

from aggregator.errors import ParameterError


def find_root(
    function: Callable[[Decimal], Decimal], low: Decimal, high: Decimal, digits: int = 45
) -> Decimal:
    """Return where the continuous `function` changes sign between `low` and `high`.

    Regula falsi with Anderson and Bjorck's weights, bisecting where a step gains little, so it ends
    for any function that changes sign.

    Args:
        function: Continuous, with different signs (or zero) at the two ends.
        low: One end.
        high: The other end, above `low`.
        digits: The interval is narrowed to this many digits of its larger end.

    Raises:
        ParameterError: The signs at the two ends are equal.
    """
    at_low, at_high = function(low), function(high)
    if at_low == 0:
        return low
    if at_high == 0:
        return high
    if (at_low > 0) == (at_high > 0):
        raise ParameterError(f"no change of sign between {low:.6g} and {high:.6g}")
    tolerance = Decimal(1).scaleb(-digits)
    while high - low > tolerance * max(abs(low), abs(high)):
        width = high - low
        for middle in _probes(low, high, at_low, at_high):
            if not low < middle < high:
                continue
            value = function(middle)
            if value == 0:
                return middle
            if (value > 0) == (at_low > 0):
                weight = 1 - value / at_low
                low, at_low = middle, value
                at_high *= weight if weight > 0 else Decimal("0.5")
            else:
                weight = 1 - value / at_high
                high, at_high = middle, value
                at_low *= weight if weight > 0 else Decimal("0.5")
            if high - low < width / 4:
                break
    return (low + high) / 2


def _probes(low: Decimal, high: Decimal, at_low: Decimal, at_high: Decimal) -> Iterator[Decimal]:
    """Yield the secant's crossing, a point just past it on the wider side, and the middle."""
    secant = (low * at_high - high * at_low) / (at_high - at_low)
    yield secant
    # Once one end sits on the root the other must be brought to it: step just past it.
    hair = (high - low) * Decimal("1e-3")
    yield secant + hair if secant - low < high - secant else secant - hair
    yield (low + high) / 2
