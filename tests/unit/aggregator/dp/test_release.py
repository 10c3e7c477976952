from fractions import Fraction

import pytest

from aggregator.dp.discrete_gaussian import DiscreteGaussian
from aggregator.dp.discrete_laplace import PureDpDiscreteLaplace
from aggregator.dp.mechanisms import Mechanism
from aggregator.dp.no_privacy import NoPrivacy
from aggregator.dp.release import add_noise, check_no_wrap
from aggregator.errors import ParameterError
from aggregator.vdaf.circuits import Count, Histogram, Sum, SumVec
from field import FIELD64, FIELD128, Vector, lift
from tests.support.entropy import NoEntropy, SeededEntropy
from tests.support.patience import measured

CIRCUIT = Histogram(6, 2)
MECHANISM = PureDpDiscreteLaplace(Fraction(1, 10))
COUNTS = [5, 0, 0, 100, 2, 0]


def test_the_noise_of_both_aggregators_ends_up_in_the_signed_result() -> None:
    leader = Vector.from_ints(FIELD128, [FIELD128.modulus - 7] * 6)
    helper = Vector.from_ints(FIELD128, [count + 7 for count in COUNTS])
    first = add_noise(leader, MECHANISM, CIRCUIT, SeededEntropy(1))
    second = add_noise(helper, MECHANISM, CIRCUIT, SeededEntropy(2))
    drawn = [MECHANISM.noise(CIRCUIT, SeededEntropy(seed)) for seed in (1, 2)]
    expected = [sum(parts) for parts in zip(COUNTS, *drawn, strict=True)]
    assert lift(first + second) == expected
    assert min(expected) < 0
    assert leader.to_ints() == [FIELD128.modulus - 7] * 6  # the share itself is left alone


def test_noise_is_drawn_anew_for_every_release() -> None:
    entropy = SeededEntropy(3)
    share = Vector.zeros(FIELD128, (6,))
    assert add_noise(share, MECHANISM, CIRCUIT, entropy) != add_noise(
        share, MECHANISM, CIRCUIT, entropy
    )


def test_without_a_mechanism_the_share_is_returned_and_nothing_drawn() -> None:
    share = Vector.from_ints(FIELD128, COUNTS)
    assert add_noise(share, NoPrivacy(), CIRCUIT, NoEntropy()) == share


def test_a_share_of_another_length_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"agg_share must have shape \(6,\)"):
        add_noise(Vector.zeros(FIELD128, (5,)), MECHANISM, CIRCUIT, NoEntropy())


def test_a_draw_far_beyond_the_field_wraps() -> None:
    vast = PureDpDiscreteLaplace(Fraction(1, 2**200))
    noised = add_noise(Vector.zeros(FIELD64, (1,)), vast, Count(), SeededEntropy(1))
    (draw,) = vast.noise(Count(), SeededEntropy(1))
    assert abs(draw) > 2**128
    assert noised.to_ints() == [draw % FIELD64.modulus]


def test_a_task_whose_sum_and_noise_stay_below_half_of_the_field_is_accepted() -> None:
    check_no_wrap(CIRCUIT, MECHANISM, 2**63 - 1)
    check_no_wrap(Count(), MECHANISM, 2**40)
    check_no_wrap(Sum(2**20), MECHANISM, 2**30)


def test_the_limit_is_half_of_the_field_less_the_tail_of_both_aggregators_noise() -> None:
    half = FIELD64.modulus // 2
    tail = MECHANISM.tail_bound(Count(), aggregators=2)
    check_no_wrap(Count(), MECHANISM, half - tail)
    with pytest.raises(ParameterError, match=r"max_reports: .* could sum to"):
        check_no_wrap(Count(), MECHANISM, half - tail + 1)


@pytest.mark.parametrize(
    "mechanism", [PureDpDiscreteLaplace(Fraction(1, 2**60)), DiscreteGaussian(Fraction(1, 2**126))]
)
def test_noise_alone_may_be_too_much(mechanism: PureDpDiscreteLaplace) -> None:
    with pytest.raises(ParameterError, match="noise of both aggregators reach"):
        check_no_wrap(Count(), mechanism, 1)
    check_no_wrap(Histogram(2, 1), mechanism, 1)  # Field128 has room for it


def test_plain_sums_may_use_the_whole_field_and_no_more() -> None:
    largest = (FIELD64.modulus - 1) // 3
    check_no_wrap(Sum(3), NoPrivacy(), largest)
    with pytest.raises(ParameterError, match="wraps around the field"):
        check_no_wrap(Sum(3), NoPrivacy(), largest + 1)


def test_a_vector_is_checked_entry_by_entry() -> None:
    check_no_wrap(SumVec(10**6, 255, 1000), NoPrivacy(), FIELD128.modulus // 255)


@pytest.mark.parametrize(
    "mechanism",
    [PureDpDiscreteLaplace(Fraction("1e-250")), DiscreteGaussian(Fraction("1e-250"))],
    ids=lambda mechanism: mechanism.name,
)
def test_noise_that_fits_no_field_is_refused_at_once(mechanism: Mechanism) -> None:
    with (
        measured() as spent,
        pytest.raises(ParameterError, match="its noise alone would wrap around the field"),
    ):
        check_no_wrap(Count(), mechanism, 10)
    assert spent.yardsticks < 150
