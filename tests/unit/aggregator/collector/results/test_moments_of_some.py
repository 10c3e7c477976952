"""The variance of a number that only some people gave."""

import random
from fractions import Fraction
from statistics import pvariance

import pytest

from aggregator.collector.results import Noised, VarianceOfSome, ratio
from aggregator.dp.laws import DiscreteLaplaceLaw
from aggregator.errors import ParameterError

MOST = 80
LAWS = [DiscreteLaplaceLaw(2, Fraction(scale)) for scale in (3, 3 * MOST, 3 * MOST**2)]


def of(numbers: list[int], noise: tuple[int, int, int] = (0, 0, 0)) -> VarianceOfSome:
    moments = [len(numbers), sum(numbers), sum(each**2 for each in numbers)]
    values = (
        Noised.released(moment + added, law, place)
        for place, (moment, added, law) in enumerate(zip(moments, noise, LAWS, strict=True))
    )
    return VarianceOfSome(*values, most=MOST, unit="min²")


def laplace(made: random.Random, scale: float) -> int:
    """Return both aggregators' noise, near enough to the law for a count of misses."""
    return sum(round(scale * made.expovariate(1) * made.choice((-1, 1))) for _ in range(2))


def test_without_noise_it_is_that_of_the_numbers() -> None:
    numbers = [3, 8, 8, 41]
    moments = [4, sum(numbers), sum(each**2 for each in numbers)]
    found = VarianceOfSome(*(Noised.exact(each) for each in moments), most=MOST)
    assert float(found.estimate or 0) == pytest.approx(pvariance(numbers))


@pytest.mark.slow
def test_its_interval_holds_the_truth_as_often_as_it_says() -> None:
    """Of 60 intervals of 90 % more than 20 miss with a probability below 10^-6."""
    made = random.Random(5)  # noqa: S311  made-up numbers
    misses = 0
    for _ in range(60):
        numbers = [made.randint(0, 60) for _ in range(900)]
        noise = tuple(laplace(made, float(scale)) for scale in (3, 3 * MOST, 3 * MOST**2))
        found = of(numbers, (noise[0], noise[1], noise[2]))
        misses += Fraction(pvariance(numbers)) not in found.interval(Fraction(9, 10))
    assert misses <= 20


@pytest.mark.parametrize(
    "numbers", [[30 + k % 21 for k in range(900)], [k % 81 for k in range(300)]]
)
def test_it_is_hardly_wider_than_the_pairs_of_mean_and_variance_that_are_not_ruled_out(
    numbers: list[int],
) -> None:
    found, miss = of(numbers, (2, 90, -9000)), Fraction(1, 20)
    people, sum_, squares = found.people, found.sum_, found.squares
    means = ratio(sum_, people).interval(1 - miss / 20)
    ends = []
    for step in range(9):
        mean = Fraction(round(16 * (means.low + (means.high - means.low) * Fraction(step, 8))), 16)
        about = ratio(squares - 2 * mean * sum_ + mean**2 * people, people)
        interval = about.interval(1 - miss + miss / 20)
        ends += [interval.low, interval.high]
    interval = found.interval()
    widest = min(max(ends), Fraction(MOST, 2) ** 2) - max(0, min(ends))
    assert interval.high - interval.low < widest * Fraction(101, 100)


def test_it_stays_where_variances_can_be_whatever_the_noise() -> None:
    for noise in ((0, 0, -(10**9)), (0, 0, 10**9), (-1000, 0, 0), (10**6, 0, 0), (0, 10**6, 0)):
        found = of([0, 40, 80] * 300, noise)
        interval = found.interval()
        assert 0 <= interval.low <= interval.high <= Fraction(MOST, 2) ** 2
        assert found.estimate is None or 0 <= found.estimate <= Fraction(MOST, 2) ** 2


def test_without_people_there_is_no_estimate() -> None:
    assert of([]).estimate is None
    assert of([]).interval().low == 0


def test_numbers_need_a_range() -> None:
    with pytest.raises(ParameterError, match="most: must be above 0, not 0"):
        VarianceOfSome(Noised.exact(1), Noised.exact(1), Noised.exact(1), most=0)
