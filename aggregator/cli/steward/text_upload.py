"""`prio text upload`: sends one report for each person, to the task that the person is in."""

import csv
import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aggregator.cli import faults
from aggregator.cli.floors import takes_floor
from aggregator.cli.options import EnvironmentProxy, InsecureHttp, parse_time
from aggregator.cli.steward.text_files import QuestionFolder, read_asked
from aggregator.entropy import Entropy, SystemEntropy
from aggregator.errors import ParameterError
from aggregator.written_times import utc_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import httpx

    from aggregator.client import Client, UploadSummary
    from aggregator.client.text.question import TextQuestion
    from aggregator.client.text.spelling import Spelling
    from aggregator.client.text.toss import Toss
    from aggregator.protocol.requirements import Floor
    from aggregator.protocol.task import Task


@takes_floor
def upload(
    folder: QuestionFolder,
    answers: Annotated[
        Path,
        typer.Argument(
            metavar="ANSWERS",
            help="A file with one answer per line, or CSV with "
            "--person-column; - for standard input.",
        ),
    ],
    state: Annotated[
        Path,
        typer.Option(
            help="The folder that keeps each person's toss and counts their reports, for ever."
        ),
    ],
    person_column: Annotated[
        str | None,
        typer.Option(
            help="The CSV column that says whose row it is. If not given, line n is taken "
            "for the same person in every file."
        ),
    ] = None,
    answer_column: Annotated[
        str, typer.Option(help="The CSV column with the answers; an empty cell is no answer.")
    ] = "answer",
    delimiter: Annotated[
        str, typer.Option(help="The character between the cells of a line of CSV.")
    ] = ",",
    time: Annotated[
        str | None,
        typer.Option(help="Time of the reports: ISO 8601 or seconds since 1970; now if not given."),
    ] = None,
    *,
    floor: "Floor",
    insecure_http: InsecureHttp = False,
    environment_proxy: EnvironmentProxy = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Upload what people wrote: one report each, all of one size, whatever they wrote.

    A person's task is tossed before any answer is hashed, and kept in --state. People who have
    answered before, in this window, or ever if there are no windows, are left out, so an
    interrupted command can be repeated. The exit status is 1 if some reports were refused.
    """
    import anyio

    from aggregator.clock import SystemClock
    from aggregator.protocol.clear_text import check_endpoints
    from aggregator.service.transport.client import open_client

    question, tasks = read_asked(folder)
    check_endpoints(tasks[0], insecure_http=insecure_http)
    written = _answers(answers, person_column, answer_column, delimiter)
    state.mkdir(mode=0o700, exist_ok=True)
    seconds = parse_time(time, "time")
    moment = SystemClock().now() if seconds is None else seconds
    _check_time(tasks[0], moment)

    async def send() -> "tuple[UploadSummary, int]":
        async with open_client(
            insecure_http=insecure_http, environment_proxy=environment_proxy
        ) as http:
            return await send_answers(
                question, tasks, written, state, http, moment, SystemEntropy(), floor
            )

    summary, before = anyio.run(send)
    refused = {error.draft_name: count for error, count in summary.refused.items()}
    if as_json:
        document = {"accepted": summary.accepted, "answered_before": before, "refused": refused}
        print(json.dumps({"version": 1, **document}))
    else:
        print(f"{summary.accepted} of {summary.total} reports accepted")
        if before:
            print(f"{before} left out, who had answered before")
        for name, count in refused.items():
            print(f"{count} refused: {name}")
    if refused:
        raise SystemExit(faults.PARTLY)


def _check_time(task: "Task", seconds: int) -> None:
    """Refuse reports of a time of which the task takes none: each would have spent the window."""
    interval, unit = task.interval, task.time(seconds).units
    if interval is not None and not interval.start.units <= unit < interval.end.units:
        first, end = (
            utc_text(each.units * task.time_precision) for each in (interval.start, interval.end)
        )
        raise ParameterError(f"time: these tasks take reports from {first} to {end}")


async def send_answers(
    question: "TextQuestion | Spelling",
    tasks: "Sequence[Task]",
    written: "Mapping[str, str]",
    state: Path,
    http: "httpx.AsyncClient",
    seconds: int,
    entropy: Entropy,
    floor: "Floor",
) -> "tuple[UploadSummary, int]":
    """Send a report for each person; return the outcome, and how many had answered before.

    In a window of letters, the question is the spelling that replaces it. `state` is the folder of
    tosses.
    """
    from aggregator.client import Client, UploadSummary
    from aggregator.client.text.toss_files import kept_tosses
    from aggregator.dap.report_errors import AnyReportError

    tosses = kept_tosses(state, question.hashes, written, entropy)
    clients = [
        Client(task, http, entropy, floor=floor, keeps_places=True)  # the toss is kept
        for task in tasks
    ]
    # A person who was counted is not sent again, so count nobody while an aggregator is away.
    await clients[0].ready()
    accepted, before, refused = 0, 0, Counter[AnyReportError]()
    for number, client in enumerate(clients):
        here = [person for person, toss in tosses.items() if toss.number == number]
        summary, left_out = await _send(
            client,
            question,
            tasks[number],
            {each: tosses[each] for each in here},
            written,
            state,
            seconds,
        )
        accepted += summary.accepted
        before += left_out
        refused.update(summary.refused)
    return UploadSummary(accepted, refused), before


async def _send(
    client: "Client",
    question: "TextQuestion | Spelling",
    task: "Task",
    tosses: "Mapping[str, Toss]",
    written: "Mapping[str, str]",
    state: Path,
    seconds: int,
) -> "tuple[UploadSummary, int]":
    """Count and send the reports for one task."""
    from aggregator.client import Contributions, TooManyReports
    from aggregator.client.text.toss_files import place_of

    measurements = []
    for person, toss in tosses.items():
        counts = place_of(state, toss.hashes, person).with_suffix(".sent")
        try:
            # In each window a person is either in the question or in its spelling.
            under = f"text question {question.hashes.meaning.hex()}"
            Contributions(counts).count(task, 1, seconds, under=under)
        except TooManyReports:
            continue
        measurements.append(_measurement(question, toss, written[person]))
    summary = await client.upload(measurements, time=seconds)
    return summary, len(tosses) - len(measurements)


def _measurement(question: "TextQuestion | Spelling", toss: "Toss", answer: str) -> int:
    from aggregator.client.text.spelling import Spelling

    if isinstance(question, Spelling):
        return question.measurement(toss.number, answer)
    return toss.measurement(answer)


def _answers(
    file: Path, person_column: str | None, answer_column: str, delimiter: str
) -> dict[str, str]:
    """Return what each person wrote."""
    from aggregator.cli.client.upload import check_delimiter, csv_text

    check_delimiter(delimiter)
    try:
        with csv_text(file) as stream:
            if person_column is None:
                # Ends of lines only: an answer with another separator in it is of one person.
                lines = (line.rstrip("\r\n") for line in stream)
                return {f"line {number}": line for number, line in enumerate(lines, 1)}
            reader = csv.DictReader(stream, delimiter=delimiter)
            for column in (person_column, answer_column):
                if column not in (reader.fieldnames or ()):
                    names = ", ".join(map(repr, reader.fieldnames or ()))
                    raise ParameterError(f"{file}: has no column {column!r}; it has {names}")
            written: dict[str, str] = {}
            for row in reader:
                person = row[person_column]
                if not person or person in written:
                    fault = "names a person again" if person else "names no person"
                    raise ParameterError(f"{file}: line {reader.line_num}: {fault}")
                written[person] = row[answer_column] or ""
            return written
    except UnicodeDecodeError:
        # `from None`: the cause contains the bytes.
        raise ParameterError(f"{file}: is not UTF-8 text; save it as UTF-8") from None
    except csv.Error as error:
        raise ParameterError(f"{file}: is not CSV: {error}") from None
