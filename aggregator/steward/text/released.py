"""The released tables of a question's tasks, read from JSON documents of results."""

import json
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from aggregator.errors import ParameterError
from aggregator.protocol.task import Task


def documents_in(text: str) -> list[object]:
    """Return the JSON documents of a file: a single one, a list, or several in a row.

    Raises `ParameterError` if the text holds something else.
    """
    decoder, documents, rest = json.JSONDecoder(), list[object](), text.strip()
    try:
        while rest:
            document, end = decoder.raw_decode(rest)
            documents += document if isinstance(document, list) else [document]
            rest = rest[end:].lstrip()
    except (ValueError, RecursionError):
        raise ParameterError("results: not the JSON of `prio collect --json`") from None
    return documents


def released_tables(tasks: Sequence[Task], documents: Iterable[object]) -> npt.NDArray[np.int64]:
    """Return a row for each task in its order: its histogram, with its noise.

    Documents are collections as `prio collect --json` prints them, or results alone, in any order.
    Raises `ParameterError` if a task has no result or two, results are of different times, or a
    result is not of these tasks.
    """
    places = {str(task.task_id): place for place, task in enumerate(tasks)}
    rows: dict[int, npt.NDArray[np.int64]] = {}
    times = set[tuple[int, int]]()
    for document in documents:
        result = _result(document)
        task_id = str(result.get("task_id"))
        if task_id not in places:
            raise ParameterError(f"results: task {task_id} is not one of the question's")
        place = places[task_id]
        if place in rows:
            raise ParameterError(
                f"results: task {task_id} has two; give one release of each task, of one window"
            )
        rows[place] = _row(result, tasks[place])
        times |= _time(document, result, tasks[place])
    if missing := [task_id for task_id, place in places.items() if place not in rows]:
        raise ParameterError(
            f"results: {len(missing)} of {len(places)} tasks have none, such as {missing[0]}"
        )
    if len(times) > 1:
        raise ParameterError("results: are of different times; give those of one window")
    return np.stack([rows[place] for place in range(len(tasks))])


def _result(document: object) -> dict[str, object]:
    if isinstance(document, dict) and "state" in document:
        if document.get("result") is None:
            raise ParameterError(
                f"results: the collection of task {document.get('task_id')} is "
                f"{document['state']} and has no result"
            )
        document = document["result"]
    if not isinstance(document, dict) or "values" not in document:
        raise ParameterError("results: not the JSON of `prio collect --json`")
    return document


def _time(document: object, result: dict[str, object], task: Task) -> set[tuple[int, int]]:
    """Return the interval that was asked for, in seconds; empty if that cannot be known.

    A result's own interval is the smallest that holds its reports, and differs from task to task.
    Where the leader selects batches, tasks need not have the same interval.
    """
    query = document.get("query") if isinstance(document, dict) else None
    match query, result.get("interval"):
        case {"start": int(start), "end": int(end)}, _:
            return {(start, end)}
        case _, {"start": int(start)} if task.policy.window is not None:
            unit, length = task.time_precision, task.policy.window.length
            first = task.policy.window.first_unit(start // unit) * unit
            return {(first, first + length * unit)}
        case _:
            return set()


def _row(result: dict[str, object], task: Task) -> npt.NDArray[np.int64]:
    values, length = result["values"], task.prio3.circuit.output_len
    if (
        not isinstance(values, list)
        or len(values) != length
        or not all(type(each) is int and abs(each) < 2**62 for each in values)
    ):
        raise ParameterError(f"results: task {task.task_id} must have {length} whole numbers")
    return np.array(values, np.int64)
