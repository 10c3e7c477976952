"""Made-up answers: possible ones, to the questions that each person is asked, always the same."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from aggregator.errors import ParameterError
from aggregator.protocol.reports import MAX_AGE_SECONDS
from aggregator.protocol.task import Task, says_made_up
from aggregator.steward.survey import Meaning, plan, survey_from_toml, task_tables
from aggregator.steward.survey.made_up import made_up, past_windows, rehearsal_of
from aggregator.steward.survey.texts import plan_texts
from tests.support.surveys import NOWADAYS, department, every_kind
from tests.support.tasks import make_task

NOW = datetime(2026, 11, 28, 12, 34, 56, tzinfo=UTC)
PEOPLE = 60
DAY = timedelta(days=1)


def task_of(text: str, windows: int = 3) -> Task:
    rehearsal = rehearsal_of(survey_from_toml(text, NOW), NOW, windows, "nobody")
    tables = task_tables(rehearsal, plan(rehearsal))
    return make_task(tables.vdaf, tables.privacy, **tables.settings)


def test_every_kind_of_question_has_answers_that_a_report_takes() -> None:
    survey = survey_from_toml(every_kind(), NOW)
    sheet = plan(survey).sheet
    given = [*made_up(survey, PEOPLE)]
    assert len(given) == PEOPLE
    assert all(len(sheet.measurement(each.answers)) == sheet.circuit.output_len for each in given)
    for place, asked in enumerate(survey.questions):
        kinds = {each.answers[place] for each in given}
        assert len(kinds - {None}) > 1, asked.question.name


def test_people_are_only_asked_what_the_survey_asks_them() -> None:
    survey = survey_from_toml(every_kind(), NOW)
    for each in made_up(survey, PEOPLE):
        place, seat = each.answers[:2]
        assert (seat is None) is (place == (0,))
        assert (each.texts["word"] is None) is (place == (1,))
    words = Counter(each.texts["word"] for each in made_up(survey, PEOPLE))
    assert len(words) > 3


def test_they_are_the_same_whenever_they_are_made() -> None:
    survey = survey_from_toml(every_kind(), NOW)
    assert [*made_up(survey, PEOPLE)] == [*made_up(survey, PEOPLE)]


@pytest.mark.parametrize("first", ["", "first = 2026-11-01", "first = 2027-05-01T06:00:00Z"])
@pytest.mark.parametrize("windows", [1, 4])
def test_they_are_of_the_last_windows_that_are_over_whenever_the_survey_begins(
    first: str, windows: int
) -> None:
    survey = survey_from_toml(every_kind(first), NOW)
    rehearsal = rehearsal_of(survey, NOW, windows, "nobody")
    starts = past_windows(rehearsal, NOW)
    assert len(starts) == windows
    assert NOW - DAY < starts[-1] + DAY <= NOW
    assert survey.windows.start(starts[0]) == starts[0]
    assert (rehearsal.releases, rehearsal.budget) == (survey.releases, survey.budget)


def test_there_are_no_more_windows_than_the_survey_has_or_aggregators_take() -> None:
    few = survey_from_toml(NOWADAYS.replace("= 52", "= 2") + department(), NOW)
    assert len(past_windows(rehearsal_of(few, NOW, 5, "nobody"), NOW)) == 2
    long = survey_from_toml(NOWADAYS.replace('"week"', '"30 weeks"') + department(), NOW)
    rehearsal = rehearsal_of(long, NOW, 5, "nobody")
    for start in past_windows(rehearsal, NOW):
        newest = rehearsal.windows.end(start) - timedelta(seconds=1)
        assert NOW - newest < timedelta(seconds=MAX_AGE_SECONDS)
    endless = NOWADAYS.replace('"week"', '"500 weeks"').replace("= 52", "= 1")
    before = survey_from_toml(f"first = 2026-01-05\n{endless}{department()}", NOW)
    assert NOW - before.windows.start(NOW) < timedelta(seconds=MAX_AGE_SECONDS)
    later = before.model_copy(update={"first": before.first - timedelta(weeks=60)})
    with pytest.raises(
        ParameterError, match="aggregators take answers of 366 days, and the last window"
    ):
        rehearsal_of(later, NOW, 1, "nobody")


def test_the_task_and_what_it_means_say_that_they_are_made_up_and_of_whom() -> None:
    task = task_of(NOWADAYS + department())
    assert task.is_made_up
    meaning = Meaning.of_task(task)
    assert meaning.title == "Made up: Visits"
    assert task.policy.population == "nobody"
    real = survey_from_toml(NOWADAYS + department(), NOW)
    tables = task_tables(real, plan(real))
    assert not make_task(tables.vdaf, tables.privacy, **tables.settings).is_made_up


def test_so_do_the_tasks_of_text_questions_and_the_longest_title() -> None:
    text = every_kind().replace("Every kind", "ä" * 100)
    rehearsal = rehearsal_of(survey_from_toml(text, NOW), NOW, 1, "nobody")
    assert len(rehearsal.title) == 100
    for each in plan_texts(rehearsal):
        assert says_made_up(each.question.title)


@pytest.mark.parametrize("title", ["Made up: Visits", "MADE UP:", "made up: x"])
def test_no_survey_that_people_are_asked_may_be_called_so(title: str) -> None:
    with pytest.raises(ParameterError, match="title: must not begin with 'Made up:'"):
        survey_from_toml(NOWADAYS.replace("Visits", title) + department(), NOW)
