"""Help, TAB and commands that only read load little, so that they answer at once."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aggregator.cli.groups import HELP, rows_below
from aggregator.cli.service.parties import open_aggregator
from aggregator.cli.service.taking_part import take_part
from aggregator.dap.profile import Role
from aggregator.protocol.provisioning import provision
from aggregator.protocol.task_file import task_to_toml
from aggregator.service.runtime.key_rotation import new_key
from aggregator.service.storage.engine.presence import Duty
from tests.support.commands import service_file
from tests.support.entropy import SeededEntropy
from tests.support.surveys import task_of
from tests.support.tasks import PARTIES, make_task

SURVEY = Path(__file__).parents[4] / "examples/hospital/survey.toml"

HEAVY = {
    "alembic",
    "anyio",
    "cryptography",
    "fastapi",
    "httpx",
    "llvmlite",
    "matplotlib",
    "numba",
    "numpy",
    "polars",
    "prometheus_client",
    "scipy",
    "sqlalchemy",
    "structlog",
    "uvicorn",
}
SHOWN_FROM_THE_CODE = {"bench", "demo"}
"""Commands whose options are made from what they measure, or that show a made-up survey."""

MOST_MODULES = 540
MOST_MODULES_OF_A_GROUP = 400
"""Help of a group, and TAB in it, load typer and rich, and none of its commands."""

SHOWING_MODULES = (
    "import gc, sys; from aggregator.cli import main; sys.argv[0] = 'prio'\n"
    "collections = lambda: sum(each['collections'] for each in gc.get_stats())\n"
    "before = collections()\n"
    "try: main()\n"
    "finally: print(*sys.modules, f'collections:{collections() - before}', file=sys.stderr)"
)
"""Runs a command; the last line of standard error then says what was loaded, and how often garbage
was sought."""

FORKED = """
import json, os, sys
from aggregator.cli import program
from aggregator.cli.commands import COMMANDS

def forked(work):
    readable, writable = os.pipe()
    if (child := os.fork()) == 0:
        try:
            os.write(writable, json.dumps(work()).encode())
        finally:
            os._exit(0)
    os.close(writable)
    with os.fdopen(readable, "rb") as stream:
        answer = json.loads(stream.read())
    os.waitpid(child, 0)
    return answer

def leaves(path, command):
    inner = getattr(command, "commands", None)
    if not inner:
        return [path]
    return [leaf for name, each in inner.items() for leaf in leaves([*path, name], each)]

def modules(path):
    sys.argv = ["prio", *path, "--help"]
    sys.stdout = open(os.devnull, "w")
    try:
        program.run()
    except SystemExit:
        pass
    return sorted(sys.modules)

modules([])  # what every help loads is loaded once
found = {}
for entry in COMMANDS:
    for path in forked(lambda: leaves([entry.name], entry.load())):
        found[" ".join(path)] = forked(lambda: modules(path))
print(json.dumps(found), file=sys.__stdout__)
"""


@pytest.mark.slow
def test_help_of_every_command_loads_no_library_that_computes_serves_or_stores() -> None:
    done = subprocess.run(  # noqa: S603  our own program
        [sys.executable, "-c", FORKED], capture_output=True, text=True, check=True, timeout=600
    )
    found: dict[str, list[str]] = json.loads(done.stdout)
    assert len(found) > 50
    light = {
        command: modules
        for command, modules in found.items()
        if command.split()[0] not in SHOWN_FROM_THE_CODE
    }
    heavy = {command: sorted(HEAVY & set(modules)) for command, modules in light.items()}
    assert {command: names for command, names in heavy.items() if names} == {}
    many = {command: len(modules) for command, modules in light.items()}
    assert {name: count for name, count in many.items() if count > MOST_MODULES} == {}


@pytest.mark.parametrize("path", [path.split() for path in HELP if rows_below(path)], ids=" ".join)
def test_help_of_a_group_and_tab_in_it_load_none_of_its_commands(path: list[str]) -> None:
    completing = {
        "_PRIO_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(["prio", *path, ""]),
        "COMP_CWORD": str(len(path) + 1),
    }
    shown, completed = (
        subprocess.run(  # noqa: S603  our own program
            [sys.executable, "-c", SHOWING_MODULES, *arguments],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=True,
        )
        for arguments, environment in (([*path, "--help"], {}), ([], completing))
    )
    assert set(rows_below(" ".join(path))) <= set(completed.stdout.split())
    for done in (shown, completed):
        loaded = set(done.stderr.splitlines()[-1].split())
        assert "aggregator.cli.groups" in loaded
        assert not loaded & {*HEAVY, "pydantic", "aggregator.protocol.task"}
        assert len(loaded) < MOST_MODULES_OF_A_GROUP


NEEDED_FOR_READING: dict[str, set[str]] = {
    "survey check": {"numpy"},
    "survey new": {"numpy"},
    "survey": set(),
    "task check": set(),
    "task new": set(),
    "task add": {"sqlalchemy", "cryptography"},
    "status": {"sqlalchemy", "cryptography"},
}
"""What a command loads of these, by how it begins (the first that fits): laws of sums for the
errors of a survey, and what encrypts a task's secrets and decrypts those that a status proves
readable; else the store."""

MOST_MODULES_OF_READING = 450
"""Of Python and of libraries; ours are small, and to split one costs nothing."""


@pytest.fixture(scope="module")
def party(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the store of a leader that runs, its task's public file and a survey."""
    folder = tmp_path_factory.mktemp("party")
    config = service_file(folder, "leader")
    task = make_task(id="A" * 43)
    with open_aggregator(config) as party:
        take_part(party, provision(task, SeededEntropy(1))[Role.LEADER])
        party.database.run_sync("new hpke key", lambda tx: new_key(tx, SeededEntropy(2)))
        here = party.database.presence(list(Duty))
    here.keep()
    (folder / "task.toml").write_text(task_to_toml(task))
    another = make_task(id="B" * 42 + "A")
    (folder / "another.toml").write_text(provision(another, SeededEntropy(2))[Role.LEADER])
    (folder / "survey.toml").write_text(SURVEY.read_text())
    (folder / "asked.toml").write_text(task_to_toml(task_of(SURVEY.read_text())))
    yield folder
    here.close()


@pytest.mark.parametrize(
    "command",
    [
        "status --config leader.toml",
        "task list --config leader.toml",
        f"task show {'A' * 43} --config leader.toml",
        "task token list " + "A" * 43 + " --config leader.toml",
        "hpke list --config leader.toml",
        "job list --config leader.toml --json",
        "ledger --config leader.toml --json",
        "backup --config leader.toml copy.sqlite",
        "survey check survey.toml --json",
        "task check task.toml",
        "task add --config leader.toml another.toml",
        "task new PARTIES --out t --vdaf Prio3Count --epsilon 1 --max-reports 9 --min-batch-size 1",
        "survey new survey.toml PARTIES --out asked",
        "survey show asked.toml",
        "survey form asked.toml",
    ],
)
def test_a_command_that_reads_or_adds_a_task_loads_nothing_that_computes_or_serves(
    party: Path, command: str
) -> None:
    done = subprocess.run(  # noqa: S603  our own program
        [
            sys.executable,
            "-c",
            SHOWING_MODULES,
            *command.replace("PARTIES", " ".join(PARTIES)).split(),
        ],
        cwd=party,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout
    loaded = set(done.stderr.splitlines()[-1].split())
    assert "aggregator.protocol.task" in loaded
    needed = [names for start, names in NEEDED_FOR_READING.items() if command.startswith(start)]
    assert loaded & HEAVY == (needed[0] if needed else {"sqlalchemy"})
    assert sum(not name.startswith("aggregator") for name in loaded) < MOST_MODULES_OF_READING
    assert "collections:0" in loaded
