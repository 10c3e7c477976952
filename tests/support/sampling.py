"""A slow, obvious second implementation of the exact samplers, reading the same keystream."""

from collections.abc import Sequence
from fractions import Fraction

import mpmath
import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from aggregator.entropy import Entropy

BLOCK_COLUMNS = 4096
SLOTS = 8


class ScriptedBits:
    """A keystream of chosen bytes; fails when it runs out."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.offset = 0

    def fill(self, size: int) -> NDArray[np.uint8]:
        return np.frombuffer(self._take(size), np.uint8).copy()

    def integer(self, size: int) -> int:
        return int.from_bytes(self._take(size), "little")

    def _take(self, size: int) -> bytes:
        taken = self.data[self.offset : self.offset + size]
        assert len(taken) == size, "the script ran out of bytes"
        self.offset += size
        return taken


def keystream(entropy: Entropy, size: int) -> bytes:
    """The beginning of a release's keystream."""
    cipher = Cipher(algorithms.AES256(entropy.bytes(32)), modes.CTR(bytes(16)))
    return cipher.encryptor().update(bytes(size))


def block(
    words: Sequence[Sequence[int]], extensions: Sequence[Sequence[int]] | None = None
) -> bytes:
    """One block of a scripted keystream.

    Args:
        words: For each row its 32-bit words, with the spare column's last.
        extensions: For each slot the rows' 64-bit extensions; zeros if not given.
    """
    rows = len(words)
    given = extensions or []
    full = [*given, *([[0] * rows] * (SLOTS - len(given)))]
    data = np.array(full, np.uint64).tobytes()
    return data + np.array(words, np.uint32).tobytes()


def discrete_laplace_draws(stream: bytes, scale: Fraction, count: int) -> list[int]:
    """The draws that a keystream gives, by the definition: digits, overflow, sign.

    Reads uniform numbers of 32 bits as reals in [0, 1) and compares them with biases to 60 digits.
    Fails if a tie or an overflow would need more bits.
    """
    num_digits = 0
    while mpmath.exp(-(mpmath.mpf(2) ** num_digits) / mpmath_of(scale)) >= mpmath.mpf(2) ** -64:
        num_digits += 1
    with mpmath.workdps(60):
        t = mpmath_of(scale)
        biases = [1 / (1 + mpmath.exp(2**i / t)) for i in range(num_digits)]
        biases += [mpmath.exp(-(2**num_digits) / t), 1 / (1 + mpmath.exp(1 / t))]
        draws: list[int] = []
        offset = 0
        for start in range(0, count, BLOCK_COLUMNS):
            columns = min(BLOCK_COLUMNS, count - start)
            offset += SLOTS * len(biases) * 8
            size = len(biases) * (columns + 1) * 4
            words = np.frombuffer(stream[offset : offset + size], np.uint32)
            words = words.reshape(len(biases), columns + 1)
            offset += size
            bounds = [int(mpmath.floor(bias * 2**32)) for bias in biases]
            for column in range(columns):
                uniform = [int(word) for word in words[:, column]]
                assert all(u != b for u, b in zip(uniform, bounds, strict=True)), "a tie"
                outcomes = [u < b for u, b in zip(uniform, bounds, strict=True)]
                *digits, overflow, sign = outcomes
                assert not overflow
                magnitude = sum(1 << i for i, digit in enumerate(digits) if digit)
                draws.append(-1 - magnitude if sign else magnitude)
    return draws


def mpmath_of(value: Fraction) -> mpmath.mpf:
    return mpmath.mpf(value.numerator) / value.denominator
