"""Intervals hold as often as they say, over releases by the real samplers of both aggregators.

Size: if an interval holds with at least its confidence, the fraction of trials in which it does
falls more than six standard deviations short of that once in 10^9 (four for ratios, of which there
are fewer trials: once in 3 * 10^4). Seeds are fixed. Power: intervals at a confidence that is lower
by the stated amount fall short.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from aggregator.collector.results import (
    ConfidenceInterval,
    Noised,
    Quantile,
    Selected,
    Tree,
    Variance,
    after_selection,
    compare,
    joint_intervals,
    ratio,
    total,
)
from aggregator.dp.laws import NoiseLaw
from aggregator.dp.mechanisms import Mechanism
from aggregator.dp.release import add_noise
from aggregator.vdaf.circuits import Histogram
from field import FIELD128, Vector, lift
from tests.support.entropy import SeededEntropy
from tests.support.mechanisms import noisy_examples

pytestmark = [pytest.mark.statistical, pytest.mark.slow]

LENGTH = 400
RELEASES = 30
CIRCUIT = Histogram(LENGTH, 20)
CONFIDENCE = Fraction(9, 10)
LOWER = Fraction(8, 10)
SIGMAS = 6
TRIALS = 1200
"""Of what holds at LOWER, a fraction falls that far short of CONFIDENCE but for once in 60,000."""
MECHANISMS = noisy_examples(epsilon=Fraction(1, 2), delta=Fraction(1, 10**4), rho=Fraction(1, 50))


@cache
def noise(mechanism: Mechanism) -> NDArray[np.int64]:
    """What both aggregators' releases of empty batches come out as together, a row each."""
    entropies = SeededEntropy(201), SeededEntropy(202)
    empty = Vector.zeros(FIELD128, (LENGTH,))
    rows = [
        sum(np.array(lift(add_noise(empty, mechanism, CIRCUIT, own))) for own in entropies)
        for _ in range(RELEASES)
    ]
    return np.array(rows, np.int64)


def law_of(mechanism: Mechanism) -> NoiseLaw:
    law = mechanism.law(CIRCUIT, 2)
    assert law is not None
    return law


def trials(mechanism: Mechanism, *truths: int) -> Iterator[list[Noised]]:
    """Released values of these true sums, again and again with noise that was not used before."""
    law, flat = law_of(mechanism), noise(mechanism).ravel()
    for first in range(0, len(flat) - len(truths) + 1, len(truths)):
        yield [
            Noised.released(truth + int(drawn), law, first + index)
            for index, (truth, drawn) in enumerate(
                zip(truths, flat[first : first + len(truths)], strict=True)
            )
        ]


def released_with(mechanism: Mechanism, count: int, truths: Sequence[int]) -> list[list[Noised]]:
    return list(itertools.islice(trials(mechanism, *truths), count))


def sigmas_short(held: list[bool], confidence: Fraction = CONFIDENCE) -> float:
    """By how many standard deviations the intervals hold too seldom; negative if more often."""
    c = float(confidence)
    assert len(held) >= 300
    return float((c - np.mean(held)) / math.sqrt(c * (1 - c) / len(held)))


@pytest.fixture(params=MECHANISMS, ids=lambda mechanism: mechanism.name)
def mechanism(request: pytest.FixtureRequest) -> Mechanism:
    found: Mechanism = request.param
    return found


LINEAR: dict[str, Callable[[list[Noised]], Noised]] = {
    "a sum of batches": total,
    "a difference": lambda values: values[0] - values[1],
    "a weighted mean": lambda values: values[0] / 301 - values[1] / 299 + 2 * values[2],
    "a difference of ones with a batch in common": lambda values: (
        total(values[:3]) - total(values[1:])
    ),
}


@pytest.mark.parametrize("name", LINEAR)
def test_linear_intervals_hold_as_often_as_they_say_and_hardly_more(
    name: str, mechanism: Mechanism
) -> None:
    calculate = LINEAR[name]
    truths = (100, 250, 30, 71)
    true = calculate([Noised.exact(truth) for truth in truths]).value
    found = [calculate(values) for values in released_with(mechanism, TRIALS, truths)]
    assert sigmas_short([true in value.interval(CONFIDENCE) for value in found]) < SIGMAS
    assert sigmas_short([true in value.interval(LOWER) for value in found]) > SIGMAS


def test_joint_intervals_hold_at_once(mechanism: Mechanism) -> None:
    truths = (5, 10, 20, 40, 80)
    held, usual, dependent = [], [], []
    for values in released_with(mechanism, TRIALS, truths):
        joint = joint_intervals(values, CONFIDENCE)
        held.append(all(true in interval for true, interval in zip(truths, joint, strict=True)))
        each = [value.interval(CONFIDENCE) for value in values]
        usual.append(all(true in interval for true, interval in zip(truths, each, strict=True)))
        running = list(itertools.accumulate(values))
        joint = joint_intervals(running, CONFIDENCE)
        sums = itertools.accumulate(truths)
        dependent.append(all(true in interval for true, interval in zip(sums, joint, strict=True)))
    assert sigmas_short(held) < SIGMAS
    assert sigmas_short(dependent) < SIGMAS
    assert sigmas_short(usual) > SIGMAS  # power: each by itself does not hold at once


BENCH = pytest.mark.bench


@pytest.mark.parametrize(
    ("over", "under", "count"),
    [(60, 150, 300), (3, 150, 300), (3, 12, 300)]
    + [pytest.param(*pair, 6000, marks=BENCH) for pair in [(3, 12), (8, 9), (0, 15), (60, 150)]],
)
def test_ratios_hold(over: int, under: int, count: int) -> None:
    held = [
        Fraction(over, under) in ratio(first, second).interval(LOWER)
        for first, second in released_with(MECHANISMS[0], count, (over, under))
    ]
    assert sigmas_short(held, LOWER) < 4


def test_a_ratio_has_bounds_whenever_its_denominator_is_known_not_to_be_zero() -> None:
    usual = Noised.released(0, law_of(MECHANISMS[0]), "under").interval(CONFIDENCE).high
    bounded = []
    for first, second in released_with(MECHANISMS[0], 100, (9, 18)):
        interval = ratio(first, second).interval(CONFIDENCE)
        is_known = abs(second.value) > usual + 1  # by more than what is left for the rest
        assert interval.is_bounded >= is_known
        assert not (interval.is_bounded and abs(second.value) <= usual)
        bounded.append(interval.is_bounded)
    assert 20 < sum(bounded) < 100


@pytest.mark.parametrize(
    ("truths", "count"),
    [
        ((40, 400, 60, 500), 300),
        ((40, 150, 60, 500), 300),
        ((9, 30, 12, 35), 300),  # the denominators are about four deviations of their noise
        *(
            pytest.param(truths, 3000, marks=BENCH)
            for truths in [
                (40, 400, 60, 500),
                (20, 290, 60, 290),
                (900, 4000, 1200, 5000),
                (20, 40, 22, 45),
                (240, 30, 240, 30),
                (19, 20, 1, 20),
                (28, 30, 28, 300),
            ]
        ),
    ],
)
def test_differences_of_ratios_hold(truths: tuple[int, int, int, int], count: int) -> None:
    true = Fraction(*truths[:2]) - Fraction(*truths[2:])
    held = [
        true in compare(ratio(*values[:2]), ratio(*values[2:]), CONFIDENCE).interval
        for values in released_with(MECHANISMS[0], count, truths)
    ]
    assert sigmas_short(held) < 4


def test_a_difference_of_ratios_of_large_groups_is_hardly_wider_than_its_linear_part() -> None:
    ((a, b, c, d),) = released_with(MECHANISMS[0], 1, (4_000, 40_000, 6_000, 50_000))
    found = compare(ratio(a, b), ratio(c, d)).interval
    linear = a / 40_000 - b * Fraction(1, 400_000) - c / 50_000 + d * Fraction(6, 2_500_000)
    least = 2 * linear.law.width(Fraction(95, 100)).size
    assert least <= found.high - found.low < least * Fraction(107, 100)
    apart = [ratio(a, b), ratio(c, d)]
    both = sum(each.high - each.low for each in joint_intervals(apart))
    assert both > least * Fraction(16, 10)


def test_shares_of_a_whole_with_the_same_noise_hold() -> None:
    held, narrow = [], []
    for part, rest in itertools.islice(trials(MECHANISMS[0], 60, 90), 400):
        share = ratio(part, part + rest)
        held.append(Fraction(60, 150) in share.interval(LOWER))
        narrow.append(Fraction(60, 150) in share.interval(Fraction(1, 2)))
    assert sigmas_short(held, LOWER) < 4
    assert sigmas_short(narrow, LOWER) > 4


def test_ratios_hold_where_the_denominator_may_be_zero() -> None:
    held = [
        Fraction(60, 12) in ratio(first, second).interval(LOWER)
        for first, second in itertools.islice(trials(MECHANISMS[0], 60, 12), 400)
    ]
    assert sigmas_short(held, LOWER) < 4


def test_variances_hold(mechanism: Mechanism) -> None:
    # Answers from 0 to 4 of 100 people: the noise is large, so the mean is far from certain.
    answers = np.arange(100) % 5
    moments = int(answers.sum()), int((answers**2).sum())
    true = Fraction(moments[1], 100) - Fraction(moments[0], 100) ** 2
    found = [
        Variance(plain, squares, 100, least=0, most=4)
        for plain, squares in itertools.islice(trials(mechanism, *moments), 600)
    ]
    assert sigmas_short([true in value.interval(CONFIDENCE) for value in found]) < SIGMAS
    assert sigmas_short([true in value.interval(Fraction(1, 2)) for value in found]) > SIGMAS
    changes = [
        0 in compare(one, other, CONFIDENCE).interval
        for one, other in zip(found[::2], found[1::2], strict=True)
    ]
    assert sigmas_short(changes) < SIGMAS


@pytest.mark.parametrize("answers", [(0, 2, 4), (0, 0, 4), (4, 4, 4)])
def test_variances_of_few_hold_and_stay_within_what_a_variance_can_be(
    answers: tuple[int, ...],
) -> None:
    moments = sum(answers), sum(each**2 for each in answers)
    true = Fraction(moments[1], 3) - Fraction(moments[0], 3) ** 2
    held = []
    for plain, squares in released_with(MECHANISMS[0], 300, moments):
        interval = Variance(plain, squares, 3, least=0, most=4).interval(CONFIDENCE)
        assert interval.low >= 0
        assert interval.high <= 4
        held.append(true in interval)
    assert sigmas_short(held) < SIGMAS


@pytest.mark.parametrize("report_count", [None, 260])
@pytest.mark.parametrize("part", [Fraction(1, 4), Fraction(1, 2)])
def test_quantiles_hold(part: Fraction, report_count: int | None, mechanism: Mechanism) -> None:
    counts = (20, 45, 10, 0, 30, 90, 40, 25)
    edges = [0, 5, 15, 30, 60, 90, 120, 240, 480]
    up_to = list(itertools.accumulate(counts))
    true = next(index for index, sum_ in enumerate(up_to) if sum_ >= part * 260)
    held = []
    for values in trials(mechanism, *counts):
        interval = Quantile(values, edges, part, report_count).interval(CONFIDENCE)
        held.append(interval.low <= edges[true] and edges[true + 1] <= interval.high)
    assert sigmas_short(held) < SIGMAS


@pytest.mark.parametrize("report_count", [None, 260])
@pytest.mark.parametrize("count", [150, pytest.param(1500, marks=BENCH)])
def test_differences_of_quantiles_hold(report_count: int | None, count: int) -> None:
    counts = (20, 45, 10, 0, 30, 90, 40, 25), (40, 30, 60, 60, 30, 20, 10, 10)
    edges = [0, 5, 15, 30, 60, 90, 120, 240, 480]
    trues = []
    for each in counts:
        place = next(j for j, sum_ in enumerate(itertools.accumulate(each)) if sum_ >= 130)
        trues.append((edges[place], edges[place + 1]))
    low, high = trues[0][0] - trues[1][1], trues[0][1] - trues[1][0]
    held = []
    for values in released_with(MECHANISMS[0], 2 * count, (*counts[0], *counts[1])):
        first, second = (
            Quantile(bins, edges, Fraction(1, 2), report_count) for bins in (values[:8], values[8:])
        )
        interval = compare(first, second, CONFIDENCE).interval
        held.append(interval.low <= low and high <= interval.high)
    assert sigmas_short(held) < SIGMAS


@pytest.mark.parametrize("report_count", [None, 160])
def test_ranges_of_trees_hold(report_count: int | None, mechanism: Mechanism) -> None:
    leaves = [0, 7, 3, 0, 50, 60, 38, 2]
    pairs = [sum(leaves[index : index + 2]) for index in range(0, 8, 2)]
    halves = [sum(leaves[:4]), sum(leaves[4:])]
    held, narrow = [], []
    for values in trials(mechanism, *halves, *pairs, *leaves):
        tree = Tree.regular([values[:2], values[2:6], values[6:]], report_count)
        found = tree.range(1, 5)
        held.append(120 in found.interval(CONFIDENCE))
        narrow.append(120 in found.interval(LOWER))
    assert sigmas_short(held) < SIGMAS
    assert sigmas_short(narrow) > SIGMAS


@pytest.mark.parametrize("truth", [0, 4, 9, 14, 30])
def test_what_a_threshold_chose_holds_and_its_usual_interval_does_not(truth: int) -> None:
    mechanism, threshold = MECHANISMS[0], 12

    @cache
    def interval(value: int) -> ConfidenceInterval:
        released = Noised.released(value, law_of(mechanism), "bucket")
        return Selected(released, threshold).interval(CONFIDENCE)

    shown = [value for (value,) in trials(mechanism, truth) if value.value.numerator > threshold]
    assert sigmas_short([truth in interval(value.value.numerator) for value in shown]) < SIGMAS
    usual = sigmas_short([truth in value.interval(CONFIDENCE) for value in shown])
    assert usual > SIGMAS if truth < threshold - 2 else usual < SIGMAS


def test_the_largest_of_many_holds_after_selection(mechanism: Mechanism) -> None:
    truths = tuple(range(20))
    held, usual = [], []
    for values in trials(mechanism, *truths):
        true, largest = max(
            zip(truths, values, strict=True), key=lambda pair: (pair[1].value, pair[0])
        )
        (interval,) = after_selection([largest], len(values), CONFIDENCE)
        held.append(true in interval)
        usual.append(true in largest.interval(CONFIDENCE))
    assert sigmas_short(held) < SIGMAS
    assert sigmas_short(usual) > SIGMAS


def test_conclusions_of_comparisons_are_wrong_no_more_often_than_they_say(
    mechanism: Mechanism,
) -> None:
    right = [
        compare(first, second, CONFIDENCE).is_larger is None
        for first, second in trials(mechanism, 50, 50)
    ]
    assert sigmas_short(right) < SIGMAS
