"""Collects windows of a survey: several batches at once, of its task and its text questions.

A batch that was already collected or asked for is found again, so a command can be repeated.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from aggregator.cli.steward.survey_lines import Trouble
from aggregator.errors import ParameterError, PeerError
from aggregator.written_times import duration

if TYPE_CHECKING:
    from aggregator.client.survey.asked_survey import AskedSurvey
    from aggregator.client.survey.texts import SpelledTexts
    from aggregator.collector import Collected
    from aggregator.protocol.task import Task
    from aggregator.steward.survey import Windows

AT_ONCE = 8
"""How many batches are asked for at a time."""


def collect_windows(
    config: Path | None,
    asked: "AskedSurvey",
    letters: "SpelledTexts",
    windows: "Windows",
    starts: Sequence[datetime],
    wait: float,
    *,
    now: bool,
) -> "tuple[list[Collected], list[Trouble]]":
    """Collect all tasks of a survey for some windows, or letters in place of what people write.

    Returns what was collected and what could not be. `wait` is in seconds, for all together. With
    `now`, windows that are not over are collected.
    """
    import anyio

    length, wanted = timedelta(seconds=windows.seconds), list[_Wanted]()
    if asked.task is not None:
        wanted += [_Wanted(asked.task, start, length, windows.describe(start)) for start in starts]
    for name, (_, tasks) in asked.texts.items():
        for start in starts:
            spelled = (each for each in letters.get(name, ()) if each.holds(int(start.timestamp())))
            window = next(spelled, None)
            wanted += [
                _Wanted(task, start, length, f"{windows.describe(start)} of {task.title}")
                for task in (tasks if window is None else window.tasks)
            ]
    what = f"{len(wanted)} batches" if asked.texts else f"{len(starts)} windows"
    found, troubles = anyio.run(partial(_collect_all, now=now), config, wanted, wait, what)
    return [found[place] for place in sorted(found)], troubles


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A batch to collect, with a name for a reader."""

    task: "Task"
    start: datetime
    length: timedelta
    name: str


async def _collect_all(
    config: Path | None, wanted: Sequence[_Wanted], wait: float, what: str, *, now: bool
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
    heard: set[str] = set()
    troubles: dict[int, Trouble] = {}
    console = Console(stderr=True)
    limiter = anyio.CapacityLimiter(AT_ONCE)
    deadline = anyio.current_time() + wait

    def tell_once(reason: str | None) -> None:
        if reason and reason not in heard:
            heard.add(reason)
            left = duration(max(0.0, deadline - anyio.current_time()))
            line = f"prio: {reason}; asking again for {left}, or until Ctrl-C"
            console.print(line, soft_wrap=True, markup=False, highlight=False)

    async def collect_one(collector: AsyncCollector, place: int) -> None:
        each = wanted[place]
        async with limiter:
            left = timedelta(seconds=max(0.0, deadline - anyio.current_time()))
            try:
                found[place] = await collector.collect(
                    each.task, each.start, each.length, wait=left, now=now, tell=tell_once
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

    async with AsyncCollector.open(config) as collector:
        _check_known([each.task for each in wanted], await collector.tasks())
        with console.status(f"collecting {what}") as status:
            async with anyio.create_task_group() as telling:
                telling.start_soon(tell, collector)
                async with anyio.create_task_group() as group:
                    for place in range(len(wanted)):
                        group.start_soon(collect_one, collector, place)
                telling.cancel_scope.cancel()
    return found, [troubles[each] for each in sorted(troubles)]


def _check_known(wanted: "Sequence[Task]", tasks: "Sequence[Task]") -> None:
    """Refuse tasks that the collector does not have, or has with other contents."""
    known = {each.task_id: each for each in tasks}
    ours = {each.task_id: each for each in wanted}
    if missing := ours.keys() - known.keys():
        raise ParameterError(
            f"task.toml: this collector lacks {len(missing)} of the survey's {len(ours)} tasks, "
            f"such as {min(map(str, missing))}; `prio task add` adds all of collector.toml"
        )
    for task_id, task in ours.items():
        if known[task_id] != task:
            raise ParameterError(f"task.toml: this collector has another task {task_id}")
