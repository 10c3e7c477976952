"""Collects several batches at once: those of a survey and its text questions, or of one question.

A batch that was already collected or asked for is found again, so a command can be repeated.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from aggregator.cli.steward.survey_lines import Trouble
from aggregator.errors import PeerError

if TYPE_CHECKING:
    from aggregator.collector import Collected
    from aggregator.protocol.task import Task

AT_ONCE = 8
"""How many batches are asked for at a time."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A batch to collect, with a name for a reader."""

    task: "Task"
    start: datetime
    length: timedelta
    name: str


async def collect_all(
    config: Path | None, wanted: Sequence[Wanted], wait: float, what: str, *, now: bool
) -> "tuple[dict[int, Collected], list[Trouble]]":
    """Return the collected batches, by their index in `wanted`, and what could not be collected.

    `wait` is in seconds, for all of them together; messages call them `what`. With `now`,
    intervals that are not over are collected.
    """
    import anyio
    from rich.console import Console

    from aggregator.collector import AsyncCollector
    from aggregator.service.telemetry.compiling import said_of_compiling

    found: dict[int, Collected] = {}
    troubles: dict[int, Trouble] = {}
    limiter = anyio.CapacityLimiter(AT_ONCE)
    deadline = anyio.current_time() + wait

    async def collect_one(collector: AsyncCollector, place: int) -> None:
        each = wanted[place]
        async with limiter:
            left = timedelta(seconds=max(0.0, deadline - anyio.current_time()))
            try:
                found[place] = await collector.collect(
                    each.task, each.start, each.length, wait=left, now=now
                )
            except PeerError as error:
                troubles[place] = Trouble(each.name, str(error))

    async def tell(collector: AsyncCollector) -> None:
        while True:
            reasons = await collector.reasons_for_waiting()
            why = f"; one is waiting: {reasons[0]}" if reasons else ""
            ended = len(found) + len(troubles)
            status.update(f"collected {ended} of {what}{why}{said_of_compiling()}")
            await anyio.sleep(1)

    with Console(stderr=True).status(f"collecting {what}") as status:
        async with AsyncCollector.open(config) as collector, anyio.create_task_group() as telling:
            telling.start_soon(tell, collector)
            async with anyio.create_task_group() as group:
                for place in range(len(wanted)):
                    group.start_soon(collect_one, collector, place)
            telling.cancel_scope.cancel()
    return found, [troubles[each] for each in sorted(troubles)]
