"""Deterministic stand-ins for the operating system's randomness."""

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


class ScriptedEntropy(Entropy):
    """Gives out bytes that were written down, each once."""

    def __init__(self, script: bytes) -> None:
        self._script = script

    @override
    def bytes(self, size: int) -> bytes:
        """Return the next `size` bytes of the script."""
        given, self._script = self._script[:size], self._script[size:]
        if len(given) != size:
            raise ValueError(f"the script has only {len(given)} of {size} bytes left")
        return given


class NoEntropy(Entropy):
    """Fails a test that asks for any."""

    @override
    def bytes(self, size: int) -> bytes:
        raise AssertionError(f"{size} bytes of entropy were asked for")
