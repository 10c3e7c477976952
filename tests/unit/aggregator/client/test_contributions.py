"""What one person may contribute, remembered in the outbox before anything is sent."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from aggregator.client import AlreadyAnswered, Outbox
from aggregator.client.contributions import Contribution, asked_by
from aggregator.client.records import Entry
from aggregator.dp.policy_table import policy_to_mapping
from aggregator.protocol.task import Task
from aggregator.steward.planning.advise import advise
from aggregator.steward.planning.question import Question
from tests.support.surveys import VISITS, department, task_of
from tests.support.tasks import LAPLACE, TIME_PRECISION, make_task

TWICE = make_task(privacy={**LAPLACE, "max_reports_per_person": 2})
OTHER = make_task(privacy={**LAPLACE, "max_reports_per_person": 2}, id="A" * 43)
HOUR = 36 * TIME_PRECISION


class Person:
    """One person, whose reports are remembered in an outbox."""

    def __init__(self, outbox: Outbox, name: str = "17") -> None:
        self.outbox, self.name = outbox, name

    def count(self, task: Task, reports: int, seconds: int, asked: bytes | None = None) -> None:
        made = Contribution.of(task, self.name, seconds, asked)
        self.outbox.add([Entry([], [replace(made, group=task.policy.group)])] * reports)


@pytest.fixture
def outbox(tmp_path: Path) -> Iterator[Outbox]:
    with closing(Outbox(tmp_path / "outbox.sqlite")) as opened:
        yield opened


def test_the_bound_is_for_ever_if_the_task_has_no_window(outbox: Outbox) -> None:
    Person(outbox).count(TWICE, 1, 1000)
    assert outbox.path is not None
    with closing(Outbox(outbox.path)) as again:  # another start of the program
        Person(again).count(TWICE, 1, 10**9)
    with pytest.raises(
        AlreadyAnswered,
        match=r"3 reports of one person .* 2 allowed for ever, since the task has no window",
    ):
        Person(outbox).count(TWICE, 1, 10**9)
    Person(outbox).count(OTHER, 2, 1000)
    Person(outbox, "18").count(TWICE, 2, 1000)


def test_what_is_refused_is_not_counted(outbox: Outbox) -> None:
    with pytest.raises(AlreadyAnswered):
        Person(outbox).count(TWICE, 3, 1000)
    Person(outbox).count(TWICE, 2, 1000)


def windowed(**privacy: int) -> Task:
    return make_task(privacy={**LAPLACE, "window": 36, **privacy})


@pytest.mark.parametrize("start", [0, 7])
def test_in_a_task_with_windows_the_bound_is_per_window(outbox: Outbox, start: int) -> None:
    task = windowed(max_reports_per_person=2, window_start=start)
    person = Person(outbox)
    first = HOUR + start * TIME_PRECISION
    person.count(task, 1, first)
    person.count(task, 1, first + HOUR - 1)
    person.count(task, 2, first + HOUR)
    for moment in (first, first + HOUR - 1, first + HOUR):
        with pytest.raises(AlreadyAnswered, match="3 reports of one person in one window"):
            person.count(task, 1, moment)
    person.count(task, 1, first - 1)


def test_a_person_is_in_as_many_windows_as_the_task_allows(outbox: Outbox) -> None:
    task = windowed(max_batches_per_person=2)
    for batch in (3, 5):
        Person(outbox).count(task, 1, batch * HOUR)
    with pytest.raises(AlreadyAnswered, match="in 3 windows, 2 allowed"):
        Person(outbox).count(task, 1, 4 * HOUR)


def test_a_survey_that_is_changed_gives_nobody_a_second_report_in_a_window(outbox: Outbox) -> None:
    survey = task_of(VISITS + department())
    changed = task_of(VISITS + department(("surgery", "medicine", "eyes")), id="A" * 43)
    other = task_of(VISITS.replace("Visits", "Food") + department(), id="E" * 43)
    person, week = Person(outbox), 7 * 24 * 3600
    person.count(survey, 1, 100 * week)
    with pytest.raises(AlreadyAnswered, match="2 reports of one person in one window, 1 allowed"):
        person.count(changed, 1, 100 * week + 3600)
    person.count(changed, 1, 101 * week)
    with pytest.raises(AlreadyAnswered):
        person.count(survey, 1, 101 * week)
    person.count(other, 1, 100 * week)


@pytest.mark.parametrize("swapped", [False, True])
def test_a_survey_that_is_changed_is_held_to_the_windows_and_the_time_of_each(
    outbox: Outbox, *, swapped: bool
) -> None:
    """Made again with shorter windows, it would get several reports in one of the first."""
    weeks = task_of(VISITS + department())
    halves = task_of(VISITS.replace('"week"', '"12 hours"') + department(), id="A" * 43)
    assert halves.time_precision != weeks.time_precision
    person, day = Person(outbox), 24 * 3600
    first, second = (halves, weeks) if swapped else (weeks, halves)
    person.count(first, 1, 701 * day)  # a week begins at 697, a unit of it at 700
    for moment in (699 * day, 702 * day):
        with pytest.raises(AlreadyAnswered):
            person.count(second, 1, moment)
    person.count(second, 1, 720 * day)


@pytest.mark.parametrize("other", [{"window": 1}, {"window": 36, "window_start": 7}, {}])
@pytest.mark.parametrize("swapped", [False, True])
def test_tasks_that_ask_the_same_are_held_to_the_windows_of_each(
    outbox: Outbox, other: dict[str, int], *, swapped: bool
) -> None:
    """A task with shorter windows would get several reports in one of the first."""
    tasks = windowed(), make_task(privacy={**LAPLACE, **other}, id="A" * 43)
    first, second = tasks[::-1] if swapped else tasks
    person, week, asked = Person(outbox), 100 * HOUR, b"a question"
    person.count(first, 1, week + HOUR - TIME_PRECISION, asked)
    for moment in (week + HOUR - 2 * TIME_PRECISION, week):
        for _ in range(2):
            with pytest.raises(AlreadyAnswered):
                person.count(second, 1, moment, asked)
    if other:
        person.count(second, 1, week + 3 * HOUR, asked)


def test_whatever_a_task_calls_a_group_a_person_is_in_one_place_of_it(outbox: Outbox) -> None:
    """A designer who calls unrelated tasks a group has no second report to count as one."""

    def at(place: int, name: str = "all that we ask", **settings: str) -> Task:
        return make_task(privacy={**LAPLACE, "group": name, "group_place": place}, **settings)

    person = Person(outbox)
    person.count(at(2), 1, 1000)
    for place in (1, 3):
        with pytest.raises(AlreadyAnswered, match=f"in place 2 of .* no task with place {place}"):
            person.count(at(place, id="A" * 43), 1, 10**9)
    person.count(at(2, id="A" * 43), 1, 1000)  # the place again, as when a question is made anew
    person.count(at(1, "another group", id="B" * 42 + "A"), 1, 1000)
    Person(outbox, "18").count(at(1, id="A" * 43), 1, 1000)


def test_reports_of_batches_that_the_leader_selects_are_counted_for_ever(outbox: Outbox) -> None:
    task = make_task(privacy={**LAPLACE, "max_reports_per_person": 2}, batch_mode="leader_selected")
    for moment in (HOUR, 99 * HOUR):
        Person(outbox).count(task, 1, moment)
    with pytest.raises(AlreadyAnswered, match=r"3 reports of one person .*, 2 allowed"):
        Person(outbox).count(task, 1, 999 * HOUR)


def test_a_client_that_keeps_count_can_be_in_each_release_of_the_advised_year(
    outbox: Outbox,
) -> None:
    """The worked example of docs/planning.md: four releases a year, and no fifth."""
    found = advise(Question.of(1800, 6, error="3%", releases=4))
    task = make_task(privacy=policy_to_mapping(found.policy), time_precision=3600)
    person, quarter = Person(outbox), 2190 * 3600
    for number in range(4):
        person.count(task, 1, 230 * quarter + number * quarter)
        with pytest.raises(AlreadyAnswered, match="2 reports of one person in one window"):
            person.count(task, 1, 231 * quarter + number * quarter - 1)
    with pytest.raises(AlreadyAnswered, match="in 5 windows, 4 allowed"):
        person.count(task, 1, 234 * quarter)


def test_what_a_task_asks_is_its_own_unless_a_survey_says_so() -> None:
    assert asked_by(TWICE) == TWICE.task_id.value
    survey = task_of(VISITS + department())
    assert asked_by(survey) == asked_by(task_of(VISITS + department(), id="A" * 43))


def test_processes_that_count_at_once_share_the_bound(tmp_path: Path) -> None:
    def count_one(path: Path) -> bool:
        with closing(Outbox(path)) as outbox:
            try:
                Person(outbox).count(TWICE, 1, 0)
            except AlreadyAnswered:
                return False
            return True

    # Connections of their own exclude each other as processes do.
    with ThreadPoolExecutor(6) as pool:
        counted = list(pool.map(count_one, [tmp_path / "outbox.sqlite"] * 12))
    assert sum(counted) == 2
