"""Lists of permits, as whoever makes them hands them to both aggregators.

A file holds one or more lists, each of one domain. Entries are sorted, so a list does not say in
which order permits were made, and the same permits have one digest.
"""

import dataclasses
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Final, Self, TypeVar

from aggregator.codec import Reader, Writer, encode
from aggregator.protocol.permits import DOMAIN_SIZE, SIZE, TAG

_LIST: Final = b"prio permits 1\n"
_REPLACEMENTS: Final = b"prio permit replacements 1\n"
_WINDOWS_END: Final = 2**63
"""Numbers of windows are below, since stores have them as signed integers."""

R = TypeVar("R")


@dataclasses.dataclass(frozen=True, slots=True)
class PermitList:
    """Entries of one domain, sorted, by the number of the window in which each counts."""

    domain: bytes
    windows: Mapping[int, Sequence[bytes]]

    @property
    def count(self) -> int:
        """How many entries there are."""
        return sum(map(len, self.windows.values()))

    def write(self, writer: Writer) -> None:
        """Append the list."""
        _write(writer, _LIST, self.domain, self.windows, lambda entry: entry)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Take one list."""
        _read_head(reader, _LIST, "a list of permits")
        domain, windows = _read(reader, SIZE, lambda row: row)
        seen: set[bytes] = set()
        for window, entries in windows.items():
            if not seen.isdisjoint(entries):
                raise reader.error(f"an entry of window {window} is in another window, too")
            seen.update(entries)
        return cls(domain, windows)


@dataclasses.dataclass(frozen=True, slots=True)
class Replacements:
    """Pairs of an entry that no longer counts and the one in its place, by window, sorted.

    One may stand in the place of several: then it counts only if none of them was spent.
    """

    domain: bytes
    windows: Mapping[int, Sequence[tuple[bytes, bytes]]]

    @property
    def count(self) -> int:
        """How many entries are new."""
        return sum(len({new for _, new in some}) for some in self.windows.values())

    def write(self, writer: Writer) -> None:
        """Append the pairs."""
        _write(writer, _REPLACEMENTS, self.domain, self.windows, b"".join)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Take the pairs of one domain."""
        _read_head(reader, _REPLACEMENTS, "a list of replaced permits")
        return cls(*_read(reader, 2 * SIZE, lambda row: (row[:SIZE], row[SIZE:])))


def listed(domain: bytes, windows: Mapping[int, Sequence[bytes]]) -> PermitList:
    """Return the list of some entries in any order."""
    return PermitList(domain, {each: sorted(windows[each]) for each in sorted(windows)})


def write_lists(lists: Sequence[PermitList] | Sequence[Replacements]) -> bytes:
    """Return a file of lists."""
    return b"".join([encode(each) for each in lists])


def read_lists(data: bytes) -> tuple[PermitList, ...]:
    """Return the lists of a file, or raise `DecodeError`."""
    return _every(data, PermitList.read)


def read_replacements(data: bytes) -> tuple[Replacements, ...]:
    """Return the replacements of a file, or raise `DecodeError`."""
    return _every(data, Replacements.read)


class WindowList:
    """Counts and hashes the entries of one window, for two operators to compare."""

    def __init__(self, domain: bytes, window: int) -> None:
        """Begin without an entry."""
        self.count = 0
        self._hash = hashlib.sha256(TAG + b"list" + domain + window.to_bytes(8, "big"))

    def add(self, entry: bytes) -> None:
        """Add the next entry, in sorted order."""
        self.count += 1
        self._hash.update(entry)

    @property
    def digest(self) -> str:
        """SHA-256, in hexadecimal."""
        return self._hash.hexdigest()


HEADER: Final = "Prio-Permits"
"""The header by which a leader asks its helper for its lists, from a window on, and the helper
answers; other programs ignore it."""

MOST_WINDOWS: Final = 64
"""How many windows one answer has."""

_DIGEST_DIGITS: Final = 16


def in_short(count: int, digest: str) -> str:
    """Return what is said of a window's list, for two operators to compare."""
    return f"{count} permits, list {digest[:_DIGEST_DIGITS]}"


def to_header(lists: Mapping[int, str]) -> str:
    """Return what is said of the lists of some windows, as the header has it."""
    return "; ".join(f"{window}: {said}" for window, said in [*lists.items()][:MOST_WINDOWS])


def from_header(text: str) -> dict[int, str]:
    """Return what a header says of lists, by window; nothing of what is malformed."""
    found = _SAID.findall(text[: 128 * MOST_WINDOWS])
    return {int(window): said for window, said in found[:MOST_WINDOWS]}


_SAID: Final = re.compile(
    rf"(?:^|; )([0-9]{{1,19}}): ([0-9]{{1,10}} permits, list [0-9a-f]{{{_DIGEST_DIGITS}}})(?=; |$)",
    re.ASCII,
)


def _every(data: bytes, read: Callable[[Reader], R]) -> tuple[R, ...]:
    reader = Reader(data)
    found = reader.rest(read)
    if not found:
        raise reader.error("the file is empty")
    return found


def _write(
    writer: Writer,
    head: bytes,
    domain: bytes,
    windows: Mapping[int, Sequence[R]],
    row: Callable[[R], bytes],
) -> None:
    writer.raw(head)
    writer.fixed(domain, DOMAIN_SIZE, "domain")
    writer.u32(len(windows), "windows")
    for window, rows in windows.items():
        writer.u64(window, "window")
        writer.u32(len(rows), "entries")
        writer.raw(b"".join(map(row, rows)))


def _read_head(reader: Reader, head: bytes, what: str) -> None:
    if reader.remaining < len(head) or reader.fixed(len(head)) != head:
        raise reader.error(f"this is not {what}")


def _read(
    reader: Reader, size: int, row: Callable[[bytes], R]
) -> tuple[bytes, dict[int, Sequence[R]]]:
    domain = reader.fixed(DOMAIN_SIZE)
    windows: dict[int, Sequence[R]] = {}
    last = -1
    for _ in range(reader.u32()):
        window = reader.u64()
        if not last < window < _WINDOWS_END:
            raise reader.error(f"window {window}: windows must strictly increase, below 2^63")
        data = reader.fixed(size * reader.u32())
        rows = [data[start : start + size] for start in range(0, len(data), size)]
        if any(one[:SIZE] >= next_one[:SIZE] for one, next_one in pairwise(rows)):
            raise reader.error(f"window {window}: entries must strictly increase")
        windows[window], last = [row(each) for each in rows], window
    return domain, windows
