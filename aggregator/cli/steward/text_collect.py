"""`prio text collect`: collects one window of all tasks of a question, into one file."""

import functools
import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aggregator.cli import faults
from aggregator.cli.options import Config, parse_time
from aggregator.cli.steward.text_files import QuestionFolder, read_asked
from aggregator.errors import ParameterError
from aggregator.service.config.constants import WAIT_SECONDS
from aggregator.written_times import utc_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aggregator.protocol.task import Task


def collect(
    folder: QuestionFolder,
    out: Annotated[
        Path, typer.Option(help="The file of results to write, for `prio text results`.")
    ],
    config: Config = None,
    start: Annotated[
        str | None,
        typer.Option(
            help="Start of the interval: ISO 8601, in UTC unless it names a zone, "
            "or seconds since 1970."
        ),
    ] = None,
    end: Annotated[
        str | None, typer.Option(help="End of the interval, not included; written like --start.")
    ] = None,
    window: Annotated[
        str | None,
        typer.Option(
            help="Instead of --start and --end, for a question that is asked in each window: "
            "the window that contains this time, written like --start."
        ),
    ] = None,
    last: Annotated[
        bool, typer.Option("--last", help="Instead of all these: the latest window that is over.")
    ] = False,
    wait: Annotated[
        float, typer.Option(help="How many seconds to wait for all results.")
    ] = WAIT_SECONDS,
    now: Annotated[
        bool,
        typer.Option(
            "--now",
            help="Collect a window or interval that is not over. All its later answers are "
            "refused for good.",
        ),
    ] = False,
) -> None:
    """Collect all tasks of a text question for one window, and write their results to a file.

    What was collected before is found and not asked for again, so a command that was interrupted,
    or was too early, is repeated as it was. The file is written when all tasks have a result. The
    exit status is 3 if the leader refused, or something was not ready in time.
    """
    import anyio

    from aggregator.cli.steward.collecting import Wanted, collect_all
    from aggregator.cli.steward.survey_lines import trouble_lines
    from aggregator.clock import SystemClock
    from aggregator.collector.results.whole_files import written_whole

    _, tasks = read_asked(folder)
    moment = SystemClock().now()
    if last:
        window = _last_window(tasks[0], moment, start, end, window)
    first, over = _interval(tasks[0], start, end, window)
    if over > moment and (not now or first > moment):
        later = "" if first > moment else "; --now collects it now and refuses every later answer"
        raise ParameterError(
            f"{'end' if window is None else 'window'}: the interval from {utc_text(first)} to "
            f"{utc_text(over)} is not over{later}"
        )
    _check_known(config, tasks)
    length = timedelta(seconds=over - first)
    wanted = [
        Wanted(task, datetime.fromtimestamp(first, UTC), length, f"task {place} of {len(tasks)}")
        for place, task in enumerate(tasks, 1)
    ]
    ask = functools.partial(collect_all, now=now)
    found, troubles = anyio.run(ask, config, wanted, wait, f"{len(tasks)} tasks")
    for line in trouble_lines(troubles):
        print(f"prio: {line}", file=sys.stderr)
    if troubles:
        print(
            f"prio: {len(found)} of {len(tasks)} tasks are collected, and {out} is not written; "
            "the same command goes on",
            file=sys.stderr,
        )
        raise SystemExit(faults.PEER)
    documents = [found[place].document for place in range(len(tasks))]
    with written_whole(out) as file:
        file.write("".join(json.dumps(each) + "\n" for each in documents).encode())
    people = sum(found[place].batch().report_count for place in range(len(tasks)))
    print(f"{people:,} reports in {len(tasks)} tasks, written to {out}")


def _last_window(
    task: "Task", moment: int, start: str | None, end: str | None, window: str | None
) -> str:
    """Return a second within the last window that is over."""
    if (start, end, window) != (None, None, None):
        raise ParameterError("last: takes the place of --start, --end and --window")
    windows = task.policy.window
    if windows is None:
        raise ParameterError(
            "last: this question has no windows, as people answer it once; give --start and --end"
        )
    return str((windows.first_unit(moment // task.time_precision) - 1) * task.time_precision)


def _interval(
    task: "Task", start: str | None, end: str | None, window: str | None
) -> tuple[int, int]:
    """Return the first second to collect, and the one after the last."""
    from aggregator.collector.results.result import collection_request
    from aggregator.dap.problems import BatchInvalid

    if task.batching.leader_selects:
        raise ParameterError(
            "FOLDER: the leader selects the batches of this question; collect each task by itself, "
            "with `prio collect`"
        )
    windows, unit = task.policy.window, task.time_precision
    if window is not None:
        if start is not None or end is not None:
            raise ParameterError("window: takes the place of --start and --end")
        if windows is None:
            raise ParameterError(
                "window: this question has none, as people answer it once; give --start and --end"
            )
        first = windows.first_unit((parse_time(window, "window") or 0) // unit)
        return first * unit, (first + windows.length) * unit
    first_second, last = parse_time(start, "start"), parse_time(end, "end")
    if first_second is None or last is None:
        also = "" if windows is None else ", or --window"
        name = "start" if start is None else "end"
        raise ParameterError(f"{name}: missing; give --start and --end{also}")
    try:
        asked = collection_request(task, {"start": first_second, "end": last})
        if windows is not None:
            task.batching.check_window(asked.query, windows, unit)
    except BatchInvalid as error:
        raise ParameterError(error.detail) from None
    return first_second, last


def _check_known(config: Path | None, tasks: "Sequence[Task]") -> None:
    """Refuse tasks that the collector does not have, or has with other contents."""
    from aggregator.collector import Collector

    with Collector.open(config) as collector:
        known = {each.task_id: each for each in collector.tasks()}
    missing = [task for task in tasks if task.task_id not in known]
    if missing:
        raise ParameterError(
            f"FOLDER: this collector lacks {len(missing)} of {len(tasks)} tasks, such as "
            f"{missing[0].task_id}; `prio task add` adds all of collector.toml"
        )
    for task in tasks:
        if known[task.task_id] != task:
            raise ParameterError(f"FOLDER: this collector has another task {task.task_id}")
