"""Holds a person to one report in a window of what is asked, whichever task it was for.

A survey that is changed, or a question that is asked again, has other tasks, and the old ones may
still run. Their maker could ask the same people twice in a window, or give the new tasks shorter
windows. So a report is refused if an earlier one is in its window, or it in an earlier one's.
"""

import dataclasses
import hashlib
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from aggregator.protocol.task import Task

_HELD = "held"
"""The state of a claim that stands for a report of any task."""

_END = 2**62


@dataclasses.dataclass(frozen=True, slots=True)
class WindowClaim:
    """A person's report: when it was made, and the window it claims, in seconds since the epoch.

    `asked` are 32 bytes that stand for what is asked.
    """

    asked: bytes
    person: str
    time: int
    start: int
    end: int

    @classmethod
    def of(cls, asked: bytes, person: str, task: "Task", seconds: int) -> "WindowClaim":
        """Return a report of a time for a task, whose window is all time if it has none."""
        window, unit = task.policy.window, task.time_precision
        if window is None:
            return cls(asked, person, seconds, 0, _END)
        first = window.first_unit(task.time(seconds).units)
        return cls(asked, person, seconds, first * unit, (first + window.length) * unit)

    @property
    def _of_person(self) -> str:
        """What all claims of the person begin with, and no other's."""
        return f"{len(self.person)} {self.person} "

    def add(self, execute: "Callable[..., sqlite3.Cursor]") -> bool:
        """Add it to the claims of an outbox, in its transaction; return whether there was room."""
        begin = self._of_person
        found = execute(
            "SELECT claim FROM claims WHERE task = ? AND claim >= ? AND claim < ?",
            (self.asked, begin, f"{begin[:-1]}!"),  # which follows a space
        )
        for (claim,) in found:
            time, start, end = map(int, claim[len(begin) :].split())
            if self.start <= time < self.end or start <= self.time < end:
                return False
        claim = f"{begin}{self.time} {self.start} {self.end}"
        execute("INSERT INTO claims VALUES (?, ?, ?, '')", (self.asked, claim, _HELD))
        return True


MARK = ": "


def claim_of(task: "Task", person: str, seconds: int) -> str:
    """Return the key that a person's only report in a window is stored under.

    Args:
        task: The task.
        person: Whose report it is.
        seconds: Any time in the window, since the Unix epoch.
    """
    window = task.policy.window
    first = 0 if window is None else window.first_unit(task.time(seconds).units)
    return f"window {first}{MARK}{person}"


def survey_name(meaning: str) -> str | None:
    """Return the name that a survey keeps through its changes; None without a survey's meaning."""
    try:
        table = json.loads(meaning)
        return f"{table['survey']}, asked of {table['asked']}"
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def survey_digest(meaning: str) -> bytes:
    """Return 32 bytes that stand for a survey through its changes."""
    return hashlib.sha256(f"survey {survey_name(meaning)}".encode()).digest()
