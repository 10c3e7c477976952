"""`prio plan text`: what it prints is what the plan computes, beside what other settings cost."""

import json
from fractions import Fraction
from pathlib import Path

import pytest

from aggregator.client.text.amounts import Range
from aggregator.errors import ParameterError
from aggregator.steward.planning.answers_text import text
from aggregator.steward.text.beside import foretold_half_widths
from aggregator.steward.text.plan import TextPlan, zipf
from tests.support.commands import run_here


@pytest.mark.slow
def test_it_says_what_is_found_at_what_price_and_who_keeps_the_promise() -> None:
    options = ("--epsilon", "1", "--reports", "100000", "--buckets", "4096", "--tasks", "12")
    answer = json.loads(run_here("plan", "text", *options, "--json").stdout)
    assert answer["found"] == "what 187 or more of 100000 hold, with 99%"
    assert answer["strings_found"] == pytest.approx(70, abs=2)
    assert answer["standard_deviation"] == pytest.approx(15.6, rel=0.02)
    assert 16 * 4096 < answer["bytes_of_shares"] < 17 * 4096 + 1000
    assert "no aggregator can check" in answer["privacy"]["on_condition"]
    assert answer["spelling"] == {
        "strings": 146,
        "letters": 12,
        "named_from": pytest.approx(170, rel=0.1),
    }
    assert answer["listed_choice_standard_deviation"] == pytest.approx(15.67**0.5, rel=0.01)
    assert "187 or more" in run_here("plan", "text", *options).stdout


ONE = ("1", 100, 256, 8, 20, "1", 2**32, None)

LAST = {"threshold": 100.0, "no_answer": 1000.0, "unexplained": 50_000.0}
"""A window of a hundred thousand people, of whom half held one of the hundred likeliest strings."""


def of_last(**others: object) -> str:
    found = [{"count": 10_000 / rank, "deviation": 16.0} for rank in range(1, 101)]
    return json.dumps({"found": found, **LAST, **others})


@pytest.mark.slow
def test_the_tail_is_taken_from_the_last_window_for_as_many_people_or_more(tmp_path: Path) -> None:
    file = tmp_path / "words.json"
    file.write_text(of_last(), "utf-8")
    options = ("--epsilon", "1", "--found", str(file), "--buckets", "4096", "--tasks", "12")
    answer = json.loads(run_here("plan", "text", *options, "--json").stdout)
    held = 10_000 * sum(1 / rank for rank in range(1, 101)) + 51_000
    assert f"of {held:.0f} hold" in answer["found"]
    # Strings that surely were found, and the others as the power law 10,000 / rank goes on.
    assert "its 72 strings that were surely found" in answer["guess"]
    assert answer["strings_found"] == pytest.approx(72, rel=0.1)
    twice = text("1", 2 * round(held), 4096, 12, found=of_last())
    assert twice["strings_found"] == pytest.approx(135, rel=0.1)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ("[]", "found: not what `prio survey results --words"),
        (of_last(found=None), "found: not what"),
        (of_last(threshold=float("inf")), "found: not what"),
        (of_last(unexplained=1e300), "found: not what"),
        (of_last(found=[], unexplained=-5), "found: nobody wrote anything"),
        (of_last(found=[]), "found: no string of the window .* guess the tail"),
        ("{}" * 2**16, "found: not what"),
    ],
)
def test_a_last_window_that_tells_nothing_is_refused(found: str, words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        text("1", found=found)


def test_a_tail_is_guessed_or_taken_and_not_both() -> None:
    with pytest.raises(ParameterError, match="found: takes the place of strings"):
        text("1", found=of_last(), strings=1000)
    with pytest.raises(ParameterError, match="reports: say how many people answer"):
        text("1")


def test_the_number_of_tasks_is_chosen_if_it_is_not_given() -> None:
    chosen = text("1", 10_000, 256, strings=1000)
    assert isinstance(chosen["tasks"], int)
    assert chosen["tasks"] >= 8


def test_a_number_beside_strings_and_labels_have_the_errors_that_surveys_foretell() -> None:
    given = ("1", 100_000, 512, 10)
    plain, numbers, labels = text(*given), text(*given, amount="20"), text(*given, labels=4)
    tail = zipf(100_000, 50_000)
    plans = [TextPlan(tail, 1.0, 10, 512, levels=levels) for levels in (1, 2, 4)]
    for answer, plan, levels in zip((plain, numbers, labels), plans, (1, 2, 4), strict=True):
        assert answer["standard_deviation"] == plan.deviation
        size = answer["bytes_of_shares"]
        assert isinstance(size, int)
        assert 16 * 511 * levels < size < 17 * 511 * levels + 2000
    asked = Range(Fraction(0), Fraction(20), Fraction(1), "euros")
    means = [{"people": count, "error": of} for count, of in foretold_half_widths(plans[1], asked)]
    assert numbers["means"] == means
    assert len(means) == 2
    assert labels["standard_deviation_of_a_label"] == plans[2].deviation / 2
    assert plain.keys().isdisjoint({"means", "labels"})
    done = run_here("plan", "text", "--epsilon", "1", "--reports", "100000", "--labels", "4")
    assert "standard deviation of a label: " in done.stdout
    done = run_here("plan", "text", "--epsilon", "1", "--reports", "100000", "--amount", "1/2")
    assert "means:\n  - people " in done.stdout


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
        ((*ONE, "0"), "amount"),
        ((*ONE, "much"), "amount"),
        ((*ONE, None, 1), "labels"),
        ((*ONE, "1", 2), "labels: strings have a number or labels beside them, not both"),
        (("1", 100, 2**19 + 1, *ONE[3:], "1"), "buckets"),
        (("1", 100, 2**18 + 1, *ONE[3:], None, 4), "buckets"),
    ],
)
def test_values_out_of_range_are_refused_by_name(given: tuple[object, ...], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        text(*given)  # type: ignore[arg-type] - wrong values are the point
