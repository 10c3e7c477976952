from fractions import Fraction

import mpmath
import pytest

from aggregator.dp.filters import Cost, cost_of_dp, cost_of_zcdp
from aggregator.dp.odometer import TIGHTEST_RHO, Odometer, _best_ratio
from aggregator.dp.zcdp import textbook_epsilon
from aggregator.errors import ParameterError

DELTA = Fraction(1, 10**6)


def gaussian(rho: str) -> Cost:
    return cost_of_zcdp(Fraction(rho))


def real(value: Fraction) -> mpmath.mpf:
    return mpmath.mpf(value.numerator) / value.denominator


def mixture(loss: Fraction, rho: Fraction, c: Fraction) -> mpmath.mpf:
    """Integrate exp(k loss - k (k + 1) rho) over the density of k, from the definitions."""
    density_at_0 = 2 * mpmath.sqrt(real(c) / mpmath.pi)
    passed, slope = real(loss - rho), real(rho + c)
    peak, width = passed / (2 * slope), 1 / mpmath.sqrt(2 * slope)
    around = [peak + i * width for i in range(-4, 9, 2)]
    return mpmath.quad(
        lambda k: density_at_0 * mpmath.exp(k * passed - k**2 * slope),
        [0, *(point for point in around if point > 0), mpmath.inf],
    )


@pytest.mark.slow
@pytest.mark.parametrize("delta", ["1/101", "1e-6", "1e-300"])
@pytest.mark.parametrize("rho", ["1/1000", "1/100", "1/2", "40"])
def test_the_mixture_reaches_one_over_delta_at_the_bound_and_not_much_below_it(
    rho: str, delta: str
) -> None:
    c = TIGHTEST_RHO / _best_ratio(Fraction(delta))
    epsilon = Odometer(Fraction(delta)).epsilon(gaussian(rho))
    with mpmath.workdps(30):
        limit = real(1 / Fraction(delta))
        assert mixture(epsilon, Fraction(rho), c) >= limit * (1 - mpmath.mpf(10) ** -12)
        assert mixture(epsilon * Fraction(999, 1000), Fraction(rho), c) < limit


@pytest.mark.parametrize("rho", ["1/100", "1/2", "7"])
def test_the_bound_is_that_of_the_theorem(rho: str) -> None:
    spent = Fraction(rho)
    c = Fraction(1, 3000)  # 1/100 by 30, the whole number above 26.24 + ln(1 + 27)
    with mpmath.workdps(30):
        logarithm = mpmath.log(0.5 + mpmath.sqrt(real(1 + spent / c)) / 2 * 10**6)
        expected = real(spent) + 2 * mpmath.sqrt(real(spent + c) * logarithm)
        assert 0 <= real(Odometer(DELTA).epsilon(gaussian(rho))) - expected < 2e-12


def test_releases_that_cost_nothing_have_epsilon_zero() -> None:
    assert Odometer(DELTA).epsilon(Cost()) == 0
    assert Odometer(DELTA).epsilon(cost_of_zcdp(Fraction(0), 5)) == 0
    assert Odometer(DELTA).epsilon(cost_of_dp(Fraction(0), DELTA, 5)) == 0


def test_few_releases_of_pure_privacy_cost_the_sum_of_their_epsilons() -> None:
    odometer = Odometer(DELTA)
    assert odometer.epsilon(cost_of_dp(Fraction(1, 10), count=10)) == 1
    assert odometer.epsilon(cost_of_dp(Fraction(1, 10), count=100)) < 7


def test_the_bound_grows_with_every_release_and_falls_with_delta() -> None:
    costs = [cost_of_zcdp(Fraction(1, 200), n) for n in (1, 2, 3, 10, 10**3, 10**6, 10**12)]
    found = [Odometer(DELTA).epsilon(cost) for cost in costs]
    assert found == sorted(set(found))
    for cost, epsilon in zip(costs, found, strict=True):
        assert Odometer(10 * DELTA).epsilon(cost) < epsilon


@pytest.mark.parametrize(("times", "price"), [("1/10", 1.16), ("1", 1.06), ("100", 1.11)])
def test_the_price_of_the_freedom_to_stop_is_as_stated(times: str, price: float) -> None:
    rho = Fraction(times) * TIGHTEST_RHO
    fixed = textbook_epsilon(rho, DELTA)
    assert 1 < Odometer(DELTA).epsilon(cost_of_zcdp(rho)) / fixed < price


@pytest.mark.parametrize("delta", ["1/101", "1e-6", "1e-100"])
def test_no_other_odometer_is_smaller_where_it_is_said_to_be_tightest(delta: str) -> None:
    rho = Fraction(1, 3)

    def epsilon(tightest: Fraction) -> Fraction:
        return Odometer(Fraction(delta), tightest).epsilon(cost_of_zcdp(rho))

    for other in ("1/30", "1/4", "2/5", "10/3"):
        assert epsilon(rho) <= epsilon(Fraction(other)) * (1 + Fraction(1, 1000))
    assert epsilon(rho) < epsilon(rho / 10)
    assert epsilon(rho) < epsilon(rho * 10)


def test_deltas_of_the_releases_change_no_epsilon() -> None:
    odometer = Odometer(DELTA)
    exact = cost_of_dp(Fraction(1, 10), count=500)
    assert odometer.epsilon(exact) == odometer.epsilon(
        cost_of_dp(Fraction(1, 10), Fraction(1, 10**9), 500)
    )


@pytest.mark.parametrize("delta", [Fraction(0), Fraction(1, 100), Fraction(1)], ids=str)
def test_a_delta_that_is_not_a_small_probability_is_refused(delta: Fraction) -> None:
    with pytest.raises(ParameterError, match=r"delta must be (positive|below 1/100)"):
        Odometer(delta)


def test_an_odometer_tightest_at_nothing_is_refused() -> None:
    with pytest.raises(ParameterError, match="tightest_rho must be positive, not 0"):
        Odometer(DELTA, Fraction(0))
