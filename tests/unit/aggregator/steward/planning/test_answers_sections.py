"""`prio plan sections`: the shares and errors that it prints are those of the policy it prints."""

import json
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import pytest

from aggregator.dp.policy_table import policy_from_mapping
from aggregator.dp.zcdp import implied_epsilon
from aggregator.errors import ParameterError
from aggregator.steward.planning.answers_sections import sections
from aggregator.vdaf.circuits import Histogram, Sections
from tests.support.commands import run_here

DELTA = "1/1000000"


def planned(text: str, units: Sequence[str] = (), confidence: str = "0.95") -> Mapping[str, Any]:
    return sections(Sections(text, 7), "1", DELTA, units, confidence)


@pytest.mark.parametrize(
    ("questions", "taken", "deviations"),
    [
        (1, "PureDpDiscreteLaplace", (4.0, 8.5)),
        (4, "PureDpDiscreteLaplace", (16.0, 16.9)),
        (5, "DiscreteGaussian", (20.0, 18.9)),
        (10, "DiscreteGaussian", (40.0, 26.75)),
    ],
)
def test_laplace_is_taken_for_few_questions_and_gaussian_noise_for_many(
    questions: int, taken: str, deviations: tuple[float, float]
) -> None:
    found = planned(" ".join(["onehot:5"] * questions))
    assert found["take"] == taken
    for mechanism, deviation in zip(found["mechanisms"].values(), deviations, strict=True):
        for row in mechanism["sections"]:
            assert row["standard_deviation"] == pytest.approx(deviation, abs=0.06)


def test_the_policy_has_the_errors_that_are_printed_and_costs_no_more_than_epsilon() -> None:
    text = "onehot:5 number:100 onehot:3 given:2,2,40"
    found = planned(text, units=["1", "20", "2", "10"])
    policy = policy_from_mapping(found["privacy"])
    policy.check(Sections(text, 7))
    rows = found["mechanisms"][found["take"]]["sections"]
    deviations = [row["standard_deviation"] for row in rows]
    for deviation, unit in zip(deviations, (1, 20, 2, 10), strict=True):
        assert deviation == pytest.approx(unit * deviations[0], rel=0.01)
    widths = policy.mechanism.half_widths(Sections(text, 7), Fraction(19, 20))
    assert [row["half_width"] for row in rows] == [width for _, width in widths]
    assert all(row["two_releases_must_differ_by"] > row["half_width"] for row in rows)
    assert sum(row["share"] for row in rows) == 1


def test_gaussian_noise_is_the_least_for_its_epsilon_and_less_than_rho_allows() -> None:
    text = " ".join(["onehot:5"] * 10)
    policy = policy_from_mapping(planned(text)["privacy"])
    promised = policy.mechanism.guarantee(Sections(text, 7))
    assert promised.epsilon is not None
    assert promised.rho is not None
    assert Fraction(9999, 10000) < promised.epsilon <= 1
    assert implied_epsilon(promised.rho, Fraction(DELTA)) > Fraction(107, 100)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"units": ["1"]}, "units: there must be 2 above 0, one for each section"),
        ({"units": ["1", "0"]}, "units"),
        ({"confidence": "1"}, "confidence"),
    ],
)
def test_what_is_out_of_range_is_named(settings: Mapping[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        planned("onehot:5 number:100", **settings)


def test_other_types_have_no_sections() -> None:
    with pytest.raises(ParameterError, match="circuit must be sections, not Prio3Histogram"):
        sections(Histogram(4, 2), "1", DELTA)


def test_the_command_prints_the_same_as_json() -> None:
    arguments = ["plan", "sections", "--sections", "onehot:5 number:100", "--epsilon", "1"]
    printed = run_here(*arguments, "--delta", DELTA, "--units", "1 20", "--json")
    answer = json.loads(printed.stdout)
    assert answer["take"] == "PureDpDiscreteLaplace"
    assert answer["privacy"]["shares"] == "2/7 5/7"
    wrong = run_here(*arguments, "--delta", "1/2")
    assert (wrong.returncode, "delta" in wrong.stderr) == (2, True)
