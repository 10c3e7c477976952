"""Noised values to calculate with: each knows the releases, and so the noise, that it contains.

    total = monday + tuesday                # the noise of both, convolved
    change = tuesday - monday               # the same
    zero = total - total                    # no noise at all: it is the same draw twice
    share = poor / reports                  # the number of reports is public and exact

Values are exact rationals. Sums, differences and exact multiples stay `Noised`, with intervals from
the exact law of their noise; ratios, variances and quantiles are quantities of their own kinds.
"""

import dataclasses
import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from statistics import NormalDist
from typing import Self, TypeAlias

from typing_extensions import override

from aggregator.collector.results.intervals import (
    NO_LOWER,
    NO_UPPER,
    TOO_FEW,
    Bound,
    ConfidenceInterval,
)
from aggregator.collector.results.shared_terms import Adder, Commons, SharedTerms, Weight
from aggregator.collector.results.sums import Method, SumLaw, check_confidence
from aggregator.dp.certified import exp, ln, round_up
from aggregator.dp.laws import NoiseLaw
from aggregator.dp.utility import DEFAULT_CONFIDENCE
from aggregator.errors import ParameterError

NOT_LINEAR = (
    "only plain noised values can be calculated with. One that is shown because it passed a "
    "threshold has the law of its noise given that it passed, and no sum or ratio of such values "
    "has a known one: calculate with `.released` of each, and take intervals of the outcome by "
    "`after_selection`"
)

Exact: TypeAlias = int | Fraction | Decimal


@dataclasses.dataclass(frozen=True, slots=True)
class Source:
    """The noise of one released value: sources with the same key are the same draw.

    The key is its task, batch and coordinate; the law is of both aggregators' noise together.
    """

    key: Hashable
    law: NoiseLaw = dataclasses.field(compare=False)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Quantity(ABC):
    """Anything that is shown with an interval.

    Attributes:
        label: What it is, for a reader.
        unit: Its unit; empty for counts.
    """

    label: str = dataclasses.field(default="", kw_only=True)
    unit: str = dataclasses.field(default="", kw_only=True)

    @property
    @abstractmethod
    def estimate(self) -> Fraction | None:
        """The estimate; None if there is none, as for a ratio to zero."""

    @abstractmethod
    def interval(self, confidence: Fraction = DEFAULT_CONFIDENCE) -> ConfidenceInterval:
        """Return an interval for the true value.

        Args:
            confidence: Exact, above 0 and at most 1 - 10^-100.
        """

    @abstractmethod
    def sources(self) -> frozenset[Source]:
        """Return every draw of noise that the estimate or the interval depends on."""

    @property
    def limits(self) -> tuple[Bound, Bound]:
        """The least and the most that the true value can be, without looking at the data."""
        return NO_LOWER, NO_UPPER

    def named(self, label: str, unit: str | None = None) -> Self:
        """Return the same under another label, and unit if one is given."""
        return dataclasses.replace(self, label=label, unit=self.unit if unit is None else unit)

    @override
    def __repr__(self) -> str:
        """Show label, estimate and interval; the terms of a long sum stay out.

        There is no estimate where the interval covers more than half of what is possible.
        """
        interval, estimate = self.interval(), self.estimate
        value = "no estimate" if estimate is None else f"{float(estimate):.6g} {self.unit}".rstrip()
        if all(map(math.isfinite, self.limits)) and interval.covers_most_of(*self.limits):
            value = TOO_FEW
        return (
            f"{self.label or 'value'}: {value}, from {float(interval.low):.6g} to "
            f"{float(interval.high):.6g} at {float(100 * interval.confidence):.6g} % confidence "
            f"({interval.method})"
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Widths:
    """Three ways to say how far a sum may be off, of which the exact law's is shown.

    Attributes:
        shown: By the law of the sum: it covers, and no smaller one does.
        by_variances: By adding variances and taking the noise as normal, which it is not: the
            fewer draws, the more it is too narrow at high confidence.
        by_adding: By adding the half widths of what was summed: as if all noise were at its worst
            at once.
    """

    shown: Fraction
    method: Method
    by_variances: float
    by_adding: Fraction

    @override
    def __str__(self) -> str:
        return (
            f"± {float(self.shown):.6g} by the {self.method}; adding variances would say "
            f"{self.by_variances:.6g}, which holds for normal noise only, and adding half widths "
            f"{float(self.by_adding):.6g}, which is more than needed"
        )


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Noised(Quantity):
    """An unbiased estimate: the true value plus a known combination of independent noise.

    Two of them are never equal or ordered: `compare` says what can be concluded.

    Attributes:
        value: Exact, as calculated from what was released.
        terms: The coefficient of each draw of noise; none is zero.
        least: The least that the true value can be, if it is shown within its limits. What is
            calculated from it has none: sums of what was cut are too large.
        most: The most that it can be.
    """

    value: Fraction
    terms: Mapping[Source, Weight]
    least: Bound = NO_LOWER
    most: Bound = NO_UPPER

    @classmethod
    def released(
        cls, value: int, law: NoiseLaw | None, key: Hashable, *, label: str = "", unit: str = ""
    ) -> "Noised":
        """Return one value as it was released.

        Args:
            value: The signed integer.
            law: The law of its noise; None if there is none.
            key: Identifies its noise among that of all released values.
            label: What it is.
            unit: Its unit.
        """
        terms = {} if law is None else {Source(key, law): 1}
        return cls(Fraction(value), terms, label=label, unit=unit)

    @classmethod
    def exact(cls, value: Exact, label: str = "", unit: str = "") -> "Noised":
        """Return a value without noise."""
        return cls(rational(value), {}, label=label, unit=unit)

    @property
    @override
    def estimate(self) -> Fraction:
        return self.value

    @property
    @override
    def limits(self) -> tuple[Bound, Bound]:
        return self.least, self.most

    @functools.cached_property
    def law(self) -> SumLaw:
        """The law of the noise in it."""
        return SumLaw.of((source.law, weight) for source, weight in self.terms.items())

    @override
    def interval(self, confidence: Fraction = DEFAULT_CONFIDENCE) -> ConfidenceInterval:
        width = self.law.width(confidence)
        low, high = self.value - width.size, self.value + width.size
        found = ConfidenceInterval(low, high, confidence, str(width.method))
        return found.within(self.least, self.most)

    def widths(self, confidence: Fraction = DEFAULT_CONFIDENCE) -> Widths:
        """Return the half width that is shown beside two that are not."""
        law = self.law
        shown = law.width(confidence)
        deviations = NormalDist().inv_cdf(1 - float(1 - confidence) / 2)
        added = (
            SumLaw.of([(source.law, weight)]).width(confidence).size
            for source, weight in self.terms.items()
        )
        return Widths(
            shown.size, shown.method, deviations * law.variance() ** 0.5, sum(added, Fraction(0))
        )

    @override
    def sources(self) -> frozenset[Source]:
        return frozenset(self.terms)

    def __add__(self, other: "Noised | Exact") -> "Noised":
        if isinstance(other, Noised):
            return combination([(self, 1), (other, 1)], unit=self.unit)
        return self._shifted(rational(other))

    __radd__ = __add__

    def __neg__(self) -> "Noised":
        return self * -1

    def __sub__(self, other: "Noised | Exact") -> "Noised":
        if isinstance(other, Noised):
            return combination([(self, 1), (other, -1)], unit=self.unit)
        return self._shifted(-rational(other))

    def __rsub__(self, other: Exact) -> "Noised":
        return -self + other

    def _shifted(self, by: Fraction) -> "Noised":
        return Noised(self.value + by, self.terms, label=self.label, unit=self.unit)

    def __mul__(self, factor: Exact) -> "Noised":
        return combination([(self, factor)], label=self.label, unit=self.unit)

    __rmul__ = __mul__

    def __truediv__(self, divisor: Exact) -> "Noised":
        return self * (1 / rational(divisor))


def combination(
    parts: Iterable[tuple[Noised, Exact]], *, label: str = "", unit: str = ""
) -> Noised:
    """Return the sum of values with exact coefficients, in one pass, or raise `ParameterError`."""
    value, terms, common = Fraction(0), dict[Source, Weight](), Commons[Source]()
    add = Adder()
    for part, given in parts:
        check_noised(part)
        exact = rational(given)
        factor: Weight = exact.numerator if exact.denominator == 1 else exact
        value += factor * part.value
        if not factor:
            continue
        own = part.terms
        if isinstance(own, SharedTerms):
            for key, (shared, times) in own.common.items():
                before = common[key][1] if key in common else 0
                common[key] = shared, before + factor * times
            own = own.own
        add.multiple(terms, own, factor)
    kept = terms if add.is_never_zero else {each: size for each, size in terms.items() if size}
    common = {key: each for key, each in common.items() if each[1]}
    return Noised(value, SharedTerms(kept, common) if common else kept, label=label, unit=unit)


def shared(value: Noised) -> Noised:
    """Return the same value, whose noise is kept once for all that is calculated from it."""
    terms = value.terms if isinstance(value.terms, SharedTerms) else SharedTerms(value.terms, {})
    common = {**terms.common, id(terms.own): (terms.own, 1)}
    return dataclasses.replace(value, terms=SharedTerms({}, common))


def total(values: Iterable[Noised], *, label: str = "", unit: str | None = None) -> Noised:
    """Return the sum of values; its unit is that of the first unless it is given."""
    parts = list(values)
    if unit is None:
        unit = parts[0].unit if parts else ""
    return combination(((part, 1) for part in parts), label=label, unit=unit)


def joint_intervals(
    values: Sequence[Quantity], confidence: Fraction = DEFAULT_CONFIDENCE
) -> list[ConfidenceInterval]:
    """Return intervals that all hold at once with a probability of at least `confidence`.

    Where no two values have a draw of noise in common, each holds with the n-th root of it, which
    is exact: their noise is independent. Otherwise the miss is divided by n (Bonferroni). Raises
    `ParameterError` if there are no values, or the confidence is out of its range.
    """
    check_confidence(confidence)
    if not values:
        raise ParameterError("joint_intervals: there must be at least one value")
    sources = [value.sources() for value in values]
    count = max(1, sum(map(bool, sources)))  # without noise nothing is missed
    independent = sum(map(len, sources)) == len(frozenset[Source]().union(*sources))
    each = _root(confidence, count) if independent else 1 - (1 - confidence) / count
    how = "independent noise, exact maximum" if independent else f"Bonferroni over {count}"
    note = "" if count == 1 else f"; jointly: {how}"
    return [value.interval(each).jointly_of(count, confidence, note) for value in values]


def _root(confidence: Fraction, count: int) -> Fraction:
    """Return the count-th root of a confidence, rounded up a little."""
    if count == 1:
        return confidence
    decimals = 12 + len(str(math.ceil(count / (1 - confidence))))
    return round_up(lambda digits: exp(ln(confidence, digits) / count, digits), decimals)


def check_noised(*values: object) -> None:
    """Refuse anything but plain noised values, such as a value that a threshold chose."""
    for value in values:
        if not isinstance(value, Noised):
            raise not_noised(value)


def not_noised(value: object) -> ParameterError:
    """Return the error for a value that is not plainly noised; it says what to do instead."""
    what = f"{value.label!r} is" if isinstance(value, Quantity) else "this is"
    return ParameterError(f"{what} a {type(value).__name__}: {NOT_LINEAR}")


def rational(value: object) -> Fraction:
    """Return an exact number, or raise `ParameterError`."""
    if isinstance(value, Quantity):
        check_noised(value)
    match value:
        case bool():
            pass
        case Fraction():
            return value  # the same object, so that terms with one weight can be recognised
        case int():
            return Fraction(value)
        case Decimal() if value.is_finite():
            return Fraction(value)
    raise ParameterError(
        f"values are calculated with exactly: {value!r} must be an integer, a Fraction or a "
        "finite Decimal (for one noised value by another use `ratio`)"
    )
