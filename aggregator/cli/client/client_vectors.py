"""`prio client-vectors`: test vectors for a client in another language."""

import json
from pathlib import Path
from typing import Annotated

import typer

from aggregator.cli.options import WhichTask, parse_time


def client_vectors(
    task_file: Annotated[
        Path,
        typer.Argument(
            metavar="TASK.toml",
            help="The public task file, or the folder of a text question with its public files.",
        ),
    ],
    measurements: Annotated[
        list[str] | None,
        typer.Argument(
            help="Measurements; a vector's coordinates are joined by commas. If not given, "
            "the two that are furthest apart. For a text question, what people write; if not "
            "given, some strings that are hard to get right."
        ),
    ] = None,
    time: Annotated[
        str, typer.Option(help="Time of the reports: ISO 8601 or seconds since 1970.")
    ] = "2026-01-01T00:00:00Z",
    which: WhichTask = None,
) -> None:
    """Write each step from a measurement to an upload, byte by byte, as JSON.

    A client in another language is right for this task if it gives the same bytes at each step from
    the same random bytes. Everybody knows these: send none of the reports.
    """
    if task_file.is_dir():
        _print_text_vectors(task_file, measurements, time)
        return
    from aggregator.cli.files import read_task
    from aggregator.client import MeasurementReader
    from aggregator.client.vectors import client_vectors as vectors

    task = read_task(task_file, which)
    circuit = task.prio3.circuit
    values = (
        MeasurementReader(circuit).read_arguments(measurements)
        if measurements
        else circuit.furthest_measurements()
    )
    seconds = parse_time(time, "time")
    print(json.dumps(vectors(task, list(values), seconds or 0), indent=1))


def _print_text_vectors(folder: Path, answers: list[str] | None, time: str) -> None:
    from aggregator.client.text import DESCRIPTION
    from aggregator.client.text.question import question_of_json, read_described
    from aggregator.client.text.vectors import ANSWERS, text_vectors

    question, tasks = read_described(folder, DESCRIPTION, question_of_json, str(folder))
    seconds = parse_time(time, "time") or 0
    print(json.dumps(text_vectors(question, tasks, answers or ANSWERS, seconds), indent=1))
