"""Writes `docs/settings.md`, `docs/commands.md` and what help says of commands that are not loaded.

Run `python -m tests.support.reference docs` after a change (`make docs` does); a test compares.
"""

import json
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any, Final, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from aggregator.cli import groups
from aggregator.cli.commands import COMMANDS
from aggregator.cli.faults import STATUSES
from aggregator.cli.service.reading import FIXED
from aggregator.service.config import (
    TABLES,
    TUNING,
    AggregatorSettings,
    CollectorSettings,
    HelperSettings,
    LeaderSettings,
    Schedule,
    ServiceSettings,
    table_of,
)

CLASSES: Final[Mapping[str, type[ServiceSettings]]] = {
    "Every party": ServiceSettings,
    "Leader and helper": AggregatorSettings,
    "Leader": LeaderSettings,
    "Helper": HelperSettings,
    "Collector": CollectorSettings,
}
"""Which parties have the settings that a class adds to those of its base class."""

_WRITTEN: Final = "*Written by `python -m tests.support.reference docs`; do not edit by hand.*"

_SETTINGS: Final = f"""\
# Settings

{_WRITTEN}

A setting belongs in a table of a party's service file. The environment overrides the file, as
`PRIO_` and the name in capitals; without `--config` all settings come from the environment. A
setting that does not exist, or is in the wrong table, is refused. Relative paths start at the
file's folder. A fraction is text: `"1/2"`.

```toml
[service]
role = "leader"
database = "/var/lib/prio/leader.sqlite"
listen = "127.0.0.1:8001"
health_listen = "127.0.0.1:9001"

[keys]
store_key_file = "/var/lib/prio-key/leader.key"

[requirements]
min_batch_size = 100
max_epsilon = "2"
```

On SIGHUP a service [reads its settings again](operations/reload.md), except those marked *restart*.
"""

_ABOUT: Final[Mapping[str, str]] = {
    "service": "Which party this is, where its store is, and where it answers.",
    "keys": "The secrets. A service file that contains one must be readable by its owner only.",
    "requirements": "What an aggregator requires of a task before it takes part.",
    "tls": "Certificates of a service that speaks [TLS itself](operations/edge.md), and of others.",
    TUNING: "All other settings. Their defaults serve.",
}

_SCHEDULE: Final = """\
## `[[schedule]]`

One table for each [survey](surveys.md) whose windows the collector service collects when they are
over.
"""

_NUMBA: Final = """\
## For compiled kernels

`NUMBA_CACHE_DIR`, in the environment only, names a writable folder for compiled kernels; if not
set, it is the user's cache folder. `prio warm` fills it. Until it is filled, a client shards more
slowly, and a service verifies more slowly until a separate process has compiled its kernels. A
folder that cannot be written is still read if root or the user owns it; anybody who can write it
can have any code run. Kernels are found by the content of their sources, so another checkout or
environment of the same version, on the same kind of processor, need not compile them again.
"""

_COMMANDS: Final = f"""\
# Commands

{_WRITTEN}

Every command has `--help`, with an example, and `--help-all`, with the rarer options too.
"""

_MANNERS: Final = """\
`prio audit pair` has its own: 0 the law of the noise holds, 1 it is refuted, 2 the audit could not
run or has to wait. Ctrl-C ends a command with status 130.

## What holds for all

- A failure is one line on standard error, `prio: …`, that names the fault and the file that has it.
- `--json` documents carry `version`.
- Text is read as UTF-8, with a byte order mark or without, 64 MiB at most.
- A file or a folder that a command makes is there whole or not at all.
- Commands that only read (`prio ledger`, `prio task list`, `prio task show`, `prio hpke list`) take
  no lock that a writer needs: call them at any time.
"""


def settings_document() -> str:
    """Return the document of all settings, as Markdown."""
    parts = [_SETTINGS]
    for table, about in _ABOUT.items():
        parts += [f"## `[{table}]`\n", f"{about}\n", _table(_of(table), "who")]
    schedule = ((name, None, field) for name, field in Schedule.model_fields.items())
    return "\n".join([*parts, _SCHEDULE, _table(schedule), _NUMBA])


def commands_document() -> str:
    """Return the document of all commands, as Markdown."""
    parts = [_COMMANDS]
    for panel, entries in groupby(COMMANDS, lambda entry: entry.panel):
        headings: dict[str, str] = {panel: ""}
        for entry in entries:
            for name, command in _below(entry.load(), f"prio {entry.name}"):
                heading = command.rich_help_panel or panel
                row = f"| `{name}` | {_first_sentence(command)} |\n"
                headings[heading] = headings.get(heading, "") + row
        parts += [
            f"## {heading}\n\n| command | what it does |\n| --- | --- |\n{rows}"
            for heading, rows in headings.items()
        ]
    statuses = [f"| {status} | {meaning} |\n" for status, meaning in STATUSES.items()]
    parts.append("".join(["## Exit status\n\n| status | meaning |\n| --- | --- |\n", *statuses]))
    return "\n".join([*parts, _MANNERS])


def help_table() -> str:
    """Return what help says of each command and group before its module is loaded, as JSON."""
    rows = {}
    for entry in COMMANDS:
        for path, command in _with_groups(entry.load(), entry.name):
            panel = {"panel": command.rich_help_panel} if command.rich_help_panel else {}
            rows[path] = {"help": _first_sentence(command)} | panel
    lines = (f"  {json.dumps(path)}: {json.dumps(row)}" for path, row in rows.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _first_sentence(command: Any) -> str:  # noqa: ANN401  # typer does not export its commands' type
    """Return the first paragraph of a command's help, in one line."""
    return " ".join((command.help or "").split("\n\n")[0].split())


def _with_groups(command: Any, path: str) -> Iterator[tuple[str, Any]]:  # noqa: ANN401  # typer does not export its commands' type
    """Yield a command and, if it is a group, those in it, with the names that lead to them."""
    yield path, command
    for word, sub in getattr(command, "commands", {}).items():
        yield from _with_groups(sub, f"{path} {word}")


def commands() -> Iterator[tuple[str, Any]]:
    """Yield every command that does something, with its name."""
    for entry in COMMANDS:
        yield from _below(entry.load(), f"prio {entry.name}")


def _below(command: Any, name: str) -> Iterator[tuple[str, Any]]:  # noqa: ANN401  # typer does not export its commands' type
    below = getattr(command, "commands", {})
    for word, sub in below.items():
        yield from _below(sub, f"{name} {word}")
    if not below:
        yield name, command


def _own(kind: type[BaseModel]) -> Iterator[tuple[str, FieldInfo]]:
    """Yield the settings that a class itself declares."""
    for name, field in kind.model_fields.items():
        if name in kind.__annotations__ and name != "role":
            yield name, field


def _of(table: str) -> Iterator[tuple[str, str, FieldInfo]]:
    """Yield the settings of a table, each with the parties that have it."""
    own = [
        (name, who.lower(), field) for who, kind in CLASSES.items() for name, field in _own(kind)
    ]
    if table == TUNING:
        yield from (each for each in own if table_of(each[0]) == TUNING)
        return
    for name in TABLES[table]:
        if name == "role":
            parties = Literal["leader", "helper", "collector"]
            described = LeaderSettings.model_fields[name].description
            yield name, "every party", FieldInfo(annotation=parties, description=described)
        yield from (each for each in own if each[0] == name)


def _table(rows: Iterable[tuple[str, str | None, FieldInfo]], *more: str) -> str:
    heads = ["setting", *more, "value", "default", "what it is"]
    lines = [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]
    for name, who, field in rows:
        restart = " *restart*" if name in FIXED else ""
        cells = [f"`{name}`", *([who] if who else []), _values(field), _default(name, field)]
        lines.append(f"| {' | '.join(cells)} | {field.description}{restart} |")
    return "\n".join([*lines, ""])


def _default(name: str, field: FieldInfo) -> str:
    value = field.default
    if value is PydanticUndefined:
        return "required"
    if value is None or value in ("", ()):
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value}`{_spoken(name, value)}"


def _spoken(name: str, value: object) -> str:
    """Return a large number in readable units, such as (30 days)."""
    units: tuple[tuple[str, int], ...] = ()
    if name.endswith("_seconds"):
        units = (("days", 86_400), ("hours", 3600), ("minutes", 60))
    elif "bytes" in name or name == "max_body_size":
        units = (("MiB", 2**20),)
    for unit, size in units:
        if isinstance(value, int) and value >= size and value % size == 0:
            count = value // size
            return f" ({count} {unit.removesuffix('s') if count == 1 else unit})"
    return ""


def _values(field: FieldInfo) -> str:
    """Return the values that a setting may have."""
    (kind, *_) = [each for each in _members(field.annotation) if each is not type(None)]
    metadata = [*field.metadata]
    while hasattr(kind, "__metadata__"):  # an annotated type, with bounds of its own
        metadata += kind.__metadata__
        kind = kind.__origin__
    if get_origin(kind) is Literal:
        return ", ".join(f"`{value}`" for value in get_args(kind))
    if kind is bool:
        return "`true`, `false`"
    if kind in (int, float):
        return _bounds(metadata)
    return _NAMES.get(getattr(kind, "__name__", ""), "text")


_NAMES: Final = {
    "Path": "path",
    "Fraction": "fraction",
    "HttpUrl": "URL",
    "SecretStr": "secret",
    "tuple": "tables",
}


def _members(annotation: Any) -> tuple[Any, ...]:  # noqa: ANN401  # an annotation
    if get_origin(annotation) in (Union, types.UnionType):
        return tuple(inner for each in get_args(annotation) for inner in _members(each))
    return (annotation,)


def _bounds(metadata: Iterable[object]) -> str:
    least = most = ""
    for each in _unfolded(metadata):
        for word, bound in (("from", "ge"), ("above", "gt")):
            if hasattr(each, bound):
                least = f"{word} {getattr(each, bound):,}"
        if hasattr(each, "le"):
            most = f"to {each.le:,}"
    return " ".join(each for each in (least, most) if each)


def _unfolded(metadata: Iterable[object]) -> Iterator[object]:
    for each in metadata:
        yield from each.metadata if isinstance(each, FieldInfo) else (each,)


def main(folder: Path, table: Path) -> None:
    """Write both documents into a folder, and the table of help."""
    for name, text in (("settings", settings_document()), ("commands", commands_document())):
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    table.write_text(help_table(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(groups.__file__).with_name("help.json"))
