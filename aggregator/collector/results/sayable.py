"""What to say in place of a figure that its interval says nothing of, and how many would do.

A figure whose interval covers more than half of what is possible is no result: a reader would take
the noise for news. Noise does not grow with the number of people, so how many answers would do is
computed from its law, for a figure in the middle of what is possible.
"""

import dataclasses
import functools
import math
from fractions import Fraction

from typing_extensions import override

from aggregator.collector.results.intervals import NO_LOWER, NO_UPPER, TOO_FEW, ConfidenceInterval
from aggregator.collector.results.moments_of_some import VarianceOfSome
from aggregator.collector.results.quantiles import Quantile
from aggregator.collector.results.ratios import Ratio
from aggregator.collector.results.selection import WITHHELD, Withheld
from aggregator.collector.results.sums import SumLaw
from aggregator.collector.results.values import Noised, Quantity, combination
from aggregator.collector.results.written import number, said
from aggregator.dp.utility import DEFAULT_CONFIDENCE

NONE_OR_A_FEW = "none, or a few"

_WANTED = 20
"""What is possible is this many times the error that the promise is about, before rounding."""

_ROUND = tuple(map(Fraction, ("1", "2", "5", "10")))
_DIGITS = 2
"""How many digits of a number of answers are shown; it is rounded up."""

_FIRST, _ROUNDS = 20, 20
_NEAR = Fraction(21, 20)
_MORE, _A_LITTLE_MORE = Fraction(4), Fraction(51, 50)
"""How many more people are tried where there are far too few, and at least elsewhere."""


@dataclasses.dataclass(frozen=True, slots=True)
class Range:
    """What a figure may be, whatever people answered.

    Attributes:
        low: The least that it may be.
        high: The most.
        is_of_people: Whether it counts people, of whom there are `high`.
    """

    low: Fraction
    high: Fraction
    is_of_people: bool = False

    @property
    def size(self) -> Fraction:
        """The most less the least."""
        return self.high - self.low


@dataclasses.dataclass(frozen=True, slots=True)
class TooFew:
    """That too few people answered to show a figure, and about how many would give which error.

    `people` and `error` are None where no number of answers would do, or the law is not known.
    """

    people: int | None = None
    error: str | None = None

    @override
    def __str__(self) -> str:
        if self.people is None:
            return TOO_FEW
        return f"{TOO_FEW}; about {self.people:,} would give ± {self.error}"


@dataclasses.dataclass(frozen=True, slots=True)
class Shown:
    """A figure in words.

    Attributes:
        value: The estimate with its unit, or what is said in place of it.
        ends: The ends of the interval; None where no number is shown.
    """

    value: str
    ends: tuple[str, str] | None

    @property
    def span(self) -> str:
        """The interval, such as "3 to 9"; "" where no number is shown, or where it is exact."""
        return "" if self.ends is None or self.ends[0] == self.ends[1] else " to ".join(self.ends)

    @override
    def __str__(self) -> str:
        return f"{self.value} ({self.span})" if self.span else self.value


def shown(
    quantity: Quantity, possible: Range | None, interval: ConfidenceInterval | None = None
) -> Shown:
    """Return a figure in words, or what to say in place of it.

    Args:
        quantity: The figure.
        possible: What it may be; None if there is no limit.
        interval: Its interval, by default the one at 95 %.
    """
    found = quantity.interval(DEFAULT_CONFIDENCE) if interval is None else interval
    if isinstance(quantity, Withheld):
        return Shown(WITHHELD, (number(found.low), number(found.high)))
    if possible is not None and (instead := too_few(quantity, possible, found)):
        return Shown(str(instead), None)
    estimate = quantity.estimate
    value = None if estimate is None else float(estimate)
    if is_none_or_a_few(value, possible, found):
        return Shown(NONE_OR_A_FEW, None)
    if value is not None and possible is not None and not found.low <= value <= found.high:
        # Noise took it beyond what is possible, where its interval ends: no share is 120 %.
        value = min(max(value, float(possible.low)), float(possible.high))
    written, low, high = said(value, float(found.low), float(found.high))
    text = "no estimate" if value is None else f"{written} {quantity.unit}".rstrip()
    return Shown(text, (low, high))


def is_none_or_a_few(
    value: float | None, possible: Range | None, interval: ConfidenceInterval
) -> bool:
    """Return whether a number of people is seen so far below 0 that its interval ends there.

    One in forty counts of nobody is; and it says nothing but that they are few.
    """
    is_of_people = possible is not None and possible.is_of_people
    return is_of_people and value is not None and value < 0 and interval.high <= 0


def says_too_little(quantity: Quantity, possible: Range, interval: ConfidenceInterval) -> bool:
    """Return whether a figure's interval covers more than half of what is possible."""
    inside = interval.within(possible.low, possible.high)
    if inside.low < inside.high or not isinstance(quantity, Noised | Ratio):
        return interval.covers_most_of(possible.low, possible.high)
    # Nothing of it is possible, so it missed, unless there is no noise: how wide was it?
    without = dataclasses.replace(quantity, least=NO_LOWER, most=NO_UPPER)
    whole = without.interval(interval.confidence)
    return whole.covers_most_of(whole.low, whole.low + possible.size)


def too_few(
    quantity: Quantity, possible: Range, interval: ConfidenceInterval | None = None
) -> TooFew | None:
    """Return what to say in place of a figure; None if the figure itself can be shown.

    Args:
        quantity: The figure.
        possible: What it may be.
        interval: Its interval, if that is known already, by default the one at 95 %.
    """
    found = quantity.interval(DEFAULT_CONFIDENCE) if interval is None else interval
    if not says_too_little(quantity, possible, found):
        return None
    if possible.is_of_people:
        if not isinstance(quantity, Noised):
            return TooFew()
        return TooFew(_rounded_up(_WANTED * _width(quantity)), f"{100 // _WANTED} % of them")
    error = _round(possible.size / _WANTED)
    people = _people_for(_Noise.of(quantity, possible, error))
    if people is None:
        return TooFew()
    unit = "percentage points" if quantity.unit == "%" else quantity.unit
    return TooFew(_rounded_up(people), f"{float(error):,.6g} {unit}".rstrip())


@dataclasses.dataclass(frozen=True, slots=True)
class _Noise:
    """A figure, known again by the noise in it, what it may be and the wanted error."""

    laws: tuple[SumLaw, ...]
    possible: Range
    error: Fraction
    quantity: Quantity = dataclasses.field(compare=False)

    @classmethod
    def of(cls, quantity: Quantity, possible: Range, error: Fraction) -> "_Noise":
        match quantity:
            case Ratio(numerator=over, denominator=under):
                middle = combination([(over, 1), (under, -(possible.low + possible.high) / 2)])
                parts = [over, under, middle]
            case VarianceOfSome(people=people, sum_=sum_, squares=squares):
                parts = [people, sum_, squares]
            case Quantile(bins=bins):
                parts = list(bins)
            case _:
                parts = []
        return cls(tuple(part.law for part in parts), possible, error, quantity)


@functools.lru_cache(maxsize=1024)
def _people_for(noise: _Noise) -> Fraction | None:
    """Return how many people would give an error; None if no number of them is sure to."""
    before = people = Fraction(_FIRST)
    for _ in range(_ROUNDS):
        figure = _of_people(noise.quantity, noise.possible, math.ceil(people))
        if figure is None:
            return None
        width = _half_width(figure)
        if width is not None and width <= noise.error:
            return _fewer(noise, before, people)
        before = people
        # Without bounds there are far too few; with many, noise is less in proportion, nearly.
        people *= _MORE if width is None else max(width / noise.error, _A_LITTLE_MORE)
    return None


def _fewer(noise: _Noise, less: Fraction, enough: Fraction) -> Fraction:
    """Return nearly the fewest people who are enough, between too few and enough."""
    while enough > _NEAR * less:
        middle = (less + enough) / 2
        figure = _of_people(noise.quantity, noise.possible, math.ceil(middle))
        width = None if figure is None else _half_width(figure)
        if width is not None and width <= noise.error:
            enough = middle
        else:
            less = middle
    return enough


def _of_people(quantity: Quantity, possible: Range, people: int) -> Quantity | None:
    """Return the figure in the middle of its range if so many people answered, with its noise.

    None if it is not known how people make it.
    """
    match quantity:
        case Ratio(numerator=over, denominator=under):
            middle = (possible.low + possible.high) / 2
            return dataclasses.replace(
                quantity,
                numerator=_holding(over, middle * people),
                denominator=_holding(under, Fraction(people)),
                least=NO_LOWER,
                most=NO_UPPER,
            )
        case VarianceOfSome(people=under, sum_=sum_, squares=squares, most=most) if most:
            # As many at 0 as at the most, which is the largest variance.
            half = Fraction(people * most) / 2
            return dataclasses.replace(
                quantity,
                people=_holding(under, Fraction(people)),
                sum_=_holding(sum_, half),
                squares=_holding(squares, half * Fraction(most)),
            )
        case Quantile(bins=bins):
            each = Fraction(people, len(bins))
            return dataclasses.replace(quantity, bins=[_holding(bin_, each) for bin_ in bins])
        case _:
            return None


def _holding(noise: Noised, value: Fraction) -> Noised:
    return dataclasses.replace(noise, value=value)


def _half_width(quantity: Quantity) -> Fraction | None:
    found = quantity.interval(DEFAULT_CONFIDENCE)
    return (Fraction(found.high) - Fraction(found.low)) / 2 if found.is_bounded else None


def _width(noise: Noised) -> Fraction:
    return noise.law.width(DEFAULT_CONFIDENCE).size


def _round(size: Fraction) -> Fraction:
    """Return the nearest of 1, 2, 5 and their decimal multiples that is not above a size."""
    power = Fraction(10) ** math.floor(math.log10(size))
    return max(power * each for each in _ROUND if power * each <= size)


def _rounded_up(people: Fraction) -> int:
    """Return a number of people with two digits, none of them less."""
    whole = math.ceil(people)
    power = int(10 ** max(0, len(str(whole)) - _DIGITS))
    return -(-whole // power) * power
