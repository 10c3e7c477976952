"""The epsilon of Gaussian noise by its law, against the law itself, added up outcome by outcome.

Who gains where it is too small: the collector who knows all reports but one, and would tell the two
furthest reports of that person apart more often than epsilon and delta allow.
"""

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest

from aggregator.dp.by_section import BySection, equal_errors, split, with_gaussian_epsilon
from aggregator.dp.composition import Releases, bounds
from aggregator.dp.discrete_gaussian import DiscreteGaussian
from aggregator.dp.discrete_laplace import PureDpDiscreteLaplace
from aggregator.dp.gaussian_shifts import Shifts, epsilon_of, is_enough
from aggregator.dp.zcdp import implied_epsilon
from aggregator.vdaf.circuits import Circuit, Count, Histogram, Sections
from tests.support.small_field import moves

DELTA = Fraction(1, 10**6)
Entry = tuple[int, Fraction]
"""By how much it moves, and the sigma squared of its noise."""


def exact_delta(entries: Sequence[Entry], epsilon: float) -> float:
    """The sum of (P - e^epsilon Q)_+ over all outcomes of independent entries.

    The loss of an outcome y is the sum of m (m - 2 y) / 2 sigma^2, which is a multiple of one unit.
    """
    moved = [(abs(move), variance) for move, variance in entries if move]
    unit = math.lcm(*((2 * variance).numerator for _, variance in moved))
    masses, first = np.ones(1), 0
    for move, variance in moved:
        reach = math.ceil(11 * math.sqrt(variance)) + move
        values = np.arange(reach, -reach - 1, -1)  # the loss grows as the outcome falls
        weights = np.exp(-(values**2) / (2 * float(variance)))
        step = Fraction(move * unit, 1) / (2 * variance)
        losses = [int(step * (move - 2 * int(value))) for value in values]
        own = np.zeros(losses[-1] - losses[0] + 1)
        own[np.array(losses) - losses[0]] = weights / weights.sum()
        masses, first = np.convolve(masses, own), first + losses[0]
    losses_of_all = (first + np.arange(len(masses))) / unit
    gains = -np.expm1(np.minimum(epsilon - losses_of_all, 0.0))
    return float(masses @ gains)


def entries_of(mechanism: DiscreteGaussian | BySection, circuit: Circuit) -> list[Fraction]:
    """The sigma squared of each entry's noise."""
    return [
        each.scale(part)
        for each, part in mechanism.by_part(circuit)
        for _ in range(part.output_len)
    ]


def different(circuit: Circuit, variances: Sequence[Fraction], reports: int) -> set[tuple[Entry]]:
    """All moves of a person's reports; those with the same losses once."""
    found = set()
    for move in moves(circuit, reports):
        sizes = ((abs(step), variance) for step, variance in zip(move, variances, strict=True))
        found.add(tuple(sorted(each for each in sizes if each[0])))
    return found


@pytest.mark.parametrize(
    ("text", "shares", "rho", "reports", "delta"),
    [
        ("onehot:3 onehot:2", "1/2 1/2", "1/20", 1, DELTA),
        ("onehot:3 onehot:2", "1/2 1/2", "1/40", 2, DELTA),
        ("onehot:2 number:3", "1/4 3/4", "1/10", 1, DELTA),
        ("onehot:2 number:3", "1/4 3/4", "1/10", 1, Fraction(1, 1000)),
        # More entries move than in the furthest move, each by less.
        ("onehot:2 bygroup:3,2", "1/3 2/3", "1/15", 1, DELTA),
        ("atmost:3,2 onehot:2", "3/5 2/5", "1/20", 1, DELTA),
        ("onehot:2 number:3 given:0,1,2", "1/5 3/5 1/5", "1/10", 1, DELTA),
        ("onehot:2 onehot:2 table:0,1", "1/4 1/4 1/2", "1/10", 1, DELTA),
    ],
)
def test_no_two_reports_are_told_apart_better_than_is_stated(
    text: str, shares: str, rho: str, reports: int, delta: Fraction
) -> None:
    circuit = Sections(text, 2)
    base = DiscreteGaussian(Fraction(rho), delta, max_reports_per_person=reports)
    mechanism = split(base, tuple(map(Fraction, shares.split())))
    stated = mechanism.guarantee(circuit).epsilon
    assert stated is not None
    variances = entries_of(mechanism, circuit)
    found = [each for each in different(circuit, variances, reports) if each]
    assert max(exact_delta(each, float(stated)) for each in found) <= float(delta)
    # And it is hardly more than it must be.
    assert max(exact_delta(each, 0.96 * float(stated)) for each in found) > float(delta)


@pytest.mark.parametrize("windows", [1, 3, 8])
def test_releases_together_are_told_apart_no_better_than_is_stated(windows: int) -> None:
    circuit = Histogram(7, 3)
    mechanism = DiscreteGaussian(Fraction(1, 60), DELTA)
    stated = Releases(mechanism, circuit, windows).epsilon_at(DELTA)
    assert stated is not None
    entries = [(1, mechanism.scale(circuit))] * (2 * windows)
    assert exact_delta(entries, float(stated)) <= float(DELTA)
    assert exact_delta(entries, 0.98 * float(stated)) > float(DELTA)
    (row,) = [
        each
        for each in bounds(
            [Releases(mechanism, circuit, 1)],
            DELTA,
            plan=[Releases(mechanism, circuit, windows)],
        )
        if each.name == "Gaussian"
    ]
    assert (row.epsilon, row.releases, row.is_valid) == (stated, windows, True)


def test_ten_questions_and_all_their_tables_have_a_seventh_less_noise_than_by_rho() -> None:
    """Two entries of each section move by 1: their sum is all that the outcome tells."""
    words = ["onehot:5"] * 10 + [f"table:{a},{b}" for a, b in itertools.combinations(range(10), 2)]
    circuit = Sections(" ".join(words), 7)
    shares = equal_errors(DiscreteGaussian(Fraction(1)), circuit)
    mechanism = with_gaussian_epsilon(Fraction(1), DELTA, circuit, shares)
    assert mechanism.guarantee(circuit).epsilon == pytest.approx(1, rel=1e-4)
    (variance,) = set(entries_of(mechanism, circuit))
    assert math.sqrt(2 * variance) == pytest.approx(62.7, abs=0.05)
    values = np.arange(-(2**14), 2**14)
    weights = np.exp(-(values**2) / (2 * float(variance)))
    spectrum = np.fft.fft(np.fft.ifftshift(weights / weights.sum()))
    sums = np.fft.fftshift(np.fft.ifft(spectrum**110).real)

    def delta(epsilon: float) -> float:
        losses = (110 - 2 * values) / (2 * float(variance))
        return float(sums @ -np.expm1(np.minimum(epsilon - losses, 0.0)))

    assert delta(1) < 1e-6 < delta(0.999)


def test_noise_by_epsilon_states_no_more_and_with_more_rho_it_would() -> None:
    circuit = Sections("onehot:5 number:100 onehot:3 given:2,2,40", 7)
    shares = equal_errors(DiscreteGaussian(Fraction(1)), circuit)
    for epsilon in (Fraction(1, 3), Fraction(2)):
        mechanism = with_gaussian_epsilon(epsilon, DELTA, circuit, shares, 3)
        assert mechanism.max_reports_per_person == 3
        rho = mechanism.guarantee(circuit).rho
        assert rho is not None
        stated = [
            split(DiscreteGaussian(each, DELTA, max_reports_per_person=3), shares).guarantee(
                circuit
            )
            for each in (rho, rho * Fraction(1001, 1000))
        ]
        assert stated[0].epsilon is not None
        assert stated[1].epsilon is not None
        assert stated[0].epsilon <= epsilon < stated[1].epsilon
        assert implied_epsilon(rho, DELTA) > epsilon


def test_less_than_the_law_of_continuous_noise_gives_is_certified_by_no_smoothing() -> None:
    # 8.449... / sqrt 2 squared, of one question at epsilon 1: what [BW18] has at these two.
    shifts = [Shifts(5, 2, Fraction("35.6956"))]
    for twentieths in range(6, 80):
        assert not is_enough(shifts, Fraction(1), DELTA, Fraction(twentieths, 20))
    assert is_enough([Shifts(5, 2, Fraction("36.3"))], Fraction(1), DELTA, Fraction(1, 2))


@pytest.mark.parametrize(
    ("variance", "count", "delta"),
    [("1/4", 1, DELTA), ("1/100", 1, DELTA), ("40", 2**64, DELTA), ("40", 1, "1e-400")],
)
def test_where_floats_or_the_theorem_do_not_reach_it_is_what_rho_implies(
    variance: str, count: int, delta: Fraction | str
) -> None:
    chance, noise = Fraction(delta), Fraction(variance)
    rho = count * 2 / (2 * noise)
    assert epsilon_of([Shifts(5, 2, noise, count)], chance) == implied_epsilon(rho, chance)


def test_nothing_that_moves_costs_nothing_and_other_noise_has_no_such_bound() -> None:
    assert epsilon_of([Shifts(1, 0, Fraction(1))], DELTA) == 0
    assert epsilon_of([], DELTA) == 0
    laplace = Releases(PureDpDiscreteLaplace(Fraction(1, 2)), Count(), 3)
    gaussian = Releases(DiscreteGaussian(Fraction(1, 50)), Count(), 3)
    found = {each.name: each for each in bounds([laplace, gaussian], DELTA, plan=[laplace])}
    assert found["Gaussian"].epsilon is None
    assert laplace.epsilon_at(DELTA) == Fraction(3, 2)
