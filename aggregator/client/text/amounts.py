"""The number that people give beside a string: rounded at random to the least or the largest.

The number lies on a grid; y is how many of its N steps lie below it. A report tells one of two
levels (`levels`): 1 with a chance of exactly y/N, else 0. The mean of a string's numbers is what
part of its reports has level 1.
"""

import dataclasses
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from aggregator.client.survey.numbers import Grid
from aggregator.dp.rationals import format_rational
from aggregator.entropy import Entropy
from aggregator.errors import ParameterError
from aggregator.protocol.task import MADE_UP
from aggregator.untrusted_text import first_unsafe_member

LEVELS: Final = 2
"""The levels of a number."""

MOST_STEPS: Final = 2**32
"""The most steps from the least number to the largest."""

_MOST_SPELLED: Final = 100
"""The most bytes in which a task says which numbers are possible; its title needs some, too."""

_EXACT: Final = r"-?[0-9]{1,30}(?:/[1-9][0-9]{0,29})?"
_SPELLED: Final = re.compile(
    rf"^({re.escape(MADE_UP)})?with amounts of ({_EXACT}) to ({_EXACT})(?: ([^:]*))? "
    rf"in steps of ({_EXACT}): "
)
_DRAWN: Final = 8
"""Bytes of a draw; the largest are drawn again, so that all numbers are equally likely."""


@dataclasses.dataclass(frozen=True, slots=True)
class Range:
    """Which numbers are possible, from low to high, and their unit: what a decoder has to know."""

    low: Fraction
    high: Fraction
    step: Fraction
    unit: str

    @property
    def levels(self) -> int:
        """How many levels a report may have."""
        return LEVELS

    @property
    def size(self) -> Fraction:
        """How far the largest number is from the least."""
        return self.high - self.low

    def before(self, title: str) -> str:
        """Return a title that says them first, which a collector reads.

        Only what marks the title of a rehearsal stays before them.
        """
        low, high, step = map(format_rational, (self.low, self.high, self.step))
        unit = f" {self.unit}" if self.unit else ""
        mark = MADE_UP if title.startswith(MADE_UP) else ""
        said = f"{mark}with amounts of {low} to {high}{unit} in steps of {step}: "
        return said + title.removeprefix(mark)


@dataclasses.dataclass(frozen=True, slots=True)
class Amount:
    """A number that is asked for beside a string: how, on which grid, and in which unit."""

    text: str
    grid: Grid
    unit: str = ""

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise ParameterError("amount: text: must not be empty")
        if first_unsafe_member({"text": self.text, "unit": self.unit}):
            raise ParameterError(
                "amount: text and unit: must be a line, without control characters"
            )
        if self.unit != self.unit.strip() or ":" in self.unit:
            raise ParameterError("amount: unit: must have no colon, and no blanks at its ends")
        if not 1 <= self.grid.steps <= MOST_STEPS:
            raise ParameterError(
                f"amount: high: must be at most {MOST_STEPS:,} steps above low, not "
                f"{self.grid.steps:,}"
            )
        spelled = self.told.before("")
        if len(spelled.encode()) > _MOST_SPELLED or range_of(spelled) != self.told:
            raise ParameterError(
                f"amount: low, high, step and unit: are too long: {spelled!r} must have at most "
                f"{_MOST_SPELLED} bytes"
            )

    @classmethod
    def of_table(cls, table: Mapping[str, object]) -> "Amount":
        """Return the amount of a description; raises ValueError, TypeError or KeyError."""
        low, high, step = (table[name] for name in ("low", "high", "step"))
        grid = Grid.of(low, high, step, clips=table["clip"] is True)
        return cls(str(table["text"]), grid, str(table["unit"]))

    @property
    def levels(self) -> int:
        """How many levels a report may have."""
        return LEVELS

    @property
    def told(self) -> Range:
        """What a task says of it: the possible numbers."""
        return Range(self.grid.low, self.grid.high, self.grid.step, self.unit)

    @property
    def table(self) -> dict[str, object]:
        """What a description states of it."""
        return {
            "text": self.text,
            "low": format_rational(self.grid.low),
            "high": format_rational(self.grid.high),
            "step": format_rational(self.grid.step),
            "unit": self.unit,
            "clip": self.grid.clips,
        }

    def level(self, steps: int, entropy: Entropy) -> int:
        """Return the level of a number that is so many steps above the least; it is drawn once.

        Outside tests the entropy is the operating system's.
        """
        return int(drawn_below(self.grid.steps, entropy) < steps)


def range_of(title: str) -> Range | None:
    """Return the numbers that the `task_info` of a task says are possible; None if it says none."""
    found = _SPELLED.match(title)
    if found is None:
        return None
    _, low, high, unit, step = found.groups()
    try:
        grid = Grid.of(low, high, step, clips=True)
    except ValueError:
        return None
    return Range(grid.low, grid.high, grid.step, unit or "")


def without_range(title: str) -> str:
    """Return what a task is for, without the numbers that are possible."""
    return _SPELLED.sub(r"\1", title)


def drawn_below(count: int, entropy: Entropy) -> int:
    """Draw a number below `count`, all equally likely."""
    fair = 2 ** (8 * _DRAWN) // count * count
    while True:
        drawn = int.from_bytes(entropy.bytes(_DRAWN), "big")
        if drawn < fair:
            return drawn % count
