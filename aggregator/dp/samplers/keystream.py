"""Uniform bytes for one release: AES-256 in counter mode under a key drawn for that release.

A `Keystream` is made for one vector of noise and thrown away with its key and its buffer. Nothing
is kept between releases, so a fork or a second thread can never hand out the same bytes twice.
"""

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from aggregator.entropy import Entropy

_KEY_SIZE = 32
_BLOCK_SIZE = 16


class Keystream:
    """Bytes indistinguishable from uniform ones, from 32 bytes of `entropy`."""

    __slots__ = ("_buffer", "_encryptor", "_zeros")

    def __init__(self, entropy: Entropy) -> None:
        # The key is used once, so the counter may start at zero.
        cipher = Cipher(algorithms.AES256(entropy.bytes(_KEY_SIZE)), modes.CTR(bytes(_BLOCK_SIZE)))
        self._encryptor = cipher.encryptor()
        self._zeros = b""
        self._buffer = np.empty(0, np.uint8)

    def fill(self, size: int) -> NDArray[np.uint8]:
        """Return the next `size` bytes; they are overwritten by the next call."""
        if size > len(self._zeros):
            self._zeros = bytes(size)
            # `update_into` requires room for one more block, less a byte.
            self._buffer = np.empty(size + _BLOCK_SIZE - 1, np.uint8)
        self._encryptor.update_into(memoryview(self._zeros)[:size], self._buffer.data)
        return self._buffer[:size]

    def integer(self, size: int) -> int:
        """Return the next `size` bytes as an integer from 0 to 256^size - 1."""
        return int.from_bytes(self._encryptor.update(bytes(size)), "little")
