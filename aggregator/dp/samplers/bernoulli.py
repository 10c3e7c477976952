"""Many exact Bernoulli draws at once, in time that does not depend on their outcomes.

A *row* is a probability p, a *column* one draw of every row. The outcome is U < p for U uniform on
[0, 1). The first 32 bits of U are one word of keystream. They decide unless they equal the first 32
bits of p: a tie, once in 2^32. A second pass then decides with 64 more bits. Every block takes that
pass for the same number of columns: the tied ones, filled up with a spare column whose outcome
nobody reads. Work depends on the outcomes only

- if more than `_SLOTS` columns of a block tie: a block makes at most 2^22 comparisons, so ties are
  at most Poisson-like with mean 2^-10, and nine of them have a probability below 2^-90 / 9!;
- if the 64 bits tie as well: below 2^-64 for each column of the second pass.

Then Python integers settle the outcome with as many bits as it takes. Nothing is rounded: the
probabilities are reals known to any number of digits, and no floating point is involved.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from aggregator.dp.certified import Enclosed, binary_digits
from field.lanes import allocating_kernel, with_plain

LIMB_BITS = 32
"""Outcomes are packed in 32-bit limbs: row r is bit r % 32 of limb r // 32."""

_BLOCK_COLUMNS = 4096
_BLOCK_COMPARISONS = 2**22
_SLOTS = 8
_CHUNK = 1024

_WORD_BITS = 32
_EXTENSION_BITS = 64


class Bits(Protocol):
    """A source of uniform bits, as `Keystream`."""

    def fill(self, size: int) -> NDArray[np.uint8]:
        """Return the next `size` bytes; they are overwritten by the next call."""

    def integer(self, size: int) -> int:
        """Return the next `size` bytes as an integer."""


class BernoulliRows:
    """Independent Bernoulli variables, one per row, drawn many columns at a time.

    Args:
        probabilities: Reals strictly between 0 and 1, none with a power of two as its denominator
            (e^x at rational x other than 0 is never rational).
    """

    __slots__ = ("_high", "_low", "_probabilities", "num_limbs")

    def __init__(self, probabilities: Sequence[Enclosed]) -> None:
        self._probabilities = tuple(probabilities)
        self.num_limbs = -(-len(self._probabilities) // LIMB_BITS)
        bounds = [binary_digits(p, _WORD_BITS + _EXTENSION_BITS) for p in self._probabilities]
        self._high = np.array([bound >> _EXTENSION_BITS for bound in bounds], np.uint32)
        self._low = np.array([bound % 2**_EXTENSION_BITS for bound in bounds], np.uint64)

    def draw(self, count: int, stream: Bits) -> NDArray[np.uint32]:
        """Return the outcomes of `count` columns, packed.

        Returns:
            Shape `(num_limbs, count)`; see `LIMB_BITS`.
        """
        outcomes = np.empty((self.num_limbs, count), np.uint32)
        columns = max(1, min(_BLOCK_COLUMNS, _BLOCK_COMPARISONS // len(self._probabilities)))
        for start in range(0, count, columns):
            stop = min(start + columns, count)
            outcomes[:, start:stop] = self._draw_block(stop - start, stream)
        return outcomes

    def _draw_block(self, columns: int, stream: Bits) -> NDArray[np.uint32]:
        """Return the outcomes of one block of columns."""
        rows = len(self._probabilities)
        outcomes = np.zeros((self.num_limbs, columns), np.uint32)
        extension_size = rows * _SLOTS * 8
        data = stream.fill(extension_size + rows * (columns + 1) * 4)
        extensions = data[:extension_size].view(np.uint64).reshape(_SLOTS, rows)
        words = data[extension_size:].view(np.uint32).reshape(rows, columns + 1)
        ties = np.zeros(columns, np.uint32)
        slots = np.full(_SLOTS + 1, columns, np.int64)
        num_tied, is_settled = _compared(
            words, extensions, self._high, self._low, outcomes, ties, slots
        )
        if num_tied > _SLOTS or not is_settled:
            # `words` is the stream's buffer: copy what is needed before drawing more bits.
            tied = np.flatnonzero(ties)
            prefixes = [
                [
                    (int(words[row, column]), _WORD_BITS)
                    if slot >= _SLOTS
                    else (int(words[row, column]) << 64 | int(extensions[slot, row]), 96)
                    for row in range(rows)
                ]
                for slot, column in enumerate(tied)
            ]
            for column, column_prefixes in zip(tied, prefixes, strict=True):
                self._settle_column(outcomes[:, column], column_prefixes, stream)
        return outcomes

    def _settle_column(
        self, outcomes: NDArray[np.uint32], prefixes: Sequence[tuple[int, int]], stream: Bits
    ) -> None:
        """Overwrite one column's outcomes, given the bits of each row drawn so far."""
        outcomes[:] = 0
        for row, (prefix, num_bits) in enumerate(prefixes):
            if settle(self._probabilities[row], stream, prefix, num_bits):
                outcomes[row // LIMB_BITS] |= np.uint32(1 << row % LIMB_BITS)


def settle(probability: Enclosed, stream: Bits, prefix: int = 0, num_bits: int = 0) -> bool:
    """Return one exact Bernoulli draw whose uniform number begins with `num_bits` given bits.

    Post-condition:
        True with probability p, if the given bits are uniform.
    """
    while True:
        bound = binary_digits(probability, num_bits)
        if prefix != bound:
            return prefix < bound
        prefix = prefix << _EXTENSION_BITS | stream.integer(_EXTENSION_BITS // 8)
        num_bits += _EXTENSION_BITS


@allocating_kernel
def _compare(
    words: NDArray[np.uint32],
    extensions: NDArray[np.uint64],
    high: NDArray[np.uint32],
    low: NDArray[np.uint64],
    outcomes: NDArray[np.uint32],
    ties: NDArray[np.uint32],
    slots: NDArray[np.int64],
) -> tuple[int, bool]:
    """Compare every word with its row's bound, then `_SLOTS` columns again with 64 more bits.

    Args:
        words: Shape `(rows, columns + 1)`; the last column is the spare one.
        extensions: Shape `(_SLOTS, rows)`.
        high: The first 32 bits of each row's probability.
        low: The next 64 bits.
        outcomes: Receives the packed outcomes, shape `(limbs, columns)`; zero before.
        ties: Receives a nonzero value where a column tied; zero before.
        slots: Receives the tied columns; filled with `columns`, the spare one, before.

    Returns:
        How many columns tied, and whether the second pass settled all that it was given.
    """
    rows = words.shape[0]
    columns = outcomes.shape[1]
    fours = rows - rows % 4
    none, one = np.uint32(0), np.uint32(1)
    for start in range(0, columns, _CHUNK):
        # Slices indexed from 0, because only those are compiled to vector instructions.
        stop = min(start + _CHUNK, columns)
        tied = ties[start:stop]
        # Four rows at a time share a limb, so that outcomes are loaded and stored less often.
        for row in range(0, fours, 4):
            limb = outcomes[row >> 5, start:stop]
            bit0, bit1 = one << np.uint32(row & 31), one << np.uint32(row + 1 & 31)
            bit2, bit3 = one << np.uint32(row + 2 & 31), one << np.uint32(row + 3 & 31)
            bound0, bound1, bound2, bound3 = high[row], high[row + 1], high[row + 2], high[row + 3]
            line0, line1 = words[row, start:stop], words[row + 1, start:stop]
            line2, line3 = words[row + 2, start:stop], words[row + 3, start:stop]
            for column in range(stop - start):
                word0, word1 = line0[column], line1[column]
                word2, word3 = line2[column], line3[column]
                below = bit0 if word0 < bound0 else none
                below |= bit1 if word1 < bound1 else none
                below |= bit2 if word2 < bound2 else none
                below |= bit3 if word3 < bound3 else none
                limb[column] |= below
                is_low_tie = (word0 == bound0) | (word1 == bound1)
                is_high_tie = (word2 == bound2) | (word3 == bound3)
                tied[column] |= one if is_low_tie | is_high_tie else none
        for row in range(fours, rows):
            limb, line = outcomes[row >> 5, start:stop], words[row, start:stop]
            bound, bit = high[row], one << np.uint32(row & 31)
            for column in range(stop - start):
                limb[column] |= bit if line[column] < bound else none
                tied[column] |= one if line[column] == bound else none
    num_tied = 0
    for column in range(columns):
        # Always written, but kept only if the column tied: no branch.
        slots[min(num_tied, _SLOTS)] = column
        num_tied += int(ties[column])
    slots[min(num_tied, _SLOTS)] = columns
    spare = np.zeros(outcomes.shape[0], np.uint32)
    is_settled = True
    for slot in range(_SLOTS):
        column = slots[slot]
        is_spare = column == columns
        target = spare if is_spare else outcomes[:, column]
        for limb_index in range(outcomes.shape[0]):
            target[limb_index] = np.uint32(0)
        for row in range(rows):
            word = words[row, column]
            is_tie = word == high[row]
            extension = extensions[slot, row]
            is_success = (word < high[row]) | (is_tie & (extension < low[row]))
            target[row >> 5] |= np.uint32(is_success) << np.uint32(row & 31)
            is_settled &= is_spare | (not (is_tie & (extension == low[row])))
    return num_tied, is_settled


def _compare_plainly(
    words: NDArray[np.uint32],
    extensions: NDArray[np.uint64],
    high: NDArray[np.uint32],
    low: NDArray[np.uint64],
    outcomes: NDArray[np.uint32],
    ties: NDArray[np.uint32],
    slots: NDArray[np.int64],
) -> tuple[int, bool]:
    """Do what `_compare` does, on whole arrays and without a compiler."""
    rows, columns = words.shape[0], outcomes.shape[1]
    for row in range(rows):
        line, bit = words[row, :columns], np.uint32(1 << row % LIMB_BITS)
        outcomes[row // LIMB_BITS] |= (line < high[row]) * bit
        ties |= line == high[row]
    tied = np.flatnonzero(ties)
    slots[: min(len(tied), _SLOTS)] = tied[:_SLOTS]
    slots[min(len(tied), _SLOTS) :] = columns
    # The second pass, over as many columns however many tied.
    chosen = words[:, slots[:_SLOTS]]
    is_tie, extension = chosen == high[:, None], extensions.T
    is_success = (chosen < high[:, None]) | (is_tie & (extension < low[:, None]))
    packed = np.zeros((len(outcomes), _SLOTS), np.uint32)
    for row in range(rows):
        packed[row // LIMB_BITS] |= is_success[row] * np.uint32(1 << row % LIMB_BITS)
    # The spare column is one beyond the outcomes.
    with_spare = np.concatenate([outcomes, packed[:, :1]], axis=1)
    with_spare[:, slots[:_SLOTS]] = packed
    outcomes[:] = with_spare[:, :columns]
    is_open = is_tie & (extension == low[:, None]) & (slots[:_SLOTS] != columns)
    return len(tied), not is_open.any()


_compared = with_plain(_compare, _compare_plainly)
