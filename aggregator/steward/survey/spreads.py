"""How precise a typical result of a survey will be, figure by figure.

An error is computed as it will be for a result: by the figure itself, of what is typical.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from aggregator.collector.results import (
    Noised,
    Quantile,
    Quantity,
    Ratio,
    VarianceOfSome,
    combination,
)
from aggregator.collector.results.differences import QuantileDifference, difference
from aggregator.collector.results.shared_terms import SharedTerms
from aggregator.collector.results.values import Source
from aggregator.dp.certified import to_float
from aggregator.dp.mechanisms import Mechanism
from aggregator.dp.utility import DEFAULT_CONFIDENCE
from aggregator.steward.survey.designs import Figure, Sums
from aggregator.steward.survey.report_parts import Part, Sheet

if TYPE_CHECKING:
    import numpy as np

AGGREGATORS = 2
"""How many add noise."""

_DRAWS, _FEW_DRAWS, _MANY_SOURCES = 25, 5, 30
"""Of how many typical results an error is the median where noise decides how large it is; of fewer
for quantities with so many draws of noise, whose intervals take long and differ less."""

_WIDE = Fraction(1, 8)
"""From this part of what is possible on, noise decides how wide an interval is."""

_PARTS = 64
"""Drawn noise is rounded to one over this, for short fractions."""

_MOST_BINS = 1000
"""With more bins than this, a bin more or less is no matter."""

_MOST_DRAWN = 300
"""Noise is drawn for quantities with no more draws in them."""


@dataclasses.dataclass(frozen=True)
class Spread:
    """How precise some figures of one batch are: one of them, and its error.

    Attributes:
        figure: The figure as it is expected.
        half_width: Half of the width of its interval.
        part: The same as a part of the largest possible value.
    """

    figure: Figure
    half_width: Fraction
    part: Fraction

    def of_draws(self) -> "Spread":
        """Return the same; where noise decides how large the error is, the median of some draws."""
        half, own = _half_width(self.figure.quantity), _bin(self.figure.quantity)
        part = self.part
        if half != self.half_width:
            part *= (half - own) / (self.half_width - own) if self.half_width != own else 1
        return dataclasses.replace(self, half_width=half, part=part)

    def difference(self) -> Fraction:
        """Return the least difference of two windows from which they can be said to differ."""
        quantity = self.figure.quantity
        return _half_width(difference(quantity, _of_another_window(quantity)))


def typical_sums(sheet: Sheet, mechanism: Mechanism, people: int) -> Sums:
    """Return the sums of a typical batch of people who all answer, and the noise they will have."""
    typical = [value for each in sheet.parts for value in each.source.typical(people)]
    laws = [law for run, law in mechanism.laws(sheet.circuit, AGGREGATORS) for _ in range(run)]
    values = [
        Noised(value, {} if law is None else {Source(place, law): 1})
        for place, (value, law) in enumerate(zip(typical, laws, strict=True))
    ]
    return sheet.sums(values, people)


def spreads(part: Part, sums: Sums, *, quickly: bool = False) -> list[Spread]:
    """Return how precise the figures of a question or a table are.

    The sums are of the whole sheet, from `typical_sums`. An error is computed as it will be for a
    result: by the figure itself, of what is typical. There is one for all figures with the same
    values and laws, which are equally precise, and none for a sum, which is as precise as its mean,
    nor for how many answered. A quantile is in a whole bin even without noise, which is no error.

    Args:
        part: The question or table.
        sums: Typical ones.
        quickly: Whether what is linear in the noise of a ratio will do, as in a search.
    """
    found: dict[object, Spread] = {}
    for figure in part.figures(sums):
        key = figure.range, _key(figure.quantity)
        is_beside = figure.shows == "sum" or (figure.shows == "count" and not figure.is_wanted)
        if key not in found and not is_beside:
            half = _linear(figure.quantity) if quickly else _half(figure.quantity)
            most = sums.reports if figure.range is None else figure.range
            found[key] = Spread(figure, half, (half - _bin(figure.quantity)) / most)
    return list(found.values())


def _key(quantity: Quantity) -> object:
    """Return what the width of a quantity's interval depends on, among those of one part."""
    match quantity:
        case Noised():
            return _noise(quantity)
        case Ratio(numerator=over, denominator=under):
            return over.value, under.value, _noise(over), _noise(under), *quantity.limits
        case VarianceOfSome(people=people, sum_=sum_, squares=squares):
            return people.value, sum_.value, squares.value, people.law, squares.law
        case _:
            return id(quantity)


def _noise(value: Noised) -> object:
    """Return what only values whose noise is alike have in common."""
    terms = value.terms
    if isinstance(terms, SharedTerms):
        return terms.alike(lambda source: id(source.law))
    return value.law


def _linear(quantity: Quantity) -> Fraction:
    """Return half of the width by what is linear in the noise; of all, where that is not known.

    It is cut at what is certain, as the interval is: a share of 100 % is off to one side only.
    """
    match quantity:
        case Ratio(numerator=over, denominator=under) if under.value:
            linear = combination([(over, 1 / under.value), (under, -over.value / under.value**2)])
            size, (least, most) = linear.law.width(DEFAULT_CONFIDENCE).size, quantity.limits
            seen = over.value / under.value
            return (Fraction(min(seen + size, most)) - Fraction(max(seen - size, least))) / 2
        case _:
            return _half(quantity)


def _bin(quantity: Quantity) -> Fraction:
    """Return half of the width of the bin that a quantile is in; 0 for anything else.

    At a border it is in both bins, in which the least noise leaves it.
    """
    if not isinstance(quantity, Quantile):
        return Fraction(0)
    excess, last = quantity.excesses(), len(quantity.bins) - 1
    first = next((place for place, each in enumerate(excess) if each >= 0), last)
    end = next((place for place, each in enumerate(excess) if each > 0), last)
    return (Fraction(quantity.edges[end + 1]) - Fraction(quantity.edges[first])) / 2


def _half_width(quantity: Quantity) -> Fraction:
    """Return half of the width of a quantity's interval; the median, where noise decides it."""
    import numpy as np

    half = _half(quantity)
    if not _depends_on_noise(quantity, half):
        return half
    made = np.random.default_rng(1)  # the same each time
    draws = _DRAWS if len(quantity.sources()) < _MANY_SOURCES else _FEW_DRAWS
    return sorted(_half(_drawn(quantity, made)) for _ in range(draws))[draws // 2]


def _half(quantity: Quantity) -> Fraction:
    interval = quantity.interval()
    return (Fraction(interval.high) - Fraction(interval.low)) / 2


def _depends_on_noise(quantity: Quantity, half: Fraction) -> bool:
    """Return whether the width of an interval differs much from one draw of noise to another.

    So it does where it comes in whole bins, unless there are many, and where it is so wide that it
    is cut at what is certain.
    """
    match quantity:
        case Quantile():
            return len(quantity.bins) <= _MOST_BINS
        case QuantileDifference():
            return len(quantity.first.bins) <= _MOST_BINS
        case _:
            low, high = quantity.limits
            is_wide = math.isfinite(high - low) and half > _WIDE * (Fraction(high) - Fraction(low))
            return is_wide and len(quantity.sources()) <= _MOST_DRAWN


def _drawn(quantity: Quantity, made: "np.random.Generator") -> Quantity:
    """Return a quantity as it may be seen, with noise that has the variance of its law."""
    ordered = sorted(quantity.sources(), key=lambda each: repr(each.key))
    noise = dict(zip(ordered, made.standard_normal(len(ordered)), strict=True))
    spread = {id(each.law): to_float(each.law.variance()) ** 0.5 for each in ordered}

    def seen(value: Noised) -> Noised:
        by = sum(
            float(weight) * noise[source] * spread[id(source.law)]
            for source, weight in value.terms.items()
        )
        moved = value.value + Fraction(round(float(by) * _PARTS), _PARTS)
        return dataclasses.replace(value, value=moved)

    return _changed(quantity, seen)


def _of_another_window(quantity: Quantity) -> Quantity:
    """Return a quantity as it is, but for another draw of the same noise."""

    def another(value: Noised) -> Noised:
        terms = {
            Source(("another", source.key), source.law): weight
            for source, weight in value.terms.items()
        }
        return dataclasses.replace(value, terms=terms)

    return _changed(quantity, another)


def _changed(quantity: Quantity, change: Callable[[Noised], Noised]) -> Quantity:
    """Return a quantity made of changed values."""
    if isinstance(quantity, Noised):
        return change(quantity)
    parts: dict[str, Any] = {}
    for each in dataclasses.fields(quantity):
        value = getattr(quantity, each.name)
        if isinstance(value, Quantity):
            parts[each.name] = _changed(value, change)
        elif isinstance(value, list):
            parts[each.name] = [change(bin_) for bin_ in value]
    return dataclasses.replace(quantity, **parts)


def worst(found: Sequence[Spread]) -> Spread:
    """Return the figures that are the least precise for their range.

    Half of the range is all that is possible: of counts, which are not cut there, more is no worse.
    """
    return max(found, key=lambda each: min(each.part, Fraction(1, 2)))
