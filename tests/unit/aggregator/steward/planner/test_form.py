"""A planner's form: each field is bounded, and what it says is in the survey file unchanged."""

from datetime import date
from fractions import Fraction

import pytest

from aggregator.errors import ParameterError
from aggregator.steward.planner.fields import MOST_LINES
from aggregator.steward.planner.form import DEFAULTS, Draft
from aggregator.steward.planner.survey_file import regions, toml
from aggregator.steward.planner.survey_question import FIELDS, KINDS
from aggregator.steward.survey import questions, survey_from_toml
from tests.support.patience import measured

TODAY = date(2026, 11, 25)
SCRIPT = '<script>alert("1")</script> \\ \N{RIGHT-TO-LEFT ISOLATE} \N{GRINNING FACE}'


@pytest.mark.parametrize("kind", KINDS)
def test_the_survey_file_of_each_kind_is_one_that_is_taken(kind: str) -> None:
    draft = Draft.of({"kind": kind}, TODAY)
    survey = survey_from_toml(draft.survey_toml(Fraction(4, 25)))
    assert survey.questions[0].question == draft.question
    assert survey.questions[0].question.model_dump()["kind"] == kind
    assert survey.budget.epsilon == Fraction(4, 25)
    assert (survey.first.date(), survey.min_batch_size) == (date(2026, 11, 30), 1800)


def test_a_survey_of_more_people_than_its_default_allows_says_so() -> None:
    survey = Draft.of({"people": "600,000"}, TODAY).survey(Fraction(1))
    assert survey.max_reports == 1_200_000


def test_windows_of_a_year_are_those_that_fit_into_it_and_are_planned() -> None:
    assert Draft.of({"window": "week", "windows": "200"}, TODAY).releases == 52
    assert Draft.of({"window": "week", "windows": "3"}, TODAY).releases == 3
    assert Draft.of({"window": "600 days", "windows": "3"}, TODAY).releases == 1


def test_what_is_written_stands_in_the_file_as_it_was_written() -> None:
    fields = {"text": SCRIPT, "title": SCRIPT, "asked": SCRIPT, "labels": f"a\n{SCRIPT}"}
    survey = Draft.of(fields, TODAY).survey(Fraction(1))
    assert survey.title == survey.asked == survey.questions[0].question.text == SCRIPT
    assert survey.questions[0].question.model_dump()["labels"] == ("a", SCRIPT)


def test_toml_has_every_character_and_exact_numbers() -> None:
    assert toml('a"\\\n\x7f') == '"a\\"\\\\\\n\\u007F"'
    assert toml(Fraction(1, 3)) == '"1/3"'
    assert toml([True, 2, {"low": Fraction(-3)}]) == "[true, 2, { low = -3 }]"


def test_a_hierarchy_is_read_from_how_far_in_its_lines_are() -> None:
    assert regions(["a", "  b", "  c", "d", "  e"]) == [
        {"label": "a", "below": [{"label": "b"}, {"label": "c"}]},
        {"label": "d", "below": [{"label": "e"}]},
    ]
    with pytest.raises(ParameterError, match="line 3 begins between two levels"):
        regions(["a", "    b", "  c"])
    with pytest.raises(ParameterError, match="at most 5 levels"):
        regions([" " * depth + "x" for depth in range(6)])


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"people": "1" + "0" * 400}, "people must be a whole number from 1 to 1,000,000,000"),
        ({"people": "-5"}, "people must be a whole number"),
        ({"people": "1e5"}, "people must be a whole number"),
        ({"windows": "1001"}, "windows must be a whole number from 1 to 1,000, not '1001'"),
        ({"goal": "strength", "strength": "-1"}, "strength must lie in (0, 20], not -1"),
        ({"goal": "strength", "strength": "1e-9"}, "strength must be a number such as"),
        ({"goal": "strength", "strength": "0.0001"}, "strength must be at least 0.001"),
        ({"goal": "strength", "strength": "nan"}, "strength must be a number such as"),
        ({"error": "0"}, "error must lie in (0, 100]"),
        ({"error": "9" * 10_000}, "error must be a number such as 12, 0.5 or 1/3, not '9999"),
        ({"delta": "0.5"}, "delta must be from 1e-15 to 0.01"),
        ({"text": "x" * 10_000}, "text may have 500 characters, not 10,000"),
        ({"text": "a\x00b"}, "text may have no control characters"),
        ({"text": "a\ud800b"}, "text may have no control characters"),
        ({"title": ""}, "title"),
        ({"labels": "x\n" * 10**6}, "labels may have 200 lines, not 1,000,000"),
        ({"labels": "x\ny\x1b[2J"}, "labels: line 2 may have no control characters"),
        ({"labels": "x\n" + "y" * 10_000}, "line 2 may have 100 characters, not 10,000"),
        ({"labels": "x"}, "labels: from 2 to"),
        ({"labels": "x\nx"}, "is there twice"),
        ({"kind": "<script>"}, "kind must be one of choice,"),
        ({"kind": "scale", "high": "1000000"}, "a scale has from 2 to"),
        ({"kind": "scale", "high": "5.5"}, "question question: high: must be a whole number"),
        ({"kind": "number", "low": "5", "high": "1"}, "high must be above low"),
        ({"kind": "number", "high": "1" + "0" * 19}, "at most 2^40"),
        ({"kind": "bins", "edges": "3 2 1"}, "edges: must be in ascending order"),
        ({"kind": "bins", "edges": "1 " * 10**5}, "edges may be 200 numbers, not 100,000"),
        ({"kind": "vector", "columns": "a"}, 'each line must be "name, low, high, step, unit"'),
        ({"kind": "vector", "columns": "a, 0, x"}, "columns: high must be a number"),
        ({"kind": "tree", "regions": "a\n  b\nc"}, "every branch must have the same depth"),
        ({"window": "month"}, "window: must be a number of hours, days or weeks"),
        ({"window": "999999 weeks"}, "window: must be at most 3660 days"),
        ({"window": "2 hours"}, "window must be a day at least"),
        ({"first": "tomorrow"}, "first must be a date such as"),
        ({"mechanism": "None"}, "mechanism must be one of"),
        ({"shape": "x"}, "shape must be one of"),
    ],
    ids=lambda each: each[:40] if isinstance(each, str) else None,
)
def test_what_is_out_of_range_is_refused_at_once_by_the_name_of_its_field(
    fields: dict[str, str], said: str
) -> None:
    with measured() as spent, pytest.raises(ParameterError) as caught:
        Draft.of(fields, TODAY)
    assert spent.yardsticks < 100
    assert said in str(caught.value)
    assert len(str(caught.value)) < 400


def test_each_field_with_several_lines_has_a_bound() -> None:
    assert {name for name, value in DEFAULTS.items() if "\n" in value} == MOST_LINES.keys()


def test_each_field_of_some_kinds_is_one_that_a_kind_is_made_by() -> None:
    assert {field for kind in questions.KINDS.values() for field in kind.planned_by} == set(FIELDS)
