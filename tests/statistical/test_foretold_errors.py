"""What a survey's plan foretells is what its results then show, for every kind of question.

Releases are drawn by the real samplers of both aggregators, around the sums that the plan takes for
typical. Of the figure that is named as the least precise, the half-width that is shown is compared
with the one that was foretold, and so is that of the difference of two windows.

Size: the median of 25 draws is within 5 % of that of all, as widths of one release and the next
differ by little; seeds are fixed. Power: the error of a mean without its denominator's noise is 10
to 40 % too small.
"""

from fractions import Fraction
from statistics import median

import pytest

from aggregator.collector.results import Noised, Quantity, compare
from aggregator.dp.release import add_noise
from aggregator.steward.survey import Plan, plan, survey_from_toml
from aggregator.steward.survey.designs import Sums
from aggregator.steward.survey.spreads import spreads, typical_sums, worst
from field import Vector, lift
from tests.support.entropy import SeededEntropy
from tests.support.surveys import VISITS, department

pytestmark = [pytest.mark.statistical, pytest.mark.slow]

DRAWS = 25
CHOICE = department(("surgery", "medicine", "eyes"))
NUMBER = """
[[question]]
name = "wait"
kind = "number"
low = 0
high = {}
variance = {}
"""
OTHERS = """
[[question]]
name = "mood"
kind = "scale"
high = 5
[[question]]
name = "pains"
kind = "multiple"
labels = ["head", "back"]
[[question]]
name = "several"
kind = "vector"
[[question.column]]
name = "x"
high = 10
[[question.column]]
name = "y"
low = -5
high = 30
[[question]]
name = "place"
kind = "tree"
low = 0
high = 64
leaves = 16
"""
BINS = """
[[question]]
name = "age"
kind = "bins"
edges = [0, 10, 20, 30, 40, 50, 60, 70, 80]
"""
BY = 'by = "department"'
GAUSSIAN = 'epsilon = "1"\ndelta = "1/1000000"'


def planned(people: int, epsilon: str, questions: str, more: str = "") -> Plan:
    text = VISITS.replace("min_batch_size = 3", f"min_batch_size = {people}")
    text = text.replace("max_reports = 1000", "max_reports = 100000")
    text = text.replace('epsilon = "1"', epsilon if "=" in epsilon else f'epsilon = "{epsilon}"')
    return plan(survey_from_toml(text.replace("[budget]", f"{more}\n[budget]") + questions))


def released(found: Plan, typical: Sums, window: int) -> Sums:
    """Return typical sums as both aggregators release them."""
    circuit, mechanism = found.sheet.circuit, found.mechanism
    empty = Vector.zeros(circuit.field, circuit.output_len)
    drawn = [
        lift(add_noise(empty, mechanism, circuit, SeededEntropy(2 * window + party)))
        for party in range(2)
    ]
    laws = [law for run, law in mechanism.laws(circuit, 2) for _ in range(run)]
    values = [
        Noised.released(round(value.value) + int(one) + int(two), law, (window, place))
        for place, (value, one, two, law) in enumerate(
            zip(typical.released, *drawn, laws, strict=True)
        )
    ]
    return found.sheet.sums(values, typical.reports)


def half(quantity: Quantity) -> float:
    interval = quantity.interval()
    return float(interval.high - interval.low) / 2


@pytest.mark.parametrize(
    ("people", "epsilon", "questions", "more"),
    [
        (400, "1", CHOICE + NUMBER.format(20, "false"), ""),
        (200, "2", CHOICE + NUMBER.format(20, "false"), ""),
        (1000, "2", CHOICE + NUMBER.format(80, "true"), ""),
        (400, "2", CHOICE + NUMBER.format(10, "true"), ""),
        (400, "4", CHOICE + NUMBER.format(20, "false") + OTHERS, ""),
        (2000, "4", CHOICE + NUMBER.format(20, "true"), BY),
        (1000, GAUSSIAN, CHOICE + NUMBER.format(20, "false") + OTHERS, ""),
        (300, "1", BINS, ""),
        (3000, "1/2", BINS, ""),
    ],
    ids=["mean", "few", "wide", "variance", "kinds", "groups", "gaussian", "bins", "many"],
)
def test_what_is_foretold_is_what_is_shown(
    people: int, epsilon: str, questions: str, more: str
) -> None:
    found = planned(people, epsilon, questions, more)
    typical = typical_sums(found.sheet, found.mechanism, people)
    windows = [released(found, typical, window) for window in range(2 * DRAWS)]
    for each in found.parts:
        named = worst(spreads(each.part, typical)).figure
        place = [(f.shows, f.group, f.quantity.label) for f in each.part.figures(typical)].index(
            (named.shows, named.group, named.quantity.label)
        )
        shown = [each.part.figures(sums)[place].quantity for sums in windows]
        assert each.shows == named.shows
        assert median(map(half, shown[:DRAWS])) == pytest.approx(float(each.error), rel=0.05)
        pairs = zip(shown[::2], shown[1::2], strict=True)
        widths = [compare(one, other).interval for one, other in pairs]
        apart = median(float(interval.high - interval.low) / 2 for interval in widths)
        assert apart == pytest.approx(float(each.difference), rel=0.05)
    assert Fraction(found.parts[0].error) > 0
