"""The two-sided geometric distribution by independent binary digits.

Let G be geometric, P(G = g) = (1 - q) q^g with q = e^(-1/t). Its binary digits are independent, and
digit i is 1 with probability 1 / (1 + e^(2^i/t)): P(G = g) factors into q^(2^i) over the digits
set. G div 2^I is independent of the digits below I and counts the successes of
Bernoulli(e^(-2^I/t)) before the first failure. With a sign N that is 1 with probability q / (1 +
q),

    Z = G if N = 0, and -1 - G if N = 1

is discrete Laplace: P(Z = z) = (1-q)/(1+q) q^z for z >= 0, and for z = -1 - g it is
q/(1+q) (1-q) q^g = (1-q)/(1+q) q^|z|. No value is drawn twice, so nothing is rejected.
"""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from aggregator.dp.certified import Enclosed, Enclosure, exp
from aggregator.dp.samplers.bernoulli import LIMB_BITS, BernoulliRows, Bits, settle
from field.lanes import kernel, with_plain

Draws = NDArray[np.int64] | NDArray[np.object_]
"""Integers as `int64` if all of them fit, else as Python integers in an object array."""

_MOST_DIGITS_IN_A_WORD = 62
"""Digits, overflow and sign fill a 64-bit word."""


class TwoSidedGeometric:
    """Rows for digits 0 to `num_digits` - 1 of G, for whether G reaches 2^num_digits, and for N.

    Args:
        scale: t, positive.
        num_digits: I.
        has_tail: Whether G is unbounded; then e^(-2^I/t) must be below 2^-64. If not, the overflow
            row is left out and G is reduced modulo 2^I.
    """

    __slots__ = ("_has_tail", "_num_digits", "_overflow", "_rows")

    def __init__(self, scale: Fraction, num_digits: int, *, has_tail: bool) -> None:
        self._num_digits = num_digits
        self._has_tail = has_tail
        self._overflow = decay(2**num_digits / scale)
        digits = [_odds(2**i / scale) for i in range(num_digits)]
        tail = [self._overflow] if has_tail else []
        self._rows = BernoulliRows([*digits, *tail, _odds(1 / scale)])

    def draw(self, count: int, stream: Bits) -> Draws:
        """Return `count` independent draws of Z."""
        outcomes = self._rows.draw(count, stream)
        if self._num_digits <= _MOST_DIGITS_IN_A_WORD:
            values = np.empty(count, np.int64)
            num_overflows = _folded(outcomes, self._num_digits, int(self._has_tail), values)
            # The probability of an overflow is below 2^-64 per draw.
            return values if num_overflows == 0 else self._unfold(outcomes, stream)
        return self._unfold(outcomes, stream)

    def _unfold(self, outcomes: NDArray[np.uint32], stream: Bits) -> Draws:
        """Return the same values as Python integers, overflows settled."""
        values = []
        for column in range(outcomes.shape[1]):
            packed = sum(
                int(limb) << index * LIMB_BITS for index, limb in enumerate(outcomes[:, column])
            )
            magnitude = packed % 2**self._num_digits
            packed >>= self._num_digits
            if self._has_tail:
                if packed & 1:
                    magnitude += self._successes_after_one(stream) << self._num_digits
                packed >>= 1
            values.append(-1 - magnitude if packed else magnitude)
        return as_array(values)

    def _successes_after_one(self, stream: Bits) -> int:
        successes = 1
        while settle(self._overflow, stream):
            successes += 1
        return successes


def as_array(values: list[int]) -> Draws:
    """Return integers as `int64` if all of them fit, else as Python integers in an object array."""
    if all(-(2**63) <= value < 2**63 for value in values):
        return np.array(values, np.int64)
    array = np.empty(len(values), np.object_)
    array[:] = values
    return array


def decay(rate: Fraction) -> Enclosed:
    """Return e^-rate as a real number."""
    return lambda digits: exp(-rate, digits)


def _odds(rate: Fraction) -> Enclosed:
    """Return 1 / (1 + e^rate) = e^-rate / (1 + e^-rate)."""

    def enclosure(digits: int) -> Enclosure:
        power = exp(-rate, digits)
        return power / (1 + power)

    return enclosure


@kernel
def _fold(
    outcomes: NDArray[np.uint32], num_digits: int, num_tail_rows: int, values: NDArray[np.int64]
) -> int:
    """Turn packed digits, overflow and sign into integers; return how many overflowed."""
    mask = (np.uint64(1) << np.uint64(num_digits)) - np.uint64(1)
    tail_bits = np.uint64(num_tail_rows)
    num_overflows = np.uint64(0)
    two_limbs = outcomes.shape[0] > 1
    for column in range(outcomes.shape[1]):
        packed = np.uint64(outcomes[0, column])
        if two_limbs:
            packed |= np.uint64(outcomes[1, column]) << np.uint64(32)
        rest = packed >> np.uint64(num_digits)
        num_overflows += rest & tail_bits
        sign = rest >> tail_bits
        # -1 - g is the complement of g.
        values[column] = np.int64((packed & mask) ^ (np.uint64(0) - sign))
    return int(num_overflows)


def _fold_plainly(
    outcomes: NDArray[np.uint32], num_digits: int, num_tail_rows: int, values: NDArray[np.int64]
) -> int:
    """Do what `_fold` does, on whole arrays and without a compiler."""
    packed = outcomes[0].astype(np.uint64)
    if len(outcomes) > 1:
        packed |= outcomes[1].astype(np.uint64) << np.uint64(32)
    rest = packed >> np.uint64(num_digits)
    sign = rest >> np.uint64(num_tail_rows)
    magnitude = packed & np.uint64((1 << num_digits) - 1)
    values[:] = (magnitude ^ (np.uint64(0) - sign)).view(np.int64)
    return int((rest & np.uint64(num_tail_rows)).sum())


_folded = with_plain(_fold, _fold_plainly)
