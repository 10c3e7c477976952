"""The values in an answer of `prio plan`."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias

Value: TypeAlias = (
    bool | int | float | Decimal | Fraction | str | Sequence["Value"] | Mapping[str, "Value"] | None
)
"""One value in an answer."""

PlanAnswer = dict[str, Value]
