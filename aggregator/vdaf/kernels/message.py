"""XOF messages that go straight into the sponge: constant words, and blanks filled in.

An XOF message is the same for all reports except for a few words: seeds or a nonce. Its constant
part is a table of words, padding included, in which the blank is zero. What fills the blank is
brought into lanes, shifted to the byte at which the blank begins, and added to the sponge's state,
so no such message is ever in memory as a whole.

Source:
    VDAF, "XofTurboShake128".
"""

import numpy as np

from aggregator.vdaf.kernels.keccak import permute
from aggregator.vdaf.kernels.sponge import RATE_SIZE, RATE_WORDS, STATE_WORDS
from aggregator.vdaf.seeds import SEED_SIZE
from aggregator.vdaf.xof import TURBOSHAKE_DOMAIN
from field.lanes import (
    WORD_SIZE,
    Bytes,
    Code,
    Integer,
    LaneArray,
    LaneWidth,
    Place,
    Scalars,
    Table,
    inlined,
    operation,
    rows_to_words,
    xor_words,
)


def seed_start(dst: bytes) -> int:
    """Return the byte of a message at which the seed begins: after two lengths and the tag."""
    return 3 + len(dst)


def message_words(dst: bytes, binder: bytes) -> Table:
    """Return a padded message as words; the seed is blank, and zeros in the binder may be."""
    message = _message(dst, binder) + bytes([TURBOSHAKE_DOMAIN])
    padded = bytearray(message.ljust(-(-len(message) // RATE_SIZE) * RATE_SIZE, b"\0"))
    padded[-1] ^= 0x80
    return np.frombuffer(bytes(padded), np.uint64)


def head_words(dst: bytes, binder: bytes) -> tuple[Table, int]:
    """Return the head of a message that goes on with words in lanes, and its size in bytes.

    There is no padding; zeros fill up the last word.
    """
    head = _message(dst, binder)
    words = head.ljust(-(-len(head) // WORD_SIZE) * WORD_SIZE, b"\0")
    return np.frombuffer(words, np.uint64), len(head)


def _message(dst: bytes, binder: bytes) -> bytes:
    """Return a message whose seed is zero."""
    return len(dst).to_bytes(2, "little") + dst + bytes([SEED_SIZE]) + bytes(SEED_SIZE) + binder


def with_seed(message: Table, start: int, seed: bytes) -> Table:
    """Return a message with the same seed for all reports, at byte `start`."""
    blank = message.tobytes()
    return np.frombuffer(blank[:start] + seed + blank[start + SEED_SIZE :], np.uint64)


@inlined
def gather(width: LaneWidth, blank: LaneArray, rows: Bytes, first: int, count: int) -> None:
    """Bring the first `count` words of the rows from `first` on, one row per lane, into `blank`."""
    stride = rows.shape[1]
    rows_to_words(width, blank, 0, rows, first * stride, stride, count)


@inlined
def absorb_rows(
    width: LaneWidth,
    sponge: LaneArray,
    message: Table,
    start: int,
    blank: LaneArray,
    rows: Bytes,
    first: int,
    count: int,
) -> None:
    """Absorb a message whose blank the rows from `first` on fill; see `absorb_filled`."""
    gather(width, blank, rows, first, count)
    absorb_filled(width, sponge, message, start, blank, count)


@inlined
def absorb_filled(
    width: LaneWidth, sponge: LaneArray, message: Table, start: int, blank: LaneArray, count: int
) -> None:
    """Absorb a message with one blank; its stream begins in the state.

    Args:
        width: The number of lanes.
        sponge: Its first rows are the state.
        message: From `message_words`.
        start: The byte at which the blank begins.
        blank: What fills it, in the first `count` rows; shifting it in place takes one row more.
        count: Words of the blank.
    """
    shift_words(width, blank, count, 8 * (start % WORD_SIZE))
    first_word = start // WORD_SIZE
    for block in range(0, message.shape[0], RATE_WORDS):
        if block == 0:
            begin_state(width, sponge, message)
        else:
            add_constants(width, sponge, (message, block))
        begin = max(first_word, block)
        end = min(first_word + count + 1, block + RATE_WORDS)
        if begin < end:
            xor_words(width, (sponge, begin - block), (blank, begin - first_word), end - begin)
        permute(width, sponge)


@inlined
def fill_head(width: LaneWidth, head: LaneArray, start: int, blank: LaneArray, count: int) -> None:
    """Fill the blank at byte `start` of a head in lanes; see `absorb_filled`."""
    shift_words(width, blank, count, 8 * (start % WORD_SIZE))
    xor_words(width, (head, start // WORD_SIZE), blank, count + 1)


@operation
def set_words(code: Code, out: Place, constants: Scalars, count: Integer) -> None:
    """Set `count` words to constants, the same in all lanes."""
    for index in code.repeat(count):
        out.moved(index).store(constants.moved(index).load())


@operation
def shift_words(code: Code, words: Place, count: Integer, shift: Integer) -> None:
    """Shift `count` words, as one number, left by 0 to 56 bits into `count + 1` words."""
    left = code.in_every_lane(shift)
    # A shift by 64 is undefined, so one by 64 - shift is done as two, by 1 and by 63 - shift.
    right = code.constant(63) - left
    carried = code.variables([code.constant(0)])
    for index in code.repeat(count):
        place = words.moved(index)
        word = place.load()
        place.store(carried.load_many()[0] | (word << left))
        carried.store_many([word.logical_right(1).logical_right(right)])
    words.moved(count).store(carried.load_many()[0])


@operation
def begin_state(code: Code, state: Place, constants: Scalars) -> None:
    """Set the state to the first block of a message, the same in all lanes."""
    state.store_many(constants.load_many(RATE_WORDS))
    capacity = STATE_WORDS - RATE_WORDS
    state.moved(RATE_WORDS).store_many([code.constant(0)] * capacity)


@operation
def add_constants(_code: Code, state: Place, constants: Scalars) -> None:
    """Add a block, the same in all lanes, to the state."""
    words = zip(state.load_many(RATE_WORDS), constants.load_many(RATE_WORDS), strict=True)
    state.store_many([word ^ constant for word, constant in words])
