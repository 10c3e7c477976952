"""`prio survey collect` and `prio survey results`: collects windows, prints labelled figures."""

import dataclasses
import functools
import json
import math
import shutil
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aggregator.cli import faults
from aggregator.cli.options import Config, Up
from aggregator.cli.steward.survey_tasks import MaybeTaskFile, task_of_survey
from aggregator.cli.steward.survey_words import show_words
from aggregator.cli.steward.text_files import texts_of
from aggregator.errors import ParameterError
from aggregator.service.config.constants import WAIT_SECONDS
from aggregator.untrusted_text import escaped
from aggregator.written_times import IN_UTC

if TYPE_CHECKING:
    from aggregator.cli.steward.collecting import Wanted
    from aggregator.cli.steward.survey_lines import Trouble
    from aggregator.collector.results import Table
    from aggregator.protocol.task import Task
    from aggregator.steward.survey import Meaning, SurveyResults, Windows

_WIDTH = 110
"""The characters in a line if there is no terminal."""


def collect(
    file: MaybeTaskFile = None,
    config: Config = None,
    last: Annotated[
        str | None, typer.Option(help='The latest windows that are over: "week", "4 weeks".')
    ] = None,
    window: Annotated[
        str | None,
        typer.Option(help='The window that contains this time or date, ISO 8601, or "now".'),
    ] = None,
    wait: Annotated[
        float, typer.Option(help="How many seconds to wait for all results.")
    ] = WAIT_SECONDS,
    shut_out_later_answers: Annotated[
        bool,
        typer.Option(
            "--shut-out-later-answers",
            help="Collect a window that is not over. All its later answers are refused for good.",
        ),
    ] = False,
    up: Up = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Collect one or more windows of a survey, and print what they say.

    What was collected before is found and not asked for again; what people wrote to text questions
    is collected too, for `prio survey results --words`. The exit status is 3 if the leader
    refused, or something was not ready in time; what was ready is printed all the same.
    """
    import anyio

    from aggregator.cli.steward.collecting import collect_all
    from aggregator.cli.steward.survey_lines import trouble_lines
    from aggregator.steward.survey import SurveyResults

    public, config = _place_of(file, config, up)
    (task, meaning), now = task_of_survey(public), datetime.now(UTC)
    windows = meaning.windows
    starts = _starts(windows, last, window, now)
    for start in starts:
        if windows.end(start) > now and not shut_out_later_answers:
            raise ParameterError(_not_over(config, task, windows, start))
    others = [each for _, tasks in texts_of(public).values() for each in tasks]
    wanted = _wanted([task, *others], meaning, starts)
    what = f"{len(wanted)} batches" if others else f"{len(starts)} windows"
    ask = functools.partial(collect_all, now=shut_out_later_answers)
    found, troubles = anyio.run(ask, config, wanted, wait, what)
    # Text questions are only decoded with lists of strings.
    own = [found[place] for place in range(len(starts)) if place in found]
    made = SurveyResults([(each.task, each.batch()) for each in own]).table()
    if as_json:
        print(json.dumps(_document(made, troubles)))
    else:
        print_table(made)
    for line in trouble_lines(troubles):
        print(f"prio: {line}", file=sys.stderr)
    if troubles:
        raise SystemExit(faults.PEER)


def results(
    file: MaybeTaskFile = None,
    config: Config = None,
    confidence: Annotated[
        str, typer.Option(help='Confidence of each interval by itself, exact: "0.95", "99/100".')
    ] = "0.95",
    jointly: Annotated[
        bool,
        typer.Option("--jointly", help="Make all intervals hold at once, which makes them wider."),
    ] = False,
    changes: Annotated[
        bool,
        typer.Option(
            "--changes",
            help="Print what can be concluded about the change from the last window but one "
            "to the last, all statements holding at once.",
        ),
    ] = False,
    words: Annotated[
        list[Path] | None,
        typer.Option(
            help="Instead, print which strings of this list people wrote to text questions: "
            "a file with one string per line. Costs no privacy. Repeatable."
        ),
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="Write the table to this CSV file.")] = None,
    parquet: Annotated[Path | None, typer.Option(help="Write it to this Parquet file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    up: Up = None,
) -> None:
    """Print everything that was collected of a survey, with labels and intervals."""
    from aggregator.collector import Collector, survey_results
    from aggregator.dp.rationals import parse_probability

    public, config = _place_of(file, config, up)
    task, meaning = task_of_survey(public)
    with Collector.open(config) as collector:
        if words:
            show_words(public, meaning, words, collector.results, as_json=as_json)
            return
        found = list(collector.results(task))
    probability = parse_probability(confidence, "confidence")
    if changes:
        print_changes(survey_results(found), probability)
        return
    made = survey_results(found).table(confidence=probability, jointly=jointly)
    if csv is not None:
        made.to_csv(csv)
    if parquet is not None:
        made.to_parquet(parquet)
    if as_json:
        print(json.dumps(_document(made)))
    elif csv is None and parquet is None:
        print_table(made)


def _place_of(file: Path | None, config: Path | None, up: Path | None) -> tuple[Path, Path | None]:
    """Return a survey's public file, and the service file of its collector."""
    from aggregator.cli.local.folder import public_file

    public, folder = public_file(file, up)
    if config is None and folder is not None:
        config = folder.config("collector")
    return public, config


def print_table(made: "Table") -> None:
    """Print a table of a survey's figures: by question, a column for each window."""
    from aggregator.cli.steward.survey_lines import table_lines

    for line in table_lines(made, shutil.get_terminal_size((_WIDTH, 0)).columns):
        print(line)


def print_changes(found: "SurveyResults", confidence: Fraction) -> None:
    """Print what can be concluded about the change from the window before last to the last."""
    from aggregator.cli.steward.survey_lines import change
    from aggregator.collector.results import compare_all
    from aggregator.collector.results.comparisons import ONLY_NOISE

    pairs = found.changed_rows()
    compared = compare_all([(new.quantity, old.quantity) for new, old in pairs], confidence)
    new, old = pairs[0]
    print(f"from {old.window} to {new.window}, {len(pairs)} figures:")
    for (row, _), comparison in zip(pairs, compared, strict=True):
        of = f"of {row.by} {row.group}" if row.by else ""
        name = " ".join(filter(None, (row.question, row.shows, row.quantity.label, of)))
        unit = " percentage points" if row.shows == "share" else f" {row.quantity.unit}".rstrip()
        low, high = float(comparison.interval.low), float(comparison.interval.high)
        said = change(low, high, unit, is_larger=comparison.is_larger)
        print(escaped(f"  {name}: {said}"))
    print(f"intervals: {100 * float(confidence):.6g} %, all at once. {ONLY_NOISE}")


def _wanted(
    tasks: "Sequence[Task]", meaning: "Meaning", starts: Sequence[datetime]
) -> "list[Wanted]":
    """Return the batches to collect: of the survey's task, which is first, and its text tasks."""
    from aggregator.cli.steward.collecting import Wanted

    length = timedelta(seconds=meaning.windows.seconds)
    names = ["", *(f" of {task.title}" for task in tasks[1:])]
    return [
        Wanted(task, start, length, meaning.windows.describe(start) + name)
        for task, name in zip(tasks, names, strict=True)
        for start in starts
    ]


def _not_over(config: Path | None, task: "Task", windows: "Windows", start: datetime) -> str:
    from aggregator.cli.service.parties import open_collector
    from aggregator.collector.early_collection import loss_in_words

    first, end = int(start.timestamp()), int(windows.end(start).timestamp())
    with open_collector(config, may_make=False) as party:
        lost = party.database.read_sync("shut out", lambda tx: loss_in_words(tx, task, first, end))
    return (
        f"window: {windows.describe(start)} is not over: {lost}; --shut-out-later-answers "
        "collects it now and refuses every later answer of it"
    )


def _starts(
    windows: "Windows", last: str | None, window: str | None, now: datetime
) -> list[datetime]:
    """Return the beginnings of the windows to collect, the earliest first."""
    from aggregator.steward.survey import Windows

    if (last is None) == (window is None):
        raise ParameterError("window: give either --last or --window")
    if window is not None:
        if window == "now":
            return [windows.start(now)]
        seconds = IN_UTC.read(window, "window")
        return [windows.start(datetime.fromtimestamp(seconds, UTC))]
    seconds = Windows.of(str(last), now.replace(microsecond=0)).seconds
    if seconds % windows.seconds:
        raise ParameterError(f"last: must be a whole number of the survey's windows, not {last!r}")
    newest, count = windows.last(now), seconds // windows.seconds
    return [newest - timedelta(seconds=windows.seconds * back) for back in range(count)][::-1]


def _document(made: "Table", troubles: "Sequence[Trouble]" = ()) -> dict[str, object]:
    return {
        "version": 2,
        "rows": [_finite(row) for row in made.rows],
        "failed": [dataclasses.asdict(each) for each in troubles],
    }


def _finite(row: Mapping[str, object]) -> dict[str, object]:
    """Return a row with null for missing bounds, because JSON has no infinity."""
    return {
        name: None if isinstance(cell, float) and not math.isfinite(cell) else cell
        for name, cell in row.items()
    }
