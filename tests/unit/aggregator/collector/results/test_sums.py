"""The law of a sum against enumeration, and each method against a wider or a narrower one."""

import itertools
import math
import random
from fractions import Fraction

import numpy as np
import pytest

from aggregator.collector.results import sums
from aggregator.collector.results.minorant import Minorant
from aggregator.collector.results.sums import Method, Part, SumLaw
from aggregator.dp.certified import to_float
from aggregator.dp.gaussian_law import DiscreteGaussianLaw
from aggregator.dp.laws import DiscreteLaplaceLaw, NoiseLaw, TruncatedGeometricLaw
from aggregator.errors import ParameterError

LAPLACE = DiscreteLaplaceLaw(2, Fraction(4))
LAWS: list[NoiseLaw] = [
    DiscreteLaplaceLaw(1, Fraction(4)),
    DiscreteLaplaceLaw(2, Fraction(3, 2)),
    TruncatedGeometricLaw(1, Fraction(4), 9),
    TruncatedGeometricLaw(2, Fraction(2), 22),
    DiscreteGaussianLaw(1, Fraction(1, 3)),
    DiscreteGaussianLaw(2, Fraction(25, 4)),
]
CONFIDENCES = [Fraction(1, 2), Fraction(95, 100), Fraction(999, 1000)]


def masses(law: NoiseLaw, reach: int = 120) -> dict[int, float]:
    table = [to_float(law.probability(value)) for value in range(reach)]
    return {value: table[abs(value)] for value in range(1 - reach, reach)}


def enumerated(*parts: tuple[NoiseLaw, Fraction]) -> dict[Fraction, float]:
    """The probabilities of a sum by adding up all outcomes of each term in turn."""
    found = {Fraction(0): 1.0}
    for law, weight in parts:
        own = {value: mass for value, mass in masses(law, 60).items() if mass > 1e-13}
        sums_: dict[Fraction, float] = {}
        for (at, before), (value, mass) in itertools.product(found.items(), own.items()):
            place = at + weight * value
            sums_[place] = sums_.get(place, 0.0) + before * mass
        found = {place: mass for place, mass in sums_.items() if mass > 1e-13}
    return found


def least_width(found: dict[Fraction, float], confidence: Fraction) -> Fraction:
    by_size: dict[Fraction, float] = {}
    for place, mass in found.items():
        by_size[abs(place)] = by_size.get(abs(place), 0.0) + mass
    covered = 0.0
    for size in sorted(by_size):
        covered += by_size[size]
        if covered >= confidence:
            return size
    raise AssertionError("the enumeration is too short")


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_the_characteristic_function_is_that_of_the_probabilities(law: NoiseLaw) -> None:
    angles = np.array([0.0, 1e-6, 0.01, 0.3, 1.0, math.pi, 7.5, 40.0])
    values, errors = law.characteristic(angles)
    for angle, value, error in zip(angles, values, errors, strict=True):
        expected = sum(mass * math.cos(angle * at) for at, mass in masses(law).items())
        assert value**law.aggregators == pytest.approx(expected, abs=1e-11)
        assert error < 1e-12


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_the_bound_of_the_moment_generating_function_is_one(law: NoiseLaw) -> None:
    for rate in (0.01, 0.05, 0.1):
        expected = math.log(sum(mass * math.exp(rate * at) for at, mass in masses(law).items()))
        bound = law.aggregators * float(law.log_moment(np.array([rate]))[0])
        assert expected <= bound * (1 + 1e-9)
        if isinstance(law, DiscreteLaplaceLaw):
            assert bound == pytest.approx(expected)


@pytest.mark.slow
@pytest.mark.parametrize("confidence", CONFIDENCES)
@pytest.mark.parametrize("law", LAWS, ids=repr)
@pytest.mark.parametrize("weights", [(1,), (1, 1), (1, -2), (Fraction(1, 3), Fraction(1, 2))])
def test_a_width_is_the_least_that_covers(
    law: NoiseLaw, weights: tuple[Fraction, ...], confidence: Fraction
) -> None:
    terms = [(law, Fraction(weight)) for weight in weights]
    width = SumLaw.of(terms).width(confidence)
    assert width.method == Method.EXACT
    assert width.size == least_width(enumerated(*terms), confidence)


def test_sums_of_different_laws_are_convolved_too() -> None:
    terms = [(LAWS[1], Fraction(1)), (LAWS[4], Fraction(3)), (LAWS[2], Fraction(1, 2))]
    for confidence in CONFIDENCES:
        expected = least_width(enumerated(*terms), confidence)
        assert SumLaw.of(terms).width(confidence).size == expected


def test_a_hundred_draws_are_as_wide_as_their_convolution() -> None:
    law = DiscreteLaplaceLaw(1, Fraction(2))
    table = np.array(list(masses(law).values()))
    total = table
    for _ in range(99):
        total = np.convolve(total, table)
    middle = len(total) // 2
    beyond = 2 * np.cumsum(total[::-1])[::-1][middle + 1 :]
    expected = int(np.flatnonzero(beyond <= 0.05)[0])
    assert SumLaw((Part(law, Fraction(1), 100),)).width(Fraction(95, 100)).size == expected


@pytest.mark.parametrize("law", LAWS, ids=repr)
@pytest.mark.parametrize("confidence", CONFIDENCES)
def test_smoothed_edges_cost_at_most_one_percent_and_a_unit(
    law: NoiseLaw, confidence: Fraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    sum_ = SumLaw.of([(law, Fraction(7)), (law, Fraction(13)), (LAPLACE, Fraction(20))])
    exact = sum_.width(confidence)
    monkeypatch.setattr(sums, "_TABLE", 0)
    sums._width.cache_clear()
    smoothed = sum_.width(confidence)
    sums._width.cache_clear()
    assert (exact.method, smoothed.method) == (Method.EXACT, Method.SMOOTHED)
    assert exact.size <= smoothed.size <= exact.size * Fraction(101, 100) + 1


@pytest.mark.slow
def test_smoothed_edges_never_make_a_width_narrower(monkeypatch: pytest.MonkeyPatch) -> None:
    choose = random.Random(7)  # noqa: S311 - any cases will do
    for _ in range(60):
        terms = [
            (choose.choice(LAWS), Fraction(choose.choice([1, 2, 7, 50]), choose.choice([1, 3])))
            for _ in range(choose.choice([2, 3, 5]))
        ]
        confidence = choose.choice([Fraction(1, 100), *CONFIDENCES])
        sum_ = SumLaw.of([*terms, terms[0]])
        widths = []
        for longest in (2**20, 0):
            monkeypatch.setattr(sums, "_TABLE", longest)
            sums._width.cache_clear()
            widths.append(sum_.width(confidence))
        exact, smoothed = widths
        assert (exact.method, smoothed.method) == (Method.EXACT, Method.SMOOTHED)
        assert exact.size <= smoothed.size
    sums._width.cache_clear()


@pytest.mark.slow
def test_a_minorant_is_below_the_probability_it_bounds_and_near_it() -> None:
    # A circle of 400 points, and a law that no draw of takes around it.
    law, length, degree = LAWS[2], 400.0, 2000
    angles = np.arange(1, degree + 1) * (2 * math.pi / length)
    values, errors = law.characteristic(angles)
    minorant = Minorant(values, errors, length)
    for width in np.linspace(0.3, 12, 40):
        covered = sum(mass for at, mass in masses(law).items() if abs(at) <= width)
        assert minorant.within(float(width)) <= covered
    assert minorant.within(8.5) > 1 - masses(law)[9] * 2 - 0.001


def test_a_minorants_polynomial_is_nowhere_above_the_indicator() -> None:
    # The law of a known place x has cos as its characteristic function.
    steps = np.arange(1, 31)
    for place in np.linspace(-math.pi, math.pi, 501):
        minorant = Minorant(np.cos(steps * place), np.zeros(30), 2 * math.pi)
        assert minorant.within(1.0) <= (1.0 if abs(place) <= 1 else 0.0)


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_chernoffs_bound_is_never_narrower(law: NoiseLaw) -> None:
    sum_ = SumLaw.of([(law, Fraction(1)), (law, Fraction(2)), (LAPLACE, Fraction(1))])
    for confidence in CONFIDENCES:
        assert sum_.width(confidence).size <= sum_.chernoff_width(confidence)


def test_a_miss_below_what_rounding_allows_is_bounded_by_chernoff() -> None:
    confidence = 1 - Fraction(1, 10**30)
    width = SumLaw((Part(LAPLACE, Fraction(1), 3),)).width(confidence)
    assert width.method == Method.CHERNOFF
    # The reach of one draw alone is a lower bound of that of three.
    one = SumLaw((Part(LAPLACE, Fraction(1), 1),)).width(confidence).size
    assert one < width.size < 3 * one


def test_bounded_noise_is_never_said_to_reach_further_than_it_can() -> None:
    law = TruncatedGeometricLaw(2, Fraction(1000), 3)
    sum_ = SumLaw((Part(law, Fraction(1), 2),))
    assert sum_.width(1 - Fraction(1, 10**30)).size == 12


def test_noise_too_small_to_be_seen_and_noise_beyond_all_words_have_widths() -> None:
    tiny = DiscreteLaplaceLaw(2, Fraction(1, 2000))
    vast = DiscreteLaplaceLaw(2, Fraction(10**30))
    assert SumLaw((Part(tiny, Fraction(1), 3),)).width(Fraction(95, 100)).size == 0
    mixed = SumLaw.of([(tiny, Fraction(3)), (LAPLACE, Fraction(1)), (LAPLACE, Fraction(1))])
    assert mixed.width(Fraction(95, 100)).size == 23
    wide = SumLaw((Part(vast, Fraction(1), 3),)).width(Fraction(95, 100)).size
    assert float(wide / 10**30) == pytest.approx(6.92, rel=0.01)


def test_the_same_noise_in_another_order_has_the_same_law() -> None:
    terms = [(LAWS[0], Fraction(1)), (LAWS[2], Fraction(-2)), (LAWS[0], Fraction(-1))]
    assert SumLaw.of(terms) == SumLaw.of(terms[::-1])
    # Equal laws and weights are one part, also if they are not the same objects.
    again = DiscreteLaplaceLaw(2, Fraction(4))
    mixed = SumLaw.of([(LAPLACE, 1), (again, Fraction(-1)), (LAWS[1], 2), (again, 3), (LAWS[0], 0)])
    assert mixed == SumLaw(
        (
            Part(LAPLACE, Fraction(1), 2),
            Part(LAWS[1], Fraction(2), 1),
            Part(LAPLACE, Fraction(3), 1),
        )
    )
    assert mixed == SumLaw.counted({(part.law, part.weight): part.count for part in mixed.parts})
    assert SumLaw.of([(LAPLACE, -2)]) == SumLaw((Part(LAPLACE, Fraction(2), 1),))
    assert SumLaw.of([(LAPLACE, 0)]) == SumLaw.of([]) == SumLaw(())
    assert SumLaw.of([(LAPLACE, Fraction(0))]).width(Fraction(1, 2)).method == Method.NONE


@pytest.mark.parametrize("confidence", [Fraction(0), Fraction(1), 0.95, Fraction(3, 2)])
def test_a_confidence_that_is_no_exact_probability_is_refused(confidence: Fraction) -> None:
    with pytest.raises(ParameterError, match="confidence must be a Fraction"):
        SumLaw.of([(LAPLACE, Fraction(1))]).width(confidence)
