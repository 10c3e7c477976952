"""The XOF inside fused kernels: messages built in place, output kept as words in lanes.

`aggregator.vdaf.xof` computes the same function for everything else. Here a message is a template,
one row a lane, made once for a batch with its padding in place; a kernel writes what differs from
report to report into its columns, absorbs it, and leaves the stream in a lane array, where field
arithmetic finds it.

Source:
    VDAF, "XofTurboShake128".
"""

from typing import NamedTuple

import numpy as np

from aggregator.vdaf.keccak import RATE_SIZE, RATE_WORDS, STATE_WORDS, absorb_block, permute
from aggregator.vdaf.xof import SEED_SIZE, TURBOSHAKE_DOMAIN
from field._jit import LaneWidth, kernel
from field.lanes import (
    Bytes,
    Code,
    Integer,
    LaneArray,
    Place,
    copy_words,
    new_lane_array,
    operation,
    xor_words,
)

CARRY = STATE_WORDS + RATE_WORDS
"""Row of a sponge, after the state and a block, that holds the bytes that fill no word yet."""

SPONGE_ROWS = CARRY + 1

LAST_PADDING = -(1 << 63)
"""The bit that ends the padding, in the last word of a block, as a signed word."""


class Template(NamedTuple):
    """A message of the XOF with blanks.

    Attributes:
        rows: `uint8[lanes, size]`, the padding included unless the message is open.
        seed: The byte at which the seed begins.
        binder: The byte at which the binder begins.
    """

    rows: Bytes
    seed: int
    binder: int


def template(lanes: int, dst: bytes, binder: bytes) -> Template:
    """Return a message whose seed is blank, and whose binder may be blank in part."""
    head = len(dst).to_bytes(2, "little") + dst + bytes([SEED_SIZE])
    message = head + bytes(SEED_SIZE) + binder
    size = (len(message) // RATE_SIZE + 1) * RATE_SIZE
    rows = np.zeros((lanes, size), np.uint8)
    rows[:, : len(message)] = np.frombuffer(message, np.uint8)
    rows[:, len(message)] = TURBOSHAKE_DOMAIN
    rows[:, -1] ^= 0x80
    return Template(rows, len(head), len(head) + SEED_SIZE)


def open_template(lanes: int, dst: bytes, binder: bytes) -> Template:
    """Return the head of a message that goes on with words in lanes: no padding."""
    whole = template(lanes, dst, binder)
    size = whole.binder + len(binder)
    rows = np.zeros((lanes, -(-size // 8) * 8), np.uint8)
    rows[:, :size] = whole.rows[:, :size]
    return whole._replace(rows=rows)


def new_sponge(lanes: int) -> LaneArray:
    """Return scratch for the kernels here."""
    return new_lane_array(SPONGE_ROWS, lanes)


@kernel
def absorb_template(width: LaneWidth, sponge: LaneArray, message: Bytes) -> None:
    """Absorb a whole message, one row of `message` a lane; its stream begins in the state."""
    sponge[:STATE_WORDS] = 0
    for start in range(0, message.shape[1], RATE_SIZE):
        absorb_block(width, sponge, message, start, message.shape[1])


@kernel
def squeeze_words(
    width: LaneWidth, sponge: LaneArray, out: LaneArray, out_row: int, count: int
) -> None:
    """Write the first `count` words of the stream to `out`."""
    for start in range(0, count, RATE_WORDS):
        if start > 0:
            permute(width, sponge, 0)
        copy_words(width, out, out_row + start, sponge, 0, min(RATE_WORDS, count - start))


@kernel
def absorb_open(
    width: LaneWidth,
    sponge: LaneArray,
    head: LaneArray,
    head_size: int,
    words: LaneArray,
    count: int,
    domain: int,
) -> None:
    """Absorb `head_size` bytes a lane from `head`, then `count` words, and the padding.

    Where the head is no whole number of words, the words are shifted: the bytes that fill no word
    yet are carried into the next.
    """
    whole, rest = head_size // 8, 8 * (head_size % 8)
    sponge[:] = 0
    position = absorb_words(width, sponge, 0, head, whole, 0)
    if rest:
        copy_words(width, sponge, CARRY, head, whole, 1)
    position = absorb_words(width, sponge, position, words, count, rest)
    add_constant(width, sponge, CARRY, domain << rest)
    xor_words(width, sponge, position, sponge, CARRY, 1)
    add_constant(width, sponge, RATE_WORDS - 1, LAST_PADDING)
    permute(width, sponge, 0)


@kernel
def absorb_words(
    width: LaneWidth, sponge: LaneArray, position: int, words: LaneArray, count: int, shift: int
) -> int:
    """Absorb `count` words at word `position` of the block, and return the position after them."""
    done = 0
    while done < count:
        size = min(RATE_WORDS - position, count - done)
        xor_shifted(width, sponge, position, sponge, CARRY, words, done, size, shift)
        done += size
        position += size
        if position == RATE_WORDS:
            permute(width, sponge, 0)
            position = 0
    return position


@operation
def xor_shifted(
    code: Code, state: Place, carry: Place, words: Place, count: Integer, shift: Integer
) -> None:
    """Add `count` words, shifted left by 0 to 56 bits, into as many of the state's.

    What a shift pushes out of a word goes into the next, at last into `carry`.
    """
    left = code.in_every_lane(shift)
    # A shift by 64 - 0 is undefined, so 64 - shift is made of two shifts, 1 and 63 - shift.
    right = code.constant(63) - left
    carried = code.variables([carry.load()])
    with code.repeat(count) as index:
        word, place = words.advanced(index).load(), state.advanced(index)
        place.store(place.load() ^ carried.load_many()[0] ^ (word << left))
        carried.store_many([word.logical_right(1).logical_right(right)])
    carry.store(carried.load_many()[0])


@operation
def add_constant(code: Code, word: Place, constant: Integer) -> None:
    """Add a word of the run into the word of every lane, modulo 2 and bit by bit."""
    word.store(word.load() ^ code.in_every_lane(constant))
