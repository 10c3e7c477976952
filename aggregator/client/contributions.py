"""Holds a person to the reports that a task allows, whichever task asked for them.

A task's guarantee is for `max_reports_per_person` reports of one person in a batch. Aggregators see
reports, not persons, so the software that makes a person's reports enforces the bound, from what
its outbox remembers. It cannot recognise the same person on another device.

If the task's policy has a window, a batch is one window, and both aggregators refuse any other: the
bound is per window, and `max_batches_per_person` limits the number of windows with a report.
Without a window, the collector or the leader decides later which reports share a batch. The bound
is then on all reports of the person for the task, for ever, and they cost no more than one release.

A survey that is changed, or a question that is asked again, has other tasks, and the old ones may
still run. Their maker could ask the same people twice in a window, or give the new tasks shorter
windows. So reports are counted by what is asked, and by the window of each report that is there.

In a group of tasks a person keeps one place for ever: the first task that a report is counted for
decides it, and tasks of other places are refused. So nobody pays for two places, even if a task
calls unrelated tasks a group.

Where a task has permits both aggregators keep to the bound, and to one place of a group, for a
person with any number of devices: nothing is counted here.

Reports are counted in the transaction that stores them, before a byte of them is sent, and are
never uncounted: a refusal is only the leader's word, which may be false.
"""

import dataclasses
import hashlib
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from aggregator.errors import ParameterError

if TYPE_CHECKING:
    from aggregator.dp.group import Group
    from aggregator.protocol.task import Task

_FOR_EVER = 2**62


@dataclasses.dataclass(frozen=True, slots=True)
class Contribution:
    """A report of a person: when it is from, and what its task allows in the window it is in.

    Times are in seconds since the epoch.

    Attributes:
        asked: 32 bytes that stand for what is asked, whichever task asks it.
        person: Whose report it is.
        time: When it is from.
        start: The beginning of its window; 0 if the task has none.
        end: The end of its window.
        most: How many reports of one person the task allows in that window.
        windows: How many windows it allows a report of one person in; None if any number.
        group: The group of the task, and its place there; None if it is in none.
    """

    asked: bytes
    person: str
    time: int
    start: int
    end: int
    most: int
    windows: int | None = None
    group: "Group | None" = None

    @classmethod
    def of(
        cls, task: "Task", person: str, seconds: int, asked: bytes | None = None
    ) -> "Contribution":
        """Return a report of a time for a task; `asked` is by default what its meaning says.

        It names no group: whoever keeps people to one place of it adds that.
        """
        policy, unit = task.policy, task.time_precision
        start, end = 0, _FOR_EVER
        if policy.window is not None:
            first = policy.window.first_unit(task.time(seconds).units)
            start, end = first * unit, (first + policy.window.length) * unit
        return cls(
            asked_by(task) if asked is None else asked,
            person,
            seconds,
            start,
            end,
            policy.max_reports_per_person,
            policy.max_batches_per_person,
        )

    def refusal(self, known: Iterable["Contribution"]) -> str | None:
        """Return why a person who has made `known` may not make this one too; None if they may.

        All of them are of the person and of what is asked.
        """
        known = [*known]
        # Its own window, and that of each report that it would share a batch with.
        bounds = {(self.start, self.end, self.most)}
        bounds |= {(c.start, c.end, c.most) for c in known if c.start <= self.time < c.end}
        for start, end, most in bounds:
            count = 1 + sum(start <= each.time < end for each in known)
            if count > most:
                for_ever = end == _FOR_EVER
                return (
                    f"max_reports_per_person: {count} reports of one person "
                    f"{'for this task' if for_ever else 'in one window'}, {most} allowed"
                    f"{' for ever, since the task has no window' if for_ever else ''}"
                )
        length = self.end - self.start
        windows = {(each.time - self.start) // length for each in (self, *known)}
        if self.windows is not None and len(windows) > self.windows:
            return (
                f"max_batches_per_person: reports of one person in {len(windows)} windows, "
                f"{self.windows} allowed"
            )
        return None


def asked_by(task: "Task") -> bytes:
    """Return 32 bytes that stand for what a task asks: of a survey, through its changes."""
    is_of_survey = survey_name(task.meaning) is not None
    return survey_digest(task.meaning) if is_of_survey else task.task_id.value


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


MARK = ": "


def check_person(person: object) -> None:
    """Refuse what is no name of a person: another thing than text, none, or what is no Unicode."""
    if not isinstance(person, str):
        raise ParameterError(f"person: must be text, not {type(person).__name__}")
    if not person.strip():
        raise ParameterError("person: must name a person, and is empty")
    try:
        person.encode()
    except UnicodeEncodeError:
        raise ParameterError("person: must be Unicode, without halves of surrogate pairs") from None


def claim_of(task: "Task", person: str, seconds: int, number: int = 0) -> str:
    """Return the key that a person's report in a window is stored under, the first unless numbered.

    `seconds` is any time in the window.
    """
    window = task.policy.window
    first = 0 if window is None else window.first_unit(task.time(seconds).units)
    of_window = f"window {first}" if number == 0 else f"window {first}, report {number + 1}"
    return f"{of_window}{MARK}{person}"
