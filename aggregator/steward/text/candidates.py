"""The strings that a decoder tries, in chunks: given lists, or every possible fingerprint.

Names are told apart by fingerprints of 32 bits. With a list of L strings and F found fingerprints,
about L*F/2^32 listed strings are named although people hold another string with that fingerprint.
"""

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Protocol

import numpy as np
import numpy.typing as npt

from aggregator.client.text.strings import FINGERPRINTS, fingerprint, normal_form
from aggregator.errors import ParameterError

Prints = npt.NDArray[np.uint32]

_CHUNK = 2**16
"""Fingerprints tried at once: the arrays computed from them fit a processor's cache."""


class Candidates(Protocol):
    """Strings to be tried, as often as a decoder asks for them."""

    @property
    def count(self) -> int:
        """How many fingerprints are tried."""

    def chunks(self) -> Iterator[Prints]:
        """Return an iterator over all fingerprints, from the start; no two are equal."""

    @property
    def lists(self) -> "Listed | None":
        """Those known by name, if any: tried by themselves, they pass a lower threshold."""


class Listed:
    """Strings of lists: each normal form once, and strings with one fingerprint together."""

    def __init__(self, strings: Iterable[str], meaning: bytes) -> None:
        """Take the strings, leaving out those without a visible character.

        Raises `ParameterError` if no string is left.
        """
        self._names: dict[int, tuple[str, ...]] = {}
        for normal in dict.fromkeys(map(normal_form, strings)):
            if normal:
                found = fingerprint(normal, meaning)
                self._names[found] = (*self._names.get(found, ()), normal)
        if not self._names:
            raise ParameterError("candidates: there must be at least one string")
        self.prints: Prints = np.fromiter(self._names, np.uint32, len(self._names))

    @classmethod
    def of(cls, strings: Iterable[str], meaning: bytes) -> "Listed | None":
        """Return the strings, or None if none are given."""
        given = list(strings)
        return cls(given, meaning) if given else None

    @property
    def count(self) -> int:
        """How many fingerprints are tried."""
        return len(self.prints)

    def chunks(self) -> Iterator[Prints]:
        """Return an iterator over all fingerprints, from the start."""
        return (self.prints[at : at + _CHUNK] for at in range(0, self.count, _CHUNK))

    @property
    def lists(self) -> "Listed":
        """All of them."""
        return self

    @property
    def named(self) -> int:
        """How many strings there are: any may share a held string's fingerprint."""
        return sum(map(len, self._names.values()))

    def have(self, prints: Prints) -> npt.NDArray[np.bool_]:
        """Return which fingerprints are of strings in the lists."""
        return np.isin(prints, self.prints)

    def names(self, found: int) -> tuple[str, ...]:
        """Return the strings with this fingerprint."""
        return self._names.get(found, ())


@dataclasses.dataclass(frozen=True, slots=True)
class Enumerated:
    """Fingerprints from `first` on, all of them unless told otherwise; lists may name some."""

    first: int = 0
    count: int = FINGERPRINTS
    lists: Listed | None = None

    def __post_init__(self) -> None:
        if self.first < 0 or not 0 < self.count <= FINGERPRINTS - self.first:
            raise ParameterError(
                f"fingerprints must be from 0 to {FINGERPRINTS - 1} and at least one, "
                f"not {self.count} from {self.first} on"
            )

    def chunks(self) -> Iterator[Prints]:
        """Return an iterator over all fingerprints, from the start."""
        end = self.first + self.count
        for at in range(self.first, end, _CHUNK):
            yield np.arange(at, min(at + _CHUNK, end), dtype=np.uint32)


def candidates_of(lists: Listed | None, show: Listed | None, *, every: bool) -> Candidates:
    """Return what to try: lists, or with `every` all fingerprints, of which lists name some.

    Without either it is the strings to show whatever their count. Raises `ParameterError` if there
    are none.
    """
    if every:
        return Enumerated(lists=lists)
    found = lists or show
    if found is None:
        raise ParameterError("candidates: there must be at least one string")
    return found
