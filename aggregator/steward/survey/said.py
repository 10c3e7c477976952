"""What a survey's page says at one place: the survey's own text, or a string of the page."""

import dataclasses
import re
from collections.abc import Mapping
from typing import TypeAlias

from aggregator.written_times import IN_UTC

_NAMES = re.compile(r"\{([^{}]*)\}")
_PLAIN = re.compile(r"[0-9.,]*")
"""A number that no neighbour moves; a sign would go to its other end from right to left."""

Value: TypeAlias = str | int
"""What a name in braces stands for: a number or a name as text, or a moment in seconds."""


@dataclasses.dataclass(frozen=True, slots=True)
class Own:
    """A text that the survey's steward wrote."""

    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class Said:
    """A string of the page, by its name, with values for the names in braces that it has.

    Attributes:
        word: The name of the string; empty for a number by itself, the value `number`.
        values: What the names in braces stand for.
        unit: The survey's own unit, which stands behind `high`.
    """

    word: str
    values: Mapping[str, Value] = dataclasses.field(default_factory=dict)
    unit: str = ""

    def text(self, words: Mapping[str, str]) -> str:
        """Return it in some words; a page writes numbers and times as its reader does."""
        values = {
            name: IN_UTC.moment(value) if isinstance(value, int) else value
            for name, value in self.values.items()
        }
        if self.unit:
            values["high"] += f" {self.unit}"
        return filled(words[self.word] if self.word else "{number}", **values)


def filled(text: str, **values: str) -> str:
    """Return a text with its names in braces replaced, so that no value moves what is around it."""
    return _NAMES.sub(lambda match: isolated(values[match[1]]), text)


def isolated(text: str) -> str:
    """Return a text that is read in its own direction, unless it is a plain number."""
    return text if _PLAIN.fullmatch(text) else f"\u2068{text}\u2069"


def names_in(text: str) -> list[str]:
    """Return the names in braces of a string, in order."""
    return sorted(_NAMES.findall(text))
