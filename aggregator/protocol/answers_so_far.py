"""How many answers a leader has of windows that are not collected: a message of ours, no draft's.

A live count would tell its reader the minute in which somebody answers. So a leader counts once an
hour at most, all tasks at one moment, and says the number of a window only from `min_batch_size`
on, the largest of what people answer together. It is the leader's word: nothing proves it before
the window is collected.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

from aggregator.codec import Reader, Writer
from aggregator.dap.resources import ANSWERS_SO_FAR
from aggregator.protocol.task import Task

SECONDS_BETWEEN = 3600
"""How long a count stands. Two of them are never closer, so not on either side of a full hour."""


@dataclasses.dataclass(frozen=True, slots=True)
class WindowCount:
    """The answers in the window that begins `start` seconds after the epoch."""

    start: int
    answers: int

    def write(self, writer: Writer) -> None:
        """Append the encoding."""
        writer.u64(self.start)
        writer.u64(self.answers)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Take one off `reader`."""
        return cls(reader.u64(), reader.u64())


@dataclasses.dataclass(frozen=True, slots=True)
class AnswersSoFar:
    """What a leader says of a task.

    Attributes:
        counted_at: When it counted, in seconds since the epoch; 0 if that is still to come.
        least: From how many answers on it says the number.
        windows: Those with as many. Of any other, collected ones apart, it has fewer.
    """

    message: ClassVar[str] = ANSWERS_SO_FAR

    counted_at: int
    least: int
    windows: tuple[WindowCount, ...] = ()

    def write(self, writer: Writer) -> None:
        """Append the encoding."""
        writer.u64(self.counted_at)
        writer.u64(self.least)
        writer.list16(self.windows)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Take one off `reader`."""
        return cls(reader.u64(), reader.u64(), reader.list16(WindowCount.read))

    def of_window(self, start: int) -> int | None:
        """Return the answers in the window that begins at `start`; None if fewer than `least`."""
        return next((each.answers for each in self.windows if each.start == start), None)


MOST_WINDOWS = 1000
"""The most windows that one answer names, the latest ones."""

MOST_BYTES = 18 + 16 * MOST_WINDOWS


def is_place_beside(task: Task, other: Task) -> bool:
    """Return whether a person is in one of these two, which are asked together."""
    group, others = task.policy.group, other.policy.group
    return group is not None and others is not None and group.name == others.name


def least_of_all(tasks: Sequence[Task]) -> int:
    """Return from how many answers on a number is said of any task that people answer together.

    One number for all: the same people answer a survey and its text questions, so a number of one
    of them, said earlier, would be one of the others.
    """
    by_question: dict[object, int] = {}
    for place, task in enumerate(tasks):
        question = place if task.policy.group is None else task.policy.group.name
        by_question[question] = by_question.get(question, 0) + task.min_batch_size
    return max(by_question.values())


def so_far(
    tasks: Sequence[Task],
    counted_at: int | None,
    by_bucket: Sequence[Mapping[bytes, int]],
    least: int,
) -> AnswersSoFar:
    """Return what a leader says of tasks of which each person is in one, or of one task.

    Args:
        tasks: Tasks of one window; a number of each would say which of them a person is in.
        counted_at: When their reports were counted.
        by_bucket: How many each task had in each bucket.
        least: From how many on a number is said (`least_of_all`).
    """
    window, unit = tasks[0].policy.window, tasks[0].time_precision
    assert window is not None  # noqa: S101  the caller refuses a task that has none
    found: dict[int, int] = {}
    for counts in by_bucket:
        for bucket, count in counts.items():
            start = window.first_unit(int.from_bytes(bucket, "big")) * unit
            found[start] = found.get(start, 0) + count
    enough = [WindowCount(max(0, start), n) for start, n in sorted(found.items()) if n >= least]
    return AnswersSoFar(counted_at or 0, least, tuple(enough[-MOST_WINDOWS:]))
