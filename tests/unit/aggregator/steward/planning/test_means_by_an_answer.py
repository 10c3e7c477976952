"""What docs/planning.md says of counts and means by an answer is what plans compute."""

import json
import math
from fractions import Fraction
from pathlib import Path

import pytest

import aggregator
from aggregator.client.text.amounts import Range
from aggregator.steward.text.beside import foretold_deviation, foretold_half_width
from aggregator.steward.text.plan import best_plan, zipf
from aggregator.vdaf.instances import HISTOGRAM
from tests.support.commands import run_here

PAGE = (Path(aggregator.__file__).parents[1] / "docs" / "planning.md").read_text("utf-8")
SHOPS = "[" + ", ".join(f'"shop {number}"' for number in range(50)) + "]"
SURVEY = f"""
title = "Shops"
asked = "people"
window = "week"
min_batch_size = 1000
by = "shop"
[budget]
epsilon = "1"
windows = 1
[[question]]
name = "shop"
kind = "choice"
labels = {SHOPS}
[[question]]
name = "spent"
kind = "number"
low = 0
high = 100
"""


def test_a_curator_gives_half_of_epsilon_to_names_and_counts_and_half_to_sums() -> None:
    options = ("--epsilon", "1/2", "--delta", "1e-5", "--count", "54", "--json")
    done = run_here("plan", "selection", *options, "--neighbours", "replacement")
    shown = json.loads(done.stdout)["midpoints"]["truncated_geometric"]["99%"]
    # Of the noisy count: a name moves one count up and another down, each by epsilon/4.
    decay = math.exp(-1 / 4)
    count = next(n for n in range(1, 99) if 2 * decay ** (n + 1) / (1 + decay) <= 0.05)
    # A sum of numbers from -50 to 50 moves by 100 in all, at epsilon/2.
    mean = 100 / 0.5 * math.log(20) / 2000
    assert f"| from {shown} people on | ± {count} | ± {mean:.1f} |" in PAGE
    # Of one label, too: a person is in one cell, and another answer moves two, each by epsilon/4.
    assert f"| from {shown} people on | ± {count} | ± {count} |" in PAGE


def test_a_listed_choice_with_a_number_by_it_is_what_a_survey_plans(tmp_path: Path) -> None:
    file = tmp_path / "survey.toml"
    file.write_text(SURVEY)
    done = run_here("survey", "check", file, "--people", "100000", "--json")
    shop, spent, by_shop = (each["ways"][0]["error"] for each in json.loads(done.stdout)["parts"])
    assert f"| ± {shop / 100 * 100_000:.0f} | ± {by_shop:.1f} |" in PAGE
    assert f"mean of all people, ± {spent:.2f}." in PAGE


def test_a_table_of_a_listed_choice_by_another_is_what_a_survey_plans(tmp_path: Path) -> None:
    age = '[[question]]\nname = "age"\nkind = "choice"\nlabels = ["a", "b", "c", "d"]\n'
    rest, _, _ = SURVEY.replace('by = "shop"', 'tables = [["shop", "age"]]').rpartition("[[q")
    file = tmp_path / "survey.toml"
    file.write_text(rest + age)
    done = run_here("survey", "check", file, "--people", "100000", "--json")
    shop, _, cell = (each["ways"][0]["error"] for each in json.loads(done.stdout)["parts"])
    # A cell is a share of a label's people, of whom there are a quarter.
    assert f"counts | ± {shop / 100 * 100_000:.0f} | ± {cell / 100 * 25_000:.0f} |" in PAGE


@pytest.mark.slow
@pytest.mark.parametrize("buckets", [1024, 8192])
def test_what_nobody_lists_is_counted_by_labels_as_the_plan_says(buckets: int) -> None:
    plan = best_plan(zipf(10**5, 50_000), 1, buckets + 1, levels=4)
    errors = 1.96 * plan.deviation, 1.96 * foretold_deviation(plan)
    assert (
        f"| from {plan.found_from:.0f} people on | ± {errors[0]:.0f} | ± {errors[1]:.0f} |" in PAGE
    )
    entries = HISTOGRAM.prio3({"length": 1 + 4 * buckets})
    size = entries.input_share_size(0) + entries.input_share_size(1) + entries.public_share_size
    assert f"{size / 1000:.0f} kB | from {plan.found_from:.0f} people" in PAGE
    assert f"{plan.tasks} tasks of {buckets:,} buckets for each of 4 labels" in PAGE


@pytest.mark.slow
@pytest.mark.parametrize("buckets", [1024, 8192])
def test_what_nobody_lists_is_found_with_a_mean_as_the_plan_says(buckets: int) -> None:
    plan = best_plan(zipf(10**5, 50_000), 1, buckets + 1, levels=2)
    asked = Range(Fraction(0), Fraction(100), Fraction(1), "euros")
    mean = foretold_half_width(plan, asked, 2000, 0.95)
    row = f"| from {plan.found_from:.0f} people on | ± {1.96 * plan.deviation:.0f} | ± {mean:.1f} |"
    assert row in PAGE
    assert f"{plan.tasks} tasks of {buckets:,}" in PAGE
