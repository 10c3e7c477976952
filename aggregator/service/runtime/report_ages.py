"""How old a report may be: a replay is noticed only while the store has ids of its age."""

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from aggregator.dap.ids import TaskId
from aggregator.dap.problems import Problem
from aggregator.errors import ParameterError
from aggregator.protocol.replay import days_remembered, earliest_remembered, first_day_remembered
from aggregator.protocol.task import Task
from aggregator.service.runtime.runtime import Runtime
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.transaction import Transaction, UnknownTask
from aggregator.service.storage.reports.id_memory import (
    IdsForgotten,
    Place,
    begin_memories,
    due,
    forget_ids,
)
from aggregator.service.telemetry.lines import log

_MARGIN_DAYS = 2
"""How many days longer than needed ids are kept, in case clocks differ."""


@dataclasses.dataclass(frozen=True, slots=True)
class AgeLimit:
    """How old the reports of a task may be.

    Attributes:
        seconds: How far behind our clock a report's time may lie; if negative, none is accepted.
        first_day: The day from which ids must be kept for that, in days since the epoch: no report
            that is accepted has a time of an earlier day.
    """

    seconds: int
    first_day: int


class ReportAges:
    """The greatest age of reports that are accepted, as far as this process knows.

    At first it is what the settings say. If ids that it needs were deleted, because a clock was set
    back or the setting was raised, the transaction that adds ids raises, and the age is lowered.
    """

    def __init__(self, max_age_seconds: int) -> None:
        """Accept reports at most `max_age_seconds` old."""
        self._max_age_seconds = max_age_seconds
        self._from_day: dict[bytes, int] = {}

    def limit(self, task: Task, now: int) -> AgeLimit:
        """Return the limit for a task at `now`, in seconds since the epoch."""
        earliest = now - self._max_age_seconds
        precision = task.time_precision
        from_day = self._from_day.get(task.task_id.value)
        if from_day is not None:
            earliest = max(earliest, earliest_remembered(from_day, precision))
        return AgeLimit(now - earliest, first_day_remembered(earliest, precision))

    @contextmanager
    def learning(self) -> Iterator[None]:
        """If needed ids turn out to be deleted, lower the age from now on, and raise the error."""
        try:
            yield
        except IdsForgotten as error:
            log.warning("ids that would be needed are forgotten", reason=str(error))
            self._from_day[error.task_id] = error.from_day
            raise


async def forget_old_ids(runtime: Runtime, max_age_seconds: int) -> int:
    """Delete the ids of reports that are refused for their age; return 0, as all is done."""
    database = runtime.database
    while await database.run("begin memories", begin_memories):
        pass
    for task_id, ids in await database.read("look for old ids", due):
        try:
            task = await runtime.public_task(TaskId(task_id))
        except (Problem, ParameterError) as error:
            log.warning("no ids are forgotten", task=str(TaskId(task_id)), reason=str(error))
            continue
        days = days_remembered(max_age_seconds, task.time_precision) + _MARGIN_DAYS
        with suppress(UnknownTask):  # the whole task was forgotten meanwhile
            await _forget_ids(database, ids, task_id, days)
    return 0


async def _forget_ids(database: Database, ids: str, task_id: bytes, days: int) -> None:
    def step(after: Place | None) -> Callable[[Transaction], Place | None]:
        return lambda tx: forget_ids(tx, ids, task_id, days, after)

    place = await database.run("forget ids", step(None))
    while place is not None:
        place = await database.run("forget ids", step(place))
