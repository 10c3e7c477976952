"""How old a report may be: no older than the ids that are remembered, or it could be a replay."""

from contextlib import suppress

import structlog

from aggregator.dap.ids import TaskId
from aggregator.dap.problems import Problem
from aggregator.errors import ParameterError
from aggregator.protocol.replay import DAY, first_day_remembered
from aggregator.protocol.task import Task
from aggregator.runtime.runtime import Runtime
from aggregator.storage.database import Database, UnknownTask
from aggregator.storage.id_memory import IdsForgotten, begin_memories, due, forget_ids

log = structlog.get_logger()

_MARGIN_DAYS = 2
"""Ids are remembered for so much longer, for clocks that differ."""


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

    def limit(self, task: Task, now: int) -> int:
        """Return how far behind `now` a report's time may lie, in seconds; none may if negative."""
        from_day = self._from_day.get(task.task_id.value)
        if from_day is None:
            return self._max_age_seconds
        remembered = from_day * DAY + _precision(task) + self._runtime.clock_skew_seconds
        return min(self._max_age_seconds, now - remembered)

    def first_day(self, task: Task, now: int) -> int:
        """Return the day from which on ids must be remembered, where `limit` is kept."""
        earliest = now - self.limit(task, now)
        return first_day_remembered(earliest, _precision(task), self._runtime.clock_skew_seconds)

    def learn(self, error: IdsForgotten) -> None:
        """Take no reports of a task any more whose ids may be forgotten."""
        log.warning("ids that would be needed are forgotten", reason=str(error))
        self._from_day[error.task_id] = error.from_day


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
        earliest = runtime.clock.now() - max_age_seconds
        skew = runtime.clock_skew_seconds
        day = max(0, first_day_remembered(earliest, _precision(task), skew) - _MARGIN_DAYS)
        with suppress(UnknownTask):  # forgotten as a whole meanwhile
            await _forget_ids(database, ids, task_id, day)
    return 0


async def _forget_ids(database: Database, ids: str, task_id: bytes, before_day: int) -> None:
    while await database.run("forget ids", lambda tx: forget_ids(tx, ids, task_id, before_day)):
        pass


def _precision(task: Task) -> int:
    return task.configuration.time_precision
