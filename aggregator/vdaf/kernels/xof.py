"""The XOF inside fused kernels: words of lane arrays absorbed, and output kept as words in lanes.

`aggregator.vdaf.xof` computes the same function for everything else. `kernels.message` has the
messages that are the same for all reports except for a blank. The one message here is *open*: after
its head comes a measurement share, which is in lanes. Streams stay in a lane array, ready for field
arithmetic.

Source:
    VDAF, "XofTurboShake128".
"""

from aggregator.vdaf.kernels.keccak import permute
from aggregator.vdaf.kernels.sponge import RATE_WORDS, STATE_WORDS
from field.lanes import Code, Integer, LaneArray, LaneWidth, Place, copy_words, kernel, operation

BEFORE = STATE_WORDS
"""Row of a sponge, after the state: the last word, whose top bits a shift moves into the next."""

SPONGE_ROWS = BEFORE + 1

LAST_PADDING = -(1 << 63)
"""The bit that ends the padding, in the last word of a block, as a signed word."""


@kernel
def squeeze_words(
    width: LaneWidth, sponge: LaneArray, out: LaneArray, out_row: int, count: int
) -> None:
    """Write the first `count` words of the stream to `out`."""
    for start in range(0, count, RATE_WORDS):
        if start > 0:
            permute(width, sponge)
        copy_words(width, (out, out_row + start), sponge, min(RATE_WORDS, count - start))


@kernel
def begin_open(width: LaneWidth, sponge: LaneArray, head: LaneArray, whole: int, shift: int) -> int:
    """Absorb `whole` words, and return the position after them.

    If the head has a few more bytes, all that follows is shifted by `shift`, their size in bits, to
    come after them.
    """
    sponge[:] = 0
    position = absorb_words(width, sponge, 0, head, 0, whole, 0)
    if shift:
        shift_left(width, (sponge, BEFORE), (head, whole), 64 - shift)
    return position


@kernel
def end_open(width: LaneWidth, sponge: LaneArray, position: int, domain: int, shift: int) -> None:
    """Absorb the padding at word `position`; the stream begins in the state."""
    xor_last(width, (sponge, position), (sponge, BEFORE), domain, shift)
    add_constant(width, (sponge, RATE_WORDS - 1), LAST_PADDING)
    permute(width, sponge)


@kernel
def absorb_words(
    width: LaneWidth,
    sponge: LaneArray,
    position: int,
    words: LaneArray,
    row: int,
    count: int,
    shift: int,
) -> int:
    """Absorb `count` words from word `position` of the block on; return the position after them."""
    done = 0
    while done < count:
        size = min(RATE_WORDS - position, count - done)
        xor_shifted(width, (sponge, position), (sponge, BEFORE), (words, row + done), size, shift)
        done += size
        position += size
        if position == RATE_WORDS:
            permute(width, sponge)
            position = 0
    return position


@operation
def xor_shifted(
    code: Code, state: Place, before: Place, words: Place, count: Integer, shift: Integer
) -> None:
    """Add `count` words, shifted left by 0 to 56 bits, to as many of the state's.

    What a shift pushes out of a word goes into the next; `before` is the word before the first, and
    becomes the last.
    """
    left = code.in_every_lane(shift)
    last = code.variables([before.load()])
    for index in code.repeat(count):
        word, place = words.moved(index).load(), state.moved(index)
        place.store(place.load() ^ word.shifted_left_with(last.load_many()[0], left))
        last.store_many([word])
    before.store(last.load_many()[0])


@operation
def xor_last(code: Code, state: Place, before: Place, last: Integer, shift: Integer) -> None:
    """Add the scalar `last` to the state as `xor_shifted` does, after the word `before`."""
    word = code.in_every_lane(last)
    state.store(state.load() ^ word.shifted_left_with(before.load(), code.in_every_lane(shift)))


@operation
def shift_left(code: Code, out: Place, word: Place, shift: Integer) -> None:
    """Set `out` to a word shifted left by 0 to 63 bits."""
    out.store(word.load() << code.in_every_lane(shift))


@operation
def add_constant(code: Code, word: Place, constant: Integer) -> None:
    """Add a scalar to the word of every lane, bit by bit modulo 2."""
    word.store(word.load() ^ code.in_every_lane(constant))
