"""Numbers as answers: exact, whatever type an application uses, and checked for the question."""

import bisect
import dataclasses
import itertools
import math
import operator
import re
from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from numbers import Real
from typing import SupportsIndex

_NUMBER = re.compile(r"[+-]?(?=\.?[0-9])[0-9]{0,30}(\.[0-9]{0,30})?([eE][+-]?[0-9]{1,2})?")
_EXACT = re.compile(r"-?[0-9]{1,60}(/[1-9][0-9]{0,59})?")
_MAX_DIGITS = 30
_NOTHING = frozenset({"NAType", "NaTType"})
"""The types of pandas' values for what is missing, neither of which equals even itself."""


class Unfit(Exception):
    """A question does not take this answer; the message says what it takes, not what was given.

    Of an answer in several parts, `at` is the place of the one at fault, if it is one.
    """

    def __init__(self, problem: str, at: int | None = None) -> None:
        super().__init__(problem)
        self.at = at


class Beyond(Unfit):
    """The answer is a number below the least or above the largest that is possible."""


def is_nothing(answer: object) -> bool:
    """Return whether this is a way to write that there is no answer: None, a blank text or NaN."""
    match answer:
        case None:
            return True
        case str():
            return not answer.strip()
        case Decimal():
            return answer.is_nan()
        case Real():
            return bool(answer != answer)  # noqa: PLR0124  as NaN alone is, of any library
        case _:
            return type(answer).__name__ in _NOTHING


def truth(answer: object) -> bool | None:
    """Return the truth value that an answer is; None if it is another thing.

    NumPy's are neither `bool` nor numbers.
    """
    if getattr(answer, "shape", None) == () and hasattr(answer, "item"):
        answer = answer.item()
    return answer if isinstance(answer, bool) else None


def number(answer: object) -> Fraction:
    """Return the exact number that an answer is, or raise `Unfit`.

    A float counts as its shortest decimal number, and one of another precision as the shortest in
    that precision.
    """
    match answer:
        case bool():
            pass
        case int() | Fraction():
            return Fraction(answer)
        case float() if math.isfinite(answer):
            # Not `repr`: NumPy's numbers are floats that add their type to it.
            return Fraction(Decimal(float.__repr__(answer)))
        case Decimal() if answer.is_finite() and abs(answer.adjusted()) <= _MAX_DIGITS:
            return Fraction(answer)
        case str() if _NUMBER.fullmatch(answer.strip()):
            return Fraction(Decimal(answer.strip()))
        case Real() if _NUMBER.fullmatch(str(answer)):
            return Fraction(Decimal(str(answer)))
        case SupportsIndex():
            with suppress(TypeError):  # an array converts only if it holds a single number
                return Fraction(operator.index(answer))
        case _:
            pass
    raise Unfit("must be a number")


def exact(text: object) -> Fraction:
    """Return the number that a meaning writes as text, or raise ValueError."""
    if not isinstance(text, str) or not _EXACT.fullmatch(text):
        raise ValueError("not an exact number")
    return Fraction(text)


def pair(exact_number: Fraction) -> list[str]:
    """Return a number's numerator and denominator as text: JSON numbers are not exact."""
    return [str(exact_number.numerator), str(exact_number.denominator)]


@dataclasses.dataclass(frozen=True, slots=True)
class Grid:
    """The numbers low, low + step, ...; an answer counts as the nearest, ties as the even one.

    `clips` says whether a number out of range counts as the nearest of them, or is refused.
    """

    low: Fraction
    step: Fraction
    steps: int
    clips: bool

    @classmethod
    def of(cls, low: object, high: object, step: object, *, clips: bool) -> "Grid":
        """Return the grid that a meaning describes, or raise ValueError."""
        least, apart = exact(low), exact(step)
        size = exact(high) - least
        if apart <= 0 or size <= 0 or (steps := size / apart).denominator != 1:
            raise ValueError("not a grid")
        return cls(least, apart, int(steps), clips)

    @property
    def high(self) -> Fraction:
        """The largest number."""
        return self.low + self.steps * self.step

    def place(self, answer: object) -> int:
        """Return how many steps above the least an answer is.

        Raises `Unfit` if it is no number, or out of range.
        """
        above = (number(answer) - self.low) / self.step
        if 0 <= above <= self.steps:
            return round(above)
        if self.clips:
            return 0 if above < 0 else self.steps
        raise Beyond(_between(self.low, self.high))

    def data(self) -> dict[str, object]:
        """Return it for other interpreters."""
        return {
            "low": pair(self.low),
            "step": pair(self.step),
            "steps": str(self.steps),
            "clip": self.clips,
        }


@dataclasses.dataclass(frozen=True, slots=True)
class Ranges:
    """Ranges between edges; each includes its lower edge, and the last its upper edge too.

    Attributes:
        edges: In ascending order.
        clips: Whether a number out of range counts in the nearest range, or is refused.
    """

    edges: Sequence[Fraction]
    clips: bool

    @property
    def low(self) -> Fraction:
        """The lowest edge."""
        return self.edges[0]

    @property
    def high(self) -> Fraction:
        """The highest edge."""
        return self.edges[-1]

    def place(self, answer: object) -> int:
        """Return the place of the range that an answer lies in; raises `Unfit` if there is none."""
        value = number(answer)
        if not self.clips and not self.low <= value <= self.high:
            raise Beyond(_between(self.low, self.high))
        return min(max(bisect.bisect_right(self.edges, value) - 1, 0), len(self.edges) - 2)

    @property
    def choices(self) -> list[str]:
        """What the ranges are called."""
        *others, last = itertools.pairwise(map(as_text, self.edges))
        named = [f"{low} to under {high}" for low, high in others]
        return [*named, f"{last[0]} to {last[1]}"]

    def data(self) -> dict[str, object]:
        """Return them for other interpreters."""
        return {"edges": [pair(edge) for edge in self.edges], "clip": self.clips}


def as_text(amount: Fraction) -> str:
    """Return a number as text for a reader."""
    return str(amount) if amount.denominator == 1 else f"{float(amount):.6g}"


def _between(low: Fraction, high: Fraction) -> str:
    limits = (str(each) if each.denominator == 1 else f"{float(each):.12g}" for each in (low, high))
    return f"must be from {' to '.join(limits)}"
