"""The law of a sum of independent noise with exact coefficients, and the width that covers it.

Each width comes with the name of the method that it was found by:

- `EXACT`: the least multiple of the sum's unit that covers. One draw with a coefficient is decided
  by certified arithmetic. A sum is convolved: its probabilities modulo L are the inverse Fourier
  transform of the product of characteristic functions. What lies beyond the circle is bounded and
  counted as a miss, and so is a bound of all rounding; together they are a millionth of the miss.
- `SMOOTHED`: where the sum has too many values for a table, the edges of the interval are replaced
  by a smooth function from within (`minorant`). The width covers, and is above the exact one by
  less than 1 % at usual confidences.
- `CHERNOFF`: where a miss is asked for that is smaller than rounding allows, Chernoff's bound from
  the exact moment generating functions.
"""

import dataclasses
import functools
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING

from aggregator.dp.certified import to_float
from aggregator.dp.laws import NoiseLaw
from aggregator.dp.utility import half_width_of
from aggregator.errors import ParameterError

if TYPE_CHECKING:
    from aggregator.dp.spectrum import Floats

_TABLE = 2**16
"""The longest table of probabilities."""

_DEGREE = 2**13
_LEAST_DEGREE = 2**10
_EVALUATIONS = 2**21
"""The most values of characteristic functions that are computed for a width, except that each gets
the least degree."""

_MISS_OF_WRAPPING = 1e-6
"""The part of the miss that is set aside for values that wrap around the circle."""

_HIGHEST_CONFIDENCE = 1 - Fraction(1, 10**100)

_STEPS = 20
"""Steps of the bisection for a smoothed width, to a millionth of the circle."""


class Method(StrEnum):
    """How an interval was found, as results name it."""

    NONE = "no noise"
    EXACT = "exact law"
    SMOOTHED = "exact law, edges smoothed outwards"
    CHERNOFF = "Chernoff's bound"


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """`count` independent draws of one law with a coefficient of size `weight`.

    Every law is symmetric, so the size, above 0, says all.
    """

    law: NoiseLaw
    weight: Fraction
    count: int

    @property
    def draws(self) -> int:
        """How many draws of single aggregators."""
        return self.count * self.law.aggregators


@dataclasses.dataclass(frozen=True, slots=True)
class Width:
    """How far noise reaches with a stated probability, and how that was found."""

    size: Fraction
    method: Method


@dataclasses.dataclass(frozen=True, slots=True)
class SumLaw:
    """The law of a sum of independent noise, each with an exact coefficient.

    Parts are in a fixed order, no two of one law and weight.
    """

    parts: tuple[Part, ...]

    @classmethod
    def of(cls, terms: Iterable[tuple[NoiseLaw, int | Fraction]]) -> "SumLaw":
        """Return the law of the sum of coefficient times noise."""
        listed = list(terms)
        if len(listed) == 1:
            # One draw, as in most values that are shown.
            ((law, weight),) = listed
            return cls((Part(law, abs(Fraction(weight)), 1),) if weight else ())
        # By identity first: to hash a fraction, and still more a law, costs more than all else if
        # there are many terms. The list keeps them, so that nothing else has their identity.
        laws = {id(law): law for law, _ in listed}
        weights = {id(weight): weight for _, weight in listed}
        alike = Counter([(id(law), id(weight)) for law, weight in listed])
        equal: dict[NoiseLaw, NoiseLaw] = {}
        if len(laws) > 1:
            laws = {key: equal.setdefault(law, law) for key, law in laws.items()}
        counts: Counter[tuple[int, int | Fraction]] = Counter()
        for (law_id, weight_id), count in alike.items():
            weight = weights[weight_id]
            counts[id(laws[law_id]), weight if weight >= 0 else -weight] += count
        by_identity = {id(law): law for law in laws.values()}
        return cls._ordered(
            Part(by_identity[law_id], Fraction(size), count)
            for (law_id, size), count in counts.items()
            if size
        )

    @classmethod
    def counted(cls, counts: Mapping[tuple[NoiseLaw, Fraction], int]) -> "SumLaw":
        """Return the law of a sum from how often each law and size of coefficient is in it."""
        return cls._ordered(
            Part(law, weight, count) for (law, weight), count in counts.items() if weight and count
        )

    @classmethod
    def _ordered(cls, parts: Iterable[Part]) -> "SumLaw":
        ordered = sorted(parts, key=lambda part: part.weight)
        if len({id(part.law) for part in ordered}) > 1:
            ordered.sort(key=lambda part: (part.weight, repr(part.law)))
        return cls(tuple(ordered))

    def variance(self) -> float:
        """Return the variance of the sum."""
        return sum(
            float(part.weight) ** 2 * part.count * _variance(part.law) for part in self.parts
        )

    def width(self, confidence: Fraction) -> Width:
        """Return a width that the sum stays within with at least this probability.

        Raises `ParameterError` if the confidence is not above 0 and at most 1 - 10^-100.
        """
        check_confidence(confidence)
        return _width(self, confidence)

    def chernoff_width(self, confidence: Fraction) -> Fraction:
        """Return a width that is quickly found, and at most about half above the exact one."""
        check_confidence(confidence)
        return _chernoff_width(self, confidence)

    def reach(self) -> Fraction | None:
        """Return the largest size of the sum, if there is one."""
        total = Fraction(0)
        for part in self.parts:
            largest = part.law.largest_draw
            if largest is None:
                return None
            total += part.weight * part.draws * largest
        return total


def check_confidence(confidence: object) -> None:
    """Refuse anything but an exact probability above 0 and at most 1 - 10^-100."""
    if not isinstance(confidence, Fraction) or not 0 < confidence <= _HIGHEST_CONFIDENCE:
        raise ParameterError(
            f"confidence must be a Fraction above 0 and at most 1 - 10^-100, not {confidence!r}"
        )


@functools.lru_cache(maxsize=4096)
def _width(law: SumLaw, confidence: Fraction) -> Width:
    if not law.parts:
        return Width(Fraction(0), Method.NONE)
    if len(law.parts) == law.parts[0].count == 1:
        (part,) = law.parts
        return Width(part.weight * half_width_of(part.law, confidence), Method.EXACT)
    miss = float(1 - confidence)
    unit = _common_unit(part.weight for part in law.parts)
    reach = math.ceil(_chernoff(law, miss * _MISS_OF_WRAPPING) / unit) + 1
    found = _convolved(law, unit, reach, miss) if 2 * reach <= _TABLE else None
    if found is None:
        found = _smoothed(law, unit, reach, miss)
    if found is None:
        found = Width(_chernoff(law, miss), Method.CHERNOFF)
    largest = law.reach()
    return found if largest is None else dataclasses.replace(found, size=min(found.size, largest))


@functools.lru_cache(maxsize=4096)
def _chernoff_width(law: SumLaw, confidence: Fraction) -> Fraction:
    return _chernoff(law, float(1 - confidence)) if law.parts else Fraction(0)


def _convolved(law: SumLaw, unit: Fraction, reach: int, miss: float) -> Width | None:
    """Return the least width by the table of all probabilities; None if rounding forbids it.

    In units the sum is an integer T with P(|T| >= `reach`) below `_MISS_OF_WRAPPING` of the miss,
    so on a circle of 2 `reach` points or more P(|T| > h) is at most what lies beyond h there and
    that.
    """
    import numpy as np

    from aggregator.dp.spectrum import UNIT_ROUNDOFF

    length = 1 << (2 * reach - 1).bit_length()
    steps = np.arange(length // 2 + 1)
    values, errors = np.ones(len(steps)), np.zeros(len(steps))
    for part in law.parts:
        turns = steps * (int(part.weight / unit) % length) % length
        places = np.minimum(turns, length - turns)
        own, off = _around(part.law, length)
        values, errors = _multiplied(values, errors, part.draws, own[places], off[places])
    table = np.fft.irfft(values, length)
    # Of the transform: 16 units in each of its log2(length) passes, as it keeps the 2-norm, which
    # is at most 1; the sum of `length` entries is at most sqrt(length) times the norm, which for
    # the errors of `values` is that of the errors (twice, for both signs), over sqrt(length).
    rounding = 16 * UNIT_ROUNDOFF * math.log2(length) * math.sqrt(length)
    rounding += math.sqrt(2) * float(np.linalg.norm(errors)) + length * UNIT_ROUNDOFF
    if rounding > miss * _MISS_OF_WRAPPING:
        return None
    # beyond[h] is P(|T| > h) on the circle, added up from the far end.
    pairs = table[1 : length // 2] + table[: length // 2 : -1]
    beyond = np.cumsum(np.append(pairs, table[length // 2])[::-1])[::-1]
    within = np.flatnonzero(beyond <= miss * (1 - 2 * _MISS_OF_WRAPPING))
    return Width(int(within[0]) * unit, Method.EXACT)


def _smoothed(law: SumLaw, unit: Fraction, reach: int, miss: float) -> Width | None:
    """Return a width by a minorant; None if rounding or its degree forbids so small a miss."""
    import numpy as np

    from aggregator.collector.results.minorant import Minorant

    degree = max(_LEAST_DEGREE, min(_DEGREE, _EVALUATIONS // len(law.parts)))
    length = 2.0 * reach
    values, errors = np.ones(degree), np.zeros(degree)
    steps = np.arange(1, degree + 1, dtype=np.float64) * (2 * math.pi / length)
    for part in law.parts:
        own, off = part.law.characteristic(steps * float(part.weight / unit))
        values, errors = _multiplied(values, errors, part.draws, own, off)
    minorant = Minorant(values, errors, length)
    least = 1 - miss * (1 - _MISS_OF_WRAPPING)
    low, high = 0.0, float(reach)
    if minorant.within(high) < least:
        return None
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if minorant.within(middle) >= least:
            high = middle
        else:
            low = middle
    # T is an integer, so it is within `high` if and only if it is within its whole part.
    return Width(math.floor(high) * unit, Method.SMOOTHED)


def _multiplied(
    values: "Floats", errors: "Floats", draws: int, own: "Floats", off: "Floats"
) -> "tuple[Floats, Floats]":
    """Return a product with a characteristic function for each draw, and its errors.

    With |x - x'| <= d and |y - y'| <= e, |x y - x' y'| <= |x| e + |y| d + d e; and |z^m - z'^m| is
    at most (|z| + e)^m - |z|^m, which is at most m e (|z| + e)^(m - 1).
    """
    import numpy as np

    from aggregator.dp.spectrum import UNIT_ROUNDOFF

    power = own**draws
    largest = (np.abs(own) + off) ** (draws - 1)
    error = draws * off * largest + 16 * UNIT_ROUNDOFF * np.abs(power)
    return values * power, np.abs(values) * error + np.abs(power) * errors + errors * error


@functools.lru_cache(maxsize=16)
def _around(law: NoiseLaw, length: int) -> "tuple[Floats, Floats]":
    """Return the characteristic function and its errors at each of the points of half a circle."""
    import numpy as np

    return law.characteristic(2 * math.pi * (np.arange(length // 2 + 1) / length))


def _chernoff(law: SumLaw, miss: float) -> Fraction:
    """Return x with P(|S| >= x) <= 2 e^(ln E e^(r S) - r x) <= miss, for the best r tried."""
    import numpy as np

    log = math.log(2 / miss)
    size = math.sqrt(
        sum(float(part.weight * part.law.spread()) ** 2 * part.draws for part in law.parts)
    )
    steepest = min(part.law.steepest_rate() / float(part.weight) for part in law.parts)
    rates = math.sqrt(2 * log) / size * 2.0 ** (np.arange(-32, 33) / 8)
    if steepest < math.inf:
        rates = np.append(rates[rates < steepest * 0.99], steepest * (1 - 2.0 ** -np.arange(1, 12)))
    moments = np.zeros(len(rates))
    for part in law.parts:
        moments += part.draws * part.law.log_moment(rates * float(part.weight))
    # Rounding is far below the billionth that is added.
    return Fraction(float(np.min((moments + log) / rates)) * (1 + 1e-9))


def _common_unit(weights: Iterable[Fraction]) -> Fraction:
    """Return the largest rational of which all weights are multiples."""
    numerator, denominator = 0, 1
    for weight in weights:
        numerator = math.gcd(numerator * weight.denominator, weight.numerator * denominator)
        denominator *= weight.denominator
        common = math.gcd(numerator, denominator)
        numerator, denominator = numerator // common, denominator // common
    return Fraction(numerator, denominator)


@functools.lru_cache(maxsize=1024)
def _variance(law: NoiseLaw) -> float:
    return to_float(law.variance())
