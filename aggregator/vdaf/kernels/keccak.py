"""TurboSHAKE128 of many messages side by side (RFC 9861).

The sponge's state is 25 words. Here it is a lane array, `uint64[25, lanes]`: one state per lane,
all advanced by one permutation. All messages of a batch have the same size, so no lane waits.

Source: RFC 9861, "TurboSHAKE"; FIPS 202, "Keccak-p Permutations".
"""

import numpy as np

from aggregator.vdaf.kernels.sponge import (
    RATE_SIZE,
    RATE_WORDS,
    ROTATIONS,
    ROUND_CONSTANTS,
    ROUNDS,
    STATE_WORDS,
    turboshake128_on_arrays,
)
from field.lanes import (
    Bytes,
    Code,
    KernelMissing,
    LaneArray,
    LaneWidth,
    Place,
    Word,
    copy_rows,
    is_looking,
    kernel,
    lane_width,
    new_lane_array,
    operation,
    rows_to_words,
    words_to_rows,
    xor_words,
)


@operation
def permute(code: Code, state: Place) -> None:
    """Apply Keccak-p[1600, 12] to the state in every lane."""
    words = code.variables(state.load_many(STATE_WORDS))
    constants = code.table("keccak_round_constants", ROUND_CONSTANTS)
    # A loop, not twelve copies: unrolled, it takes LLVM ten seconds to compile and gains nothing.
    for index in code.repeat(ROUNDS):
        constant = constants.moved(index).load()
        words.store_many(_round(words.load_many(), constant))
    state.store_many(words.load_many())


def _round(a: list[Word], constant: Word) -> list[Word]:
    """Return the state after steps theta, rho, pi, chi and iota."""
    columns = [a[x] ^ a[x + 5] ^ a[x + 10] ^ a[x + 15] ^ a[x + 20] for x in range(5)]
    parity = [columns[(x - 1) % 5] ^ columns[(x + 1) % 5].rotate_left(1) for x in range(5)]
    b = list(a)
    for x in range(5):
        for y in range(5):
            rotated = (a[x + 5 * y] ^ parity[x]).rotate_left(ROTATIONS[x + 5 * y])
            b[y + 5 * ((2 * x + 3 * y) % 5)] = rotated
    result = [
        b[x + 5 * y] ^ (~b[(x + 1) % 5 + 5 * y] & b[(x + 2) % 5 + 5 * y])
        for y in range(5)
        for x in range(5)
    ]
    result[0] = result[0] ^ constant
    return result


def turboshake128(
    messages: Bytes, domain: int, output_size: int, *, width: LaneWidth | None = None
) -> Bytes:
    """Return the first `output_size` bytes of TurboSHAKE128 of each message.

    Args:
        messages: `uint8[num_messages, message_size]`; any number of rows.
        domain: The domain separation byte, 0x01 to 0x7F.
        output_size: Bytes of output per message.
        width: The lanes; by default as many as the processor has.

    Returns:
        `uint8[num_messages, output_size]`.

    Source:
        RFC 9861, "TurboSHAKE".
    """
    if width is not None:
        return _on_lanes(messages, domain, output_size, width)
    try:
        return _on_lanes(messages, domain, output_size, lane_width())
    except KernelMissing:
        if is_looking():
            raise
        return turboshake128_on_arrays(messages, domain, output_size)


def _on_lanes(messages: Bytes, domain: int, output_size: int, width: LaneWidth) -> Bytes:
    lanes, num_messages = len(width), len(messages)
    out = np.empty((num_messages, output_size), np.uint8)
    state, block = new_state(lanes), np.zeros((lanes, RATE_SIZE), np.uint8)
    whole = num_messages - num_messages % lanes
    _turboshake128(width, np.ascontiguousarray(messages[:whole]), domain, out, state, block)
    if whole < num_messages:
        # Lanes without a message of their own repeat the last one.
        rows = np.minimum(np.arange(whole, whole + lanes), num_messages - 1)
        rest = np.empty((lanes, output_size), np.uint8)
        _turboshake128(width, messages[rows], domain, rest, state, block)
        out[whole:] = rest[: num_messages - whole]
    return out


def new_state(lanes: int) -> LaneArray:
    """Return scratch for the kernels here: the state, and a block on its way in."""
    return new_lane_array(STATE_WORDS + RATE_WORDS, lanes)


@kernel
def _turboshake128(
    width: LaneWidth, messages: Bytes, domain: int, out: Bytes, state: LaneArray, block: Bytes
) -> None:
    """Fill `out`; the number of messages is a multiple of the number of lanes."""
    num_messages, message_size = messages.shape
    output_size = out.shape[1]
    for first in range(0, num_messages, len(width)):
        state[:STATE_WORDS] = 0
        source = first * message_size
        for start in range(0, message_size + 1, RATE_SIZE):
            size = min(RATE_SIZE, message_size - start)
            if size == RATE_SIZE:
                absorb_block(width, state, messages, source + start, message_size)
            else:
                pad_block(width, block, messages, source + start, message_size, size, domain)
                absorb_block(width, state, block, 0, RATE_SIZE)
        for start in range(0, output_size, RATE_SIZE):
            size = min(RATE_SIZE, output_size - start)
            if start > 0:
                permute(width, state)
            words_to_rows(
                width, out, first * output_size + start, output_size, state, 0, size, block
            )


@kernel
def pad_block(
    width: LaneWidth,
    block: Bytes,
    messages: Bytes,
    first_byte: int,
    stride: int,
    size: int,
    domain: int,
) -> None:
    """Set `block` to each lane's last 0 to 167 message bytes and their padding."""
    block[:] = 0
    copy_rows(width, (block, 0), RATE_SIZE, (messages, first_byte), stride, size)
    for lane in range(len(width)):
        block[lane, size] = domain
        block[lane, RATE_SIZE - 1] ^= 0x80


@kernel
def absorb_block(
    width: LaneWidth, state: LaneArray, rows: Bytes, first_byte: int, stride: int
) -> None:
    """Absorb 168 bytes per lane, from `first_byte + lane * stride` of `rows`, and permute."""
    rows_to_words(width, state, STATE_WORDS, rows, first_byte, stride, RATE_WORDS)
    xor_words(width, state, (state, STATE_WORDS), RATE_WORDS)
    permute(width, state)
