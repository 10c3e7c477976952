import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise

import pytest
from typer.main import get_command

from aggregator.cli import advanced, entries
from aggregator.cli.commands import COMMANDS, Entry
from aggregator.cli.groups import rows_below
from aggregator.cli.program import app
from aggregator.dap.profile import PROFILES
from aggregator.errors import ConfigurationError
from tests.support.reference import commands

HEAVY = ("numba", "numpy", "fastapi", "sqlalchemy", "alembic", "cryptography", "httpx")


@pytest.mark.parametrize(
    "entry", [each for each in COMMANDS if rows_below(each.name)], ids=lambda entry: entry.name
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
    assert all(name in before for name in rows_below(entry.name))


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


def help_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as ended:
        get_command(app).main([*arguments], prog_name="prio")
    assert ended.value.code == 0
    return capsys.readouterr().out


def test_the_first_help_shows_a_dozen_commands_and_help_all_every_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    first, whole = help_of(capsys, "--help"), help_of(capsys, "--help-all")
    shown = {entry.name for entry in COMMANDS if f"│ {entry.name} " in first}
    assert shown == {entry.name for entry in COMMANDS if entry.is_daily}
    assert 10 <= len(shown) <= 13
    assert all(f"│ {entry.name} " in whole for entry in COMMANDS)


@pytest.mark.parametrize("command", [["upload"], ["task", "new"], ["audit", "pair"]], ids=" ".join)
def test_advanced_options_are_shown_where_they_are_asked_for(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    first, whole = help_of(capsys, *command, "--help"), help_of(capsys, *command, "--help-all")
    assert "--help-all" in first
    assert first.count("--") < whole.count("--") - 3


@pytest.mark.parametrize(
    "command", [["task"], ["task", "token"], ["task", "list"], ["backup"]], ids=" ".join
)
def test_where_nothing_is_left_out_help_all_is_help(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    first = help_of(capsys, *command, "--help")
    assert help_of(capsys, *command, "--help-all") == first
    assert "--help-all" not in first


@pytest.mark.parametrize("command", [["load"], ["task", "import"]], ids=" ".join)
def test_help_fills_the_lines_of_a_terminal(
    command: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    words = help_of(capsys, *command, "--help").partition("╭")[0]
    lines = [line.strip() for line in words.splitlines()]
    assert max(map(len, lines)) <= 78
    joined = [pair for pair in pairwise(lines) if all(pair)]
    assert joined
    assert [line for line, after in joined if len(f"{line} {after.split()[0]}") <= 78] == []


def test_every_advanced_option_is_one_of_its_command() -> None:
    options = {name: {each.name for each in command.params} for name, command in commands()}
    for path, names in advanced._OF.items():
        assert names <= options[f"prio {path}"], path
    assert set().union(*options.values()) >= advanced._ANYWHERE
    needed = [each for _, command in commands() for each in command.params if each.required]
    assert needed
    assert not [each.name for each in needed if getattr(each, "hidden", False)]


def test_every_option_for_a_draft_names_each_profile() -> None:
    found = {
        name: each.help
        for name, command in commands()
        for each in command.params
        if each.name == "profile"
    }
    assert len(found) >= 4
    for name, words in found.items():
        assert all(re.search(rf"\b{profile}\b", words) for profile in PROFILES), name


def test_a_command_whose_wing_is_not_installed_names_its_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(entries, "find_spec", lambda name: None if name == "fastapi" else object())
    (entry,) = [entry for entry in COMMANDS if entry.name == "plan"]
    with pytest.raises(
        ConfigurationError,
        match=r"prio plan needs fastapi: pip install 'prio-aggregator\[steward\]'",
    ):
        entry.load()
