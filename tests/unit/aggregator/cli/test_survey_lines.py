"""What `prio survey` prints: a column for each window, rounded numbers, a line for each reason."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from aggregator.cli.steward.survey_lines import Trouble, change, table_lines, trouble_lines
from aggregator.collector.results import Noised, Table
from aggregator.dap.ids import encode_base64url
from aggregator.dp.rationals import at_most
from aggregator.protocol.budget import cost
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import task_to_toml
from tests.support.collector_world import MONDAY, WEEK, CollectorWorld
from tests.support.commands import run_here
from tests.support.ports import free_ports
from tests.support.survey_folders import write_survey_folder
from tests.support.surveys import VISITS, department, task_of
from tests.support.texts import WORD

LONG_AGO = MONDAY - 300 * WEEK
"""Windows that are over, whatever the clock says."""
AGE = '[[question]]\nname = "age"\nkind = "number"\nlow = 0\nhigh = 120\nunit = "years"\n'


def asked_from(first: datetime, **settings: str) -> Task:
    """Return the task of a survey whose first week begins then."""
    survey = VISITS + department(["surgery", "[red]medicine"]) + AGE
    begins = survey.replace("first = 2026-11-02", f"first = {first:%Y-%m-%d}")
    return task_of(begins, **settings)


@pytest.fixture
def made(tmp_path: Path) -> tuple[Path, ...]:
    """The survey's public file and a collector's service file, with the results of two weeks."""
    (port,) = free_ports(1)
    task = asked_from(LONG_AGO, leader=f"http://127.0.0.1:{port}/")
    world = CollectorWorld(tmp_path, task)
    world.finish(task, LONG_AGO, [200, 400, 0, 600, 0, 24_000])
    world.finish(task, LONG_AGO + WEEK, [150, 450, 0, 600, 0, 30_000])
    world.database.close()
    file, config = tmp_path / "task.toml", tmp_path / "service.toml"
    file.write_text(task_to_toml(task))
    key = encode_base64url(bytes(32))
    config.write_text(
        f'service.role = "collector"\nservice.database = "collector.sqlite"\n'
        f'keys.store_key = "{key}"\n'
    )
    config.chmod(0o600)
    return file, config


def test_results_have_a_column_for_each_window_and_rounded_numbers(
    made: tuple[Path, Path],
) -> None:
    file, config = made
    done = run_here("survey", "results", file, "--config", config)
    assert (done.returncode, done.stderr) == (0, "")
    department, age = done.stdout.split("age\n")
    names, first, second = (
        [line[start:end].strip() for line in department.splitlines()[1:]]
        for start, end in ((0, 22), (22, 49), (49, 99))
    )
    assert names == [
        "",
        "answered",
        "count surgery",
        "count [red]medicine",
        "count no answer",
        "share surgery",
        "share [red]medicine",
    ]
    assert first[:3] == ["2021-02-01 to 2021-02-07", "600", "200  (183 to 217)"]
    assert second[:3] == ["2021-02-08 to 2021-02-14", "600", "150  (133 to 167)"]
    assert first[5] == "33.3 %  (30.8 to 35.8)"
    assert age.splitlines()[2].split()[:6] == ["count", "answered", "600", "(586", "to", "614)"]
    assert "intervals: 95 %, each by itself" in age


def test_windows_for_which_there_is_no_room_stand_below() -> None:
    windows = [f"2026-11-0{day} to 2026-11-0{day + 1}" for day in range(1, 5)]
    table = Table(
        [Noised.exact(number * 1000, "x") for number in range(4)],
        {
            "window": windows,
            "question": ["q"] * 4,
            "by": [""] * 4,
            "group": [""] * 4,
            "shows": ["count"] * 4,
            "answered": [7] * 4,
        },
    )
    assert [line.split("   ")[-1].strip() for line in table_lines(table, 1)] == [
        "q",
        *(
            cell
            for number, window in enumerate(windows)
            for cell in (
                window,
                "7",
                f"{number * 1000:,}  ({number * 1000:,} to {number * 1000:,})",
            )
        ),
        "intervals: 95 %, each by itself",
    ]
    (_, head, *_, last) = table_lines(table, 67)
    assert [each.strip() for each in head.split("   ")[-2:]] == windows[:2]
    assert len(table_lines(table, 67)) == 1 + 2 * 3 + 1
    assert len(table_lines(table, 1000)) == 1 + 3 + 1
    assert max(map(len, table_lines(table, 67))) <= 67
    assert last == "intervals: 95 %, each by itself"


@pytest.mark.parametrize(
    ("interval", "is_larger", "said"),
    [
        ((9.96885, 13.2399), True, "more, by 9.9 to 13.3 x"),
        ((-13.2399, -9.96885), False, "less, by 9.9 to 13.3 x"),
        ((-1.25, 113.2), None, "from -2 to +114 x: more or less, or the same"),
    ],
)
def test_a_change_is_rounded_outward(
    interval: tuple[float, float], *, is_larger: bool | None, said: str
) -> None:
    assert change(*interval, " x", is_larger=is_larger) == said


def test_what_failed_for_one_reason_is_one_line() -> None:
    few = "batch is invalid: {} reports are too few"
    troubles = [
        *(Trouble(f"week {week}", few.format(week)) for week in range(20)),
        Trouble("week 1", "the leader does not answer"),
    ]
    assert trouble_lines(troubles) == [
        "20 windows (week 0, and 19 more): batch is invalid: 0 reports are too few",
        "week 1: the leader does not answer",
    ]
    assert trouble_lines([]) == []


def test_the_tasks_of_a_text_question_that_failed_in_one_window_are_one_window() -> None:
    reason = "batch is invalid: fewer than 300 reports"
    troubles = [Trouble(f"day {day}", reason) for day in (1, 1, 1, 2, 2, 2)]
    assert trouble_lines(troubles[:3]) == [f"day 1: {reason}"]
    assert trouble_lines(troubles) == [f"2 windows (day 1, and 1 more): {reason}"]


def test_collect_prints_one_document_of_what_was_found_and_what_was_not(
    made: tuple[Path, Path],
) -> None:
    file, config = made
    window = ("--window", f"{LONG_AGO + WEEK:%Y-%m-%d}", "--wait", "0", "--json")
    found = json.loads(run_here("survey", "collect", file, "--config", config, *window).stdout)
    assert (found["version"], found["failed"]) == (2, [])
    assert {row["question"] for row in found["rows"]} == {"department", "age"}
    assert found["rows"][0]["label"] == "surgery"
    assert found["rows"][0]["value"] == 150.0
    window = ("--window", f"{LONG_AGO + 2 * WEEK:%Y-%m-%d}", "--wait", "0", "--json")
    done = run_here("survey", "collect", file, "--config", config, *window)
    assert done.returncode == 3
    document = json.loads(done.stdout)
    assert document["rows"] == []
    (failed,) = document["failed"]
    assert failed["window"] == "2021-02-15 to 2021-02-21"
    assert f"prio: 2021-02-15 to 2021-02-21: {failed['reason']}\n" in done.stderr


def test_results_print_the_same_document_without_anything_that_failed(
    made: tuple[Path, Path],
) -> None:
    done = run_here("survey", "results", made[0], "--config", made[1], "--json")
    document = json.loads(done.stdout)
    assert document["failed"] == []
    assert len(document["rows"]) == 2 * (5 + 4)


def test_show_prints_what_is_asked_as_one_document(made: tuple[Path, Path]) -> None:
    document = json.loads(run_here("survey", "show", made[0], "--json").stdout)
    names = [each["question"]["name"] for each in document["meaning"]["questions"]]
    assert names == ["department", "age"]
    shown = run_here("survey", "show", made[0]).stdout
    assert f"{document['task_id']}  fingerprint {document['fingerprint']}" in shown


def test_show_names_what_is_asked_in_words_and_of_whom(tmp_path: Path) -> None:
    asked = VISITS + department() + WORD + 'ask_if = { department = "surgery" }\n'
    write_survey_folder(tmp_path / "made", asked)
    shown = run_here("survey", "show", tmp_path / "made" / "task.toml").stdout
    assert "\nword  asked in people's own words, only if department is surgery\n" in shown


def test_a_dry_run_prints_what_was_read_as_one_document(made: tuple[Path, Path]) -> None:
    answers = made[0].with_name("answers.csv")
    answers.write_text("when,department,age\n2026-11-03,surgery,4\n2026-11-03,,5\n")
    upload = ("survey", "upload", made[0], answers, "--time-column", "when", "--dry-run", "--json")
    assert json.loads(run_here(*upload).stdout) == {
        "version": 2,
        "dry_run": True,
        "rows": 2,
        "windows": 1,
        "by_window": [{"start": "2026-11-02T00:00Z", "rows": 2}],
        "questions": [
            {
                "name": "department",
                "columns": ["department"],
                "answers": 1,
                "missing": 1,
                "clipped": 0,
                "ranges": {},
                "most_frequent": [["surgery", 1]],
            },
            {
                "name": "age",
                "columns": ["age"],
                "answers": 2,
                "missing": 0,
                "clipped": 0,
                "ranges": {"": ["4", "5"]},
                "most_frequent": [],
            },
        ],
        "missing_never_found": [],
    }


@pytest.mark.slow
def test_what_all_windows_cost_is_said_as_the_ledger_will_say_it(tmp_path: Path) -> None:
    """With Gaussian noise it is far less than as many times the epsilon of one."""
    questions = department() + "".join(AGE.replace('"age"', f'"age{n}"') for n in range(6))
    text = VISITS.replace('epsilon = "1"', 'epsilon = "1"\ndelta = "1/1000000"') + questions
    (tmp_path / "survey.toml").write_text(text)
    done = run_here("survey", "check", tmp_path / "survey.toml")
    (line,) = [each for each in done.stdout.splitlines() if each.startswith("one person: ")]
    of_all = cost(task_of(text), 52)
    assert f"so epsilon {at_most(of_all, 6)} in all, but for a delta of 1/1000000" in line
    assert of_all < 52 / 4


def test_a_time_column_need_not_be_named_and_without_one_upload_says_what_to_do(
    tmp_path: Path,
) -> None:
    answers, file = tmp_path / "answers.csv", tmp_path / "task.toml"
    now = datetime.now(UTC)
    file.write_text(task_to_toml(asked_from(now - timedelta(days=now.weekday()))))
    upload = ("survey", "upload", file, answers, "--dry-run")
    row = f"department,age,{{}}\nsurgery,30,{now:%Y-%m-%d}\n"
    answers.write_text(row.format("time"))
    done = run_here(*upload)
    assert (done.returncode, done.stdout.splitlines()[0]) == (
        0,
        "1 row in 1 window, each one report",
    )
    answers.write_text(row.format("visited_at"))
    done = run_here(*upload)
    assert (done.returncode, done.stdout) == (2, "")
    assert "time-column: give the column that says when each row was answered" in done.stderr
    assert "department, age, visited_at; a table without one needs a column time" in done.stderr


def test_a_survey_in_the_place_of_its_task_is_called_one(tmp_path: Path) -> None:
    survey = tmp_path / "survey.toml"
    survey.write_text(VISITS + AGE)
    done = run_here("survey", "show", survey)
    assert done.returncode == 2
    assert "this is a survey; name the task.toml that `prio survey new` makes of it" in done.stderr
