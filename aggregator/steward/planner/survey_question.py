"""The table of a question in a survey file, made from the fields of its kind."""

import re
from collections.abc import Callable, Mapping
from typing import Final

from aggregator.errors import ParameterError
from aggregator.steward.planner.fields import MOST_LINES, Fields, short
from aggregator.steward.planner.survey_file import TomlValue, regions

MOST_EDGES = 200

Table = dict[str, TomlValue]


def question_table(fields: Fields) -> Table:
    """Return the table of the question, or raise `ParameterError`."""
    kind = fields.one_of("kind", KINDS)
    asked: Table = {"name": "question", "text": fields.text("text"), "kind": kind}
    _, own = _KINDS[kind]
    return asked | own(fields)


def _choice(fields: Fields) -> Table:
    return {"labels": [each.strip() for each in fields.lines("labels")]}


def _multiple(fields: Fields) -> Table:
    most: Table = {}
    if fields.text("at_most"):
        most["at_most"] = fields.whole("at_most", 1, MOST_LINES["labels"])
    return _choice(fields) | most


def _yes_no(_fields: Fields) -> Table:
    return {}


def _number(fields: Fields) -> Table:
    own: Table = {name: fields.exact(name, fields.text(name)) for name in ("low", "high", "step")}
    return {**own, "clip": True, **_unit(fields)}


def _scale(fields: Fields) -> Table:
    return {name: _whole_number(fields, name) for name in ("low", "high")}


def _bins(fields: Fields) -> Table:
    return {"edges": _edges(fields), "clip": True, **_unit(fields)}


def _vector(fields: Fields) -> Table:
    return {"column": [_column(fields, line) for line in fields.lines("columns")]}


def _tree(fields: Fields) -> Table:
    return {"regions": regions(fields.lines("regions"))}


_KINDS: Final[Mapping[str, tuple[str, Callable[[Fields], Table]]]] = {
    "choice": ("One answer from a list", _choice),
    "multiple": ("Several answers from a list", _multiple),
    "yes-no": ("Yes or no", _yes_no),
    "number": ("A number: its mean", _number),
    "bins": ("A number: in which range", _bins),
    "scale": ("A scale, such as 1 to 5", _scale),
    "vector": ("Several numbers at once", _vector),
    "tree": ("A place in a hierarchy", _tree),
}
"""The kinds of question, in words, and the settings that each has of its own."""

KINDS: Final = {kind: words for kind, (words, _) in _KINDS.items()}


def _unit(fields: Fields) -> Table:
    unit = fields.text("unit")
    return {"unit": unit} if unit else {}


def _whole_number(fields: Fields, name: str) -> int:
    number = fields.exact(name, fields.text(name))
    if number.denominator != 1:
        raise ParameterError(f"{name} of a scale must be a whole number, not {number}")
    return int(number)


def _edges(fields: Fields) -> list[TomlValue]:
    parts = [each for each in re.split(r"[\s,;]+", fields.raw("edges")) if each]
    if len(parts) > MOST_EDGES:
        raise ParameterError(f"edges may be {MOST_EDGES} numbers, not {len(parts):,}")
    return [fields.exact("edges", each) for each in parts]


def _column(fields: Fields, line: str) -> TomlValue:
    """Return a column from "name, low, high, step, unit"; step and unit may be missing."""
    name, *rest = (each.strip() for each in line.split(","))
    if not 2 <= len(rest) <= 4:  # noqa: PLR2004  as the message says
        raise ParameterError(
            f'columns: each line must be "name, low, high, step, unit", not {short(line)}'
        )
    numbers = zip(("low", "high", "step"), rest, strict=False)
    column: dict[str, TomlValue] = {"name": name}
    column |= {key: fields.exact(f"columns: {key}", text) for key, text in numbers}
    if len(rest) == 4 and rest[3]:  # noqa: PLR2004  the unit
        column["unit"] = rest[3]
    return {**column, "clip": True}
