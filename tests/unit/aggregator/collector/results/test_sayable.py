"""What stands in place of a figure of which its interval says nothing."""

import dataclasses
import math
import re
from fractions import Fraction

import pytest

from aggregator.collector.results import (
    Noised,
    Quantile,
    Quantity,
    Range,
    TooFew,
    VarianceOfSome,
    ratio,
    too_few,
)
from aggregator.collector.results.sayable import shown
from aggregator.dp.laws import DiscreteLaplaceLaw

SHARES = Range(Fraction(0), Fraction(100))
MINUTES = Range(Fraction(0), Fraction(240))
EDGES = [Fraction(place) for place in range(0, 241, 8)]


def noised(value: int, key: str, scale: int = 1) -> Noised:
    return Noised.released(value, DiscreteLaplaceLaw(2, Fraction(10 * scale)), key)


def share(of: int, people: int) -> Quantity:
    return ratio(noised(of, "of") * 100, noised(people, "people"), unit="%")


def mean(minutes: int, people: int) -> Quantity:
    return ratio(noised(minutes, "sum", 240), noised(people, "people"), unit="minutes")


def variance(numbers: list[int]) -> Quantity:
    values = [
        noised(sum(each**power for each in numbers), str(power), 240**power) for power in range(3)
    ]
    return VarianceOfSome(*values, most=240, unit="minutes²")


def median(each: int) -> Quantity:
    bins = [noised(each, str(place)) for place in range(len(EDGES) - 1)]
    return Quantile(bins, EDGES, Fraction(1, 2), unit="minutes")


def test_a_figure_is_shown_unless_its_interval_covers_more_than_half_of_what_is_possible() -> None:
    half = noised(0, "a").interval().high
    for people, is_shown in ((math.ceil(4 * half) - 1, False), (math.ceil(4 * half), True)):
        possible = Range(Fraction(0), Fraction(people), is_of_people=True)
        count = noised(people // 2, "a")
        assert (too_few(count, possible) is None) is is_shown
    # An end beyond what is possible covers nothing.
    low = noised(0, "a")
    assert too_few(low, Range(Fraction(0), Fraction(2 * half), is_of_people=True)) is None
    assert too_few(share(3, 6), SHARES) is not None
    assert too_few(share(300, 600), SHARES) is None
    assert too_few(mean(2400, -3), MINUTES) is not None


@pytest.mark.parametrize(("of", "said"), [(620, "100.0 %"), (-20, "0.0 %"), (300, "50.0 %")])
def test_no_number_is_shown_that_noise_took_beyond_what_is_possible(of: int, said: str) -> None:
    # The interval of a share ends at 0 and at 100 %, and what is shown lies in it.
    figure = ratio(
        noised(of, "of") * 100, noised(600, "people"), unit="%", least=SHARES.low, most=SHARES.high
    )
    found = shown(figure, SHARES)
    assert found.value == said
    assert found.ends is not None
    low, high = map(float, found.ends)
    assert low <= float(said.removesuffix(" %")) <= high


def test_it_says_about_how_many_answers_would_give_which_error() -> None:
    said = str(too_few(mean(60, 6), MINUTES))
    assert re.fullmatch(r"too few answers to say; about [\d,]+ would give ± 10 minutes", said)
    assert str(too_few(share(2, 6), SHARES)).endswith("would give ± 5 percentage points")
    assert str(TooFew()) == "too few answers to say"
    people = Range(Fraction(0), Fraction(6), is_of_people=True)
    assert str(too_few(noised(2, "a"), people)).endswith("would give ± 5 % of them")


@pytest.mark.parametrize("figure", [share(1, 6), mean(60, 6), variance([0, 240] * 3), median(0)])
def test_so_many_answers_do_give_that_error_and_half_of_them_do_not(figure: Quantity) -> None:
    possible = {"%": SHARES, "minutes": MINUTES}.get(
        figure.unit, Range(Fraction(0), Fraction(240**2, 4))
    )
    found = too_few(figure, possible)
    assert found is not None
    assert found.people is not None
    error = float(str(found.error).split()[0].replace(",", ""))
    enough, half = (_with(figure, people) for people in (found.people, found.people // 2))
    assert width(enough) <= 2 * error
    assert width(half) > 2 * error
    assert too_few(enough, possible) is None


def _with(figure: Quantity, people: int) -> Quantity:
    match figure.unit:
        case "%":
            return share(people // 2, people)
        case "minutes²":
            return variance([0, 240] * (people // 2))
        case _ if isinstance(figure, Quantile):
            return median(people // (len(EDGES) - 1))
        case _:
            return mean(120 * people, people)


def width(figure: Quantity) -> float:
    found = figure.interval()
    return float(found.high - found.low)


def test_of_a_law_that_is_not_known_it_says_no_number() -> None:
    @dataclasses.dataclass(frozen=True, eq=False, repr=False)
    class Other(Noised):
        pass

    other = Other(Fraction(3), noised(3, "a").terms)
    assert too_few(other, Range(Fraction(0), Fraction(5))) == TooFew()
