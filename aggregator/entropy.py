"""Where randomness comes from: the operating system in service, a seed only in tests."""

import os
from typing import Protocol


class Entropy(Protocol):
    """A source of uniformly random bytes fit for keys."""

    def bytes(self, size: int) -> bytes:
        """Return `size` fresh bytes."""


class SystemEntropy:
    """The operating system's generator, asked anew for every call."""

    def bytes(self, size: int) -> bytes:
        """Return `size` fresh bytes."""
        return os.urandom(size)
