"""Released tables are those of one window, read from collections or results alone."""

import json

import numpy as np
import pytest

from aggregator.errors import ParameterError
from aggregator.protocol.task import Task
from aggregator.steward.text.released import documents_in, released_tables
from tests.support.tasks import LAPLACE, make_task

TASKS = [make_task(privacy=LAPLACE, id=name * 42 + "A") for name in "AB"]


def result(task: Task, values: list[object], start: int = 0) -> dict[str, object]:
    return {"task_id": str(task.task_id), "values": values, "interval": {"start": start}}


def collection(of: dict[str, object] | None, start: int = 0) -> dict[str, object]:
    query = {"start": start, "end": start + 100}
    state = "finished" if of else "pending"
    return {"state": state, "task_id": "AA", "query": query, "result": of}


def test_results_are_taken_in_any_order_alone_or_within_their_collections() -> None:
    first, second = result(TASKS[0], [1, 2, 3, -4]), result(TASKS[1], [5, 6, 7, 8])
    text = f"{json.dumps(collection(second))}\n{json.dumps([first])}\n"
    tables = released_tables(TASKS, documents_in(text))
    assert np.array_equal(tables, [[1, 2, 3, -4], [5, 6, 7, 8]])


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ([result(TASKS[0], [1, 2, 3, 4])], "1 of 2 tasks have none, such as B"),
        ([result(TASKS[0], [1, 2, 3, 4])] * 2, "has two; give one release of each"),
        ([result(TASKS[0], [1, 2, 3])], "must have 4 whole numbers"),
        ([result(TASKS[0], [1, 2, 3, None])], "must have 4 whole numbers"),
        ([result(TASKS[0], [1, 2, 3, 2**80])], "must have 4 whole numbers"),
        (
            [collection(result(task, [1, 2, 3, 4]), n) for n, task in enumerate(TASKS)],
            "of different times",
        ),
        ([{"task_id": "C", "values": []}], "task C is not one of the question's"),
        ([collection(None)], "is pending and has no result"),
        (["released"], "not the JSON of `prio collect --json`"),
    ],
)
def test_results_that_do_not_make_the_tables_of_one_window_are_refused(
    documents: list[object], message: str
) -> None:
    with pytest.raises(ParameterError, match=message):
        released_tables(TASKS, documents)
