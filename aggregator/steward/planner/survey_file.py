"""Writes `survey.toml` from what a form says; `survey_from_toml` then checks it."""

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TypeAlias

from aggregator.dp.rationals import format_rational
from aggregator.errors import ParameterError

TomlValue: TypeAlias = (
    str | int | bool | Fraction | Sequence["TomlValue"] | Mapping[str, "TomlValue"]
)

_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t"}
_CONTROL = re.compile(r'["\\\x00-\x1f\x7f]')

MOST_DEPTH = 5
"""The most levels of a hierarchy."""


def toml(value: TomlValue) -> str:
    """Return a value as TOML, on one line."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case Fraction():
            return str(value) if value.denominator == 1 else f'"{format_rational(value)}"'
        case str():
            return f'"{_CONTROL.sub(_escaped, value)}"'
        case Mapping():
            return "{ " + ", ".join(f"{key} = {toml(each)}" for key, each in value.items()) + " }"
        case _:
            return "[" + ", ".join(map(toml, value)) + "]"


def table(values: Mapping[str, TomlValue]) -> str:
    """Return the lines of a table, without its heading."""
    return "".join(f"{name} = {toml(value)}\n" for name, value in values.items())


def regions(lines: Sequence[str]) -> list[dict[str, TomlValue]]:
    """Return a hierarchy from lines, each indented further than its parent.

    Raises `ParameterError` if a line is indented further than the lines above allow, or there are
    too many levels.
    """
    top: list[dict[str, TomlValue]] = []
    levels: list[tuple[int, list[dict[str, TomlValue]]]] = [(0, top)]
    for number, line in enumerate(lines, start=1):
        text = line.replace("\t", "    ")
        depth = len(text) - len(text.lstrip())
        if depth > levels[-1][0] and levels[-1][1]:
            below: list[dict[str, TomlValue]] = []
            levels[-1][1][-1]["below"] = below
            levels.append((depth, below))
        while depth < levels[-1][0]:
            levels.pop()
        if depth != levels[-1][0]:
            raise ParameterError(
                f"regions: line {number} begins between two levels; indent it like those beside it"
            )
        if len(levels) > MOST_DEPTH:
            raise ParameterError(f"regions: may have at most {MOST_DEPTH} levels")
        levels[-1][1].append({"label": text.strip()})
    return top


def _escaped(match: re.Match[str]) -> str:
    return _ESCAPES.get(match[0], f"\\u{ord(match[0]):04X}")
