"""Closed forms of the noise laws against sums over every outcome."""

import math
from fractions import Fraction

import mpmath
import pytest

from aggregator.dp.certified import to_float
from aggregator.dp.gaussian_law import EXACT_UP_TO, DiscreteGaussianLaw, tail_bound
from aggregator.dp.laws import DiscreteLaplaceLaw, NoiseLaw, TruncatedGeometricLaw
from aggregator.dp.utility import half_width_of
from aggregator.dp.zcdp import implied_epsilon
from aggregator.errors import ParameterError
from tests.support.numbers import coverage

Masses = dict[int, mpmath.mpf]


def number(value: Fraction) -> mpmath.mpf:
    return mpmath.mpf(value.numerator) / value.denominator


def laplace(scale: Fraction) -> Masses:
    q = mpmath.exp(-1 / number(scale))
    return {x: (1 - q) / (1 + q) * q ** abs(x) for x in range(-150, 151)}


def geometric(scale: Fraction, bound: int) -> Masses:
    weights = {x: mpmath.exp(-abs(x) / number(scale)) for x in range(-bound, bound + 1)}
    total = mpmath.fsum(weights.values())
    return {x: weight / total for x, weight in weights.items()}


def gaussian(sigma_squared: Fraction) -> Masses:
    weights = {x: mpmath.exp(-(x**2) / (2 * number(sigma_squared))) for x in range(-60, 61)}
    total = mpmath.fsum(weights.values())
    return {x: weight / total for x, weight in weights.items()}


def twice(masses: Masses) -> Masses:
    sums: Masses = {}
    for x, left in masses.items():
        for y, right in masses.items():
            sums[x + y] = sums.get(x + y, mpmath.mpf(0)) + left * right
    return sums


CASES = {
    "laplace": (lambda a: DiscreteLaplaceLaw(a, Fraction(3, 2)), lambda: laplace(Fraction(3, 2))),
    "geometric": (
        lambda a: TruncatedGeometricLaw(a, Fraction(3), 7),
        lambda: geometric(Fraction(3), 7),
    ),
    "geometric at 1": (
        lambda a: TruncatedGeometricLaw(a, Fraction(1, 2), 1),
        lambda: geometric(Fraction(1, 2), 1),
    ),
    "gaussian": (
        lambda a: DiscreteGaussianLaw(a, Fraction(7, 3)),
        lambda: gaussian(Fraction(7, 3)),
    ),
    "narrow gaussian": (
        lambda a: DiscreteGaussianLaw(a, Fraction(1, 8)),
        lambda: gaussian(Fraction(1, 8)),
    ),
}


@pytest.mark.parametrize("aggregators", [1, 2])
@pytest.mark.parametrize("name", CASES)
def test_probabilities_tails_moments_and_widths_are_those_of_the_enumerated_law(
    name: str, aggregators: int
) -> None:
    make, enumerate_ = CASES[name]
    law: NoiseLaw = make(aggregators)
    with mpmath.workdps(50):
        masses = enumerate_() if aggregators == 1 else twice(enumerate_())
        for value in range(-6, 7):
            expected = float(masses.get(value, mpmath.mpf(0)))
            found = law.probability(value)(60)
            assert float(found.low) == pytest.approx(expected, rel=1e-14, abs=1e-300)
            assert found.low <= found.high
        for value in range(1, 12):
            expected = float(mpmath.fsum(mass for x, mass in masses.items() if x >= value))
            tail = law.upper_tail(value)
            found_tail = 0.0 if tail is None else to_float(tail)
            assert found_tail == pytest.approx(expected, rel=1e-13, abs=1e-30)
        variance = mpmath.fsum(mass * x * x for x, mass in masses.items())
        assert to_float(law.variance()) == pytest.approx(float(variance), rel=1e-13)
        magnitude = mpmath.fsum(mass * abs(x) for x, mass in masses.items())
        assert to_float(law.mean_magnitude()) == pytest.approx(float(magnitude), rel=1e-13)
        for confidence in (Fraction(1, 2), Fraction(95, 100), Fraction(999, 1000)):
            width = half_width_of(law, confidence)
            inside = mpmath.fsum(mass for x, mass in masses.items() if abs(x) <= width)
            assert inside >= number(confidence)
            if width > 0:
                less = mpmath.fsum(mass for x, mass in masses.items() if abs(x) < width)
                assert less < number(confidence)
            assert coverage(law, width) == pytest.approx(float(inside), rel=1e-13)


def test_beyond_the_exact_range_a_gaussian_tail_is_bounded_closely_from_above() -> None:
    variance = Fraction(EXACT_UP_TO)
    exact = DiscreteGaussianLaw(1, variance)
    beyond = DiscreteGaussianLaw(1, variance + Fraction(1, 10**9))
    for value in (2000, 4096, 8000, 30_000):
        lower, upper = exact.upper_tail(value)(60), beyond.upper_tail(value)(60)
        assert lower.high < upper.high
        assert upper.high < lower.low * (1 + Fraction(1, 1000 if value < 4097 else 10**5))
    assert half_width_of(exact, Fraction(95, 100)) == half_width_of(beyond, Fraction(95, 100))
    assert to_float(beyond.probability(5)) == pytest.approx(
        to_float(exact.probability(5)), rel=1e-9
    )
    assert to_float(beyond.variance()) == pytest.approx(2.0**24, rel=1e-12)
    for law in (exact, beyond):
        expected = (2**25 - 1 / 6) / (2**12 * math.sqrt(2 * math.pi))
        assert to_float(law.mean_magnitude()) == pytest.approx(expected, rel=1e-15)
    assert half_width_of(beyond, 1 - Fraction(1, 10**70)) > 16 * 4096


@pytest.mark.parametrize("variance", [Fraction(1, 8), Fraction(2), Fraction(50)], ids=str)
def test_the_tail_bound_of_gaussians_leaves_no_more_than_it_says(variance: Fraction) -> None:
    for miss in (Fraction(1, 20), Fraction(1, 2**64)):
        bound = tail_bound(2 * variance, miss)
        tail = DiscreteGaussianLaw(2, variance).upper_tail(bound + 1)
        assert 2 * tail(60).high <= miss


def test_a_joint_interval_is_that_of_a_smaller_miss() -> None:
    law = DiscreteLaplaceLaw(2, Fraction(4))
    assert half_width_of(law, Fraction(95, 100), 10) == half_width_of(law, Fraction(995, 1000))


@pytest.mark.parametrize("confidence", [Fraction(0), Fraction(1), Fraction(2)], ids=str)
def test_a_confidence_is_between_0_and_1(confidence: Fraction) -> None:
    with pytest.raises(ParameterError, match="confidence must be between 0 and 1"):
        half_width_of(DiscreteLaplaceLaw(2, Fraction(1)), confidence)


def test_there_are_one_or_two_draws() -> None:
    with pytest.raises(ParameterError, match="aggregators must be 1 or 2, not 3"):
        DiscreteLaplaceLaw(3, Fraction(1))


@pytest.mark.slow
@pytest.mark.parametrize(("rho", "delta"), [("0.5", "1e-6"), ("0.001", "1e-5"), ("20", "1e-12")])
def test_the_conversion_of_zcdp_is_the_infimum_over_all_orders_rounded_up(
    rho: str, delta: str
) -> None:
    with mpmath.workdps(40):
        r, d = mpmath.mpf(rho), mpmath.mpf(delta)

        def epsilon(log_excess: mpmath.mpf) -> mpmath.mpf:
            alpha = 1 + mpmath.exp(log_excess)
            return alpha * r + mpmath.log(1 / (alpha * d)) / (alpha - 1) + mpmath.log(1 - 1 / alpha)

        best = min(epsilon(mpmath.mpf(step) / 200) for step in range(-2000, 3000))
        found = number(implied_epsilon(Fraction(rho), Fraction(delta)))
        # The grid's best is above the infimum by no more than its curvature allows.
        assert found <= best + mpmath.mpf("1e-12")
        assert found > best * (1 - mpmath.mpf("1e-4"))
        # At that epsilon the bound on delta holds at some order, by the published formula.
        deltas = []
        for step in range(-2000, 3000):
            alpha = 1 + mpmath.exp(mpmath.mpf(step) / 200)
            power = (alpha - 1) * (alpha * r - found)
            deltas.append(mpmath.exp(power) / (alpha - 1) * (1 - 1 / alpha) ** alpha)
        assert min(deltas) == pytest.approx(float(d), rel=1e-3)
