"""Functions near zero have as many digits as elsewhere, and take no more than that."""

from collections.abc import Callable
from decimal import Decimal

import pytest

from aggregator.collector.results.partial_knowledge import Thresholding
from aggregator.dp.decimals import expm1, log1p, working


@pytest.mark.parametrize("function", [expm1, log1p])
def test_a_number_with_ten_billion_zeros_takes_no_more_digits_than_others(
    function: Callable[[Decimal], Decimal],
) -> None:
    with working():
        tiny = Decimal(3).scaleb(-(10**10))
        assert function(tiny) == tiny
        assert function(Decimal(0)) == 0


@pytest.mark.parametrize(("function", "sign"), [(expm1, 1), (log1p, -1)])
def test_no_digit_is_lost_before_the_second_term_is_too_small(
    function: Callable[[Decimal], Decimal], sign: int
) -> None:
    for exponent in range(-70, -20):
        with working():
            x = Decimal(3).scaleb(exponent)
            assert function(x) == x + sign * x * x / 2 + x * x * x / (6 if sign > 0 else 3)


def test_a_threshold_far_above_the_mean_of_ten_billion_reports_is_weighed() -> None:
    release = Thresholding.of(10**10, "0.005", 5 * 10**9)
    assert 0 < release.bound().delta < Decimal("1e-8505734623")
