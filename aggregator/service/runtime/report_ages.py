"""How old a report may be: no older than the ids that are remembered, or it could be a replay."""

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from aggregator.dap.ids import TaskId
from aggregator.dap.problems import Problem
from aggregator.dap.times import DAY
from aggregator.errors import ParameterError
from aggregator.protocol.replay import days_remembered, first_day_remembered
from aggregator.protocol.task import Task
from aggregator.service.runtime.runtime import Runtime
from aggregator.service.storage.engine.database import Database, UnknownTask
from aggregator.service.storage.reports.id_memory import (
    IdsForgotten,
    begin_memories,
    due,
    forget_ids,
)
from aggregator.service.telemetry.lines import log

_MARGIN_DAYS = 2
"""Ids are remembered for so much longer, for clocks that differ."""


@dataclasses.dataclass(frozen=True, slots=True)
class AgeLimit:
    """How old the reports of a task may be.

    Attributes:
        seconds: How far behind our clock a report's time may lie; none is taken if it is negative.
        first_day: From which day on ids must be remembered for that, in days since the epoch.
    """

    seconds: int
    first_day: int


class ReportAges:
    """The age of reports that are taken, as far as this process knows.

    It is the setting's. If ids are forgotten that it would need, since a clock was put back or the
    setting was raised, the transaction that adds ids says so, and it is less from then on.
    """

    def __init__(self, runtime: Runtime, max_age_seconds: int) -> None:
        """Take reports whose time lies so far behind the clock of `runtime` at most."""
        self._runtime = runtime
        self._max_age_seconds = max_age_seconds
        self._from_day: dict[bytes, int] = {}

    def limit(self, task: Task, now: int) -> AgeLimit:
        """Return the limit for a task at `now`, in seconds since the epoch."""
        earliest = now - self._max_age_seconds
        precision, skew = _precision(task), self._runtime.clock_skew_seconds
        from_day = self._from_day.get(task.task_id.value)
        if from_day is not None:
            earliest = max(earliest, from_day * DAY + precision + skew)
        return AgeLimit(now - earliest, first_day_remembered(earliest, precision, skew))

    @contextmanager
    def learning(self) -> Iterator[None]:
        """Take no reports any more whose ids are found to be forgotten; the caller is told too."""
        try:
            yield
        except IdsForgotten as error:
            log.warning("ids that would be needed are forgotten", reason=str(error))
            self._from_day[error.task_id] = error.from_day
            raise


async def forget_old_ids(runtime: Runtime, max_age_seconds: int) -> int:
    """Forget the ids of reports that are refused for their age; return 0, for all is done."""
    database = runtime.database
    while await database.run("begin memories", begin_memories):
        pass
    for task_id, ids in await database.read("look for old ids", due):
        try:
            task = await runtime.public_task(TaskId(task_id))
        except (Problem, ParameterError) as error:
            log.warning("no ids are forgotten", task=str(TaskId(task_id)), reason=str(error))
            continue
        skew = runtime.clock_skew_seconds
        days = days_remembered(max_age_seconds, _precision(task), skew) + _MARGIN_DAYS
        with suppress(UnknownTask):  # forgotten as a whole meanwhile
            await _forget_ids(database, ids, task_id, days)
    return 0


async def _forget_ids(database: Database, ids: str, task_id: bytes, days: int) -> None:
    while await database.run("forget ids", lambda tx: forget_ids(tx, ids, task_id, days)):
        pass


def _precision(task: Task) -> int:
    return task.configuration.time_precision
