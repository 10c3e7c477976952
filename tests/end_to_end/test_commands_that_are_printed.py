"""Every command that `prio up` prints for a survey of any kind is run here, exactly as printed."""

import csv
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.surveys import every_kind
from tests.support.up import Up, is_up

pytestmark = pytest.mark.slow

ROWS = 200
NOW = datetime.now(UTC)
FIRST = f"first = {NOW - timedelta(days=3):%Y-%m-%d}"
HEAD = every_kind(FIRST).split("by =")[0]
BUDGET = '[budget]\nepsilon = "8"\nwindows = 9\n'
YES = '[[question]]\nname = "seat"\nkind = "yes-no"\n'
PLACE = '[[question]]\nname = "place"\nkind = "choice"\nlabels = ["here", "there"]\n'
WORD = '[[question]]\nname = "word"\nkind = "text"\nepsilon = "{}"\nbuckets = 16\ntasks = 8\n'
SURVEYS = {
    "every kind": every_kind(FIRST),
    "one question": f"{HEAD}{BUDGET}{YES}",
    "text": f"{HEAD}{BUDGET}{YES}{WORD.format(4)}",
    "text only": f"{HEAD}{BUDGET}{WORD.format(8)}",
    "by": f'{HEAD}by = "place"\n{BUDGET}{PLACE}{YES}',
    "ask if": f'{HEAD}{BUDGET}{PLACE}{YES}ask_if = {{ place = "there" }}\n',
}
CELLS: dict[str, Callable[[int], object]] = {
    "person": lambda row: row,
    "place": lambda row: ("here", "there")[row % 2],
    "seat": lambda row: "yes" if row % 2 else "",
    "good": lambda row: ("staff", "rooms;food", "food")[row % 3],
    "waited": lambda row: row % 60,
    "age": lambda row: row % 120,
    "liked": lambda row: 1 + row % 5,
    "town": lambda row: ("A1", "A2", "B1", "B2")[row % 4],
    "food": lambda row: row % 9,
    "rent": lambda row: row % 7,
    "word": lambda row: "" if row % 2 else "tea",
}
COMMAND = re.compile(r"(?:^  |`)(prio [^`\n]*)", re.MULTILINE)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with surveys of all kinds, and answers to all of their questions."""
    place = tmp_path_factory.mktemp("printed")
    for name, text in SURVEYS.items():
        (place / f"{name}.toml").write_text(text.replace('"Every kind"', f'"Of {name}"'))
    with (place / "answers.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["time", *CELLS])
        yesterday = f"{NOW - timedelta(days=1):%Y-%m-%d}"
        for row in range(ROWS):
            writer.writerow([yesterday, *(cell(row) for cell in CELLS.values())])
    return place


@pytest.fixture(scope="module")
def up(place: Path) -> Iterator[Up]:
    with is_up(place, *(part for name in SURVEYS for part in ("--survey", f"{name}.toml"))) as up:
        assert "Ctrl-C ends all of it." in up.said, up.said
        yield up


def run(line: str, cwd: Path, status: int = 0) -> str:
    """Run a line in a shell; return all that it prints."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    done = subprocess.run(  # noqa: S603  as a person would
        ["bash", "-c", line],  # noqa: S607  where the system has it
        cwd=cwd,
        env=os.environ | {"PATH": path, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, (line, done.stdout, done.stderr)
    return done.stdout + done.stderr


def of_survey(said: str, name: str) -> list[str]:
    """Return the commands that are printed for a survey."""
    own = f"surveys/of-{name.replace(' ', '-')}/"
    return [each for each in COMMAND.findall(said) if own in each]


@pytest.mark.parametrize("name", SURVEYS)
def test_what_is_printed_leads_from_a_survey_of_each_kind_to_its_results(
    place: Path, up: Up, name: str
) -> None:
    upload, collect = of_survey(up.said, name)
    assert upload.startswith("prio survey upload ")
    assert collect.startswith("prio survey collect ")
    # As it is, and beforehand as a rehearsal of it.
    dry = run(f"{upload} --dry-run", place)
    assert f"{ROWS} rows in 1 window" in dry
    assert run(upload, place).count(f"{ROWS} of {ROWS} reports accepted") == (
        2 if name in ("every kind", "text") else 1
    )
    collected = run(collect, place)
    assert "intervals: 95 %" in collected or f"{ROWS} people took part" in collected
    task = collect.split(" --last")[0].removeprefix("prio survey collect ")
    shown = run(f"prio survey results {task}", place)
    if "name strings with --words FILE, or find all with --all" in shown:
        (place / "FILE").write_text("tea\ncoffee\n")
        assert "tea: " in run(f"prio survey results {task} --words FILE", place)


def test_what_a_window_that_is_not_over_is_refused_with_is_a_way(place: Path, up: Up) -> None:
    collect = of_survey(up.said, "one question")[1].split(" --last")[0]
    refused = run(f"{collect} --window now", place, status=2)
    assert "--now collects it now and refuses every later answer of it" in refused
    # Nobody has answered today, which is all that stands in its way.
    assert "min_batch_size = 20" in run(f"{collect} --window now --now", place, status=3)


def test_a_rehearsal_without_a_pair_that_runs_says_how_to_get_one(place: Path) -> None:
    (place / "fresh").mkdir()
    said = run("prio survey rehearse '../one question.toml'", place / "fresh", status=1)
    (way,) = [each for each in COMMAND.findall(said) if "--rehearse" in each]
    with is_up(place / "fresh", *shlex.split(way)[2:]) as rehearsed:
        assert "of-one-question, with made-up answers, is shown at: http" in rehearsed.said
