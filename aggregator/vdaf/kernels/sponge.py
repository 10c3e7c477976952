"""What TurboSHAKE128 is made of, and TurboSHAKE128 of many messages on whole arrays.

The latter needs no compiler and stands in for the kernel of `keccak` while that is being compiled.
All messages of a batch have the same size, so every step is one of all of them.

Source: RFC 9861, "TurboSHAKE"; FIPS 202, "Keccak-p Permutations".
"""

import numpy as np
import numpy.typing as npt

from field.lanes import Bytes

RATE_SIZE = 168
"""Bytes absorbed or squeezed between two permutations."""

RATE_WORDS = RATE_SIZE // 8
STATE_WORDS = 25
ROUNDS = 12

_MOST_AT_ONCE, _BYTES_AT_ONCE = 512, 2**22
"""How many messages are hashed at once, and how large they may be together."""


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


ROUND_CONSTANTS = _round_constants()[-ROUNDS:]
ROTATIONS = _rotations()


_ONE, _LAST = np.uint64(1), np.uint64(63)
_BEFORE, _AFTER = np.array([4, 0, 1, 2, 3]), np.array([1, 2, 3, 4, 0])


def _sources() -> npt.NDArray[np.intp]:
    """Return the word that step pi moves to each place, and to two more after each five."""
    sources = np.empty((5, 7), np.intp)
    for x in range(5):
        for y in range(5):
            sources[(2 * x + 3 * y) % 5, y] = x + 5 * y
    sources[:, 5:] = sources[:, :2]
    return sources.reshape(-1)


_SOURCES = _sources()
_LEFT = np.array(ROTATIONS, np.uint64)[_SOURCES, None]
_RIGHT = (64 - _LEFT) % 64


def turboshake128_on_arrays(messages: Bytes, domain: int, output_size: int) -> Bytes:
    """Return the first `output_size` bytes of TurboSHAKE128 of each message.

    Args:
        messages: `uint8[num_messages, message_size]`; any number of rows.
        domain: The domain separation byte, 0x01 to 0x7F.
        output_size: Bytes of output per message.

    Returns:
        `uint8[num_messages, output_size]`.
    """
    num_messages, message_size = messages.shape
    out = np.empty((num_messages, output_size), np.uint8)
    padded = RATE_SIZE * (message_size // RATE_SIZE + 1)
    step = max(1, min(_MOST_AT_ONCE, _BYTES_AT_ONCE // padded))
    for start in range(0, num_messages, step):
        part = messages[start : start + step]
        blocks = np.zeros((len(part), padded), np.uint8)
        blocks[:, :message_size] = part
        blocks[:, message_size] = domain
        blocks[:, -1] ^= 0x80
        # One message per column: each step below is of whole rows.
        words = np.ascontiguousarray(blocks.view("<u8").T).astype(np.uint64, copy=False)
        state = np.zeros((STATE_WORDS, len(part)), np.uint64)
        for first in range(0, len(words), RATE_WORDS):
            state[:RATE_WORDS] ^= words[first : first + RATE_WORDS]
            state = _permuted(state)
        squeezed = []
        for first in range(0, output_size, RATE_SIZE):
            state = _permuted(state) if first else state
            squeezed.append(state[:RATE_WORDS])
        if squeezed:
            stream = np.ascontiguousarray(np.concatenate(squeezed).T).astype("<u8", copy=False)
            out[start : start + step] = stream.view(np.uint8)[:, :output_size]
    return out


def _permuted(state: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return Keccak-p[1600, 12] of the state in every column."""
    lanes = state.shape[1]
    state = state.copy()
    rows = state.reshape(5, 5, lanes)
    left = np.empty((len(_SOURCES), lanes), np.uint64)
    moved = np.empty_like(left)
    fives = moved.reshape(5, 7, lanes)
    for constant in ROUND_CONSTANTS:
        columns = np.bitwise_xor.reduce(rows)
        after = columns[_AFTER]
        parity = after << _ONE
        after >>= _LAST
        parity |= after
        parity ^= columns[_BEFORE]
        rows ^= parity
        np.take(state, _SOURCES, axis=0, out=moved, mode="clip")
        np.left_shift(moved, _LEFT, out=left)
        moved >>= _RIGHT  # by 0 where a word is not rotated: the same word twice
        moved |= left
        np.invert(fives[:, 1:6], out=rows)
        rows &= fives[:, 2:]
        rows ^= fives[:, :5]
        state[0] ^= np.uint64(constant)
    return state
