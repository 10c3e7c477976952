"""The journal of releases: what left an aggregator, kept apart from all backups of its store.

A store that is restored from a backup has forgotten the releases since. Its ledger, closed batches
and report ids went back together, so nothing in it says that a batch was released. So each release
is written durably to a journal before its sealed share leaves: to `journal_file` or, for several
machines, to `journal_table`. `reconciliation` brings a store up to date with its journal.

A journal begins with whose it is, and it holds no secret: a release is its task, its batch, its
cost and a hash of its share.
"""

import bisect
import dataclasses
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from typing_extensions import override

from aggregator.dap.ids import TaskId
from aggregator.errors import AggregatorError, StoreError
from aggregator.protocol.batches import Batch
from aggregator.service.storage.ledger.charges import Charge, cost_columns, cost_of


class JournalError(StoreError):
    """The journal cannot be used, or disagrees with the store."""


class DamagedJournal(JournalError):
    """The journal's content cannot be read, or is not what was written."""


class ForeignJournal(DamagedJournal):
    """The journal is that of another store: nothing in it is ours, and nothing may be added."""

    def __init__(self, name: str, found: "Owner", ours: "Owner") -> None:
        """Say whose the journal of this name is, and whose it should be."""
        super().__init__(
            f"the journal of releases {name} is that of {found}, and this is {ours}: bring the "
            "journal of this store back, or the store of this journal. If this store's is lost, "
            "move the other away, and go on as for a journal that does not exist"
        )


class Contradiction(JournalError):
    """The journal has another release of the batch, or of a part of it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Release:
    """A batch that is charged for ever.

    Attributes:
        task_id: Its task, 32 bytes.
        batch: The batch.
        share_sha256: SHA-256 of our sealed share; None if none left us, and the batch is charged
            because the other aggregator may have released its own.
        charge: What the release costs.
        charged_at: When it was charged, in seconds.
    """

    task_id: bytes
    batch: Batch
    share_sha256: bytes | None
    charge: Charge
    charged_at: int


@dataclasses.dataclass(frozen=True, slots=True)
class Owner:
    """Whose a journal is.

    Attributes:
        role: The party's role in lower case.
        store: The number by which the store knows its journal, below 2³¹.
    """

    role: str
    store: int

    @override
    def __str__(self) -> str:
        return f"the {self.role}'s store {self.store:08x}"


Choice = Callable[[Sequence[Release], Sequence[Release]], Sequence[Release]]
"""Chooses the releases that a rebuilt journal is to have.

It is given the releases that can be read, and those among them whose checksum is wrong: a line with
one byte changed may still name a batch, but a different one than before.
"""


class Journal(Protocol):
    """Where releases are kept; threads and processes may use it at once."""

    @property
    def name(self) -> str:
        """What messages call it."""

    def exists(self) -> bool:
        """Return whether it was created."""

    def create(self, owner: Owner) -> None:
        """Create it for a store unless it exists."""

    def owner(self) -> Owner:
        """Return whose it says it is.

        Raises:
            JournalError: It does not exist, or cannot be read.
        """

    def belongs_to(self, owner: Owner) -> None:
        """From now on, take only the journal of this store for ours (`ForeignJournal`)."""

    def releases(self) -> Sequence[Release]:
        """Return all releases, oldest first.

        Raises:
            JournalError: It cannot be read, or was changed.
        """

    def holds(self, task_id: bytes, share_sha256: bytes) -> bool:
        """Return whether this process has seen the release of this share in the journal."""

    def append(self, releases: Iterable[Release]) -> None:
        """Write the releases that are missing; return once they are durable.

        Raises:
            Contradiction: One of them overlaps another release of its task, or has the same batch
                and another share.
            JournalError: It cannot be written.
        """

    def rebuild(self, owner: Owner, choose: Choice) -> None:
        """Replace its content by what `choose` returns; nobody writes meanwhile.

        Raises:
            ForeignJournal: It is that of another store than its owner's.
            JournalError: Nothing in it looks like a journal, or it cannot be written.
        """

    def check(self) -> None:
        """Check that a release could be written.

        Raises:
            StoreError: It could not; the message says why.
        """

    def close(self) -> None:
        """Close what is open."""


def journal_faults(journal: Journal) -> list[str]:
    """Return why no release can be written, if so: until that is mended, no share leaves."""
    try:
        journal.check()
    except StoreError as error:
        return [f"no result leaves: {error}"]
    return []


def share_sha256(share: bytes) -> bytes:
    """Return the hash by which a journal and a ledger know a sealed share."""
    return hashlib.sha256(share).digest()


class Released:
    """The releases of one task, none of which overlaps another."""

    __slots__ = ("_batches", "_shares")

    def __init__(self) -> None:
        """Begin without a release."""
        self._batches: list[tuple[bytes, bytes]] = []  # in order
        self._shares: dict[tuple[bytes, bytes], bytes | None] = {}

    def add(self, release: Release) -> bool:
        """Add a release; return whether it is new.

        Raises:
            Contradiction: There is another release of the batch, or of a part of it: this one's
                share must not leave.
        """
        first, last = key = release.batch.first, release.batch.last
        if key in self._shares:
            if self._shares[key] != release.share_sha256:
                raise Contradiction(f"{_described(release)}: was released before, with other noise")
            return False
        place = bisect.bisect_left(self._batches, key)
        before, after = self._batches[max(0, place - 1) : place], self._batches[place : place + 1]
        if any(other[1] >= first for other in before) or any(other[0] <= last for other in after):
            raise Contradiction(f"{_described(release)}: a part of it was released before")
        self._batches.insert(place, key)
        self._shares[key] = release.share_sha256
        return True


_HEADER = re.compile(
    rb"(prio journal of releases, version 2, of the ([a-z]+)'s store ([0-9a-f]{8})) ([0-9a-f]{64})"
)


def to_header(owner: Owner) -> tuple[bytes, bytes]:
    """Return the first line of a journal, with its end; and its checksum, which the next covers."""
    text = f"prio journal of releases, version 2, of {owner}".encode()
    found = checksum(b"", text)
    return b"%s %s\n" % (text, found.hex().encode()), found


def owner_in(line: bytes) -> Owner:
    """Return whose journal begins with a line without its end.

    Raises:
        JournalError: It is no first line, or was changed.
    """
    found = _HEADER.fullmatch(line)
    if found is None or checksum(b"", found[1]).hex().encode() != found[4]:
        raise JournalError("it is no journal's first line")
    return Owner(found[2].decode(), int(found[3], 16))


def to_line(release: Release, before: bytes) -> tuple[bytes, bytes]:
    """Return a release as one line of JSON, a space and a checksum; and the checksum alone.

    Args:
        release: The release.
        before: The checksum of the previous line, which the new checksum covers too.
    """
    charge, share = release.charge, release.share_sha256
    document = {
        "task": release.task_id.hex(),
        "batch": [release.batch.first.hex(), release.batch.last.hex()],
        "share": None if share is None else share.hex(),
        "charged_at": release.charged_at,
        "mechanism": charge.mechanism,
        "population": charge.population,
        "cost": cost_columns(charge.cost),
    }
    text = json.dumps(document, separators=(",", ":")).encode()
    found = checksum(before, text)
    return b"%s %s\n" % (text, found.hex().encode()), found


def from_line(line: bytes, before: bytes) -> tuple[Release, bytes]:
    """Return the release in a line without its end, and the line's checksum.

    Raises:
        JournalError: This line, or one before it, was changed.
    """
    text, _, stated = line.rpartition(b" ")
    found = checksum(before, text)
    if found.hex().encode() != stated:
        raise JournalError("its checksum is not that of the lines up to it")
    return release_in(line), found


def release_in(line: bytes) -> Release:
    """Return the release in a line without its end, whatever its checksum.

    Raises:
        JournalError: There is none.
    """
    text, _, _ = line.rpartition(b" ")
    try:
        document = json.loads(text)
        first, last = map(bytes.fromhex, document["batch"])
        share = document["share"]
        charge = Charge(document["mechanism"], cost_of(**document["cost"]), document["population"])
        return Release(
            task_id=bytes.fromhex(document["task"]),
            batch=Batch(first, last),
            share_sha256=None if share is None else bytes.fromhex(share),
            charge=charge,
            charged_at=int(document["charged_at"]),
        )
    except (ValueError, TypeError, KeyError, AggregatorError) as error:
        raise JournalError(f"it is of another program: {error}") from error


def checksum_in(line: bytes) -> bytes:
    """Return the checksum that a line without its end states; empty if it states none."""
    try:
        return bytes.fromhex(line.rpartition(b" ")[2].decode("ascii"))
    except ValueError:
        return b""


def checksum(before: bytes, text: bytes) -> bytes:
    """Return the checksum of a line that follows one with the checksum `before`."""
    return hashlib.sha256(before + text).digest()


def _described(release: Release) -> str:
    batch = f"{release.batch.first.hex()}/{release.batch.last.hex()}"
    return f"task {TaskId(release.task_id)}, batch {batch}"
