"""TurboSHAKE128 of many messages side by side (RFC 9861).

The sponge's state is 25 words; here it is a lane array, `uint64[25, lanes]`, one state a lane, and
one permutation advances all of them. Messages of one batch have one size, so that no lane waits.

Source: RFC 9861, "TurboSHAKE"; FIPS 202, "Keccak-p Permutations".
"""

import numpy as np
import numpy.typing as npt

from field._jit import LaneWidth, kernel, lane_width
from field.lanes import Code, Place, Word, copy_bytes, operation, transpose_in, transpose_out, xor

RATE_SIZE = 168
"""Bytes absorbed or squeezed between two permutations."""

RATE_WORDS = RATE_SIZE // 8
STATE_WORDS = 25
ROUNDS = 12

Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]


def _round_constants() -> list[int]:
    """Return the constants of Keccak-f[1600]'s 24 rounds, from the register that defines them."""
    register, constants = 1, []
    for _ in range(24):
        constant = 0
        for bit in range(7):
            constant |= (register & 1) << ((1 << bit) - 1)
            # x^8 = x^6 + x^5 + x^4 + 1 in this register's field.
            register = register << 1 ^ (0x171 if register & 0x80 else 0)
        constants.append(constant)
    return constants


def _rotations() -> list[int]:
    """Return how far step rho rotates word x + 5y: triangular numbers along the path of pi."""
    rotations = [0] * STATE_WORDS
    x, y = 1, 0
    for step in range(24):
        rotations[x + 5 * y] = (step + 1) * (step + 2) // 2 % 64
        x, y = y, (2 * x + 3 * y) % 5
    return rotations


_ROUND_CONSTANTS = _round_constants()[-ROUNDS:]
_ROTATIONS = _rotations()


@operation
def permute(code: Code, state: Place) -> None:
    """Apply Keccak-p[1600, 12] to the state in every lane."""
    words = code.variables(state.load_many(STATE_WORDS))
    constants = code.table("keccak_round_constants", _ROUND_CONSTANTS)
    # A loop and not twelve copies: unrolled, LLVM takes ten seconds and gains nothing.
    with code.repeat(ROUNDS) as index:
        constant = constants.advanced(index).load()
        words.store_many(_round(words.load_many(), constant))
    state.store_many(words.load_many())


def _round(a: list[Word], constant: Word) -> list[Word]:
    """Return the state after steps theta, rho, pi, chi and iota."""
    columns = [a[x] ^ a[x + 5] ^ a[x + 10] ^ a[x + 15] ^ a[x + 20] for x in range(5)]
    parity = [columns[(x - 1) % 5] ^ columns[(x + 1) % 5].rotate_left(1) for x in range(5)]
    b = list(a)
    for x in range(5):
        for y in range(5):
            rotated = (a[x + 5 * y] ^ parity[x]).rotate_left(_ROTATIONS[x + 5 * y])
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
        messages: `uint8[num_messages, message_size]`, contiguous; any number of rows.
        domain: The domain separation byte, 0x01 to 0x7F.
        output_size: Bytes wanted of each message.
        width: How many lanes; this processor's number by default.

    Returns:
        `uint8[num_messages, output_size]`.

    Source:
        RFC 9861, "TurboSHAKE".
    """
    width = lane_width() if width is None else width
    out = np.empty((messages.shape[0], output_size), np.uint8)
    state, block = new_sponge(len(width))
    _turboshake128(width, np.ascontiguousarray(messages), domain, out, state, block)
    return out


def new_sponge(lanes: int) -> tuple[Words, Bytes]:
    """Return scratch for the kernels here: room for states and a block, and a block's bytes."""
    return np.zeros((STATE_WORDS + RATE_WORDS, lanes), np.uint64), np.zeros(
        lanes * RATE_SIZE, np.uint8
    )


@kernel
def _turboshake128(
    width: LaneWidth, messages: Bytes, domain: int, out: Bytes, state: Words, block: Bytes
) -> None:
    num_messages, message_size = messages.shape
    output_size = out.shape[1]
    for first in range(0, num_messages, len(width)):
        state[:STATE_WORDS] = 0
        for start in range(0, message_size + 1, RATE_SIZE):
            absorb_block(width, state, messages, first, start, domain, block)
        for start in range(0, output_size, RATE_SIZE):
            if start > 0:
                permute(width, state, 0)
            squeeze_block(width, state, out, first, start, block)


@kernel
def absorb_block(
    width: LaneWidth,
    state: Words,
    messages: Bytes,
    first: int,
    start: int,
    domain: int,
    block: Bytes,
) -> None:
    """Absorb bytes `start` to `start + 168` of the messages from row `first` on, and permute.

    Where a message ends in the block its padding follows: `domain`, zeros, and 0x80 added into the
    last byte. Lanes beyond the last message repeat it.
    """
    lanes = len(width)
    num_messages, message_size = messages.shape
    size = min(RATE_SIZE, message_size - start)
    if size == RATE_SIZE and first + lanes <= num_messages:
        absorb_rows(width, state, messages, first * message_size + start, message_size)
        return
    for lane in range(lanes):
        row = min(first + lane, num_messages - 1)
        begin, end = lane * RATE_SIZE, (lane + 1) * RATE_SIZE
        copy_bytes(width, block, begin, messages, row * message_size + start, size)
        if size < RATE_SIZE:
            block[begin + size : end] = 0
            block[begin + size] = domain
            block[end - 1] ^= 0x80
    absorb_rows(width, state, block, 0, RATE_SIZE)


@kernel
def absorb_rows(width: LaneWidth, state: Words, rows: Bytes, first_byte: int, stride: int) -> None:
    """Absorb a whole block a lane, 168 bytes from `first_byte + lane * stride`, and permute."""
    lanes = len(width)
    for word in range(0, RATE_WORDS, lanes):
        # 21 is no multiple of the number of lanes: the last step goes back and repeats some words.
        word = min(word, RATE_WORDS - lanes)  # noqa: PLW2901 the clamped index is the loop's idea
        transpose_in(width, state, STATE_WORDS + word, rows, first_byte + 8 * word, stride)
    for word in range(RATE_WORDS):
        xor(width, state, word, state, STATE_WORDS + word)
    permute(width, state, 0)


@kernel
def squeeze_block(
    width: LaneWidth, state: Words, out: Bytes, first: int, start: int, block: Bytes
) -> None:
    """Write the state's first 168 bytes, or as many as fit, to `out[first:, start:]`."""
    lanes = len(width)
    num_rows, output_size = out.shape
    size = min(RATE_SIZE, output_size - start)
    if size == RATE_SIZE and first + lanes <= num_rows:
        squeeze_rows(width, state, out, first * output_size + start, output_size)
        return
    squeeze_rows(width, state, block, 0, RATE_SIZE)
    for lane in range(min(lanes, num_rows - first)):
        row = (first + lane) * output_size
        copy_bytes(width, out, row + start, block, lane * RATE_SIZE, size)


@kernel
def squeeze_rows(width: LaneWidth, state: Words, rows: Bytes, first_byte: int, stride: int) -> None:
    """Write the 168 bytes of each lane's state that are output."""
    lanes = len(width)
    for word in range(0, RATE_WORDS, lanes):
        word = min(word, RATE_WORDS - lanes)  # noqa: PLW2901 the clamped index is the loop's idea
        transpose_out(width, rows, first_byte + 8 * word, stride, state, word)
