"""Thresholded release by enumeration: what the collector publishes, bucket by bucket.

Every outcome of truncated noise in a small field goes through `lift` and `Thresholds.select`, as a
result does; equal publications are merged, and their laws under neighbours compared.
"""

import itertools
from collections import defaultdict
from fractions import Fraction

import mpmath
import pytest

from aggregator.dp.discrete_laplace import PureDpDiscreteLaplace
from aggregator.dp.thresholds import Thresholds
from aggregator.dp.truncated_geometric import TruncatedGeometric
from aggregator.vdaf.circuits import Histogram
from field import lift, project
from tests.support.small_field import (
    DIGITS,
    Law,
    hockey_stick,
    number,
    release_law,
    small_field,
    wrapped,
)

MECHANISM = TruncatedGeometric(Fraction(2), Fraction(1, 5))
CIRCUIT = Histogram(length=2, chunk_length=1)
BOUND = MECHANISM.bound(CIRCUIT)
MODULUS = 61
"""Leaves room for counts up to 20 with the noise of both aggregators."""

Published = dict[tuple[int | None, ...], mpmath.mpf]


def publish(law: Law, thresholds: Thresholds) -> Published:
    published: Published = defaultdict(mpmath.mpf)
    for outcome, probability in law.items():
        values = lift(project(small_field(MODULUS), outcome))
        published[tuple(thresholds.select(values, CIRCUIT, MECHANISM))] += probability
    return published


def laws(aggregators: int, sums: tuple[int, int]) -> Law:
    noise_law = MECHANISM.law(CIRCUIT, aggregators)
    assert noise_law is not None
    return {
        outcome: probability
        for outcome, probability in release_law(wrapped(noise_law, MODULUS), sums).items()
        if probability > 0
    }


def delta_of(first: Published, second: Published) -> mpmath.mpf:
    return hockey_stick(first, defaultdict(mpmath.mpf, second), number(MECHANISM.epsilon))


def exact_delta() -> mpmath.mpf:
    q = mpmath.exp(-number(MECHANISM.epsilon) / 2)
    edge = q**BOUND / mpmath.fsum(q ** abs(x) for x in range(-BOUND, BOUND + 1))
    return 1 - (1 - edge) ** 2


def test_the_bound_is_small_enough_to_enumerate() -> None:
    assert BOUND == 2
    assert 2 * (20 + 2 * BOUND) < MODULUS


@pytest.mark.parametrize("private", [0, 3, "k", "2k"])
@pytest.mark.parametrize("sums", [(1, 0), (1, 5), (4, 3), (12, 12)], ids=str)
def test_a_threshold_costs_nothing(private: int | str, sums: tuple[int, int]) -> None:
    thresholds = Thresholds(private)
    neighbour = (sums[0] - 1, sums[1] + 1)
    with mpmath.workdps(DIGITS):
        first, second = (publish(laws(1, each), thresholds) for each in (sums, neighbour))
        exact = exact_delta()
        for delta in (delta_of(first, second), delta_of(second, first)):
            assert delta <= exact + mpmath.mpf("1e-50")
        assert exact < number(MECHANISM.delta)


def test_a_threshold_hides_the_edges_of_small_counts_and_of_no_large_ones() -> None:
    with mpmath.workdps(DIGITS):
        exact = exact_delta()
        large = [publish(laws(1, sums), Thresholds("2k")) for sums in ((12, 12), (11, 13))]
        assert abs(delta_of(*large) - exact) < mpmath.mpf("1e-50")
        small = [publish(laws(1, sums), Thresholds("2k")) for sums in ((1, 0), (0, 1))]
        assert delta_of(*small) < exact / 2


@pytest.mark.parametrize(("aggregators", "private"), [(1, "k"), (2, "2k")])
def test_no_bucket_that_nobody_chose_is_ever_shown(aggregators: int, private: str) -> None:
    with mpmath.workdps(DIGITS):
        published = publish(laws(aggregators, (9, 0)), Thresholds(private))
        assert {values[1] for values in published} == {None}
        # And no lower threshold keeps that promise.
        limit = Thresholds(private).of_buckets(CIRCUIT, MECHANISM)[1]
        assert limit is not None
        lower = publish(laws(aggregators, (9, 0)), Thresholds(limit - 1))
        shown = mpmath.fsum(p for values, p in lower.items() if values[1] is not None)
        q = mpmath.exp(-number(MECHANISM.epsilon) / 2)
        edge = q**BOUND / mpmath.fsum(q ** abs(x) for x in range(-BOUND, BOUND + 1))
        assert abs(shown - edge**aggregators) < mpmath.mpf("1e-50")


def test_a_public_bucket_is_shown_at_any_count() -> None:
    with mpmath.workdps(DIGITS):
        thresholds = Thresholds("2k", public_buckets=(1,))
        published = publish(laws(2, (0, 0)), thresholds)
        assert {values[0] for values in published} == {None}
        assert {values[1] for values in published} == set(range(-2 * BOUND, 2 * BOUND + 1))


def test_values_read_from_0_to_p_would_show_empty_buckets() -> None:
    residues = [outcome for outcome in laws(1, (9, 0)) if outcome[1] > MODULUS // 2]
    assert residues
    wrong = Thresholds("2k").select(residues[0], CIRCUIT, MECHANISM)
    assert wrong[1] is not None
    right = Thresholds("2k").select(
        lift(project(small_field(MODULUS), residues[0])), CIRCUIT, MECHANISM
    )
    assert right[1] is None


@pytest.mark.parametrize(("m", "k"), [(2, 23), (10, 114)])
def test_shift_m_bounds_are_the_least_whose_top_m_masses_are_at_most_delta(m: int, k: int) -> None:
    circuit = Histogram(length=4, chunk_length=1)
    mechanism = TruncatedGeometric(Fraction(2), Fraction(2, 10**5), max_reports_per_person=m)
    assert mechanism.bound(circuit) == k
    with mpmath.workdps(DIGITS):
        q = mpmath.exp(mpmath.mpf(-1) / m)
        for bound, is_enough in ((k, True), (k - 1, False)):
            masses = [q ** abs(x) for x in range(-bound, bound + 1)]
            top = mpmath.fsum(masses[-m:]) / mpmath.fsum(masses)
            assert (top <= mpmath.mpf("1e-5")) is is_enough


def test_discrete_laplace_noise_shows_an_empty_bucket_sometimes_at_every_threshold() -> None:
    mechanism = PureDpDiscreteLaplace(Fraction(2))
    law = mechanism.law(CIRCUIT, 2)
    assert law is not None
    assert all(law.upper_tail(limit + 1) is not None for limit in (10, 1000))


def test_every_outcome_of_both_draws_is_enumerated() -> None:
    with mpmath.workdps(DIGITS):
        law = laws(2, (5, 0))
        reach = range(-2 * BOUND, 2 * BOUND + 1)
        assert set(law) == {
            ((5 + a) % MODULUS, b % MODULUS) for a, b in itertools.product(reach, reach)
        }
        assert abs(mpmath.fsum(law.values()) - 1) < mpmath.mpf("1e-50")
