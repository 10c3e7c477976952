"""A report that waits, what is stored with it, and what becomes of it."""

import dataclasses
from collections.abc import Sequence
from enum import StrEnum

from aggregator.client.contributions import Contribution
from aggregator.protocol.permit_requests import Place


class State(StrEnum):
    """What became of a report."""

    WAITING = "waiting"
    COUNTED = "counted"
    LATE = "late"
    REFUSED = "refused"


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a report.

    Attributes:
        state: In one word.
        reason: The draft's name for the reason, or `too_old`; empty if there is none.
    """

    state: State
    reason: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """A report that waits.

    `claim` is what may have only one report, such as a person. `created` and `due` are in seconds
    since the epoch, `time` in the task's units. Once `sealed_to` names encoded configurations,
    `body` is what is sent, with zeros behind it that keep room; before, it is only zeros.
    `declined` are the days on which the leader would not take it, or not yet: numbers since the
    epoch, separated by spaces. `opening` is its permit, if its task needs one, and as secret as the
    shares: it leaves with the record. `signature` is that of its id, if permits are signed.
    """

    key: bytes
    task: bytes
    claim: str | None
    created: int
    time: int
    public_share: bytes = dataclasses.field(repr=False)
    leader_share: bytes = dataclasses.field(repr=False)
    helper_share: bytes = dataclasses.field(repr=False)
    sealed_to: bytes | None = dataclasses.field(repr=False)
    body: bytes = dataclasses.field(repr=False)
    attempts: int = 0
    due: int = 0
    declined: str = ""
    opening: bytes | None = dataclasses.field(default=None, repr=False)
    signature: bytes | None = dataclasses.field(default=None, repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """What is stored together or not at all.

    `contributions` are what a person has made by the records. `digest` is of what the first record
    was made of, and is deleted with it. `permits` are the signed ones that the records take, each
    with whose it is.
    """

    records: Sequence[Record]
    contributions: Sequence[Contribution] = ()
    digest: bytes | None = dataclasses.field(default=None, repr=False)
    permits: Sequence[tuple[str, Place]] = ()


COLUMNS = ", ".join(each.name for each in dataclasses.fields(Record))
PLACES = ", ".join("?" for _ in dataclasses.fields(Record))


def row_of(record: Record) -> tuple[object, ...]:
    """Return the values of `COLUMNS`."""
    return tuple(getattr(record, each.name) for each in dataclasses.fields(Record))
