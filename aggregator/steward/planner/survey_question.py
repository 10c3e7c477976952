"""The table of a question in a survey file, made from the fields of its kind."""

import re
from collections.abc import Callable, Mapping
from typing import Final

from aggregator.errors import ParameterError
from aggregator.steward.planner.fields import MOST_LINES, Fields, short
from aggregator.steward.planner.survey_file import TomlValue, regions
from aggregator.steward.survey import questions

MOST_EDGES = 200

KINDS: Final = {kind: each.is_answered_by for kind, each in questions.KINDS.items()}
"""The kinds of question, in words."""

Table = dict[str, TomlValue]


def question_table(fields: Fields) -> Table:
    """Return the table of the question, or raise `ParameterError`."""
    kind = fields.one_of("kind", KINDS)
    asked: Table = {"name": "question", "text": fields.text("text"), "kind": kind}
    for field in questions.KINDS[kind].planned_by:
        asked |= FIELDS[field](fields)
    return asked


def _labels(fields: Fields) -> Table:
    return {"labels": [each.strip() for each in fields.lines("labels")]}


def _at_most(fields: Fields) -> Table:
    is_given = fields.text("at_most") != ""
    return {"at_most": fields.whole("at_most", 1, MOST_LINES["labels"])} if is_given else {}


def _exact(name: str) -> Callable[[Fields], Table]:
    return lambda fields: {name: fields.exact(name, fields.text(name))}


def _step(fields: Fields) -> Table:
    return {**_exact("step")(fields), "clip": True}


def _unit(fields: Fields) -> Table:
    unit = fields.text("unit")
    return {"unit": unit} if unit else {}


def _edges(fields: Fields) -> Table:
    parts = [each for each in re.split(r"[\s,;]+", fields.raw("edges")) if each]
    if len(parts) > MOST_EDGES:
        raise ParameterError(f"edges may be {MOST_EDGES} numbers, not {len(parts):,}")
    return {"edges": [fields.exact("edges", each) for each in parts], "clip": True}


def _columns(fields: Fields) -> Table:
    return {"column": [_column(fields, line) for line in fields.lines("columns")]}


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


def _regions(fields: Fields) -> Table:
    return {"regions": regions(fields.lines("regions"))}


FIELDS: Final[Mapping[str, Callable[[Fields], Table]]] = {
    "labels": _labels,
    "at_most": _at_most,
    "low": _exact("low"),
    "high": _exact("high"),
    "step": _step,
    "unit": _unit,
    "edges": _edges,
    "columns": _columns,
    "regions": _regions,
}
"""What each field that only some kinds have adds to the table."""
