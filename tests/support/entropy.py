"""A deterministic stand-in for the operating system's randomness."""

import hashlib

from typing_extensions import override

from aggregator.entropy import Entropy


class SeededEntropy(Entropy):
    """The same bytes for the same seed: SHAKE-128 of the seed and a counter of the calls."""

    def __init__(self, seed: bytes | int) -> None:
        self._seed = seed if isinstance(seed, bytes) else seed.to_bytes(32, "little", signed=True)
        self.calls = 0

    @override
    def bytes(self, size: int) -> bytes:
        self.calls += 1
        prefix = len(self._seed).to_bytes(8, "little") + self._seed
        return hashlib.shake_128(prefix + self.calls.to_bytes(8, "little")).digest(size)


class NoEntropy(Entropy):
    """Fails a test that asks for any."""

    @override
    def bytes(self, size: int) -> bytes:
        raise AssertionError(f"{size} bytes of entropy were asked for")
