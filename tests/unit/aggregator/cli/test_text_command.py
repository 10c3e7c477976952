"""`prio text`: what its files may hold, and what is said of those that are something else."""

import functools
import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from aggregator.cli.steward.text_upload import _answers
from typer.testing import CliRunner

from aggregator.cli.steward.text import app
from aggregator.client.text.question import TextQuestion
from aggregator.client.text.strings import fingerprint
from aggregator.dap.ids import TaskId
from aggregator.errors import ParameterError
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import tasks_to_toml
from aggregator.steward.text.released import documents_in, released_tables
from tests.support.tasks import LAPLACE, make_task
from tests.support.text import Fingerprints, released

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


def test_answers_are_one_a_line_or_one_a_person(tmp_path: Path) -> None:
    file = tmp_path / "answers"
    file.write_text("pear\n\nfig, ripe\n", "utf-8")
    assert _answers(file, None, "answer", ",") == {
        "line 1": "pear",
        "line 2": "",
        "line 3": "fig, ripe",
    }
    file.write_text('who,answer\neve,"fig, ripe"\nbob,\n', "utf-8")
    assert _answers(file, "who", "answer", ",") == {"eve": "fig, ripe", "bob": ""}


def test_how_many_people_answer_and_who_they_are_depends_on_no_answer(tmp_path: Path) -> None:
    """Those behind it would have another's toss, and so be in two tasks."""
    file = tmp_path / "answers"
    file.write_bytes("one\u2028two\x0bthree\x85\r\npear\r\n".encode())
    found = _answers(file, None, "answer", ",")
    assert found == {"line 1": "one\u2028two\x0bthree\x85", "line 2": "pear"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"name,answer\neve,fig\n", "has no column 'who'; it has 'name', 'answer'"),
        (b"who,word\neve,fig\n", "has no column 'answer'"),
        (b"who,answer\neve,fig\neve,pear\n", "line 3: names a person again"),
        (b"who,answer\n,fig\n", "line 2: names no person"),
        (b"who,answer\neve,\xff\n", "is not UTF-8"),
    ],
)
def test_answers_that_cannot_be_told_apart_by_person_are_refused(
    tmp_path: Path, content: bytes, message: str
) -> None:
    file = tmp_path / "answers.csv"
    file.write_bytes(content)
    with pytest.raises(ParameterError, match=message):
        _answers(file, "who", "answer", ",")


def test_what_is_in_no_list_is_counted_by_its_fingerprint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = TextQuestion("A drink?", Fraction(1, 2), 8, 64)
    tasks = [
        make_task(
            {"type": "Prio3Histogram", "length": 64},
            {**LAPLACE, **question.group(place).settings()},
            id=str(TaskId(bytes([place]) * 32)),
            task_info=question.info(place),
        )
        for place in range(8)
    ]
    held = {"tea": 4000, "kvass": 2000}
    prints = np.array([fingerprint(word, question.meaning) for word in held], np.uint32)
    tables = released(
        question.hashes, prints, np.array([*held.values()]), 1, np.random.default_rng(3)
    )
    (tmp_path / "text.json").write_text(question.to_json(tasks), "utf-8")
    (tmp_path / "tasks.toml").write_text(tasks_to_toml(tasks), "utf-8")
    documents = [result(*each) for each in zip(tasks, tables.tolist(), strict=True)]
    file, words = tmp_path / "released.json", tmp_path / "words.txt"
    file.write_text(json.dumps(documents))
    words.write_text("tea\nwater\n")
    monkeypatch.setattr(
        "aggregator.steward.text.candidates.Enumerated", functools.partial(Fingerprints, prints)
    )

    def said(*arguments: str | Path) -> str:
        command = ["results", str(tmp_path), *map(str, arguments), "--results", str(file)]
        done = CliRunner().invoke(app, command)
        return done.stdout if done.exit_code == 0 else str(done.exception)

    by_list = said(words)
    assert by_list.startswith("A drink?\n  tea: ")
    assert "no list" not in by_list
    lines = said(words, "--all").splitlines()
    assert lines[1].startswith("  tea: ")
    assert lines[2].startswith(f"  in no list (fingerprint {prints[1]:08x}): ")
    assert "name a list of candidates, or try all with --all" in said()
