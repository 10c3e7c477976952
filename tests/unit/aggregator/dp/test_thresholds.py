from fractions import Fraction

import pytest

from aggregator.dp.discrete_laplace import PureDpDiscreteLaplace
from aggregator.dp.thresholds import Thresholds
from aggregator.dp.truncated_geometric import TruncatedGeometric
from aggregator.errors import ParameterError
from aggregator.vdaf.circuits import Histogram
from tests.support.entropy import SeededEntropy

CIRCUIT = Histogram(5, 2)
TRUNCATED = TruncatedGeometric(Fraction(1), Fraction(1, 10**5))  # k = 22
LAPLACE = PureDpDiscreteLaplace(Fraction(1))


def test_a_bucket_is_shown_only_above_twice_the_bound() -> None:
    values = [44, 45, -3, 0, 1000]
    assert Thresholds("2k").select(values, CIRCUIT, TRUNCATED) == [None, 45, None, None, 1000]


def test_with_one_aggregators_noise_the_bound_itself_is_enough() -> None:
    assert Thresholds("k").select([22, 23, 0, 0, 0], CIRCUIT, TRUNCATED) == [
        None,
        23,
        None,
        None,
        None,
    ]


def test_no_bucket_that_nobody_chose_is_ever_shown() -> None:
    for seed in range(200):
        entropy = SeededEntropy(seed)
        noise = [TRUNCATED.noise(CIRCUIT, entropy) for _ in range(2)]
        values = [a + b for a, b in zip(*noise, strict=True)]
        assert Thresholds("2k").select(values, CIRCUIT, TRUNCATED) == [None] * 5


def test_public_buckets_have_a_threshold_of_their_own_or_none() -> None:
    values = [-3, 10, 50, 50, 8]
    with_limit = Thresholds(40, public=7, public_buckets=(1, 4))
    assert with_limit.select(values, CIRCUIT, LAPLACE) == [None, 10, 50, 50, 8]
    always = Thresholds("2k", public_buckets=(0, 1))
    assert always.select(values, CIRCUIT, TRUNCATED) == [-3, 10, 50, 50, None]


def test_a_bound_is_asked_only_of_noise_that_has_one() -> None:
    with pytest.raises(ParameterError, match='"2k" needs a mechanism whose noise has a bound'):
        Thresholds("2k").of_buckets(CIRCUIT, LAPLACE)


def test_a_public_bucket_must_exist() -> None:
    with pytest.raises(ParameterError, match="there is no bucket 5, the last is 4"):
        Thresholds(3, public_buckets=(5,)).of_buckets(CIRCUIT, LAPLACE)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("3k", None, ()), 'must be "k", "2k" or a whole number'),
        ((-1, None, ()), "private_threshold must be an integer from 0"),
        ((True, None, ()), "private_threshold must be an integer"),
        ((3, 2**63, ()), "public_threshold must be an integer"),
        ((3, None, (2, 1)), "ascending order"),
        ((3, None, (1, 1)), "each one once"),
        ((3, None, (2**32,)), "from 0 to 2\\^32 - 1"),
    ],
)
def test_settings_out_of_range_are_refused(arguments: tuple, reason: str) -> None:
    with pytest.raises(ParameterError, match=reason):
        Thresholds(*arguments)
