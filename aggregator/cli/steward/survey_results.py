"""`prio survey collect` and `prio survey results`: collects windows, prints labelled figures."""

import dataclasses
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
from aggregator.cli.options import AsJson, Config, Up
from aggregator.cli.steward.collecting import collect_windows
from aggregator.cli.steward.invited_counts import (
    Invited,
    invited_counts,
    invited_document,
    invited_lines,
)
from aggregator.cli.steward.survey_tasks import MaybeTaskFile, Spelled, survey_of
from aggregator.cli.steward.survey_words import Looked, strings_in, text_windows
from aggregator.errors import ParameterError
from aggregator.service.config.constants import WAIT_SECONDS
from aggregator.untrusted_text import escaped, meant
from aggregator.written_times import IN_UTC

if TYPE_CHECKING:
    from aggregator.cli.steward.survey_lines import Trouble
    from aggregator.cli.steward.survey_words import TextWindow
    from aggregator.client.survey.asked_survey import AskedSurvey
    from aggregator.collector.results import Table
    from aggregator.protocol.task import Task
    from aggregator.steward.survey import SurveyResults, Windows

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
    now: Annotated[
        bool,
        typer.Option(
            "--now",
            help="Collect a window that is not over; without --window, the one of now. All its "
            "later answers are refused for good.",
        ),
    ] = False,
    spelled: Spelled = None,
    invited: Invited = None,
    up: Up = None,
    as_json: AsJson = False,
) -> None:
    """Collect one or more windows of a survey, and print what they say.

    What was collected before is found and not asked for again; what people wrote to text questions
    is collected too, and `prio survey results` names it. The exit status is 3 if the leader
    refused, or something was not ready in time; what was ready is printed all the same.
    """
    from aggregator.client.survey.texts import spelled_of
    from aggregator.steward.survey import SurveyResults

    public, config = place_of(file, config, up)
    (asked, meaning), moment = survey_of(public), datetime.now(UTC)
    letters, windows = spelled_of(asked.texts, spelled or ()), meaning.windows
    if now and last is None and window is None:
        window = "now"
    starts = _asked_in(asked.first, windows, _starts(windows, last, window, moment), moment)
    for start in starts:
        if windows.end(start) > moment and not now:
            raise ParameterError(_not_over(config, asked, windows, start))
    collected, troubles = collect_windows(config, asked, letters, windows, starts, wait, now=now)
    of_task = [each for each in collected if each.task == asked.task]
    counts = invited_counts(invited, asked, of_task)
    own = [(each.task, each.batch()) for each in of_task]
    made = SurveyResults(own).table(by=None)
    texts = text_windows(
        asked, letters, windows, lambda task: [each for each in collected if each.task == task]
    )
    if as_json:
        shown = _texts_document(texts, Looked()) if asked.texts else {}
        print(json.dumps(_document(made, troubles) | shown | invited_document(counts)))
    else:
        print_table(made)
        for each in texts:
            print(each.heading(windows))
        print(*invited_lines(counts, windows), sep="\n", end="\n" if counts else "")
    end_in(troubles)


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
    question: Annotated[
        str | None, typer.Option(help="Only what this question says.", show_default=False)
    ] = None,
    window: Annotated[
        str | None,
        typer.Option(help='Only the window that contains this time, ISO 8601, or "now".'),
    ] = None,
    words: Annotated[
        list[Path] | None,
        typer.Option(
            help="A list of strings, one on each line: print which of them people wrote to text "
            "questions. Costs no privacy. Repeatable. If not given, the collector's own lists."
        ),
    ] = None,
    every: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Try all 2^32 fingerprints, on all processors, in the latest window of each text "
            "question or that of --window. Strings of lists are named, and have a lower threshold. "
            "Takes minutes to an hour.",
        ),
    ] = False,
    show: Annotated[
        list[Path] | None,
        typer.Option(
            help="Strings whose counts are printed whatever they are, one on each line. Name them "
            "before you look at any result: only then do their intervals hold. Repeatable."
        ),
    ] = None,
    spelled: Spelled = None,
    invited: Invited = None,
    now: Annotated[
        bool,
        typer.Option(
            "--now",
            help="First collect the window of now, as `prio survey collect --now` does: all its "
            "later answers are refused for good.",
        ),
    ] = False,
    csv: Annotated[Path | None, typer.Option(help="Write the table to this CSV file.")] = None,
    parquet: Annotated[Path | None, typer.Option(help="Write it to this Parquet file.")] = None,
    as_json: AsJson = False,
    up: Up = None,
) -> None:
    """Print everything that was collected of a survey, with labels and intervals.

    Of text questions, how many people took part and which strings of some lists they wrote. Nobody
    is asked again and it costs nobody anything: other lists can be tried at any time. But whoever
    tries lists until a string passes has tried all of them.
    """
    from aggregator.client.survey.texts import spelled_of
    from aggregator.collector import Collector, survey_results
    from aggregator.dp.rationals import parse_probability

    public, config = place_of(file, config, up)
    asked, meaning = survey_of(public)
    letters, windows = spelled_of(asked.texts, spelled or ()), meaning.windows
    if not asked.texts and (words or every or show):
        given = "words" if words else "all" if every else "show"
        raise ParameterError(f"{given}: the survey has no text question")
    names = [*(each.name for each in meaning.sheet.questions), *asked.texts]
    if question is not None and question not in names:
        raise ParameterError(
            f"question: the survey has no question {question!r}{meant(question, names)}"
        )
    if changes and question in asked.texts:
        raise ParameterError(f"changes: {question} is a text question, which has no figures")
    moment = datetime.now(UTC)
    start = None if window is None else start_of(windows, window, moment)
    if now:
        of_now = [windows.start(moment)]
        _, troubles = collect_windows(
            config, asked, letters, windows, of_now, WAIT_SECONDS, now=True
        )
        end_in(troubles)
    with Collector.open(config) as collector:
        found = [] if asked.task is None else list(collector.results(asked.task))
        texts = text_windows(asked, letters, windows, collector.results)
        lists = collector.word_lists if words is None else words
    found = [each for each in found if start in (None, each.start)]
    texts = [each for each in texts if start in (None, each.start)]
    texts = [each for each in texts if question in (None, each.name)]
    counts = invited_counts(invited, asked, found)
    probability = parse_probability(confidence, "confidence")
    if changes:
        print_changes(survey_results(found), probability, question)
        return
    shown = [] if question in asked.texts else found
    made = survey_results(shown).table(question, by=None, confidence=probability, jointly=jointly)
    looked = Looked(strings_in(lists), strings_in(show or ()), every)
    if csv is not None:
        made.to_csv(csv)
    if parquet is not None:
        made.to_parquet(parquet)
    if as_json:
        words_too = _texts_document(texts, looked) if asked.texts else {}
        print(json.dumps(_document(made) | words_too | invited_document(counts)))
    elif csv is None and parquet is None:
        _say_if_none([*shown, *texts], start)
        print_table(made)
        print_texts(texts, windows, looked)
        print(*invited_lines(counts, windows), sep="\n", end="\n" if counts else "")


def _say_if_none(found: "Sequence[object]", start: datetime | None) -> None:
    if not found:
        said = "no window is" if start is None else "this window is not"
        print(f"prio: {said} collected yet: `prio survey collect` does", file=sys.stderr)


def place_of(file: Path | None, config: Path | None, up: Path | None) -> tuple[Path, Path | None]:
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


def print_changes(found: "SurveyResults", confidence: Fraction, question: str | None) -> None:
    """Print what can be concluded about the change from the window before last to the last.

    If a question is named, print its figures only.
    """
    from aggregator.cli.steward.survey_lines import change
    from aggregator.collector.results import compare_all
    from aggregator.collector.results.comparisons import ONLY_NOISE

    pairs = found.changed_rows(question)
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


def end_in(troubles: "Sequence[Trouble]") -> None:
    """Print what could not be collected, and end if there is anything."""
    from aggregator.cli.steward.survey_lines import trouble_lines

    for line in trouble_lines(troubles):
        print(f"prio: {line}", file=sys.stderr)
    if troubles:
        raise SystemExit(faults.PEER)


def print_texts(texts: "Sequence[TextWindow]", windows: "Windows", looked: Looked) -> None:
    """Print which strings people wrote, or all that can be found of the last window.

    What some tasks have not collected is named in standard error.
    """
    for each in _latest(texts) if looked.every else texts:
        if each.is_whole:
            print(each.heading(windows), *each.shown(looked)[0], sep="\n")
        else:
            print(f"prio: {each.heading(windows)}", file=sys.stderr)


def _texts_document(texts: "Sequence[TextWindow]", looked: Looked) -> dict[str, object]:
    shown = [each for each in (_latest(texts) if looked.every else texts) if each.is_whole]
    return {"texts": [each.shown(looked)[1] for each in shown]}


def _latest(texts: "Sequence[TextWindow]") -> "list[TextWindow]":
    """Return the latest window of each question that was collected completely."""
    latest = {
        each.name: each for each in sorted(texts, key=lambda each: each.start) if each.is_whole
    }
    return [*latest.values()]


def _not_over(
    config: Path | None, asked: "AskedSurvey", windows: "Windows", start: datetime
) -> str:
    from aggregator.cli.service.parties import open_collector
    from aggregator.collector.early_collection import loss_in_words

    first, end = int(start.timestamp()), int(windows.end(start).timestamp())
    # People are in one task of a text question each.
    spread = 1 if asked.task else len(next(iter(asked.texts.values()))[1])
    with open_collector(config, may_make=False) as party:
        lost = party.database.read_sync(
            "shut out", lambda tx: loss_in_words(tx, asked.first, first, end, spread)
        )
    return (
        f"window: {windows.describe(start)} is not over: {lost}; --now collects it now and refuses "
        "every later answer of it"
    )


def _starts(
    windows: "Windows", last: str | None, window: str | None, now: datetime
) -> list[datetime]:
    """Return the beginnings of the windows to collect, the earliest first."""
    from aggregator.steward.survey import Windows

    if (last is None) == (window is None):
        raise ParameterError("window: give either --last or --window")
    if window is not None:
        return [start_of(windows, window, now)]
    seconds = Windows.of(str(last), now.replace(microsecond=0)).seconds
    if seconds % windows.seconds:
        raise ParameterError(f"last: must be a whole number of the survey's windows, not {last!r}")
    newest, count = windows.last(now), seconds // windows.seconds
    return [newest - timedelta(seconds=windows.seconds * back) for back in range(count)][::-1]


def _asked_in(
    task: "Task", windows: "Windows", starts: list[datetime], now: datetime
) -> list[datetime]:
    """Return those windows in which people are asked, or raise `ParameterError`."""
    found = [
        start
        for start in starts
        if task.opens <= start.timestamp()
        and (task.closes is None or start.timestamp() < task.closes)
    ]
    if not found:
        assert task.closes is not None  # noqa: S101  a task without an interval takes any
        first = windows.start(datetime.fromtimestamp(task.opens, UTC))
        if starts[-1] < first == windows.start(now):
            raise ParameterError(
                f"window: the survey's first, {windows.describe(first)}, is not over; wait, or "
                "collect it with --window now --now, which refuses every later answer of it"
            )
        raise ParameterError(
            f"window: people are not asked in {windows.describe(starts[-1])}, but from "
            f"{IN_UTC.period(task.opens, task.closes)}"
        )
    return found


def start_of(windows: "Windows", window: str, now: datetime) -> datetime:
    """Return the beginning of the window that contains a time."""
    if window == "now":
        return windows.start(now)
    return windows.start(datetime.fromtimestamp(IN_UTC.read(window, "window"), UTC))


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
