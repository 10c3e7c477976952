"""Task files as text: one document of several tasks, or of one, in TOML or JSON.

    version = 1

    [[task]]
    id = "…"

    [task.vdaf]
    type = "Prio3Histogram"

JSON is the same document: `{"version": 1, "task": [{"id": "…", "vdaf": {…}}]}`. A file of one task
may be its table alone, with `version` in it. Keys of an issuer are large: if all tasks that need
permits share them, they stand once, in a table `permits` above the tasks. This module reads and
writes tables; `protocol.task_file` and `protocol.provisioning` interpret them.
"""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence

from aggregator.errors import ParameterError

Table = dict[str, object]

NOT_TOML = (ValueError, RecursionError)
"""What parsing bad TOML or JSON raises, including huge numbers and deep nesting."""

_TASKS = "task"
_PERMITS = "permits"
_SHARED = ("first_window", "keys")
"""What the tables of permits of several tasks share."""
_COMMENTS = {
    "time_precision": "seconds",
    "max_reports": "the most that one batch may hold",
    "bound": "the other parties cannot tell whether we apply it",
    "interval": "in units of time_precision since the Unix epoch",
}
_PLACE = re.compile(r"line [0-9]+,? column [0-9]+")
_LIST = re.compile(r"\s*\[\s*\{")
"""How a list of tables in JSON begins, and no TOML."""


MOST_CHARACTERS = 2**20
_MOST_PARTS = 32
"""The most parts of a dotted key: parsing time grows with their square."""
_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+"""
_DOTTED = re.compile(rf"""(?<![\w"'.-])(?:{_PART}){{{_MOST_PARTS}}}""")


def check_text(text: str, name: str) -> None:
    """Refuse a text that is longer than any real file, or made to take hours to parse."""
    if len(text) > MOST_CHARACTERS:
        raise ParameterError(
            f"{name}: must have at most {MOST_CHARACTERS:,} characters, not {len(text):,}"
        )
    if _DOTTED.search(text):
        raise ParameterError(f"{name}: has a key of more than {_MOST_PARTS} parts joined by dots")


def read_tables(text: str, *, is_secret: bool = False) -> list[Table]:
    """Return the table of each task in a document, `version` in each.

    The text is TOML, or JSON, which begins with a brace as no TOML does. Raises `ParameterError`;
    if the text is secret, without any part of it in the message.
    """
    is_json = text.lstrip().startswith("{")
    check_text(text, "task file")
    if _LIST.match(text):
        raise ParameterError(
            "task file: is the list that pages need; give tasks.toml, the same tasks with all "
            "their settings"
        )
    try:
        document = _from_json(text) if is_json else tomllib.loads(text)
    except NOT_TOML as error:
        why = place_in_text(str(error)) if is_secret else f": {error}"
        # `from None`: the cause would carry text of the secrets.
        raise ParameterError(f"task file: not {'JSON' if is_json else 'TOML'}{why}") from None
    if _TASKS not in document:
        return [document]
    tasks = document.pop(_TASKS)
    if not isinstance(tasks, list) or not tasks or not all(isinstance(t, dict) for t in tasks):
        raise ParameterError(f"{_TASKS}: must be a table for each task, [[{_TASKS}]]")
    shared = document.pop(_PERMITS, {})
    if not isinstance(shared, dict) or not shared.keys() <= {*_SHARED}:
        names = " and ".join(_SHARED)
        raise ParameterError(f"{_PERMITS}: above the first [[{_TASKS}]] has {names}")
    for name in document.keys() - {"version"}:
        raise ParameterError(f"{name}: belongs in a table [[{_TASKS}]]")
    for task in tasks:
        if "version" in task:
            raise ParameterError(f"version: must be given once, above the first [[{_TASKS}]]")
        if shared and isinstance(permits := task.get(_PERMITS), dict):
            task[_PERMITS] = {**permits, **shared}
    return [document | task for task in tasks]


def table_to_toml(task: Mapping[str, object]) -> str:
    """Return the document that consists of one task's table alone."""
    return "\n".join(_lines(task, "")) + "\n"


def tables_to_toml(tasks: Sequence[Mapping[str, object]]) -> str:
    """Return the document of several tasks, all of one version, as TOML."""
    shared, bare = _parted(tasks)
    lines = _lines(shared, "")
    for task in bare:
        lines += ["", f"[[{_TASKS}]]", *_lines(task, f"{_TASKS}.")]
    return "\n".join(lines) + "\n"


def tables_to_json(tasks: Sequence[Mapping[str, object]]) -> str:
    """Return the document of several tasks, all of one version, as JSON."""
    shared, bare = _parted(tasks)
    return json.dumps({**shared, _TASKS: bare}, ensure_ascii=False, indent=2) + "\n"


def _parted(tasks: Sequence[Mapping[str, object]]) -> tuple[Table, list[Table]]:
    """Return what a document says once of all tasks, and the tasks without it."""
    (version,) = {task["version"] for task in tasks}
    bare = [{k: v for k, v in task.items() if k != "version"} for task in tasks]
    permits = [each for task in bare if isinstance(each := task.get(_PERMITS), Mapping)]
    keys = [{k: v for k, v in each.items() if k in _SHARED} for each in permits]
    shared = keys[0] if len(keys) > 1 else {}
    if not shared or any(each != shared for each in keys):
        return {"version": version}, bare
    for task in bare:
        if isinstance(each := task.get(_PERMITS), Mapping):
            task[_PERMITS] = {k: v for k, v in each.items() if k not in _SHARED}
    return {"version": version, _PERMITS: shared}, bare


def _lines(table: Mapping[str, object], prefix: str) -> list[str]:
    """Return the lines of a table: its values, then its tables, which TOML wants last."""
    values = {name: value for name, value in table.items() if not isinstance(value, Mapping)}
    lines = [f"{name} = {_value(value)}{_comment(name)}" for name, value in values.items()]
    for name, value in table.items():
        if isinstance(value, Mapping):
            lines += ["", f"[{prefix}{name}]{_comment(name)}", *_lines(value, f"{prefix}{name}.")]
    return lines


def _comment(name: str) -> str:
    return f"  # {_COMMENTS[name]}" if name in _COMMENTS else ""


def _value(value: object) -> str:
    # A JSON string is a TOML basic string except for DEL, which JSON does not escape.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")


def _from_json(text: str) -> Table:
    document = json.loads(text, object_pairs_hook=_once, parse_constant=_no_number)
    # JSON can hold half of a surrogate pair, which is no text; encoding it is a ValueError too.
    json.dumps(document, ensure_ascii=False).encode()
    assert isinstance(document, dict)  # noqa: S101  it begins with a brace
    return document


def _once(members: list[tuple[str, object]]) -> Table:
    table = dict(members)
    if len(table) != len(members):
        names = [name for name, _ in members]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} is given twice")
    return table


def _no_number(name: str) -> object:
    raise ValueError(f"{name} is no number")


def place_in_text(message: str) -> str:
    """Return only the place that a parser's message names, since its other words may be secret."""
    found = _PLACE.search(message)
    return f" ({found[0]})" if found else ""
