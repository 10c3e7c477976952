"""What a pass over an outbox has done, and the outcomes that it stores together."""

import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
from enum import StrEnum

from aggregator.client.outbox import Outbox
from aggregator.client.records import Outcome, Record
from aggregator.client.verdicts import UNKNOWN_TASK


class Reason(StrEnum):
    """Why reports still wait after a pass, unless the leader says something else of them."""

    UNREACHABLE = "unreachable"
    BUSY = "busy"
    NOT_AN_AGGREGATOR = "not_an_aggregator"
    REPORT_TOO_EARLY = "report_too_early"
    TASK_NOT_STARTED = "task_not_started"
    UNRECOGNIZED_TASK = UNKNOWN_TASK
    TOO_LARGE = "too_large"
    OUTDATED_CONFIG = "outdated_config"
    OUTBOX_FULL = "outbox_full"


@dataclasses.dataclass(slots=True)
class Pass:
    """What one or several passes over the outbox have done.

    `late` are reports whose time is over. `reason` is why some that were sent still wait: a
    `Reason`, or what else the leader says of them, by its name in the draft. A pass `is_cut` if it
    could not go on. `outcomes` are counted by task, and `declined` are the leader's words on
    reports that wait, by the ids of these.
    """

    counted: int = 0
    late: int = 0
    refused: int = 0
    waiting: int = 0
    reason: str | None = None
    is_cut: bool = False
    outcomes: Counter[tuple[bytes, Outcome]] = dataclasses.field(
        default_factory=Counter, compare=False
    )
    declined: dict[bytes, str] = dataclasses.field(default_factory=dict, compare=False)

    @property
    def settled(self) -> int:
        """How many have an outcome."""
        return self.counted + self.late + self.refused

    def add(self, other: "Pass") -> None:
        """Add what another pass has done; what waits is not a sum."""
        self.counted += other.counted
        self.late += other.late
        self.refused += other.refused
        self.reason = other.reason or self.reason
        self.is_cut |= other.is_cut
        self.outcomes += other.outcomes
        self.declined |= other.declined


Settled = Callable[[bytes, str | None, Outcome], None]
"""Hears of a report's id, its claim and its outcome."""


class Settling:
    """Outcomes that are stored together, and only then told to whom they concern."""

    def __init__(self, outbox: Outbox, *, at_once: bool) -> None:
        self._outbox, self._at_once = outbox, at_once
        self._outcomes: list[tuple[Record, Outcome]] = []
        self._tell: list[Callable[[], None]] = []

    def add(self, outcomes: Sequence[tuple[Record, Outcome]], tell: Callable[[], None]) -> None:
        """Add outcomes; `tell` is called once they are stored."""
        self._outcomes += outcomes
        self._tell.append(tell)
        if self._at_once:
            self.settle()

    def settle(self) -> None:
        """Store what has been added, and tell it."""
        outcomes, told = self._outcomes, self._tell
        self._outcomes, self._tell = [], []
        self._outbox.settle(outcomes)
        for tell in told:
            tell()


@dataclasses.dataclass(frozen=True, slots=True)
class Turn:
    """Reports of one request: what the pass has done, and which of them the leader answered."""

    done: Pass
    settling: Settling
    answered: set[bytes] = dataclasses.field(default_factory=set)
