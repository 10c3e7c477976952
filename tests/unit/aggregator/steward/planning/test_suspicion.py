"""What an epsilon makes of a guess that was fifty to fifty."""

import math
from fractions import Fraction

import pytest

from aggregator.dp.certified import to_float
from aggregator.dp.discrete_laplace import PureDpDiscreteLaplace
from aggregator.dp.laws import DiscreteLaplaceLaw
from aggregator.errors import ParameterError
from aggregator.steward.planning.advise import advise
from aggregator.steward.planning.question import Question
from aggregator.steward.planning.suspicion import sure_at_most
from aggregator.vdaf.circuits import Count


@pytest.mark.parametrize("epsilon", ["0.01", "0.5", "1", "3"])
def test_without_a_delta_it_is_the_posterior_of_even_odds(epsilon: str) -> None:
    odds = math.exp(float(epsilon))
    found = sure_at_most(epsilon)
    assert float(found) == pytest.approx(odds / (1 + odds), abs=1e-6)
    assert found >= Fraction(odds / (1 + odds)) - Fraction(1, 10**12)


def test_a_guess_from_a_released_count_is_right_as_often_as_the_bound_and_no_oftener() -> None:
    law = PureDpDiscreteLaplace(Fraction(1)).law(Count(), 1)
    assert isinstance(law, DiscreteLaplaceLaw)
    # The best guess is the answer under which the released value is likelier.
    right = sum(
        max(to_float(law.probability(value)), to_float(law.probability(value - 1))) / 2
        for value in range(-60, 61)
    )
    assert right == pytest.approx(float(sure_at_most(1)), abs=1e-6)


def test_epsilon_nothing_is_a_coin_and_a_large_one_or_a_delta_of_one_is_certainty() -> None:
    assert sure_at_most(0) == Fraction(1, 2)
    assert sure_at_most(0, "1/2") == Fraction(3, 4)
    assert sure_at_most(0, 1) == sure_at_most(1000) == 1


@pytest.mark.parametrize(("epsilon", "delta"), [("-1", 0), (1, 2), (1, "-0.1")])
def test_numbers_out_of_range_are_refused(epsilon: str, delta: str) -> None:
    with pytest.raises(ParameterError, match=r"epsilon|delta"):
        sure_at_most(epsilon, delta)


def test_advice_says_it_of_one_release_and_of_the_year() -> None:
    found = advise(Question.of(1000, 6, epsilon="1/10", releases=4))
    assert found.sure_after_one == sure_at_most("1/10")
    assert found.sure_after_a_year <= sure_at_most("4/10")
    assert found.sure_after_a_year > found.sure_after_one
