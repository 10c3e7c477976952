import shlex
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command

from aggregator.cli.commands import COMMANDS, Entry
from aggregator.cli.groups import GROUPS
from aggregator.cli.program import app

HEAVY = ("numba", "numpy", "fastapi", "sqlalchemy", "alembic", "cryptography", "httpx")


@pytest.mark.parametrize("entry", COMMANDS, ids=lambda entry: entry.name)
def test_the_table_describes_a_command_as_its_own_help_does(entry: Entry) -> None:
    assert entry.load().get_short_help_str(200) == entry.help


def rows_of(path: str, command: Any) -> Iterator[tuple[str, dict[str, str]]]:  # noqa: ANN401  # typer does not export its commands' type
    """A group and the groups in it, each with the first line of what its commands do."""
    inner = getattr(command, "commands", None)
    if inner:
        yield path, {name: each.help.splitlines()[0] for name, each in inner.items()}
        for name, each in inner.items():
            yield from rows_of(f"{path} {name}", each)


def test_the_table_describes_the_commands_of_groups_as_they_do_themselves_in_the_same_order() -> (
    None
):
    found = {path: rows for entry in COMMANDS for path, rows in rows_of(entry.name, entry.load())}
    assert {path: [*rows.items()] for path, rows in found.items()} == {
        path: [*rows.items()] for path, rows in GROUPS.items()
    }


@pytest.mark.parametrize(
    "entry", [entry for entry in COMMANDS if entry.name in GROUPS], ids=lambda entry: entry.name
)
def test_the_help_of_a_group_is_the_same_before_its_commands_are_loaded(
    entry: Entry, capsys: pytest.CaptureFixture[str]
) -> None:
    helps = []
    for command in (entry.open(), entry.load()):
        with pytest.raises(SystemExit):
            command.main(["--help"], prog_name=f"prio {entry.name}")
        helps.append(capsys.readouterr().out)
    before, after = helps
    assert before == after
    assert all(name in before for name in GROUPS[entry.name])


def examples() -> Iterator[str]:
    """Every example that ends the help of a command or of one of its group."""
    for entry in COMMANDS:
        found = entry.load()
        for command in (found, *getattr(found, "commands", {}).values()):
            if command.epilog:
                yield command.epilog.removeprefix("Example: ")


def test_every_command_of_the_first_help_has_an_example() -> None:
    assert {example.split()[1] for example in examples()} == {entry.name for entry in COMMANDS}


@pytest.mark.parametrize("example", sorted(set(examples())))
def test_an_example_is_a_command_line_that_is_understood(example: str) -> None:
    name, *arguments = shlex.split(example)
    assert name == "prio"
    command, context = get_command(app), None
    while True:
        context = command.make_context(name, list(arguments), parent=context)
        if not hasattr(command, "resolve_command"):
            break
        name, command, arguments = command.resolve_command(context, arguments)


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["no-such-command"]])
def test_what_needs_no_command_loads_no_heavy_library(arguments: list[str]) -> None:
    code = (
        "import sys; from aggregator.cli import main; sys.argv[1:] = sys.argv[1:]\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print('loaded:', *sys.modules)"
    )
    done = subprocess.run(  # noqa: S603  # our own words
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    loaded = done.stdout.rpartition("loaded:")[2].split()
    assert "typer" in loaded
    assert not set(HEAVY) & set(loaded)


def test_the_version_names_the_drafts() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "aggregator.cli", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "draft-ietf-ppm-dap-18, draft-irtf-cfrg-vdaf-20" in done.stdout
