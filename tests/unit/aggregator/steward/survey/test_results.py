"""What was collected of a survey: labelled, to tabulate, to calculate with and to compare."""

from datetime import UTC, datetime, timedelta

import pytest

from aggregator.collector.results import Batch, Noised, compare_all, total
from aggregator.errors import ParameterError
from aggregator.protocol.task import Task
from aggregator.steward.survey import SurveyResults, survey_from_toml
from tests.support.surveys import VISITS, department, task_of

TEXT = (
    VISITS.replace("[budget]", 'by = "department"\n[budget]').replace('"1"', '"20"')
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


TASK = task_of(TEXT)


def collected(week: int, *sums: int) -> tuple[Task, Batch]:
    """A batch of 100 reports, of whose week the Monday holds none."""
    start = int((MONDAY + timedelta(days=7 * week + 1)).timestamp())
    laws = TASK.policy.mechanism.laws(TASK.prio3.circuit, 2)
    each = [law for run, law in laws for _ in range(run)]
    values = {
        str(place): Noised.released(value, law, (str(TASK.task_id), week, place))
        for place, (value, law) in enumerate(zip(sums, each, strict=True))
    }
    return TASK, Batch(values, 100, start, start + 86400, "a promise")


# Surgery, medicine, no answer; gave a wait, gave none, its sum above 10 minutes; and both by group.
RESULTS = SurveyResults(
    [
        collected(0, 60, 30, 10, 80, 20, 1600, 50, 30, 20, 900, 700),
        collected(1, 20, 70, 10, 80, 20, 1600, 20, 60, 20, 400, 1200),
    ],
    "Visits",
)


def test_a_table_names_the_week_that_was_asked_for_even_if_its_monday_is_empty() -> None:
    rows = RESULTS.table("department", "count").rows
    assert [(row["window"], row["label"], row["value"]) for row in rows] == [
        (FIRST, "surgery", 60),
        (FIRST, "medicine", 30),
        (FIRST, "no answer", 10),
        (SECOND, "surgery", 20),
        (SECOND, "medicine", 70),
        (SECOND, "no answer", 10),
    ]
    assert {row["answered"] for row in rows} == {90}
    assert RESULTS.windows == [FIRST, SECOND]


def test_a_table_shows_itself_with_its_title_and_labels() -> None:
    shown = RESULTS.table(jointly=True)._repr_html_()
    for text in ("Visits (a promise; 95 % intervals, 30 at once)", "surgery", "minutes", SECOND):
        assert text in shown


def test_a_figure_is_found_by_its_names_and_can_be_calculated_with() -> None:
    mean = RESULTS.figure("wait", "mean", window=-1)
    assert (mean.estimate, mean.unit) == (30, "minutes")  # 10 above 0, and 20 on average
    assert mean.label == f"wait mean, {SECOND}"
    weeks = [RESULTS.figure("department", "count", "medicine", window=name) for name in (0, SECOND)]
    assert all(isinstance(week, Noised) for week in weeks)
    assert total(week for week in weeks if isinstance(week, Noised)).estimate == 100


def test_a_table_by_group_names_its_groups() -> None:
    rows = RESULTS.table("wait", "mean", by="department").rows
    assert [(row["window"], row["by"], row["group"], row["value"]) for row in rows] == [
        (FIRST, "department", "surgery", 28),
        (FIRST, "department", "medicine", pytest.approx(33.33, abs=0.01)),
        (SECOND, "department", "surgery", 30),
        (SECOND, "department", "medicine", 30),
    ]
    (whole, _) = RESULTS.table("wait", "mean", by="").rows
    assert (whole["by"], whole["value"]) == ("", 30)
    # How many of the group answered, and not how many answered at all.
    assert [row["answered"] for row in rows] == [50, 30, 20, 60]
    assert whole["answered"] == 80
    group = RESULTS.figure("wait", "mean", window=0, by="department", group="surgery")
    assert group.label == f"wait mean of department surgery, {FIRST}"


def test_what_is_promised_is_said_once() -> None:
    assert RESULTS.guarantee == "a promise"


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
    surgery, medicine, nobody = compare_all(RESULTS.changes("department", "count"))
    assert (surgery.is_larger, medicine.is_larger, nobody.is_larger) == (False, True, None)
    assert f"department count medicine, {SECOND} is larger than" in medicine.can_be_concluded
    wait, *groups = compare_all(RESULTS.changes("wait", "mean"))
    assert wait.estimate == 0
    assert wait.interval.low < 0 < wait.interval.high
    assert len(groups) == 2


def test_one_window_has_no_change() -> None:
    with pytest.raises(ParameterError, match="a change is of two, not 1"):
        SurveyResults(RESULTS.results[:1]).changes()
