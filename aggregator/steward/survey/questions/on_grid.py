"""Numbers on a grid: from a least one to a largest, by steps."""

from fractions import Fraction
from functools import cached_property
from typing import Self

from pydantic import BaseModel, ConfigDict, model_validator

from aggregator.client.survey.numbers import Grid
from aggregator.steward.survey.exact import Exact

_MAX_STEPS = 2**40
"""The most steps: their squares must fit into a measurement."""


class OnGrid(BaseModel):
    """What is asked for as a number.

    Attributes:
        low: The least possible number.
        high: The largest possible number.
        step: The distance of possible numbers; others are rounded to the nearest.
        unit: The unit of the number.
        clip: Whether a number beyond the range counts as the nearest in it; if not, it is refused.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    low: Exact
    high: Exact
    step: Exact = Fraction(1)
    unit: str = ""
    clip: bool = False

    @model_validator(mode="after")
    def _check_grid(self) -> Self:
        _ = self.grid
        return self

    @cached_property
    def grid(self) -> Grid:
        """The possible numbers."""
        low, high, step = self.low, self.high, self.step
        if step <= 0:
            raise ValueError(f"step must be above 0, not {step}")
        if high <= low:
            raise ValueError(f"high must be above low ({low}), not {high}")
        steps = (high - low) / step
        if steps.denominator != 1 or steps > _MAX_STEPS:
            raise ValueError(
                f"high must be a whole number of steps of {step} above low, at most 2^40, "
                f"not {float(steps):.12g}"
            )
        return Grid(low, step, int(steps), self.clip)
