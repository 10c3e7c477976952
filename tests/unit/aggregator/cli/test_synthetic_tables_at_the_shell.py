"""`prio survey synthetic`, what `check` says of it beforehand, and what `upload` does with it."""

import csv
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from aggregator.dap.ids import encode_base64url
from tests.support.collector_world import WEEK, CollectorWorld
from tests.support.commands import Done, run_here
from tests.support.survey_folders import write_survey_folder
from tests.support.surveys import VISITS
from tests.support.synthetic_surveys import GAUSSIAN, QUESTIONS, survey_text

QUESTION = """
[[question]]
name = "sat"
kind = "scale"
high = 2
[[question]]
name = "age"
kind = "bins"
edges = [0, 18, 65]
[[question]]
name = "place"
kind = "tree"
design = "leaves"
low = 0
high = 4
leaves = 2
"""
TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
START = TODAY - timedelta(days=TODAY.weekday()) - WEEK
"""The Monday of last week: aggregators take its reports, whatever the clock says."""
WEEKS = VISITS.replace("2026-11-02", f"{START:%Y-%m-%d}")
SURVEY = WEEKS.replace("[budget]", 'tables = "all"\n[budget]') + QUESTION

# Half of 600 people say the least everywhere and half the largest.
ONE = [300, 300, 0]
PAIR = [300, 0, 0, 0, 300, 0, 0, 0, 0]
ALIKE = ONE * 3 + PAIR * 3
APART = ONE * 3 + [150, 150, 0, 150, 150, 0, 0, 0, 0] * 3


class Asked:
    """A survey in a folder, of whose windows there are results."""

    def __init__(self, folder: Path, survey: str = SURVEY) -> None:
        self.folder, made = folder, folder / "made"
        (self.task,) = write_survey_folder(made, survey)[""]
        self.file, self.config = made / "task.toml", folder / "service.toml"
        self.config.write_text(
            'service.role = "collector"\nservice.database = "collector.sqlite"\n'
            f'keys.store_key = "{encode_base64url(bytes(32))}"\n'
        )
        self.config.chmod(0o600)
        CollectorWorld(folder, self.task).database.close()

    def finish(self, values: list[int], weeks: int = 0) -> None:
        world = CollectorWorld(self.folder)
        world.finish(self.task, START + weeks * WEEK, values, WEEK)
        world.database.close()

    def synthetic(self, *options: object) -> Done:
        return run_here(
            "survey", "synthetic", self.file, "--config", self.config, *map(str, options)
        )

    def upload(self, answers: Path, *options: str) -> Done:
        return run_here("survey", "upload", self.file, answers, "--time-column", "window", *options)


@pytest.fixture
def asked(tmp_path: Path) -> Asked:
    made = Asked(tmp_path, SURVEY.replace('"1"', '"8"'))
    made.finish(APART)
    made.finish(ALIKE, 1)
    return made


def day(weeks: float) -> str:
    return f"{START + weeks * WEEK:%Y-%m-%d}"


def test_a_table_is_written_and_said_what_it_is(asked: Asked, tmp_path: Path) -> None:
    out = tmp_path / "visits.synthetic.csv"
    done = asked.synthetic("--out", out)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("600 rows of 3 questions, not a person: drawn from noised sums")
    assert f"{day(1)} to " in done.stdout
    with out.open(newline="") as opened:
        rows = list(csv.DictReader(opened))
    assert len(rows) == 600
    assert {row["window"] for row in rows} == {day(1)}
    about = json.loads(out.with_suffix(".about.json").read_text())
    shown = json.loads(asked.synthetic("--out", out, "--json").stdout)
    assert shown == about
    assert about["z"] > 20


def test_a_written_table_is_read_by_an_upload_but_never_sent(asked: Asked, tmp_path: Path) -> None:
    out = tmp_path / "visits.synthetic.csv"
    assert asked.synthetic("--out", out, "--rows", 50).returncode == 0
    done = asked.upload(out, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("50 rows in 1 window")
    for name in ("sat", "age", "place"):
        assert re.search(rf"^{name}: [0-9]+ answers, [0-9] missing", done.stdout, re.MULTILINE)
    sent = asked.upload(out)
    assert sent.returncode == 2
    assert "nobody's answers" in sent.stderr


def test_windows_are_chosen_by_their_times(asked: Asked, tmp_path: Path) -> None:
    out = tmp_path / "visits.synthetic.parquet"
    done = asked.synthetic("--out", out, "--window", day(0.5), "--although-noise")
    assert done.returncode == 0, done.stderr
    assert f"{day(0)} to " in done.stdout
    both = ("--window", day(0.2), "--window", day(1.5))
    done = asked.synthetic("--out", out, *both, "--json")
    assert json.loads(done.stdout)["reports"] == 1200


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "out: missing"),
        (("--out", "visits.csv"), "must end in .synthetic.csv or .synthetic.parquet"),
        (("--out", "a.synthetic.csv", "--window", day(4.5)), f"there is no '{day(4)}"),
        (("--out", "a.synthetic.csv", "--window", day(0)), "take each question by itself"),
        (("--out", "a.synthetic.csv", "--rows", 0), "rows must be an integer from 1"),
    ],
)
def test_what_cannot_be_made_is_refused(
    asked: Asked, options: tuple[object, ...], message: str
) -> None:
    done = asked.synthetic(*options)
    assert done.returncode == 2
    assert message in done.stderr
    assert not list(Path().glob("*.synthetic.*"))


def test_without_results_and_without_pairs_there_is_no_table(tmp_path: Path) -> None:
    without = Asked(tmp_path, VISITS + QUESTION)
    done = without.synthetic("--out", "a.synthetic.csv")
    assert (done.returncode, "nothing was collected" in done.stderr) == (2, True)
    without.finish(ONE * 3)
    done = without.synthetic("--out", "a.synthetic.csv")
    assert (done.returncode, 'tables = "all"' in done.stderr) == (2, True)


@pytest.mark.slow
def test_what_a_table_will_be_worth_is_said_beforehand(tmp_path: Path) -> None:
    file = tmp_path / "survey.toml"
    number = '[[question]]\nname = "km"\nkind = "number"\nlow = 0\nhigh = 100\ndesign = "sum"\n'
    file.write_text(survey_text(QUESTIONS, GAUSSIAN) + number)
    done = run_here("survey", "check", file, "--people", "20000")
    assert done.returncode == 0, done.stderr
    (line,) = [each for each in done.stdout.splitlines() if each.startswith("synthetic table:")]
    assert "from 20,000 people" in line
    assert "left out: km" in line
    told = json.loads(run_here("survey", "check", file, "--people", "20000", "--json").stdout)
    table = told["synthetic"]
    assert 3.5 < table["tau"] < 5
    assert table["tau"] * 20_000 / 10 == pytest.approx(table["useful_from"], abs=1)
    assert table["useful_with_delta_from"] is None
    errors = [each["ways"][0]["error"] for each in told["parts"] if each["by"]]
    assert table["count_error"] in errors


def test_a_survey_without_delta_is_told_what_one_would_save(tmp_path: Path) -> None:
    file = tmp_path / "survey.toml"
    sizes = {f"q{place}": 2 for place in range(6)}
    file.write_text(survey_text(sizes, 'epsilon = "1"'))
    table = json.loads(run_here("survey", "check", file, "--json").stdout)["synthetic"]
    file.write_text(survey_text(sizes, GAUSSIAN))
    other = json.loads(run_here("survey", "check", file, "--json").stdout)["synthetic"]
    assert table["useful_with_delta_from"] == other["useful_from"] < table["useful_from"]


def test_a_survey_without_pairs_is_told_nothing_of_a_table(tmp_path: Path) -> None:
    file = tmp_path / "survey.toml"
    file.write_text(VISITS + QUESTION)
    assert "synthetic" not in run_here("survey", "check", file).stdout
