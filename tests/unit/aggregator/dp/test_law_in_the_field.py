"""The guarantee itself, by enumeration: every outcome in a small field, every pair of neighbours.

What one honest aggregator's noise leaves is pi(f(x)) + pi(Z) in F_p, where the noise wraps around.
The whole law of it is written down with 60 digits, out of `laws` and `field.project`, and compared
with closed forms that docs/privacy.md derives.
"""

from fractions import Fraction

import mpmath
import pytest

from aggregator.dp.discrete_gaussian import DiscreteGaussian
from aggregator.dp.discrete_laplace import PureDpDiscreteLaplace
from aggregator.dp.laws import DiscreteLaplaceLaw, NoiseLaw
from aggregator.dp.mechanisms import Mechanism
from aggregator.dp.sensitivity import l1_sensitivity, l2_sensitivity_squared
from aggregator.dp.truncated_geometric import TruncatedGeometric
from aggregator.vdaf.circuits import (
    Circuit,
    Count,
    Histogram,
    L1BoundSum,
    MultihotCountVec,
    Sum,
    SumVec,
)
from field import FIELD64, FIELD128
from tests.support.small_field import (
    DIGITS,
    hockey_stick,
    moves,
    number,
    release_law,
    worst_loss,
    wrapped,
)

CIRCUITS: dict[str, Circuit] = {
    "count": Count(),
    "sum": Sum(max_measurement=4),
    "sum-vec": SumVec(length=2, max_measurement=2, chunk_length=1),
    "histogram": Histogram(length=3, chunk_length=1),
    "multihot": MultihotCountVec(length=3, chunk_length=1, max_weight=1),
    "multihot-wide": MultihotCountVec(length=3, chunk_length=1, max_weight=2),
    "l1-bound-sum": L1BoundSum(length=2, max_value=3, chunk_length=1),
}


def law_of(mechanism: Mechanism, circuit: Circuit) -> NoiseLaw:
    law = mechanism.law(circuit, aggregators=1)
    assert law is not None
    return law


def closed_loss(move: int, scale: mpmath.mpf, modulus: int) -> mpmath.mpf:
    """ln cosh(p / 2t) - ln cosh((p / 2 - m) / t), the worst loss of one coordinate."""
    half = mpmath.mpf(modulus) / 2
    return mpmath.log(mpmath.cosh(half / scale) / mpmath.cosh((half - abs(move)) / scale))


@pytest.mark.slow
@pytest.mark.parametrize("modulus", [5, 17])
@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(2), Fraction(9)], ids=str)
def test_the_wrapped_law_is_a_hyperbolic_cosine(modulus: int, scale: Fraction) -> None:
    noise = wrapped(DiscreteLaplaceLaw(1, scale), modulus)
    with mpmath.workdps(DIGITS):
        q, p = mpmath.exp(-1 / number(scale)), modulus
        assert mpmath.almosteq(mpmath.fsum(noise), 1, abs_eps=1e-50)
        for residue, probability in enumerate(noise):
            closed = (1 - q) / (1 + q) * (q**residue + q ** (p - residue)) / (1 - q**p)
            assert abs(probability - closed) < mpmath.mpf("1e-50")


@pytest.mark.parametrize("epsilon", [Fraction(1, 3), Fraction(1), Fraction(3)], ids=str)
@pytest.mark.parametrize("modulus", [5, pytest.param(11, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", CIRCUITS)
def test_no_outcome_of_any_neighbours_costs_more_than_epsilon(
    name: str, modulus: int, epsilon: Fraction
) -> None:
    circuit = CIRCUITS[name]
    mechanism = PureDpDiscreteLaplace(epsilon)
    noise = wrapped(law_of(mechanism, circuit), modulus)
    with mpmath.workdps(DIGITS):
        nobody = (0,) * circuit.output_len
        here = release_law(noise, nobody)
        scale = number(mechanism.scale(circuit))
        for move in moves(circuit):
            if all(abs(step) <= modulus // 2 for step in move) and move > nobody:
                loss = worst_loss(here, release_law(noise, move))
                closed = mpmath.fsum(closed_loss(step, scale, modulus) for step in move)
                assert abs(loss - closed) < mpmath.mpf("1e-45")
                assert loss < number(epsilon)


@pytest.mark.parametrize("name", CIRCUITS)
def test_the_sensitivity_is_that_of_the_furthest_neighbours_and_no_larger(name: str) -> None:
    circuit = CIRCUITS[name]
    for reports in (1, 2):
        furthest = max(sum(map(abs, move)) for move in moves(circuit, reports))
        squared = max(sum(step * step for step in move) for move in moves(circuit, reports))
        assert l1_sensitivity(circuit, reports) == furthest
        assert l2_sensitivity_squared(circuit, reports) == squared


@pytest.mark.slow
@pytest.mark.parametrize("name", CIRCUITS)
def test_a_person_with_two_reports_costs_epsilon_and_no_more(name: str) -> None:
    circuit = CIRCUITS[name]
    mechanism = PureDpDiscreteLaplace(Fraction(1), max_reports_per_person=2)
    noise = wrapped(law_of(mechanism, circuit), 7)
    with mpmath.workdps(DIGITS):
        here = release_law(noise, (0,) * circuit.output_len)
        for move in moves(circuit, reports=2):
            assert worst_loss(here, release_law(noise, move)) < 1


def test_a_small_field_loses_less_than_the_integers_do() -> None:
    noise = wrapped(DiscreteLaplaceLaw(1, Fraction(2)), 17)
    with mpmath.workdps(DIGITS):
        loss = worst_loss(release_law(noise, (0,)), release_law(noise, (1,)))
        q = mpmath.exp(mpmath.mpf(-1) / 2)
        closed = mpmath.log((1 + q**17) / (q + q**16))
        assert abs(loss - closed) < mpmath.mpf("1e-50")
        assert mpmath.nstr(loss, 5) == "0.49965"


def test_from_seventy_scales_on_the_field_makes_no_difference_in_30_digits() -> None:
    scale = Fraction(2)
    modulus = 149  # (p - 2) / t >= 70
    noise = wrapped(DiscreteLaplaceLaw(1, scale), modulus)
    with mpmath.workdps(DIGITS):
        loss = worst_loss(release_law(noise, (0,)), release_law(noise, (1,)))
        gap = 1 / number(scale) - loss
        assert 0 < gap < mpmath.mpf("1e-30")
    # Prio3's fields are so large at every scale up to 2^57.
    for field in (FIELD64, FIELD128):
        assert (field.modulus - 2) / 2**57 > 70


@pytest.mark.parametrize("modulus", [5, 7])
def test_wrapping_only_lowers_the_delta_of_a_histogram(modulus: int) -> None:
    circuit = Histogram(length=2, chunk_length=1)
    noise = wrapped(law_of(PureDpDiscreteLaplace(Fraction(1)), circuit), modulus)
    with mpmath.workdps(DIGITS):
        first, second = release_law(noise, (1, 0)), release_law(noise, (0, 1))
        q = mpmath.exp(mpmath.mpf(-1) / 2)
        for epsilon in (mpmath.mpf(0), mpmath.mpf(1) / 4, mpmath.mpf(1) / 2, mpmath.mpf(9) / 10):
            # On the integers the loss is 1 with probability 1 / (1 + q)^2, and else not above 0.
            integers = (1 - mpmath.exp(epsilon - 1)) / (1 + q) ** 2
            delta = hockey_stick(first, second, epsilon)
            assert 0 <= delta < integers
        assert hockey_stick(first, second, mpmath.mpf(1)) == 0


def test_in_a_large_field_the_delta_of_a_histogram_is_that_of_the_integers() -> None:
    circuit = Histogram(length=2, chunk_length=1)
    noise = wrapped(law_of(PureDpDiscreteLaplace(Fraction(4)), circuit), 73)
    with mpmath.workdps(DIGITS):
        first, second = release_law(noise, (1, 0)), release_law(noise, (0, 1))
        q = mpmath.exp(-2)
        for epsilon in (0, 1, 2, 3):
            integers = (1 - mpmath.exp(epsilon - 4)) / (1 + q) ** 2
            assert abs(hockey_stick(first, second, mpmath.mpf(epsilon)) - integers) < 1e-30


TRUNCATED = TruncatedGeometric(Fraction(2), Fraction(1, 5))
TWO_BUCKETS = Histogram(length=2, chunk_length=1)


def edge_mass(mechanism: TruncatedGeometric, circuit: Circuit, shift: int = 1) -> mpmath.mpf:
    """The mass of the top `shift` values, added up."""
    bound, q = mechanism.bound(circuit), mpmath.exp(-1 / number(mechanism.scale(circuit)))
    masses = [q ** abs(x) for x in range(-bound, bound + 1)]
    return mpmath.fsum(masses[-shift:]) / mpmath.fsum(masses)


@pytest.mark.parametrize("room", [2, 5])
def test_truncated_noise_has_exactly_the_delta_of_its_two_edges(room: int) -> None:
    bound = TRUNCATED.bound(TWO_BUCKETS)
    modulus = 2 * bound + room
    noise = wrapped(law_of(TRUNCATED, TWO_BUCKETS), modulus)
    with mpmath.workdps(DIGITS):
        first, second = release_law(noise, (1, 0)), release_law(noise, (0, 1))
        edge = edge_mass(TRUNCATED, TWO_BUCKETS)
        exact = 1 - (1 - edge) ** 2
        delta = hockey_stick(first, second, mpmath.mpf(2))
        assert abs(delta - exact) < mpmath.mpf("1e-50")
        assert delta < number(Fraction(1, 5))
        assert abs(number(TRUNCATED.exact_delta(TWO_BUCKETS)) - delta) < 1e-10


def test_delta_is_less_where_truncated_noise_wraps() -> None:
    bound = TRUNCATED.bound(TWO_BUCKETS)
    with mpmath.workdps(DIGITS):
        exact = 1 - (1 - edge_mass(TRUNCATED, TWO_BUCKETS)) ** 2
        for modulus in range(3, 2 * bound + 2):
            noise = wrapped(law_of(TRUNCATED, TWO_BUCKETS), modulus)
            first, second = release_law(noise, (1, 0)), release_law(noise, (0, 1))
            assert hockey_stick(first, second, mpmath.mpf(2)) < exact


def test_truncated_noise_for_two_reports_per_person_covers_every_move_of_both() -> None:
    circuit = Histogram(length=3, chunk_length=1)
    delta = Fraction(2, 5)
    mechanism = TruncatedGeometric(Fraction(3), delta, max_reports_per_person=2)
    bound = mechanism.bound(circuit)
    noise = wrapped(law_of(mechanism, circuit), 2 * bound + 3)
    with mpmath.workdps(DIGITS):
        exact = 1 - (1 - edge_mass(mechanism, circuit, shift=2)) ** 2
        here = release_law(noise, (0, 0, 0))
        found = {
            move: hockey_stick(here, release_law(noise, move), mpmath.mpf(3))
            for move in moves(circuit, reports=2)
        }
        assert max(found.values()) <= exact + mpmath.mpf("1e-50")
        assert exact < number(delta)
        # Both reports from one bucket to one other is the worst they can do.
        assert abs(found[2, -2, 0] - exact) < mpmath.mpf("1e-50")
        assert found[2, -1, -1] < exact


@pytest.mark.parametrize("alpha", [Fraction(3, 2), Fraction(2), Fraction(8)], ids=str)
def test_discrete_gaussian_noise_keeps_its_rho_in_every_field(alpha: Fraction) -> None:
    circuit = SumVec(length=2, max_measurement=1, chunk_length=1)
    rho = Fraction(1, 4)
    law = law_of(DiscreteGaussian(rho), circuit)
    with mpmath.workdps(DIGITS):
        order = number(alpha)
        for modulus in (3, 7, 61):
            noise = wrapped(law, modulus)
            first, second = release_law(noise, (0, 0)), release_law(noise, (1, 1))
            total = mpmath.fsum(p**order * second[y] ** (1 - order) for y, p in first.items())
            divergence = mpmath.log(total) / (order - 1)
            assert divergence < order * number(rho) + mpmath.mpf("1e-40")
            if modulus == 61:  # thirty sigma wide: as on the integers, where it is equal
                assert abs(divergence - order * number(rho)) < 1e-20


def test_deltas_of_reports_that_are_spread_over_batches_compose_and_do_not_add_up() -> None:
    """docs/privacy.md, Theorem 7, where the deltas of single releases add up to more."""
    mechanism = TruncatedGeometric(Fraction(1, 100), Fraction(3, 10), max_reports_per_person=2)
    circuit = Histogram(length=3, chunk_length=1)
    assert mechanism.bound(circuit) == 7
    one, both = (edge_mass(mechanism, circuit, shift) for shift in (1, 2))
    together = 1 - (1 - both) ** 2
    assert 1 - (1 - one) ** 4 < together < 2 * (1 - (1 - one) ** 2)
    assert [round(float(each), 5) for each in (1 - (1 - one) ** 4, together)] == [0.2394, 0.24729]
