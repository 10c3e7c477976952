"""What was collected of a survey: labelled, to tabulate, to calculate with and to compare."""

from datetime import UTC, datetime, timedelta

import pytest

from aggregator.collector.results import Batch, Noised, compare_all, total
from aggregator.errors import ParameterError
from aggregator.protocol.task import Task
from aggregator.steward.survey import SurveyResults, survey_from_toml
from tests.support.surveys import VISITS, department, task_of

TEXT = (
    VISITS
    + department()
    + """
[[question]]
name = "wait"
kind = "number"
low = 10
high = 90
unit = "minutes"
"""
)
SURVEY = survey_from_toml(TEXT)
MONDAY = datetime(2026, 11, 2, tzinfo=UTC)
FIRST, SECOND = "2026-11-02 to 2026-11-08", "2026-11-09 to 2026-11-15"


DEPARTMENT, WAIT = task_of(TEXT, 0), task_of(TEXT, 1)


def collected(task: Task, week: int, *sums: int) -> tuple[Task, Batch]:
    """A batch of 100 answers, of whose week the Monday holds none."""
    start = int((MONDAY + timedelta(days=7 * week + 1)).timestamp())
    law = task.policy.mechanism.law(task.prio3.circuit, 2)
    values = {
        str(place): Noised.released(value, law, (str(task.task_id), week, place, len(sums)))
        for place, value in enumerate(sums)
    }
    return task, Batch(values, 100, start, start + 86400)


RESULTS = SurveyResults(
    [
        collected(DEPARTMENT, 0, 60, 40),
        collected(WAIT, 0, 2000),
        collected(DEPARTMENT, 1, 400, 35),
        collected(WAIT, 1, 2000),
    ],
    "Visits",
)


def test_a_table_names_the_week_that_was_asked_for_even_if_its_monday_is_empty() -> None:
    rows = RESULTS.table("department", "count").rows
    assert [(row["window"], row["label"], row["value"]) for row in rows] == [
        (FIRST, "surgery", 60),
        (FIRST, "medicine", 40),
        (SECOND, "surgery", 400),
        (SECOND, "medicine", 35),
    ]
    assert {row["reports"] for row in rows} == {100}
    assert RESULTS.windows == [FIRST, SECOND]


def test_a_table_shows_itself_with_its_title_and_labels() -> None:
    shown = RESULTS.table(jointly=True)._repr_html_()
    for text in ("Visits (95 % intervals, 12 at once)", "surgery", "minutes", SECOND):
        assert text in shown


def test_a_figure_is_found_by_its_names_and_can_be_calculated_with() -> None:
    mean = RESULTS.figure("wait", "mean", window=-1)
    assert (mean.estimate, mean.unit) == (30, "minutes")  # 10 above 0, and 20 on average
    assert mean.label == f"wait mean, {SECOND}"
    weeks = [RESULTS.figure("department", "count", "medicine", window=name) for name in (0, SECOND)]
    assert all(isinstance(week, Noised) for week in weeks)
    assert total(week for week in weeks if isinstance(week, Noised)).estimate == 75


@pytest.mark.parametrize(
    ("question", "shows", "label", "window", "message"),
    [
        ("department", "count", "dentist", 0, "no department count dentist of 2026-11-02"),
        ("age", "mean", "", 0, "no age mean of"),
        ("wait", "mean", "", 2, "there are only 2"),
        ("wait", "mean", "", "last week", "of last week"),
    ],
)
def test_a_figure_that_is_not_there_is_named(
    question: str, shows: str, label: str, window: str | int, message: str
) -> None:
    with pytest.raises(ParameterError, match=message):
        RESULTS.figure(question, shows, label, window=window)


def test_changes_compare_each_figure_with_that_of_the_window_before() -> None:
    surgery, medicine = compare_all(RESULTS.changes("department", "count"))
    assert surgery.is_larger is True
    assert medicine.is_larger is None
    assert f"department count surgery, {SECOND} is larger than" in surgery.can_be_concluded
    (wait,) = compare_all(RESULTS.changes("wait", "mean"))
    assert wait.estimate == 0
    assert wait.interval.low < 0 < wait.interval.high


def test_one_window_has_no_change() -> None:
    with pytest.raises(ParameterError, match="a change is of two, not 1"):
        SurveyResults(RESULTS.results[:2]).changes()
