"""Reference values of noise: its laws, its scales and its truncation, to all their digits.

Computed elsewhere, with 40 to 60 digits, and compared to as many as they were printed with.
"""

import itertools
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from aggregator.dp.certified import Enclosed, to_float
from aggregator.dp.discrete_laplace import PureDpDiscreteLaplace
from aggregator.dp.laws import DiscreteLaplaceLaw
from aggregator.dp.truncated_geometric import TruncatedGeometric
from aggregator.dp.truncation import edge_mass, least_bound
from aggregator.dp.utility import half_width_of
from aggregator.vdaf.circuits import (
    Circuit,
    Count,
    Histogram,
    L1BoundSum,
    MultihotCountVec,
    Sum,
    SumVec,
)
from tests.support.numbers import coverage

P95, P99 = Fraction(95, 100), Fraction(99, 100)


def close(number: Enclosed, printed: str) -> bool:
    """Whether the number rounds to what was printed, but for its last digit."""
    digits = len(printed.split("e", 1)[0].replace("-", "").replace(".", "").lstrip("0"))
    return to_float(number) == pytest.approx(float(printed), rel=0.6 * 10.0 ** (1 - digits))


# scale: variance of one draw and of two; 95 % and 99 % half-widths of one and of two, with the
# coverage of the former two; P(S = 0).
TWO_DRAWS = {
    "20": ("799.833354165", "1599.66670833", (60, 82, 92, 120),
        (0.9514573491, 0.9505166567), "0.0125052041036"),
    "10": ("199.833416634", "399.666833267", (30, 41, 46, 60),
        (0.9527002127, 0.9515925006), "0.0250415315149"),
    "4": ("31.8338528777", "63.6677057555", (12, 16, 18, 24),
        (0.9564041030, 0.9509307304), "0.0631379777182"),
    "2": ("7.83539617807", "15.6707923561", (6, 8, 9, 12),
        (0.9624067138, 0.9569644207), "0.129805072699"),
    "1": ("1.84134718842", "3.68269437683", (3, 4, 4, 6),
        (0.9732203901, 0.9686095976), "0.280401661914"),
    "0.5": ("0.362030830483", "0.724061660966", (1, 2, 2, 3),
        (0.9677352776, 0.9860532300), "0.601669153843"),
}  # fmt: skip


@pytest.mark.parametrize("scale", TWO_DRAWS)
def test_the_law_of_one_draw_and_of_two(scale: str) -> None:
    one_variance, two_variance, widths, covers, at_zero = TWO_DRAWS[scale]
    t = Fraction(scale)
    one, two = DiscreteLaplaceLaw(1, t), DiscreteLaplaceLaw(2, t)
    assert close(one.variance(), one_variance)
    assert close(two.variance(), two_variance)
    found = [half_width_of(law, p) for p in (P95, P99) for law in (one, two)]
    assert tuple(found) == widths
    assert coverage(one, widths[0]) == pytest.approx(covers[0], abs=1e-10)
    assert coverage(two, widths[1]) == pytest.approx(covers[1], abs=1e-10)
    assert close(two.probability(0), at_zero)


@pytest.mark.parametrize(
    ("scale", "tail"),
    [("20", "0.384752884884"), ("2", "0.0140784120288"), ("1", "1.82441794787e-4")],
)
def test_the_upper_tail_of_two_draws(scale: str, tail: str) -> None:
    assert close(DiscreteLaplaceLaw(2, Fraction(scale)).upper_tail(10), tail)


@pytest.mark.parametrize(
    ("scale", "mean"), [("1", "1.36723494003"), ("2", "2.93610892185"), ("20", "29.9937484393")]
)
def test_the_mean_absolute_error_of_two_draws(scale: str, mean: str) -> None:
    assert close(DiscreteLaplaceLaw(2, Fraction(scale)).mean_magnitude(), mean)


@pytest.mark.parametrize(
    ("epsilon", "delta", "k", "edge"),
    [
        ("1", "1e-5", 11, "7.71821182760e-6"),
        ("1", "1e-6", 14, "3.84263859720e-7"),
        ("1", "1e-10", 23, "4.74219064381e-11"),
        ("2", "1e-5", 6, None),
        ("0.5", "5e-6", 22, "4.09060980468e-6"),
        ("0.5", "5e-7", 27, None),
        ("0.5", "1e-6", 25, None),
        ("1", "5e-6", 12, None),
        ("0.1", "1e-5", 86, None),
        ("0.1", "1e-10", 201, "9.31728151853e-11"),
        ("0.05", "5e-6", 171, None),
        ("0.05", "5e-11", 401, None),
        ("0.01", "1e-6", 852, None),
        ("1", "0.3", 1, None),
    ],
)
def test_the_bound_of_truncated_noise(epsilon: str, delta: str, k: int, edge: str | None) -> None:
    bound = least_bound(Fraction(epsilon), Fraction(delta))
    assert bound == k
    mass = edge_mass(Fraction(epsilon), bound)
    assert to_float(mass) <= float(delta)
    if edge is not None:
        assert close(mass, edge)


@pytest.mark.parametrize(("shift", "k"), [(1, 11), (2, 23), (10, 114), (255, 2897)])
def test_the_bound_for_several_reports_per_person(shift: int, k: int) -> None:
    assert least_bound(Fraction(1), Fraction(1, 10**5), shift) == k


# k at which delta is exactly the edge mass: there k must not become k + 1, and a delta smaller by
# one unit of its last digit must not leave it at k.
@pytest.mark.parametrize(
    ("epsilon", "k", "delta"),
    [
        ("1", 5, "0.00312504678908"),
        ("0.1", 30, "0.00261076989017"),
        ("0.5", 12, "6.08231069003e-4"),
        ("2", 3, "0.00188891942687"),
        ("0.05", 100, "1.69527305572e-4"),
    ],
)
def test_next_to_an_integer_the_bound_is_on_the_safe_side(epsilon: str, k: int, delta: str) -> None:
    mass = edge_mass(Fraction(epsilon), k)
    assert close(mass, delta)
    above, below = (mass(60).high, mass(60).low)
    assert least_bound(Fraction(epsilon), above) == k
    assert least_bound(Fraction(epsilon), below) == k + 1


# epsilon, delta: k, exact delta, standard deviation of two, 95 % half-widths, P[S > k], and the
# chances that counts of 2k + 1 and of 3k are shown.
HISTOGRAM_RELEASE = {
    ("1", "1e-5"): (22, 8.181202876e-6, 3.9567284, (6, 8), 3.1595973e-5, 0.56490417, 0.99994536),
    ("2", "1e-5"): (12, 5.678702598e-6, 1.9187186, (3, 4), 8.7190654e-6, 0.64020176, 0.99997422),
    ("0.5", "1e-6"): (
        *(50, 9.268438268e-7, 7.9779953, (12, 16), 9.4305237e-6, 0.53156919, 0.99998763),
    ),
    ("1", "1e-6"): (27, 6.715475137e-7, 3.9584080, (6, 8), 3.2273344e-6, 0.56490267, 0.99999447),
    ("1", "1e-10"): (45, 8.287547523e-11, 3.9586351, (6, 8), 6.7988360e-10, 0.56490254, 1.0),
    ("0.1", "1e-10"): (
        *(401, 9.801108076e-11, 39.995825, (60, 82), 9.1140608e-9, 0.50625260, 0.99999999),
    ),
}


@pytest.mark.parametrize(("epsilon", "delta"), HISTOGRAM_RELEASE)
def test_the_release_of_a_histogram_with_truncated_noise(epsilon: str, delta: str) -> None:
    k, exact_delta, deviation, widths, above_k, shown, shown_above = HISTOGRAM_RELEASE[
        epsilon, delta
    ]
    mechanism = TruncatedGeometric(Fraction(epsilon), Fraction(delta))
    circuit = Histogram(8, 3)
    assert mechanism.bound(circuit) == k
    assert float(mechanism.exact_delta(circuit)) == pytest.approx(exact_delta, rel=1e-9)
    assert mechanism.exact_delta(circuit) <= Fraction(delta)
    assert mechanism.variance(circuit) ** 0.5 == pytest.approx(deviation, rel=2e-8)
    assert (
        mechanism.half_width(circuit, P95, aggregators=1),
        mechanism.half_width(circuit, P95, aggregators=2),
    ) == widths
    law = mechanism.law(circuit, 2)
    assert law is not None
    tail, positive = law.upper_tail(k + 1), law.upper_tail(1)
    assert tail is not None
    assert positive is not None
    assert to_float(tail) == pytest.approx(above_k, rel=2e-8)
    # A count of 2k + 1 is shown if the noise is at least 0, that is not below it.
    assert 1 - to_float(positive) == pytest.approx(shown, rel=2e-8)
    # A count of 3k is shown unless the noise is -k or below.
    below = law.upper_tail(k)
    assert below is not None
    assert 1 - to_float(below) == pytest.approx(shown_above, abs=6e-9)
    # Noise of two never passes 2k, and reaches it.
    assert law.upper_tail(2 * k + 1) is None
    assert to_float(law.probability(2 * k)) == pytest.approx(
        to_float(edge_mass(Fraction(epsilon) / 2, k)) ** 2, rel=1e-12
    )


# epsilon, delta: the edge mass of one draw, and the exact delta if both aggregators are honest.
BOTH_HONEST = {
    ("1", "1e-5"): ("4.090609805e-6", "1.006830e-9"),
    ("2", "1e-5"): ("2.839355330e-6", "3.079854e-10"),
    ("0.5", "1e-6"): ("4.634220208e-7", "2.812441e-11"),
    ("1", "1e-6"): ("3.357738132e-7", "8.461805e-12"),
    ("1", "1e-10"): ("4.143773762e-11", "2.211750e-19"),
    ("0.1", "1e-10"): ("4.900554038e-11", "2.558556e-18"),
}


@pytest.mark.parametrize(("epsilon", "delta"), BOTH_HONEST)
def test_two_honest_draws_of_truncated_noise_lose_far_less_than_delta(
    epsilon: str, delta: str
) -> None:
    edge, both = BOTH_HONEST[epsilon, delta]
    k = TruncatedGeometric(Fraction(epsilon), Fraction(delta)).bound(Histogram(8, 3))
    assert close(edge_mass(Fraction(epsilon) / 2, k), edge)
    with mpmath.workdps(50):
        found = delta_of_two_truncated_draws(mpmath.mpf(epsilon), k)
        assert abs(found / mpmath.mpf(both) - 1) < 1e-6


def delta_of_two_truncated_draws(epsilon: mpmath.mpf, k: int) -> mpmath.mpf:
    """The hockey-stick divergence of a histogram under the sum of two k-truncated draws.

    One coordinate falls by 1 and one rises by 1; turned round, both rise. The law of the sum is
    log-concave, so a coordinate loses the less the larger its noise: for each value of the first
    coordinate, the values of the second with which the loss is above epsilon come before the rest.
    """
    one = [int(mpmath.exp(-epsilon / 2 * abs(x)) * 2**400) for x in range(-k, k + 1)]
    mass = np.convolve(np.array(one, object), np.array(one, object))
    law = [mpmath.mpf(int(each)) / int(mass.sum()) for each in mass]
    here, shifted = [*law, mpmath.mpf(0)], [mpmath.mpf(0), *law]
    sums_here = [mpmath.mpf(0), *itertools.accumulate(here)]
    sums_shifted = [mpmath.mpf(0), *itertools.accumulate(shifted)]
    factor, found, count = mpmath.exp(epsilon), mpmath.mpf(0), len(here)
    for p, q in zip(here, shifted, strict=True):
        while count and p * here[count - 1] <= factor * q * shifted[count - 1]:
            count -= 1
        found += p * sums_here[count] - factor * q * sums_shifted[count]
    return found


def test_ten_reports_per_person_need_the_bound_of_a_tenfold_shift() -> None:
    mechanism = TruncatedGeometric(Fraction(1), Fraction(1, 10**5), max_reports_per_person=10)
    assert mechanism.bound(Histogram(8, 3)) == 222
    # Dividing epsilon alone leaves delta more than ten times too large.
    too_small = edge_mass(Fraction(1, 2), 171, 10)
    assert to_float(lambda digits: 1 - (1 - too_small(digits)) * (1 - too_small(digits))) == (
        pytest.approx(1.2e-4, rel=0.05)
    )


@pytest.mark.parametrize(
    ("epsilon", "miss", "threshold"),
    [("1", "0.01", 23), ("1", "1e-6", 42), ("0.1", "0.01", 227), ("0.1", "1e-6", 422)],
)
def test_a_public_threshold_for_discrete_laplace_noise(
    epsilon: str, miss: str, threshold: int
) -> None:
    # The least T with 256 P(S > T) <= miss: one tail where a half-width takes two.
    law = DiscreteLaplaceLaw(2, 2 / Fraction(epsilon))
    assert half_width_of(law, 1 - 2 * Fraction(miss), 256) == threshold


@pytest.mark.parametrize(
    ("circuit", "scale"),
    [
        (Count(), 1),
        (Sum(100), 100),
        (SumVec(10, 255, 50), 2550),
        (SumVec(10, 256, 50), 2560),
        (Histogram(256, 16), 2),
        (Histogram(1, 1), 0),
        (MultihotCountVec(10, 3, 4), 6),
        (MultihotCountVec(10, 6, 4), 10),
        (L1BoundSum(10, 7, 6), 14),
        (L1BoundSum(1, 7, 3), 7),
    ],
    ids=repr,
)
def test_the_scale_of_each_type(circuit: Circuit, scale: int) -> None:
    assert PureDpDiscreteLaplace(Fraction(1)).scale(circuit) == scale
    assert PureDpDiscreteLaplace(Fraction(1, 10)).scale(circuit) == 10 * scale
