"""X25519 of many pairs of keys, by lanes as long as these agree with the library.

Trust is tested. At first, fresh keys take every lane, and each result has to be the library's;
later one pair of each batch is drawn at random and computed again. What differs once turns lanes
off for the life of the process, and the library computes everything. Who opens messages does a
third check: what does not open is tried again by the library before it is refused.

Source: RFC 7748, "Elliptic Curve Diffie-Hellman with Curve25519".
"""

from collections.abc import Callable, Sequence

import numpy as np

from aggregator.dap.hpke_suites import X25519Key
from aggregator.dap.messages.byte_rows import ByteRows
from aggregator.dap.x25519_lanes import KEY_SIZE, exchange_rows, has_lanes
from aggregator.entropy import Entropy, SystemEntropy
from field.lanes import KernelMissing, is_looking

FEWEST = 4
"""Below this many pairs, the library is quicker."""

BASE_POINT = (9).to_bytes(KEY_SIZE, "little")
"""The public key of 1: with it, a private key gives its own public key."""

_NO_SECRET = bytes(KEY_SIZE)
_PAIRS_OF_TEST = 16


class Lanes:
    """Exchanges side by side, and whether they are trusted; may be used by threads.

    Attributes:
        fault: Why lanes are off for good; None while they are trusted.
        when_off: Called with the fault when lanes are turned off.
    """

    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy
        self.fault: str | None = None
        self.when_off: Callable[[str], object] = bool
        self._is_tested = False

    @property
    def state(self) -> str:
        """`used`, `not used yet`, `not on this processor`, or `off: ` and the fault."""
        if self.fault is not None:
            return f"off: {self.fault}"
        if not has_lanes():
            return "not on this processor"
        return "used" if self._is_tested else "not used yet"

    def exchange(
        self, private_keys: Sequence[bytes], public_keys: Sequence[bytes]
    ) -> list[bytes | None] | None:
        """Return the secret of each pair of keys of 32 bytes, None for a pair that leads to none.

        Returns None for all of it if lanes are not to be had here: they are off, the processor has
        not what they need, the kernel is not compiled, or the pairs are few.
        """
        if len(public_keys) < FEWEST or self.fault is not None or not has_lanes():
            return None
        try:
            if not self._is_tested and not self._passes_test():
                self.doubt("lanes failed their test at the start")
                return None
            found = _exchanged(private_keys, public_keys)
        except KernelMissing:
            if is_looking():
                raise
            return None
        drawn = int.from_bytes(self._entropy.bytes(8), "big") % len(found)
        if found[drawn] != by_library(private_keys[drawn], public_keys[drawn]):
            self.doubt("a lane, computed again, had another result")
            return None
        return found

    def doubt(self, why: str) -> None:
        """Turn lanes off, unless they are."""
        if self.fault is None:
            self.fault = why
            self.when_off(why)

    def _passes_test(self) -> bool:
        private_keys = [self._entropy.bytes(KEY_SIZE) for _ in range(_PAIRS_OF_TEST)]
        public_keys = [self._entropy.bytes(KEY_SIZE) for _ in range(_PAIRS_OF_TEST)]
        pairs = zip(private_keys, public_keys, strict=True)
        self._is_tested = _exchanged(private_keys, public_keys) == [by_library(*p) for p in pairs]
        return self._is_tested


LANES = Lanes(SystemEntropy())
"""The lanes of this process."""


def by_library(private_key: bytes, public_key: bytes) -> bytes | None:
    """Return the secret of one pair of keys, None if it leads to none."""
    try:
        return X25519Key(private_key).exchange(public_key)
    except ValueError:
        return None


def _exchanged(private_keys: Sequence[bytes], public_keys: Sequence[bytes]) -> list[bytes | None]:
    data = exchange_rows(_rows(private_keys), _rows(public_keys)).tobytes()
    found = [data[start : start + KEY_SIZE] for start in range(0, len(data), KEY_SIZE)]
    return [None if secret == _NO_SECRET else secret for secret in found]


def _rows(keys: Sequence[bytes]) -> ByteRows:
    return np.frombuffer(b"".join(keys), np.uint8).reshape(-1, KEY_SIZE)
