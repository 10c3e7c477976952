"""What a notebook asks of a survey: a synthetic table, functions of pairs, three answers."""

from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from aggregator.errors import ParameterError
from aggregator.steward.survey import SurveyResults, plan, survey_from_toml
from aggregator.steward.survey.synthetic.of_pairs import OfPairs
from tests.support.surveys import task_of
from tests.support.synthetic_surveys import release, survey_text

pytestmark = pytest.mark.slow

TEXT = survey_text({"a": 3, "b": 3, "c": 3}, 'epsilon = "4"\ndelta = "1/1000000"')
ASKED = plan(survey_from_toml(TEXT))
TASK = task_of(TEXT)
FIRST, SECOND = "2026-01-01", "2026-01-02"


def answers(people: int, seed: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    random = np.random.default_rng(seed)
    found = random.integers(0, 4, (people, 3))
    for column in (1, 2):
        is_same = random.random(people) < 0.7
        found[:, column] = np.where(is_same, found[:, 0], found[:, column])
    return found


TRUE = [answers(20_000, 1), answers(20_000, 2)]


@cache
def the_results() -> SurveyResults:
    return SurveyResults(
        [(TASK, release(ASKED, each, 10 + day, day)) for day, each in enumerate(TRUE)], "Made up"
    )


def test_a_table_is_of_the_last_window_of_one_by_name_or_of_several() -> None:
    assert the_results().synthetic().told.windows == (SECOND,)
    assert the_results().synthetic(0, rows=10).told.windows == (FIRST,)
    both = the_results().synthetic(windows=[FIRST, -1], rows=10)
    assert both.told.windows == (FIRST, SECOND)
    assert both.people == 40_000
    assert {row["window"] for row in both.rows()} == {"2026-01-01; 2026-01-02"}


@pytest.mark.parametrize("window", [2, "2026-01-03"])
def test_an_unknown_window_is_refused(window: int | str) -> None:
    for ask in (
        lambda: the_results().synthetic(window),
        lambda: the_results().three({"a": "a 1", "b": "b 1", "c": "c 1"}, window),
        lambda: the_results().of_pairs(lambda _, each: each[0, 1], ["a", "b"], window),
    ):
        with pytest.raises(ParameterError, match="window: there"):
            ask()


def test_windows_of_different_surveys_are_not_added_up() -> None:
    other = task_of(TEXT.replace('"4"', '"2"'))
    mixed = SurveyResults(
        [(TASK, the_results().results[0][1]), (other, the_results().results[1][1])]
    )
    with pytest.raises(ParameterError, match="different surveys, or have different noise"):
        mixed.synthetic(windows=[0, 1])


def test_three_answers_have_bounds_that_hold_the_truth() -> None:
    interval = the_results().three({"a": "a 1", "c": "c 1", "b": "b 1"}, 0, Fraction(999, 1000))
    assert int((TRUE[0] == 1).all(axis=1).sum()) in interval
    assert 0 <= interval.low < interval.high <= 20_000
    narrow = the_results().three({"a": "a 1", "c": "c 1", "b": "b 1"}, 0, Fraction(1, 2))
    assert narrow.high - narrow.low < interval.high - interval.low


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"a": "a 1", "b": "b 1"}, "must be to three questions, not 2"),
        ({"a": "a 1", "b": "b 1", "c": "9"}, "c has no answer '9'"),
    ],
)
def test_other_than_three_known_answers_are_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        the_results().three(given)


def correlation(
    _means: object, covariances: "np.ndarray[tuple[int, int], np.dtype[np.float64]]"
) -> float:
    return float(covariances[0, 1] / (covariances[0, 0] * covariances[1, 1]) ** 0.5)


def test_a_function_of_pairs_has_an_interval_that_holds_the_truth() -> None:
    (row,) = the_results().of_pairs(correlation, ["a", "b"], 0).rows
    gave = (TRUE[0][:, :2] < 3).all(axis=1)
    true = np.corrcoef(TRUE[0][gave, 0], TRUE[0][gave, 1])[0, 1]
    low, high = row["low"], row["high"]
    assert isinstance(low, float)
    assert isinstance(high, float)
    middle, half = (high + low) / 2, (high - low) / 2
    assert abs(true - middle) < 2.5 * half  # as five standard deviations
    assert "200 copies" in str(row["method"])
    again = the_results().of_pairs(correlation, ["a", "b"], 0).rows
    assert again == [row]


def test_labels_may_stand_for_other_numbers_and_order_does_not_matter() -> None:
    codes = {name: {f"{name} {place}": -2.0 * place for place in range(3)} for name in "ba"}
    (turned,) = the_results().of_pairs(correlation, codes).rows
    (plain,) = the_results().of_pairs(correlation, ["a", "b"]).rows
    assert turned["value"] == pytest.approx(plain["value"])
    mean = the_results().of_pairs(lambda means, _: {"b": means[0], "a": means[1]}, codes).rows
    assert [row["label"] for row in mean] == ["b", "a"]
    assert all(-4 < float(row["value"] or 0) < 0 for row in mean)


@pytest.mark.parametrize(
    ("questions", "message"),
    [
        (["a"], "must be two or more"),
        (["a", "a"], "must be two or more, each once"),
        (["a", "d"], "no question 'd'"),
        ({"a": {"a 0": 1.0}, "b": {}}, "a: 'a 1' has no number"),
        ({"a": {"a 9": 1.0}, "b": {}}, "a has no answer 'a 9'"),
    ],
)
def test_other_questions_are_refused(questions: object, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        the_results().of_pairs(correlation, questions)  # type: ignore[arg-type]  # as parametrized


def test_nothing_is_concluded_from_pairs_where_the_noise_may_be_all() -> None:
    few = SurveyResults([(TASK, release(ASKED, answers(30, 3), 3))])
    with pytest.raises(ParameterError, match="not positive definite"):
        few.of_pairs(correlation, ["a", "b", "c"])
    assert not OfPairs(1.0, None).interval().is_bounded
    assert OfPairs(float("nan"), 1.0).estimate is None


def test_two_questions_in_no_table_have_neither() -> None:
    text = survey_text({"a": 3, "b": 3, "c": 3}, tables='[["a", "b"], ["a", "c"]]')
    asked = plan(survey_from_toml(text))
    results = SurveyResults([(task_of(text), release(asked, TRUE[0], 4))])
    with pytest.raises(ParameterError, match="no table has b and c together"):
        results.three({"a": "a 1", "b": "b 1", "c": "c 1"})
    with pytest.raises(ParameterError, match="no table has b and c together"):
        results.of_pairs(correlation, ["b", "c"])
