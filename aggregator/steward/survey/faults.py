"""Faults of a survey file, in the words of its author: what a value must be, and what it is.

Faults that our own models raise say that already. Those that pydantic finds are translated as for
settings, with hints that are a survey's.
"""

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from aggregator.service.config import in_words, place_of
from aggregator.steward.survey.questions import KINDS
from aggregator.untrusted_text import escaped, meant

_ALL_KINDS = (*KINDS, "text")
"""With the kind whose questions are not part of a report."""
_LISTS: Mapping[str, str] = {
    "labels": '["yes", "no", "do not know"]',
    "edges": "[0, 18, 65, 120]",
    "quantiles": '["1/2"]',
    "regions": '[{label = "North", below = [{label = "Hill"}]}, {label = "South"}]',
}
_TABLES: Mapping[str, str] = {
    "budget": "a table [budget]",
    "question": "a table [[question]] for each",
    "column": "a table [[question.column]] for each",
}
_A_NAME = (
    "at most 40 letters from A to Z or a to z, digits, - and _, of which the first is a letter "
    "or a digit"
)
_OTHERS: Mapping[str, str] = {
    "string_too_short": "must not be empty",
    "union_tag_not_found": f"kind: missing; must be one of {', '.join(_ALL_KINDS)}",
}
_OF_EVERY_QUESTION = {"weight", "design"}
_SHOWN = 40
_MOST_LINES = 5
_LINE = re.compile(r"at line ([0-9]+)")


def told(error: ValidationError, table: Mapping[str, object], model: type[BaseModel]) -> str:
    """Return the faults of a survey file that a model of it has raised, one on each line."""
    found = error.errors(include_url=False)
    lists = {each["loc"][:place] for each in found for place in range(len(each["loc"]))}
    lines = []
    for each in found:
        if each["type"] == "too_short" and each["loc"] in lists:
            continue  # entries with faults are left out, so it looks as if there were none
        lines.append(": ".join([*_place(each["loc"], table), _words(each, model)]))
    return "\n".join(f"survey: {line}" for line in at_most(lines, _MOST_LINES))


def not_toml(error: Exception, text: str) -> str:
    """Return why a file is not TOML, with the line at fault."""
    said = str(error)
    found = _LINE.search(said)
    lines = text.splitlines()
    if found and 0 < int(found[1]) <= len(lines):
        said += f": {escaped(_cut(lines[int(found[1]) - 1].strip()))}"
    return f"survey: not TOML: {said}"


def another_file(table: Mapping[str, object]) -> str | None:
    """Return which of our other files this is, if it is one."""
    if table.keys() & {"task", "collector_hpke_config"}:
        return "a task file"
    return "a service file" if table.keys() & {"role", "service"} else None


def at_most(lines: list[str], most: int) -> list[str]:
    """Return the first lines, and one that says how many more there are."""
    if len(lines) <= most:
        return lines
    return [*lines[:most], f"and {len(lines) - most:,} more"]


def _place(location: tuple[int | str, ...], table: Mapping[str, object]) -> list[str]:
    """Return where in the file a fault is; a question is given by its name."""
    place = []
    if location[:1] == ("question",) and len(location) > 1:
        index, location = location[1], location[2:]
        if location[:1] == ("question",):  # words of ours that are not in the file
            location = location[2:]
        place = [f"question {name_of(table, index)}"]
    return [*place, place_of(location)] if location else place


def name_of(table: Mapping[str, object], index: int | str) -> object:
    """Return the name of a question of a survey file, or its number if it has none."""
    match table.get("question"), index:
        case [list() as questions, int()] if isinstance(questions[index], dict):
            return questions[index].get("name", index + 1)
        case _:
            return int(index) + 1


def _words(error: ErrorDetails, model: type[BaseModel]) -> str:
    name, kind = str(error["loc"][-1]) if error["loc"] else "", error["type"]
    if kind == "missing":
        return "missing" + _for_example(name, ", such as ", ": ")
    if kind == "extra_forbidden":
        return f"no such setting here{meant(name, _known(error['loc'][:-1], model))}"
    if kind == "union_tag_invalid":
        tag = error["ctx"]["tag"]
        return (
            f"kind: must be one of {', '.join(_ALL_KINDS)}{_instead(tag)}{meant(tag, _ALL_KINDS)}"
        )
    if kind in ("tuple_type", "too_short", "model_type"):
        a_table = "a list" if kind == "tuple_type" else "a table"
        said = _TABLES.get(name, a_table + _for_example(name, " such as ", " "))
        return f"must be {said}{_instead(error['input'])}"
    if kind == "string_pattern_mismatch":
        return f"must be {_A_NAME}{_instead(error['input'])}"
    return _OTHERS.get(kind) or in_words(error, shown=_shown)


def _for_example(name: str, list_: str, table: str) -> str:
    if name in _LISTS:
        return list_ + _LISTS[name]
    return table + _TABLES[name] if name in _TABLES else ""


def _instead(value: object) -> str:
    return f", not {_shown(value)}"


def _known(location: tuple[int | str, ...], model: type[BaseModel]) -> set[str]:
    """Return the settings that are allowed in the table at a location."""
    models, own = [model], set[str]()
    for part in location:
        if part in KINDS:
            own, models = _OF_EVERY_QUESTION, [KINDS[str(part)]]
        elif isinstance(part, str):
            fields = [each for one in models for each in _fields(one).items()]
            models = [below for name, kind in fields if name == part for below in _models(kind)]
            own = set()
    return own | {name for each in models for name in _fields(each)}


def _fields(model: type[BaseModel]) -> dict[str, object]:
    """Return the types of a model's settings, by their names in the file."""
    return {field.alias or name: field.annotation for name, field in model.model_fields.items()}


def _models(annotation: object) -> list[type[BaseModel]]:
    """Return the models in a type."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [each for inner in get_args(annotation) for each in _models(inner)]


def _shown(value: object) -> str:
    """Return the beginning of a value, as it is in the file."""
    if isinstance(value, Decimal):
        return _cut(str(value))
    return _cut(json.dumps(value, ensure_ascii=False, default=str))


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
