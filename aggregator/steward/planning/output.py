"""How `prio plan` prints: as JSON, whose numbers may be far smaller than any double, or as text.

JSON does not limit a number's size, so 5.746029482e-561 is written in full; a parser that reads
doubles turns it into 0, one that reads decimals keeps it. A figure without a value (an infinite
epsilon, a rule that does not exist) is null.
"""

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias

from aggregator.dp.decimals import to_decimal, working
from aggregator.dp.rationals import at_most

Value: TypeAlias = (
    bool | int | float | Decimal | Fraction | str | Sequence["Value"] | Mapping[str, "Value"] | None
)
"""One value in an answer."""

PlanAnswer = dict[str, Value]

# Between these a double has its full precision.
_SMALLEST, _LARGEST = Decimal("1e-300"), Decimal("1e300")
_DIGITS = 17


def to_json(value: Value, indent: int = 0) -> str:
    """Return `value` as JSON text, indented by two spaces per level."""
    inner, outer = "  " * (indent + 1), "  " * indent
    match value:
        case str() | bool() | int() | None:
            return json.dumps(value)
        case float() | Decimal() | Fraction():
            return _number(value)
        case Mapping():
            lines = [
                f"{inner}{json.dumps(key)}: {to_json(item, indent + 1)}"
                for key, item in value.items()
            ]
            return "{\n" + ",\n".join(lines) + f"\n{outer}}}" if lines else "{}"
        case _:
            lines = [inner + to_json(item, indent + 1) for item in value]
            return "[\n" + ",\n".join(lines) + f"\n{outer}]" if lines else "[]"


def to_text(value: Mapping[str, Value], indent: int = 0) -> str:
    """Return `value` as text for a reader: one line per value or sentence, ten digits.

    Rationals, such as bounds on epsilon, are rounded up.
    """
    lines = []
    for key, item in value.items():
        name = "  " * indent + key.replace("_", " ")
        if isinstance(item, Mapping):
            lines += [f"{name}:", to_text(item, indent + 1)] if item else [f"{name}: none"]
        elif isinstance(item, Sequence) and not isinstance(item, str):
            lines.append(f"{name}:")
            lines += ["  " * (indent + 1) + "- " + _inline(element) for element in item]
        else:
            lines.append(f"{name}: {_inline(item)}")
    return "\n".join(lines)


def _inline(value: Value) -> str:
    match value:
        case None:
            return "none"
        case bool():
            return "yes" if value else "no"
        case str() | int():
            return str(value)
        case float() | Decimal() | Fraction():
            return _rounded(value)
        case Mapping():
            return ", ".join(f"{key} {_inline(item)}" for key, item in value.items())
        case _:
            return ", ".join(_inline(item) for item in value)


def _rounded(value: float | Decimal | Fraction) -> str:
    return at_most(value, 10) if isinstance(value, Fraction) else f"{Decimal(value):.10g}"


def _number(value: float | Decimal | Fraction) -> str:
    number = _as_decimal(value)
    if not number.is_finite():
        return "null"
    if number == 0 or _SMALLEST <= abs(number) <= _LARGEST:
        return json.dumps(float(number))
    with working(_DIGITS):
        return f"{+number:e}"


def _as_decimal(value: float | Decimal | Fraction) -> Decimal:
    if isinstance(value, Fraction):
        with working():
            return to_decimal(value)
    return Decimal(value)
