"""Whatever takes a task file takes one of several: all of its tasks, or the one that is named."""

import json
from pathlib import Path

import pytest

from aggregator.client.survey.asked_survey import read_survey
from aggregator.dap.ids import TaskId
from aggregator.dap.profile import Role
from aggregator.protocol.provisioning import provision_all, read_provisions
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import (
    task_to_toml,
    tasks_from_toml,
    tasks_to_json,
    tasks_to_toml,
)
from tests.support.commands import run_here, service_text
from tests.support.entropy import SeededEntropy
from tests.support.surveys import VISITS, department, task_of
from tests.support.tasks import PARTIES, make_task

AGE = '[[question]]\nname = "age"\nkind = "number"\nlow = 0\nhigh = 120\n'
IDS = [str(TaskId(bytes([number] * 32))) for number in (1, 2, 3)]
SURVEYS = [
    VISITS.replace("Visits", title) + asked
    for title, asked in (("department", department()), ("age", AGE))
]
TASKS = [task_of(SURVEYS[place], id=IDS[place]) for place in (0, 1)]


@pytest.fixture(params=["toml", "json"])
def file(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    made = tmp_path / f"tasks.{request.param}"
    made.write_text((tasks_to_toml if request.param == "toml" else tasks_to_json)(TASKS))
    return made


def test_check_names_the_survey_and_the_fingerprint_of_each_task(file: Path) -> None:
    done = run_here("task", "check", file)
    assert done.returncode == 0, done.stderr
    blocks = done.stdout.split("\n\n")
    assert [block.splitlines()[:2] for block in blocks] == [
        [f"department  {IDS[0]}", f"fingerprint {TASKS[0].fingerprint}"],
        [f"age  {IDS[1]}", f"fingerprint {TASKS[1].fingerprint}"],
    ]


def test_a_survey_and_its_text_questions_tasks_are_in_one_file_for_each_party(
    tmp_path: Path,
) -> None:
    survey, out = tmp_path / "survey.toml", tmp_path / "made"
    survey.write_text(
        SURVEYS[0].replace('epsilon = "1"', 'epsilon = "4"')
        + '[[question]]\nname = "word"\nkind = "text"\nepsilon = "3"\nbuckets = 16\ntasks = 8\n'
    )
    checked = run_here("survey", "check", survey)
    assert "25 % of what a person pays" in checked.stdout
    assert "75 % of what a person pays" in checked.stdout
    assert "of which each client keeps to one, which no aggregator can check" in checked.stdout
    done = run_here("survey", "new", survey, "--out", out, *PARTIES)
    assert done.returncode == 0, done.stderr
    question, tasks = read_survey(out / "task.toml").texts["word"]
    assert question.title == "department, word"
    for role in (Role.LEADER, Role.HELPER, Role.COLLECTOR):
        text = (out / f"{role.name.lower()}.toml").read_text("utf-8")
        added = [each.task for each in read_provisions(text, role)]
        assert added == [*tasks_from_toml((out / "task.toml").read_text("utf-8")), *tasks]
    answers = tmp_path / "answers.csv"
    answers.write_text("time,person,department,word\n2026-11-03,1,surgery,back\n")
    sending = "survey", "upload", out / "task.toml", answers, "--time-column", "time"
    refused = run_here(*sending, "--dry-run")
    assert refused.returncode == 2
    assert "give --state and --person-column" in refused.stderr
    read = run_here(
        *sending, "--person-column", "person", "--state", tmp_path / "tosses", "--dry-run"
    )
    assert read.returncode == 0, read.stderr
    (out / "text" / "word").rename(tmp_path / "elsewhere")
    left_out = run_here(*sending, "--dry-run")
    assert left_out.returncode == 2
    assert "text question word: the survey has it, and its files are missing" in left_out.stderr


@pytest.mark.parametrize("named", ["age", IDS[1]])
def test_check_of_one_task_prints_what_its_own_file_would(file: Path, named: str) -> None:
    alone = file.with_name("task.toml")
    alone.write_text(task_to_toml(TASKS[1]))
    assert run_here("task", "check", file, "--which", named) == run_here("task", "check", alone)


def test_check_prints_the_file_as_json(file: Path) -> None:
    assert run_here("task", "check", file, "--json").stdout == tasks_to_json(TASKS)
    one = json.loads(run_here("task", "check", file, "--json", "--which", "age").stdout)
    assert [each["id"] for each in one["task"]] == [IDS[1]]


ONE = (
    ("plan", "compose", "--releases", "2", "--delta", "1e-6", "--task", "FILE"),
    ("upload", "FILE", "--time", "x"),  # read before the measurement that is missing
)


@pytest.mark.parametrize("command", ONE, ids=" ".join)
def test_a_command_of_one_task_lists_the_names_of_several(
    file: Path, command: tuple[str, ...]
) -> None:
    words = [str(file) if each == "FILE" else each for each in command]
    done = run_here(*words)
    said = f"prio: {file}: holds 2 tasks; name one by --which: department, age\n"
    assert (done.returncode, done.stderr) == (2, said)
    done = run_here(*words, "--which", "ages")
    said = f"prio: {file}: has no task 'ages'; it has department, age; did you mean age?\n"
    assert (done.returncode, done.stderr) == (2, said)
    assert str(file) not in run_here(*words, "--which", "age").stderr


def test_what_is_said_of_one_task_is_of_that_one(file: Path) -> None:
    alone = file.with_name("task.toml")
    alone.write_text(task_to_toml(TASKS[1]))
    options = ("--releases", "2", "--delta", "1e-6")
    of_survey = run_here("plan", "compose", "--task", file, "--which", "age", *options)
    assert of_survey == run_here("plan", "compose", "--task", alone, *options)
    assert of_survey.returncode == 0


def test_two_surveys_of_one_name_are_told_apart_by_their_ids(tmp_path: Path) -> None:
    other = task_of(SURVEYS[1], id=IDS[2])
    file = tmp_path / "both.toml"
    file.write_text(tasks_to_toml([*TASKS, other]))
    done = run_here("task", "check", file, "--which", "age")
    said = f"prio: {file}: has 2 tasks 'age'; give one's id: {IDS[1]}, {IDS[2]}\n"
    assert (done.returncode, done.stderr) == (2, said)
    assert run_here("task", "check", file, "--which", IDS[2]).returncode == 0


@pytest.mark.parametrize("role", ["helper", "collector"])
def test_a_party_takes_part_in_all_tasks_of_its_file_or_in_none(tmp_path: Path, role: str) -> None:
    config = tmp_path / "party.toml"
    config.write_text(service_text(role, "x"))
    key = {}
    if role == "collector":
        public = run_here("collector", "config", "--config", config).stdout.strip()
        key = {"collector_hpke_config": public}
    tasks = [task_of(SURVEYS[place], id=IDS[place], **key) for place in (0, 1)]
    last = make_task(id=IDS[2], **key)

    def add(tasks: list[Task], seed: bytes) -> tuple[int, str]:
        text = provision_all(tasks, SeededEntropy(seed))[Role[role.upper()]]
        done = run_here("task", "add", "--config", config, "-", stdin=text)
        return done.returncode, done.stdout

    def stored() -> int:
        return len(run_here("task", "list", "--config", config).stdout.splitlines())

    assert add([last], b"one") == (0, f"{IDS[2]}\n")
    assert add([*tasks, last], b"another") == (2, "")  # the last is stored with another token
    assert stored() == 1
    for _ in range(2):
        assert add(tasks, b"another") == (0, f"{IDS[0]}\n{IDS[1]}\n")
    assert stored() == 3


def test_the_json_that_survey_new_writes_is_its_toml(tmp_path: Path) -> None:
    config, survey = tmp_path / "collector.toml", tmp_path / "survey.toml"
    config.write_text(service_text("collector", "x"))
    survey.write_text(VISITS + department() + AGE)
    public = run_here("collector", "config", "--config", config).stdout.strip()
    done = run_here(
        *("survey", "new", survey, "--out", tmp_path / "made", "--collector-config", public),
        *("--leader", "https://leader.example/", "--helper", "https://helper.example/"),
    )
    assert done.returncode == 0, done.stderr
    made = tmp_path / "made"
    toml, document = ((made / f"task.{kind}").read_text() for kind in ("toml", "json"))
    assert tasks_from_toml(toml) == tasks_from_toml(document)
    assert [each["configuration"] for each in json.loads(document)["task"]]
    shown = [run_here("survey", "show", made / f"task.{kind}") for kind in ("toml", "json")]
    assert shown[0] == shown[1]


def test_a_collectors_configuration_from_a_file_that_is_not_there_is_named_as_missing(
    tmp_path: Path,
) -> None:
    survey = tmp_path / "survey.toml"
    survey.write_text(VISITS + department() + AGE)
    done = run_here(
        *("survey", "new", survey, "--out", tmp_path / "made", "--collector-config", ""),
        *("--leader", "https://leader.example/", "--helper", "https://helper.example/"),
    )
    assert (done.returncode, done.stderr) == (2, "prio: collector-config: missing\n")
    assert not (tmp_path / "made").exists()
