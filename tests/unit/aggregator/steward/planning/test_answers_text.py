"""`prio plan text`: what it prints is what the plan computes, beside what other settings cost."""

import json

import pytest

from aggregator.errors import ParameterError
from aggregator.steward.planning.answers_text import text
from tests.support.commands import run_here


def test_it_says_what_is_found_at_what_price_and_who_keeps_the_promise() -> None:
    options = ("--epsilon", "1", "--reports", "100000", "--buckets", "4096", "--tasks", "12")
    answer = json.loads(run_here("plan", "text", *options, "--json").stdout)
    assert answer["found"] == "what 187 or more of 100000 hold, with 99%"
    assert answer["strings_found"] == pytest.approx(70, abs=2)
    assert answer["standard_deviation"] == pytest.approx(15.6, rel=0.02)
    assert 16 * 4096 < answer["bytes_of_shares"] < 17 * 4096 + 1000
    assert "no aggregator can check" in answer["privacy"]["on_condition"]
    compared = answer["for_comparison"]
    assert compared["listed_choice_standard_deviation"] == pytest.approx(15.67**0.5, rel=0.01)
    assert compared["one_curator_who_sees_everything_finds_from"] == 30
    assert "187 or more" in run_here("plan", "text", *options).stdout


def test_the_number_of_tasks_is_chosen_if_it_is_not_given() -> None:
    chosen = text("1", 10_000, 256, strings=1000)
    assert isinstance(chosen["tasks"], int)
    assert chosen["tasks"] >= 8


def test_of_few_people_nothing_is_found_and_that_is_said() -> None:
    assert text("1", 50, 256, 8, 20)["found"] == "nothing that fewer than all 50 hold"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("0", 100), "epsilon"),
        (("1", 0), "reports"),
        (("1", 100, 8), "buckets must be from 16"),
        (("1", 100, 256, 3), "tasks must be from 8"),
        (("1", 100, 256, 8, 0), "strings"),
    ],
)
def test_values_out_of_range_are_refused_by_name(given: tuple[object, ...], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        text(*given)  # type: ignore[arg-type] - wrong values are the point
