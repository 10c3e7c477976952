"""The questions of a collector's tasks: what is asked, what it is called, where its pages are."""

import dataclasses
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from urllib.parse import urlencode

from aggregator.errors import ParameterError
from aggregator.protocol.budget import horizon
from aggregator.protocol.task import MADE_UP, Task
from aggregator.protocol.task_file import task_from_toml
from aggregator.steward.survey import Meaning, Part, Windows
from aggregator.written_times import IN_UTC, Times


@dataclasses.dataclass(frozen=True)
class Asked:
    """A question or a table of a survey's task by its place, or a task without a survey."""

    task: Task
    meaning: Meaning | None
    place: int = 0
    times: Times = IN_UTC

    @property
    def path(self) -> str:
        """The path of its task's pages."""
        return f"/questions/{self.task.task_id}"

    @property
    def kept(self) -> dict[str, str]:
        """The parameters in its pages' addresses that say which question of the task it is."""
        return {} if self.meaning is None else {"part": str(self.place)}

    def address(self, page: str = "", **chosen: str) -> str:
        """Return the address of a page of it, such as "/about"."""
        query = urlencode(self.kept | chosen)
        return f"{self.path}{page}" + (f"?{query}" if query else "")

    @property
    def part(self) -> Part | None:
        """The question or table with its place in a report; None for a task without a survey."""
        return None if self.meaning is None else self.meaning.sheet.parts[self.place]

    @property
    def all(self) -> list["Asked"]:
        """All questions and tables of its survey."""
        if self.meaning is None:
            return [self]
        parts = range(len(self.meaning.sheet.parts))
        return [dataclasses.replace(self, place=place) for place in parts]

    @property
    def tables(self) -> list["Asked"]:
        """Its tables by group, if it is a question."""
        part = self.part
        if part is None or part.by:
            return []
        return [
            each
            for each in self.all
            if each.part is not None and each.part.by and each.part.question == part.question
        ]

    @property
    def group_title(self) -> str:
        """The question whose answers are a table's groups, as it is put to people."""
        if self.meaning is None or self.part is None or not self.part.by:
            return ""
        group = self.meaning.sheet.question(self.part.by)
        return group.text or group.name

    @property
    def survey(self) -> str:
        """The title of its survey; empty without one."""
        return "" if self.meaning is None else self.meaning.title

    @property
    def title(self) -> str:
        """The question as it is put to people, or the shortest name that is known."""
        if self.meaning is None or self.part is None:
            return self.task.info or "A task"
        part, sheet = self.part, self.meaning.sheet
        asked = f"{self.mark}{part.question.text or part.question.name}"
        if not part.by:
            return asked
        group = sheet.question(part.by)
        return (
            f"{asked} By: {group.text or group.name}"
            if part.question.text
            else f"{self.mark}{part.name}"
        )

    @property
    def mark(self) -> str:
        """What every name and time of it begins with: that answers are made up, or nothing."""
        return MADE_UP if self.task.is_made_up else ""

    @cached_property
    def most_releases(self) -> int | None:
        """The most results that each aggregator allows; None if there is no limit."""
        most, window, interval = horizon(self.task), self.task.policy.window, self.task.interval
        if window is None or interval is None:
            return most
        first = window.first_unit(interval.start.units)
        windows = -((first - interval.end.units) // window.length)
        return windows if most is None else min(most, windows)

    @property
    def windows(self) -> Windows | None:
        """The windows of its batches; None where the collector may choose any interval."""
        if self.meaning is not None:
            return self.meaning.windows
        window, unit = self.task.policy.window, self.task.time_precision
        return None if window is None else Windows(window.length * unit, window.start * unit)

    def period(self, start: int, end: int) -> str:
        """Return an interval, in seconds since the epoch, for a reader."""
        try:
            if self.windows is not None:
                window = int(self.windows.start(datetime.fromtimestamp(start, UTC)).timestamp())
                if window + self.windows.seconds >= end:
                    start, end = window, window + self.windows.seconds
            return f"{self.mark}{self.times.period(start, end)}"
        except (OverflowError, ValueError):  # a request may name years that no calendar has
            return f"{start:,} to {end:,} seconds since 1970"


@lru_cache(maxsize=4096)  # a text question has up to a thousand tasks
def asked_of(definition: str, times: Times) -> Asked:
    """Return the first question of a stored task, which knows the others."""
    task = task_from_toml(definition)
    try:
        return Asked(task, Meaning.of_task(task), times=times)
    except ParameterError:
        return Asked(task, None, times=times)  # not of a survey
