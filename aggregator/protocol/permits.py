"""Permits: what lets one report of a window count, without saying whose it is.

    opening    only whoever holds the permit knows it; the Helper sees it, in its share alone
    report id  a hash of the opening; everybody sees it
    entry      a hash of the report id; both aggregators hold a list of them, each with its window

Of a signed permit no list has an entry: the report shows a signature of its id (`signed_permits`).

Each is a one-way function of the one before it. So a list admits nobody, and an id that was seen
admits nobody at the Helper: a Leader can neither make reports up nor replace those it received. The
report's id is the permit, so it is spent where ids are remembered, once for all tasks of a domain.

A person's secret gives the openings of all windows. An opening of one window tells nothing of
another's.
"""

import dataclasses
import hashlib
import hmac
from collections.abc import Sequence
from typing import Final, Self

from aggregator.codec import Reader, Writer
from aggregator.dap.extensions import Extension, Extensions
from aggregator.dap.profile import REPORT_EXTENSION_PERMIT, REPORT_EXTENSION_SIGNATURE
from aggregator.errors import ParameterError

SIZE: Final = 16
"""Bytes of a secret, an opening, a report's id and an entry."""

DOMAIN_SIZE: Final = 32

_KEYS_SIZE: Final = 32

_WINDOWS_TOLD: Final = 256
"""So many windows that follow each other does the last byte of a signed permit's id tell apart."""

MARK_SIZE: Final = 4

TAG: Final = b"prio permit "

_VERSION, _LISTED, _SIGNED = 1, 1, 2


@dataclasses.dataclass(frozen=True, slots=True)
class Permits:
    """That a task counts only reports with a permit, which both aggregators have listed or verify.

    Attributes:
        domain: 32 random bytes: what a permit is good for, once: one task, or all of a group.
        keys: The digest of the keys that sign permits; None if permits are listed.
    """

    domain: bytes
    keys: bytes | None = None

    def __post_init__(self) -> None:
        if len(self.domain) != DOMAIN_SIZE:
            raise ParameterError(f"domain: must be {DOMAIN_SIZE} bytes, not {len(self.domain)}")

    @property
    def is_signed(self) -> bool:
        """Whether permits are signed; otherwise they are listed."""
        return self.keys is not None

    def write(self, writer: Writer) -> None:
        """Append the data of the task extension."""
        writer.u8(_VERSION)
        writer.u8(_LISTED if self.keys is None else _SIGNED)
        writer.raw(self.domain)
        if self.keys is not None:
            writer.fixed(self.keys, _KEYS_SIZE, "keys")

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Take the data of the task extension."""
        version, kind = reader.u8(), reader.u8()
        if version != _VERSION or kind not in (_LISTED, _SIGNED):
            raise reader.error(f"permits of version {version} and kind {kind} are not known")
        domain = reader.fixed(DOMAIN_SIZE)
        return cls(domain, reader.fixed(_KEYS_SIZE) if kind == _SIGNED else None)

    def opening(self, secret: bytes, window: int, number: int = 0) -> bytes:
        """Return a secret's permit for a window: the first, unless numbered."""
        place = window.to_bytes(8, "big") + number.to_bytes(4, "big")
        return hmac.digest(secret, TAG + b"opening" + self.domain + place, "sha256")[:SIZE]

    def report_id(self, opening: bytes, window: int = 0) -> bytes:
        """Return the id of the report that a permit lets count.

        Only the id of a signed permit depends on the window. A listed one is of the window of its
        entry; but a client could have one id signed for two windows, and a job may have no two
        reports of one id. So the id itself says for which window it is.
        """
        digest = hashlib.sha256(TAG + b"id" + self.domain + opening).digest()
        if self.keys is None:
            return digest[:SIZE]
        return digest[: SIZE - 1] + bytes((window % _WINDOWS_TOLD,))

    def entry(self, report_id: bytes) -> bytes:
        """Return what lists have of a permit."""
        return hashlib.sha256(TAG + b"entry" + self.domain + report_id).digest()[:SIZE]

    def entry_of(self, secret: bytes, window: int, number: int = 0) -> bytes:
        """Return what lists have of a secret's permit."""
        return self.entry(self.report_id(self.opening(secret, window, number)))


def is_of_window(report_id: bytes, window: int) -> bool:
    """Return whether the id of a signed permit's report is one of a window."""
    return report_id[-1] == window % _WINDOWS_TOLD


def extensions_with(opening: bytes | None) -> Extensions:
    """Return the extensions of the Helper's input share."""
    return () if opening is None else (Extension(REPORT_EXTENSION_PERMIT, opening),)


def extensions_signed(signature: bytes | None) -> Extensions:
    """Return the public extensions of a report."""
    return () if signature is None else (Extension(REPORT_EXTENSION_SIGNATURE, signature),)


def mark_of(task_id: bytes, head: bytes) -> bytes:
    """Return four bytes that tell a report that comes again from another one of the same permit.

    Args:
        task_id: The task of the report.
        head: What no repetition of the report changes: its public part; its id where a task may
            have only one report of an id.
    """
    return hashlib.sha256(task_id + head).digest()[:MARK_SIZE]


def check_one_each(
    name: str, given: Sequence[bytes] | None, size: int, reports: int
) -> Sequence[bytes]:
    """Refuse another number than one of `size` bytes for each report; return what is given.

    Raises `ParameterError`, which has the name and no secret.
    """
    count = 0 if given is None else len(given)
    if given is None or count != reports:
        raise ParameterError(
            f"{name}: the task needs one for each of {reports} reports, {count} given"
        )
    for each in given:
        if len(each) != size:
            raise ParameterError(f"{name}: must be {size} bytes, not {len(each)}")
    return given
