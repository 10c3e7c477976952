from fractions import Fraction

import mpmath
import pytest

from aggregator.dp.filters import (
    Cost,
    Filter,
    check_delta,
    cost_of_dp,
    cost_of_zcdp,
    rho_of_pure,
    total,
)
from aggregator.dp.zcdp import implied_epsilon, textbook_epsilon
from aggregator.errors import ParameterError

DELTA = Fraction(1, 10**6)
EPSILONS = [Fraction(1, 10**9), Fraction(1, 10), Fraction(1), Fraction(5), Fraction(200)]


def log_moment(epsilon: Fraction, order: mpmath.mpf) -> mpmath.mpf:
    """Return ln E[e^(order L)] of randomised response, from its two outcomes."""
    step = mpmath.mpf(epsilon.numerator) / epsilon.denominator
    truth = 1 / (1 + mpmath.exp(-step))
    return mpmath.log(truth * mpmath.exp(order * step) + (1 - truth) * mpmath.exp(-order * step))


@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
def test_the_rho_of_pure_privacy_is_the_least_that_bounds_randomised_response(
    epsilon: Fraction,
) -> None:
    found = rho_of_pure(epsilon)
    with mpmath.workdps(80):
        rho = mpmath.mpf(found.numerator) / found.denominator
        for power in range(-40, 12):
            order = mpmath.mpf(2) ** power
            assert log_moment(epsilon, order) <= order * (order + 1) * rho
        order = mpmath.mpf(2) ** -60
        smaller = rho * (1 - mpmath.mpf(10) ** -11)
        assert log_moment(epsilon, order) > order * (order + 1) * smaller
    assert found <= epsilon**2 / 2


def test_costs_add_up_however_they_are_grouped() -> None:
    one = cost_of_dp(Fraction(1, 3), Fraction(1, 10**8))
    assert total([one] * 7) == cost_of_dp(Fraction(1, 3), Fraction(1, 10**8), 7)
    assert total([]) == Cost() == cost_of_dp(Fraction(1), count=0)
    mixed = total([one, cost_of_zcdp(Fraction(1, 200), 3), one])
    assert mixed == Cost(None, 2 * one.rho + Fraction(3, 200), Fraction(2, 10**8))


def test_a_release_that_costs_nothing_leaves_the_others_an_epsilon() -> None:
    free = [cost_of_dp(Fraction(0), count=9), cost_of_zcdp(Fraction(0), 9), cost_of_zcdp(DELTA, 0)]
    assert total(free) == Cost()
    assert total([*free, cost_of_dp(Fraction(1))]).epsilon == 1


def test_a_limit_on_epsilon_allows_what_reaches_it_and_refuses_what_passes_it() -> None:
    limit = Filter(epsilon=Fraction(16, 25))
    release = Fraction(4, 25)
    assert limit.allows(cost_of_dp(release, count=4))
    assert not limit.allows(cost_of_dp(release, count=5))
    assert not limit.allows(cost_of_dp(release, DELTA))
    assert not limit.allows(cost_of_zcdp(Fraction(1, 10**9)))
    assert limit.epsilon_of_all(DELTA) == Fraction(16, 25)


def test_a_limit_on_rho_allows_both_kinds_of_noise_and_implies_epsilons_by_delta() -> None:
    limit = Filter(rho=Fraction(1, 50), delta=2 * DELTA)
    assert limit.allows(cost_of_zcdp(Fraction(1, 200), 4))
    assert not limit.allows(cost_of_zcdp(Fraction(1, 200), 5))
    pure = cost_of_dp(Fraction(1, 10), DELTA, 2)
    assert limit.allows(pure + cost_of_zcdp(Fraction(1, 200), 2))
    assert not limit.allows(pure + cost_of_zcdp(Fraction(1, 200), 3))
    assert not limit.allows(pure + cost_of_dp(Fraction(0), DELTA))
    for delta in (DELTA, Fraction(1, 200)):
        assert limit.epsilon_of_all(delta) == implied_epsilon(Fraction(1, 50), delta)
        assert limit.epsilon_of_all(delta) < textbook_epsilon(Fraction(1, 50), delta)


def test_with_two_limits_the_smaller_epsilon_holds() -> None:
    few = Filter(epsilon=Fraction(1), rho=Fraction(10))
    many = Filter(epsilon=Fraction(100), rho=Fraction(1, 50))
    assert few.epsilon_of_all(DELTA) == 1
    assert many.epsilon_of_all(DELTA) == implied_epsilon(Fraction(1, 50), DELTA)
    assert not few.allows(cost_of_dp(Fraction(1, 10), count=11))
    assert not many.allows(cost_of_dp(Fraction(1, 10), count=11))


def test_an_epsilon_beyond_all_reason_is_its_own_rho() -> None:
    huge = Fraction(10**30)
    assert huge <= rho_of_pure(huge) < huge + 1


def test_a_million_releases_take_no_longer_than_one() -> None:
    cost = cost_of_dp(Fraction(1, 10), Fraction(1, 10**12), 10**18)
    assert cost.epsilon == 10**17
    assert Filter(epsilon=Fraction(10**17), delta=Fraction(1, 200)).allows(
        cost_of_dp(Fraction(1, 10), Fraction(1, 10**21), 10**18)
    )


@pytest.mark.parametrize("delta", [Fraction(0), Fraction(1, 100), Fraction(1)], ids=str)
def test_a_delta_that_is_not_a_small_probability_is_refused(delta: Fraction) -> None:
    with pytest.raises(ParameterError, match=r"delta must be (positive|below 1/100)"):
        check_delta(delta)
    with pytest.raises(ParameterError, match=r"delta must be (positive|below 1/100)"):
        Filter(rho=Fraction(1)).epsilon_of_all(delta)


def test_costs_and_limits_out_of_range_are_refused() -> None:
    with pytest.raises(ParameterError, match="delta must be below 1/100, not 1/100"):
        cost_of_dp(Fraction(1), Fraction(1, 100))
    with pytest.raises(ParameterError, match="delta must be below 1/100, not 1/100"):
        Filter(epsilon=Fraction(1), delta=Fraction(1, 100))
    with pytest.raises(ParameterError, match="epsilon must be at least 0, not -1"):
        cost_of_dp(Fraction(-1))
    with pytest.raises(ParameterError, match="delta must be at least 0, not -1"):
        cost_of_dp(Fraction(1), Fraction(-1))
    with pytest.raises(ParameterError, match="rho must be at least 0, not -1"):
        cost_of_zcdp(Fraction(-1))
    with pytest.raises(ParameterError, match="count must be at least 0, not -1"):
        cost_of_zcdp(Fraction(1), -1)
    with pytest.raises(ParameterError, match="a filter needs a limit on epsilon or on rho"):
        Filter(delta=DELTA)
    with pytest.raises(ParameterError, match="rho must be positive, not 0"):
        Filter(rho=Fraction(0))
