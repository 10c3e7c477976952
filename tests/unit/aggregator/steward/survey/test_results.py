"""What was collected of a survey: labelled, to tabulate, to calculate with and to compare."""

import csv
import dataclasses
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from statistics import pstdev

import pytest

import aggregator
from aggregator.collector.results import Batch, Deviation, Noised, compare_all, ratio, total
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


def collected(week: int, *sums: int, task: Task = TASK) -> tuple[Task, Batch]:
    """A batch of 100 reports, of whose week the Monday holds none."""
    start = int((MONDAY + timedelta(days=7 * week + 1)).timestamp())
    laws = task.policy.mechanism.laws(task.prio3.circuit, 2)
    each = [law for run, law in laws for _ in range(run)]
    values = {
        str(place): Noised.released(value, law, (str(task.task_id), week, place))
        for place, (value, law) in enumerate(zip(sums, each, strict=True))
    }
    return task, Batch(values, 100, start, start + 86400, "a promise")


def of_survey(text: str, *sums: int) -> SurveyResults:
    """One window of a survey with these sums."""
    return SurveyResults([collected(0, *sums, task=task_of(text))], "Visits")


# Surgery, medicine, no answer; gave a wait, gave none, its sum above 10 minutes; and both by group.
RESULTS = SurveyResults(
    [
        collected(0, 60, 30, 10, 80, 20, 1600, 50, 30, 20, 900, 700),
        collected(1, 20, 70, 10, 80, 20, 1600, 20, 60, 20, 400, 1200),
    ],
    "Visits",
)


RATED = [5, 10, 20, 40, 20]
SCALE = of_survey(
    VISITS.replace('"1"', '"20"') + '[[question]]\nname = "rating"\nkind = "scale"\nhigh = 5\n',
    *RATED,
    5,
)
BY_GROUP = of_survey(
    VISITS.replace("[budget]", 'by = "ward"\n[budget]').replace('"1"', '"20"')
    + '[[question]]\nname = "ward"\nkind = "choice"\nlabels = ["a", "b"]\n'
    + '[[question]]\nname = "rating"\nkind = "scale"\nhigh = 2\n',
    *(60, 40, 0, 40, 60, 0, 30, 10, 0, 30, 30, 0, 0, 0, 0),
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
    shown = RESULTS.table(by=None, jointly=True)._repr_html_()
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
        ("department", "count", "surgeon", 0, "no 'surgeon'; did you mean surgery. It has surg"),
        ("department", "counts", "surgery", 0, "no 'counts'; did you mean count. It has count, s"),
        ("age", "mean", "", 0, "question: the survey has no 'age'; it has department, wait"),
        ("wait", "mean", "", 2, f"window: there are only 2: {FIRST}, {SECOND}"),
        ("wait", "mean", "", "last week", f"no 'last week', but {FIRST}, {SECOND}"),
    ],
)
def test_a_name_that_is_not_there_raises_and_says_what_there_is(
    question: str, shows: str, label: str, window: str | int, message: str
) -> None:
    with pytest.raises(ParameterError, match=message):
        RESULTS.figure(question, shows, label, window=window)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: RESULTS.table("departments"), "did you mean department"),
        (lambda: RESULTS.table("wait", "maen"), "wait has no 'maen'; did you mean mean. It has c"),
        (
            lambda: RESULTS.table("wait", by="departement"),
            ".departement.; did you mean department",
        ),
        (lambda: RESULTS.table(by="wait"), "by: the survey has no 'wait'; it has department"),
        (lambda: RESULTS.table(window="2027"), f"no '2027', but {FIRST}"),
        (lambda: RESULTS.table("department", by="wait"), "it has tables by department"),
        (lambda: RESULTS.cross("wait", "dept"), "wait has no 'dept'; it has department"),
        (lambda: RESULTS.changes("wai"), "did you mean wait"),
        (lambda: RESULTS.figure("wait", "mean", by="department", group="surgry"), "mean surgery"),
        (lambda: RESULTS.figure("wait", "mean", group="surgery"), "wait has no 'surgery'"),
        (lambda: RESULTS.figure("wait", "share", ("a", "b")), "did you mean|it has count, sum"),
        (
            lambda: RESULTS.figure("department", "share", ("surgery", "sugery")),
            "sugery",
        ),
        (lambda: RESULTS.figure("department", "odds"), "department has no ''; it has surgery, m"),
        (lambda: RESULTS.figure("wait", "deviation"), "variance = true"),
        (lambda: RESULTS.figure("department", "share", ("surgery", "surgery")), "different"),
    ],
)
def test_every_way_to_ask_for_figures_says_what_there_is(
    ask: Callable[[], object], message: str
) -> None:
    with pytest.raises(ParameterError, match=message):
        ask()


def test_a_window_is_named_by_its_beginning_and_the_last_needs_no_name() -> None:
    for window in ("2026-11-02", FIRST, 0, -2):
        named = RESULTS.figure("wait", "mean", window=window)
        assert named.label == f"wait mean, {FIRST}"
    assert RESULTS.figure("wait", "mean").label == f"wait mean, {SECOND}"
    assert {row["window"] for row in RESULTS.table(window="2026-11-09").rows} == {SECOND}


def test_several_answers_together_are_a_share_with_an_exact_interval_of_its_own() -> None:
    both = SCALE.figure("rating", "share", ("4", "5"))
    parts = [SCALE.figure("rating", "count", each) for each in ("4", "5")]
    added = total(each for each in parts if isinstance(each, Noised))
    answered = SCALE.rows[0].answered
    expected = ratio(added * 100, answered)
    assert (both.estimate, both.unit) == (expected.estimate, "%")
    assert both.interval() == expected.interval()
    assert both.label == f"rating share 4 or 5, {FIRST}"
    odds = SCALE.figure("rating", "odds", ("4", "5"))
    assert odds.interval() == ratio(added, answered - added).interval()
    count = SCALE.figure("rating", "count", ("4", "5"))
    assert count.interval() == added.interval()


def test_a_standard_deviation_is_the_root_of_the_variance_ends_and_all() -> None:
    deviation = SCALE.figure("rating", "deviation")
    points = [point for point, count in enumerate(RATED, 1) for _ in range(count)]
    assert float(deviation.estimate or 0) == pytest.approx(pstdev(points), abs=0.1)
    found = deviation.interval()
    assert found.low <= pstdev(points) <= found.high
    assert isinstance(deviation, Deviation)
    variance = deviation.variance.interval()
    assert float(found.low) == pytest.approx(float(variance.low) ** 0.5)
    assert found.high**2 >= variance.high


def test_two_groups_are_compared_in_one_call() -> None:
    found = RESULTS.difference(
        "wait", "mean", by="department", groups=("medicine", "surgery"), window=0
    )
    first, second = (
        RESULTS.figure("wait", "mean", window=0, by="department", group=group)
        for group in ("medicine", "surgery")
    )
    assert found == compare_all([(first, second)])[0]
    assert found.estimate == Fraction(100, 3) - 28


def test_answers_of_which_one_person_may_give_several_are_not_added_up() -> None:
    several = of_survey(
        VISITS + '[[question]]\nname = "reads"\nkind = "multiple"\nlabels = ["a", "b"]\n', 60, 50, 5
    )
    assert several.figure("reads", "share", ("a",)).estimate == Fraction(6000, 95)
    with pytest.raises(ParameterError, match="a person may count under several labels of reads"):
        several.figure("reads", "share", ("a", "b"))


def test_a_question_by_group_is_a_cross_table_with_shares_of_each_group(tmp_path: Path) -> None:
    cross = BY_GROUP.cross("rating", "ward")
    assert (cross.shows, cross.answers, cross.groups) == ("share", ["1", "2"], ["a", "b"])
    one = BY_GROUP.figure("rating", "share", "2", by="ward", group="b")
    assert cross.rows[1]["b"] == float(one.estimate or 0)
    assert cross.rows[1]["b low"] == float(one.interval().low)
    for text in (repr(cross), cross._repr_html_()):
        for word in ("share of each group (ward), 95 % intervals", "a promise", "75.0 %"):
            assert word in text, word
    assert "<script>" not in cross._repr_html_()
    cross.to_csv(tmp_path / "cross.csv")
    (first, *_) = csv.DictReader((tmp_path / "cross.csv").read_text().splitlines())
    assert list(first) == ["label", "a", "a low", "a high", "b", "b low", "b high"]
    assert cross.frame().shape == (2, 7)
    axes = cross.plot()
    assert [each.get_title(loc="left") for each in axes] == ["a", "b"]
    assert len({each.get_xlim() for each in axes}) == 1, "one scale for all groups"
    (mean,) = RESULTS.cross("wait", "department").rows
    assert mean["surgery"] == 30


def test_a_chart_is_without_groups_unless_they_are_asked_for_and_then_one_for_each() -> None:
    (alone,) = RESULTS.table("wait", "mean").plot().figure.axes
    assert len(alone.get_legend_handles_labels()[0]) == 0
    several = RESULTS.table("wait", "mean", by="department").plot().figure.axes
    titles = [each.get_title(loc="left").split("\n")[0] for each in several]
    assert titles == ["department: surgery", "department: medicine"]
    assert len({each.get_ylim() for each in several}) == 1


def test_what_was_collected_shows_itself_in_words_a_person_can_read() -> None:
    text = repr(RESULTS)
    assert text.splitlines() == [
        f"Visits: 2 windows ({FIRST} … {SECOND}), 200 reports",
        "What a person pays: a promise",
        "  department: count, share",
        "  wait: count, sum, mean; by department",
    ]
    assert repr(SurveyResults([], "Visits")) == "Visits: nothing is collected yet"
    assert RESULTS._repr_html_() == RESULTS.table(window=-1)._repr_html_()
    lines = repr(RESULTS.table("wait", "mean")).splitlines()
    assert lines[1].split()[:3] == ["window", "question", "shows"]
    assert "minutes" in lines[2]
    paid = dataclasses.replace(RESULTS, paid="ε 9 a week")
    assert "What a person pays: ε 9 a week" in repr(paid)
    assert "ε 9 a week" in paid.table()._repr_html_()


def test_a_figure_of_which_nothing_is_learned_is_no_number_where_people_read() -> None:
    few = of_survey(
        VISITS + '[[question]]\nname = "wait"\nkind = "number"\nlow = 0\nhigh = 240\n'
        'unit = "minutes"\n',
        *(6, 94, 300),
    )
    table = few.table("wait", "mean")
    (row,) = table.rows
    assert isinstance(row["value"], float), "files keep what was released"
    for text in (repr(table), table._repr_html_()):
        assert "too few answers to say; about " in text
        assert "would give ± 10 minutes" in text
        assert "50 minutes" not in text
    assert "too few answers to say, from 0 to 240" in repr(few.figure("wait", "mean"))
    assert "to say" not in repr(RESULTS.figure("wait", "mean"))


def test_the_lines_of_the_page_on_a_survey_s_figures_run_as_they_are_printed() -> None:
    page = (Path(aggregator.__file__).parents[1] / "docs" / "results.md").read_text("utf-8")
    code = page.split("## A survey's figures\n\n```python\n")[1].split("```")[0]
    asked = VISITS.replace("[budget]", 'by = "team"\n[budget]').replace('"1"', '"20"')
    for name, kind in (
        ("team", 'kind = "choice"\nlabels = ["day", "night"]'),
        ("mood", 'kind = "choice"\nlabels = ["poor", "good", "very good"]'),
        ("wait", 'kind = "number"\nlow = 0\nhigh = 90\nvariance = true'),
    ):
        asked += f'[[question]]\nname = "{name}"\n{kind}\n'
    mood = [10, 20, 20, 0, 10, 20, 20, 0, 0, 0, 0, 0]
    by_team = [*mood[:3], 0, *mood[4:7], 0, 0, 0, 0, 0]
    sums = [50, 50, 0, 20, 40, 40, 0, 100, 0, 3000, 120_000, *by_team]
    work = of_survey(asked, *sums, *[50, 50, 0, 1500, 1500, 60_000, 60_000])

    class Opened:
        def survey(self, title: str) -> SurveyResults:
            assert title == "Work"
            return work

    exec(code, {"collector": Opened()})  # noqa: S102 - our own page


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
