"""`prio survey upload --dry-run` says what it read of a table, and what is wrong with it."""

import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from aggregator.protocol.reports import MAX_AGE_SECONDS
from aggregator.protocol.task_file import task_to_toml
from tests.support.commands import Done, run_here
from tests.support.survey_folders import write_survey_folder
from tests.support.surveys import VISITS, department, task_of
from tests.support.texts import WORD
from tests.support.workbooks import workbook

AGE = '[[question]]\nname = "age"\nkind = "number"\nlow = 0\nhigh = 120\nclip = true\n'
LIKES = '[[question]]\nname = "likes"\nkind = "multiple"\nlabels = ["food", "quiet"]\n'
SURVEY = VISITS + department() + AGE + LIKES
NOW = datetime.now(UTC).replace(microsecond=0)
HEAD = "time,who,department,age,likes\n"


def day(days: int) -> str:
    return f"{NOW + timedelta(days=days):%Y-%m-%d}"


def dry_run(folder: Path, table: str | bytes, *options: str | Path) -> Done:
    task, answers = folder / "task.toml", folder / "answers.csv"
    task.write_text(task_to_toml(task_of(SURVEY)))
    answers.write_bytes(table.encode() if isinstance(table, str) else table)
    return run_here("survey", "upload", task, answers, "--dry-run", *options)


def test_a_dry_run_says_what_it_read(tmp_path: Path) -> None:
    rows = "".join(
        f"{day(-7 * (number % 3))},{number},surgery,{300 if number == 4 else number + 20},food;\n"
        for number in range(7)
    )
    done = dry_run(
        tmp_path,
        HEAD.replace("age", "years old") + rows + f"{day(0)},9,medicine,,\n",
        *("--column", "age=years old", "--person-column", "who", "--missing", "n/a"),
    )
    assert (done.returncode, done.stderr) == (0, "missing: no cell is 'n/a'\n")
    lines = done.stdout.splitlines()
    assert lines[0] == "8 rows in 3 windows, each one report"
    assert re.fullmatch(r"  first window .* to .*: 2 rows", lines[1])
    assert re.fullmatch(r"  last window .* to .*: 4 rows", lines[2])
    assert lines[3:] == [
        "  8 people",
        "department: 8 answers, 0 missing, 0 clipped",
        "  most often 'surgery' 7, 'medicine' 1",
        "age: 7 answers, 1 missing, 1 clipped",
        "  column 'years old'",
        "  from 20 to 300",
        "likes: 7 answers, 1 missing, 0 clipped",
        "  most often 'food' 7",
    ]


def test_a_dry_run_says_which_column_is_of_which_label(tmp_path: Path) -> None:
    table = HEAD.replace("likes", "likes___1,likes___2") + f"{day(0)},1,surgery,40,1,0\n"
    done = dry_run(tmp_path, table, "--column", "likes=likes___2,likes___1")
    assert done.returncode == 0
    assert done.stdout.splitlines()[-4:] == [
        "likes: 1 answer, 0 missing, 0 clipped",
        "  column 'likes___2' for 'food'",
        "  column 'likes___1' for 'quiet'",
        "  most often 'quiet' 1",
    ]


def test_programs_get_the_same(tmp_path: Path) -> None:
    done = dry_run(tmp_path, HEAD + f"{day(0)},1,surgery,40,none\n", "--json", "--missing", "x")
    document = json.loads(done.stdout)
    assert document["rows"] == document["windows"] == 1
    assert [each["rows"] for each in document["by_window"]] == [1]
    assert document["missing_never_found"] == ["x"]
    assert document["questions"][1] == {
        "name": "age",
        "columns": ["age"],
        "answers": 1,
        "missing": 0,
        "clipped": 0,
        "ranges": {"": ["40", "40"]},
        "most_frequent": [],
    }
    assert document["questions"][2]["most_frequent"] == [["(none of them)", 1]]


@pytest.mark.parametrize(
    ("time", "why"),
    [
        (day(-MAX_AGE_SECONDS // 86_400 - 8), "too old: aggregators take reports of 366 days"),
        ("1980-01-01 00:00:00", "too old"),
        (day(8), "has not begun"),
        ("2414-01-20", "has not begun"),
    ],
    ids=["a year ago", "1980", "next week", "2414"],
)
def test_windows_that_no_aggregator_takes_now_are_an_error(
    tmp_path: Path, time: str, why: str
) -> None:
    done = dry_run(tmp_path, HEAD + f"{day(0)},1,surgery,40,\n{time},2,surgery,40,\n")
    assert done.returncode == 2
    assert done.stdout.startswith("2 rows in 2 windows")
    assert re.search(rf"window .*, 1 row: {why}", done.stderr)
    assert "no aggregator takes their reports now" in done.stderr


def test_text_questions_are_said_too(tmp_path: Path) -> None:
    folder = tmp_path / "made"
    write_survey_folder(folder, VISITS + WORD + department())
    answers = tmp_path / "answers.csv"
    lines = [f"{day(0)},{number},surgery,{'back' if number else ''}\n" for number in range(3)]
    answers.write_text("time,who,department,complaint\n" + "".join(lines))
    done = run_here(
        *("survey", "upload", folder / "task.toml", answers, "--dry-run"),
        *("--column", "word=complaint", "--person-column", "who", "--state", tmp_path / "state"),
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[4:7] == [
        "word: 2 answers, 1 missing, 0 clipped",
        "  column 'complaint'",
        "  most often 'back' 2",
    ]


def test_a_workbook_is_read_by_the_name_of_its_sheet(tmp_path: Path) -> None:
    today = datetime.combine(NOW.date(), datetime.min.time())
    row = [today, 17, "surgery", 40, "food"]
    book = workbook({"notes": [["x"]], "May": [HEAD.strip().split(","), row]})
    done = dry_run(tmp_path, book)
    assert done.returncode == 2
    assert "has several sheets, 'notes', 'May': name one with --sheet" in done.stderr
    assert dry_run(tmp_path, book, "--sheet", "May").stdout.startswith("1 row in 1 window")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--time-format", "%Y-%m-%d %Y"), "time-format: '%Y-%m-%d %Y' names a part of a time"),
        (("--time-format", "%"), "time-format: '%' has no year"),
        (("--column", "age=age,who"), "age: is read from one column, not from 2"),
        (("--column", "age=age", "--column", "age=who"), "age: is read from one column, not from"),
        (("--column", "likes=age,age"), "likes: column 'age' is given more than once"),
        (("--column", "likes=age,who,time"), "likes: is read from one column, or from 2"),
        (("--column", "dept=age"), "column: the survey has no question 'dept'"),
        (("--column", "age"), "column: must be QUESTION=COLUMN, not 'age'"),
        (("--delimiter", '"'), "delimiter: '\"' cannot separate cells"),
        (("--delimiter", "\n"), "delimiter: '\\n' cannot separate cells"),
        (("--decimal-mark", ";"), 'decimal-mark: must be "." or ","'),
        (("--encoding", "x"), "encoding: there is no 'x'"),
        (("--encoding", "utf-16"), "answers.csv: is not utf-16"),
        (("--sheet", "x"), "sheet: answers.csv is CSV, which has none"),
        (("--time-column", "no"), "column 'no': not in answers.csv, which has time, who"),
    ],
    ids=lambda each: "".join(each)[:30],
)
def test_what_is_wrong_is_one_line_and_never_a_traceback(
    tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    done = dry_run(tmp_path, HEAD + f"{day(0)},1,surgery,40,x\n", *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"prio: {said}")


def test_a_terminal_that_lacks_letters_is_told_them_as_escapes(tmp_path: Path) -> None:
    task, answers = tmp_path / "task.toml", tmp_path / "answers.csv"
    task.write_text(task_to_toml(task_of(VISITS + department(["médecine", "±"]))))
    answers.write_text(f"time,département\n{day(0)},médecine\n{day(0)},±\n")
    arguments = [
        "survey",
        "upload",
        task,
        answers,
        "--dry-run",
        "--column",
        "department=département",
    ]
    done = subprocess.run(  # noqa: S603  our own
        [sys.executable, "-m", "aggregator.cli", *map(str, arguments)],
        env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "most often 'm\\xe9decine' 1, '\\xb1' 1" in done.stdout
