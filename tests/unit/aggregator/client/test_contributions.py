"""One person's reports, counted on disk before they are sent."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import patch

import pytest

from aggregator.client import Contributions, TooManyReports
from aggregator.dp.policy_table import policy_to_mapping
from aggregator.errors import ConfigurationError
from aggregator.protocol.task import Task
from aggregator.steward.planning.advise import advise
from aggregator.steward.planning.question import Question
from tests.support.surveys import VISITS, department, task_of
from tests.support.tasks import LAPLACE, TIME_PRECISION, make_task

TWICE = make_task(privacy={**LAPLACE, "max_reports_per_person": 2})
OTHER = make_task(privacy={**LAPLACE, "max_reports_per_person": 2}, id="A" * 43)
HOUR = 36 * TIME_PRECISION


def test_the_bound_is_for_ever_if_the_task_has_no_window(tmp_path: Path) -> None:
    state = Contributions(tmp_path / "reports.json")
    state.count(TWICE, 1, 1000)
    Contributions(tmp_path / "reports.json").count(TWICE, 1, 10**9)  # another start of the program
    with pytest.raises(
        TooManyReports,
        match=r"3 reports of one person .* 2 allowed for ever, since the task has no window",
    ):
        state.count(TWICE, 1, 10**9)
    state.count(OTHER, 2, 1000)


def test_what_is_refused_is_not_counted(tmp_path: Path) -> None:
    state = Contributions(tmp_path / "reports.json")
    with pytest.raises(TooManyReports):
        state.count(TWICE, 3, 1000)
    state.count(TWICE, 2, 1000)


def windowed(**privacy: int) -> Task:
    return make_task(privacy={**LAPLACE, "window": 36, **privacy})


@pytest.mark.parametrize("start", [0, 7])
def test_in_a_task_with_windows_the_bound_is_per_window(tmp_path: Path, start: int) -> None:
    task = windowed(max_reports_per_person=2, window_start=start)
    state = Contributions(tmp_path / "reports.json")
    first = HOUR + start * TIME_PRECISION
    state.count(task, 1, first)
    state.count(task, 1, first + HOUR - 1)
    state.count(task, 2, first + HOUR)
    for moment in (first, first + HOUR - 1, first + HOUR):
        with pytest.raises(TooManyReports, match="3 reports of one person in one window"):
            state.count(task, 1, moment)
    state.count(task, 1, first - 1)


def test_a_person_is_in_as_many_windows_as_the_task_allows(tmp_path: Path) -> None:
    task = windowed(max_batches_per_person=2)
    state = Contributions(tmp_path / "reports.json")
    for batch in (3, 5):
        state.count(task, 1, batch * HOUR)
    with pytest.raises(TooManyReports, match="in 3 windows, 2 allowed"):
        state.count(task, 1, 4 * HOUR)


def test_a_survey_that_is_changed_gives_nobody_a_second_report_in_a_window(tmp_path: Path) -> None:
    survey = task_of(VISITS + department())
    changed = task_of(VISITS + department(("surgery", "medicine", "eyes")), id="A" * 43)
    other = task_of(VISITS.replace("Visits", "Food") + department(), id="E" * 43)
    state = Contributions(tmp_path / "reports.json")
    week = 7 * 24 * 3600
    state.count(survey, 1, 100 * week)
    with pytest.raises(TooManyReports, match="2 reports of one person in one window, 1 allowed"):
        state.count(changed, 1, 100 * week + 3600)
    state.count(changed, 1, 101 * week)
    with pytest.raises(TooManyReports):
        state.count(survey, 1, 101 * week)
    state.count(other, 1, 100 * week)


def test_a_changed_survey_may_have_another_unit_of_time(tmp_path: Path) -> None:
    survey = task_of(VISITS + department())
    halves = task_of(VISITS.replace('"week"', '"12 hours"') + department(), id="A" * 43)
    assert halves.time_precision != survey.time_precision
    state = Contributions(tmp_path / "reports.json")
    day = 24 * 3600
    state.count(survey, 1, 700 * day)
    with pytest.raises(TooManyReports):
        state.count(halves, 1, 700 * day)
    state.count(halves, 1, 720 * day)


def test_a_survey_that_is_changed_is_held_to_the_windows_and_the_time_of_each(
    tmp_path: Path,
) -> None:
    """Made again with shorter windows, it would get several reports in one of the first."""
    weeks = task_of(VISITS + department())
    halves = task_of(VISITS.replace('"week"', '"12 hours"') + department(), id="A" * 43)
    day = 24 * 3600
    for name, tasks in {"one": (weeks, halves), "two": (halves, weeks)}.items():
        state = Contributions(tmp_path / name)
        state.count(tasks[0], 1, 701 * day)  # a week begins at 697, a unit of it at 700
        for moment in (699 * day, 702 * day):
            with pytest.raises(TooManyReports):
                state.count(tasks[1], 1, moment)
        state.count(tasks[1], 1, 720 * day)


@pytest.mark.parametrize("other", [{"window": 1}, {"window": 36, "window_start": 7}, {}])
def test_tasks_that_are_counted_together_are_held_to_the_windows_of_each(
    tmp_path: Path, other: dict[str, int]
) -> None:
    """A task with shorter windows would get several reports in one of the first."""
    first, second = windowed(), make_task(privacy={**LAPLACE, **other}, id="A" * 43)
    week = 100 * HOUR
    for name, tasks in {"one": (first, second), "two": (second, first)}.items():
        state = Contributions(tmp_path / name)
        state.count(tasks[0], 1, week + HOUR - TIME_PRECISION, under="a question")
        for moment in (week + HOUR - 2 * TIME_PRECISION, week):
            for _ in range(2):
                with pytest.raises(TooManyReports):
                    state.count(tasks[1], 1, moment, under="a question")
        if other:
            state.count(tasks[1], 1, week + 3 * HOUR, under="a question")


def test_whatever_a_task_calls_a_group_a_person_is_in_one_place_of_it(tmp_path: Path) -> None:
    """A designer who calls unrelated tasks a group has no second report to count as one."""

    def at(place: int, name: str = "all that we ask", **settings: str) -> Task:
        return make_task(privacy={**LAPLACE, "group": name, "group_place": place}, **settings)

    state = Contributions(tmp_path / "reports.json")
    state.count(at(2), 1, 1000)
    for place in (1, 3):
        with pytest.raises(TooManyReports, match=f"in place 2 of .* no task with place {place}"):
            Contributions(tmp_path / "reports.json").count(at(place, id="A" * 43), 1, 10**9)
    state.count(at(2, id="A" * 43), 1, 1000)  # the place again, as when a question is made anew
    state.count(at(1, "another group", id="B" * 42 + "A"), 1, 1000)


def test_reports_of_batches_that_the_leader_selects_are_counted_for_ever(tmp_path: Path) -> None:
    task = make_task(privacy={**LAPLACE, "max_reports_per_person": 2}, batch_mode="leader_selected")
    state = Contributions(tmp_path / "reports.json")
    for moment in (HOUR, 99 * HOUR):
        state.count(task, 1, moment)
    with pytest.raises(TooManyReports, match=r"3 reports of one person .*, 2 allowed"):
        state.count(task, 1, 999 * HOUR)


def test_a_client_that_keeps_count_can_be_in_each_release_of_the_advised_year(
    tmp_path: Path,
) -> None:
    """The worked example of docs/planning.md: four releases a year, and no fifth."""
    found = advise(Question.of(1800, 6, error="3%", releases=4))
    task = make_task(privacy=policy_to_mapping(found.policy), time_precision=3600)
    state = Contributions(tmp_path / "reports.json")
    quarter = 2190 * 3600
    for number in range(4):
        state.count(task, 1, 230 * quarter + number * quarter)
        with pytest.raises(TooManyReports, match="2 reports of one person in one window"):
            state.count(task, 1, 231 * quarter + number * quarter - 1)
    with pytest.raises(TooManyReports, match="in 5 windows, 4 allowed"):
        state.count(task, 1, 234 * quarter)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"version": 2, "tasks": {}}',
        '{"version": 1, "tasks": {"a": {"x": 1}}}',
    ],
)
def test_a_file_that_cannot_be_read_is_never_taken_for_a_new_one(tmp_path: Path, text: str) -> None:
    path = tmp_path / "reports.json"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=r"reports\.json"):
        Contributions(path).count(TWICE, 1, 0)
    assert path.read_text() == text


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="No such file"):
        Contributions(tmp_path / "no" / "reports.json").count(TWICE, 1, 0)


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_what_cannot_be_put_on_disk_is_not_to_be_sent_and_leaves_the_old_file(
    tmp_path: Path, call: str
) -> None:
    path = tmp_path / "reports.json"
    state = Contributions(path)
    state.count(TWICE, 1, 0)
    before = path.read_text()
    failing = patch("os.fsync" if call == "fsync" else "pathlib.Path.replace", side_effect=OSError)
    with failing, pytest.raises(ConfigurationError):
        state.count(TWICE, 1, 0)
    assert path.read_text() == before
    state.count(TWICE, 1, 0)


def test_the_file_is_readable_by_its_owner_only_and_names_no_person(tmp_path: Path) -> None:
    path = tmp_path / "reports.json"
    Contributions(path).count(TWICE, 1, 250)
    assert path.stat().st_mode & 0o077 == 0
    assert json.loads(path.read_text()) == {
        "version": 1,
        "tasks": {str(TWICE.task_id): {"2": 1}},
    }


def _count_one(path: Path) -> bool:
    try:
        Contributions(path).count(TWICE, 1, 0)
    except TooManyReports:
        return False
    return True


def test_processes_that_count_at_once_share_the_bound(tmp_path: Path) -> None:
    # The lock is of the open file, so two threads exclude each other as two processes do.
    with ThreadPoolExecutor(6) as pool:
        counted = list(pool.map(_count_one, [tmp_path / "reports.json"] * 12))
    assert sum(counted) == 2
