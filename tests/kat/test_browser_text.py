"""Text questions in the JavaScript module, by Node: each step is ours, for every code point."""

import dataclasses
import hashlib
import json
import random
import unicodedata
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from aggregator.client.module import joined_module, joined_text
from aggregator.client.survey.numbers import Grid
from aggregator.client.text.amounts import Amount
from aggregator.client.text.choices import ByChoice
from aggregator.client.text.hashing import siphash
from aggregator.client.text.question import TextQuestion
from aggregator.client.text.spelling import Spelling
from aggregator.client.text.strings import fingerprint, normal_form
from aggregator.client.text.unassigned import unassigned
from aggregator.client.vectors import Recorded
from aggregator.dap.ids import TaskId
from aggregator.dap.times import Interval
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import task_for_clients, task_from_table, task_to_table
from tests.support.entropy import SeededEntropy
from tests.support.node import MODULE, run_tests
from tests.support.processes import ROOT
from tests.support.tasks import LAPLACE, TIME_PRECISION, make_task
from tests.support.text import question_tasks, spelling_tasks

STEPS = ROOT / "tests" / "unit" / "aggregator" / "client" / "text" / "vectors.json"
CHUNK = 0x1000
FIRSTS = [
    *range(0, 0x40000, CHUNK),
    *range(0x40000, 0xE0000, 2**16),
    *range(0xE0000, 0x110000, CHUNK),
]
"""Of all code points; of the planes that are empty, one chunk each."""
RANDOM_STRINGS = 4000
LONG_STRINGS = 40
QUESTION = TextQuestion("Ein „Wört“?", Fraction(1, 2), 8, 32)
GRID = Grid(Fraction(-1, 2), Fraction(1, 3), 7, clips=False)
WITH_AMOUNT = dataclasses.replace(QUESTION, amount=Amount("Wie „viel“?", GRID, "\u20ac"))
BY_CHOICE = dataclasses.replace(QUESTION, by=ByChoice("age", ("j\u00fcnger", 'a "b"', "c")))
WINDOWS = {"window": 3, "window_start": 1}
LETTERS_START = 17_000_002
"""The first unit of a window, of the second of two of which letters are asked for."""
NAMES = ("caf\u00e9", "a", "bac\U0001f375abcabc")


def task(
    place: int,
    length: int = 32,
    first: int = 0,
    asked: TextQuestion = QUESTION,
    **settings: str | int,
) -> Task:
    return make_task(
        {"type": "Prio3Histogram", "length": length},
        {**LAPLACE, **WINDOWS, **QUESTION.group(place).settings(), **settings},
        id=str(TaskId(bytes([first + place]) * 32)),
        task_info=asked.info(place),
    )


def described() -> dict[str, object]:
    tasks = [task(place) for place in range(QUESTION.tasks)]
    wrong = {
        "task 2 of 8: is no histogram of 32 buckets": task(1, 33),
        "task 2 of 8: its noise is not": task(1, epsilon="1/4"),
        "task 2 of 8: has other settings": task(1, window=4),
        "task 2 of 8: is not in place 1 of the group": task(1, group_place=2),
        "task 2 of 8: is not in place": task(1, group="an income, an illness"),
    }
    alone = dataclasses.replace(QUESTION, survey='{"survey":"Visits"}')
    bound = [task(place, asked=alone) for place in range(QUESTION.tasks)]
    return {
        "alone": {
            "description": json.loads(alone.to_json(bound)),
            "tasks": [task_for_clients(each) for each in bound],
        },
        "spelling": spelled(),
        "amounts": with_amounts(),
        "labels": with_labels(),
        "description": json.loads(QUESTION.to_json(tasks)),
        "tasks": [task_for_clients(each) for each in tasks],
        "again": [asked_again(100), asked_again(200, window=1, window_start=0)],
        "bad": [
            {"says": says, "tasks": [task_for_clients(t) for t in (tasks[0], each, *tasks[2:])]}
            for says, each in wrong.items()
        ],
    }


def with_amounts() -> dict[str, object]:
    """Return a question with an amount, the entries of some answers with draws, and a spelling."""
    tasks = question_tasks(WITH_AMOUNT, 100, WINDOWS)
    prints = sorted(fingerprint(each, WITH_AMOUNT.meaning) for each in NAMES[:2])
    spelling = Spelling(WITH_AMOUNT, tuple(prints), "abc", letters=5)
    letters = spelling_tasks(spelling, tasks, Interval.of(LETTERS_START, 6))
    entries = []
    for number, (text, steps) in enumerate([("Caf\u00e9", 0), ("plum", 3), ("a", 7), (" ", 2)] * 9):
        entropy = Recorded(SeededEntropy(b"%d" % number))
        entry = WITH_AMOUNT.measurement(number % 8, (text, steps), entropy)
        (drawn,) = entropy.given
        entries.append([number % 8, text, steps, drawn.hex(), entry])
    return {
        "description": json.loads(WITH_AMOUNT.to_json(tasks)),
        "tasks": [task_for_clients(each) for each in tasks],
        "entries": entries,
        "size": WITH_AMOUNT.entries,
        "spelling": {
            "description": json.loads(spelling.to_json(letters)),
            "tasks": [task_for_clients(each) for each in letters],
        },
    }


def with_labels() -> dict[str, object]:
    """Return a question by another answer, the entries of some answers, and a spelling."""
    tasks = question_tasks(BY_CHOICE, 100, WINDOWS)
    prints = sorted(fingerprint(each, BY_CHOICE.meaning) for each in NAMES[:2])
    spelling = Spelling(BY_CHOICE, tuple(prints), "abc", letters=5)
    letters = spelling_tasks(spelling, tasks, Interval.of(LETTERS_START, 6))
    nothing = SeededEntropy(b"")
    return {
        "description": json.loads(BY_CHOICE.to_json(tasks)),
        "tasks": [task_for_clients(each) for each in tasks],
        "entries": [
            [place, text, label, BY_CHOICE.measurement(place, (text, label), nothing)]
            for place in range(8)
            for text in ("Caf\u00e9", "plum", " ")
            for label in range(3)
        ],
        "size": BY_CHOICE.entries,
        "spelling": {
            "description": json.loads(spelling.to_json(letters)),
            "tasks": [task_for_clients(each) for each in letters],
        },
    }


def asked_again(first: int, **settings: int) -> dict[str, object]:
    """Return the question with other tasks, which take reports while the first ones do."""
    tasks = [task(place, first=first, **settings) for place in range(QUESTION.tasks)]
    return {
        "description": json.loads(QUESTION.to_json(tasks)),
        "tasks": [task_for_clients(each) for each in tasks],
    }


def spelled() -> dict[str, object]:
    """Return a spelling, the bucket of each answer in each place, and some that do not fit."""
    prints = sorted(fingerprint(each, QUESTION.meaning) for each in NAMES)
    spelling = Spelling(QUESTION, tuple(prints), "abc\u00e9\U0001f375", letters=5)
    answers = [*NAMES, *(each.upper() for each in NAMES), "plum", "", " ", "\ud800"]

    def letters(start: int = LETTERS_START, units: int = 6, **settings: int) -> list[Task]:
        asked = [task(place, **settings) for place in range(QUESTION.tasks)]
        return spelling_tasks(spelling, asked, Interval.of(start, units))

    tasks = letters()
    wrong = {
        "has other settings than the question's": letters(window=1, window_start=0),
        "task 1 of 8: has other settings": list(map(of_another_size, tasks)),
        "must take reports of whole windows": letters(LETTERS_START + 1, 3),
        "was not made for this spelling": [tasks[1], tasks[0], *tasks[2:]],
    }
    return {
        "description": json.loads(spelling.to_json(tasks)),
        "tasks": [task_for_clients(each) for each in tasks],
        "start": LETTERS_START * TIME_PRECISION,
        "end": (LETTERS_START + 6) * TIME_PRECISION,
        "buckets": [
            [each, [spelling.measurement(place, each) for place in range(QUESTION.tasks)]]
            for each in answers
        ],
        "bad": [
            {"says": says, "tasks": [task_for_clients(each) for each in bad]}
            for says, bad in wrong.items()
        ],
    }


def of_another_size(task: Task) -> Task:
    """Return a task whose reports have proofs of another size."""
    parameters = {**task.prio3.circuit.parameters, "chunk_length": 4}
    return task_from_table(task_to_table(task) | {"vdaf": {"type": "Prio3Histogram", **parameters}})


def of_code_points(firsts: list[int]) -> dict[str, object]:
    """Return a digest of the normal forms of chunks, each point among marks that may move."""
    digest = hashlib.sha256()
    for first in firsts:
        points = map(chr, range(first, first + CHUNK))
        among = "".join(f"e\u0301{each}\u0323\u0301\n" for each in points)
        digest.update(normal_form(among).encode())
    return {"firsts": firsts, "digest": digest.hexdigest()}


def random_strings() -> list[tuple[str, str]]:
    """Return strings of what composes, changes places, folds, is unassigned or broken."""
    chosen = random.Random(20)  # noqa: S311  test data
    points = [chr(point) for point in [*range(0x20000), *range(0xE0000, 0xE0200)]]
    pools = [
        [each for each in points if unicodedata.combining(each)],
        [each for each in points if each.casefold() != each],
        [each for each in points if unicodedata.decomposition(each)],
        [each for each in points if each.isspace() or unicodedata.category(each) == "Cc"],
        [each for each in points if unassigned().match(each)],
        points[0x1100:0x1200],
        points[0xD800:0xE000],
        points,
    ]
    made = [
        "".join(chosen.choice(chosen.choice(pools)) for _ in range(chosen.randrange(1, 9)))
        for _ in range(RANDOM_STRINGS)
    ]
    # As long as those whose marks are brought into order before an engine sees them.
    long = ["".join(chosen.choices(made, k=90)) for _ in range(LONG_STRINGS)]
    long += ["e" + "".join(chosen.choices(pools[0], k=400)) for _ in range(LONG_STRINGS)]
    return [(each, normal_form(each)) for each in [*made, *long]]


def vectors() -> dict[str, object]:
    chosen = random.Random(21)  # noqa: S311  test data
    hashes = []
    for _ in range(50):
        key, message = chosen.randbytes(16), chosen.randbytes(4)
        (hashed,) = siphash(key, np.frombuffer(message, "<u4").astype(np.uint32))
        hashes.append({"key": key.hex(), "message": message.hex(), "hash": str(hashed)})
    return {
        "vectors": json.loads(STEPS.read_text()) | {"hashes": hashes},
        "strings": random_strings(),
        "made": described(),
    }


def run_text(module: Path, part: Path, given: Path) -> None:
    run_tests("text.mjs", MODULE=str(module), TEXT_MODULE=str(part), TEXT_VECTORS=str(given))


@pytest.mark.slow
def test_steps_tosses_and_reports_are_ours_in_files_and_joined(tmp_path: Path) -> None:
    assert unassigned().fullmatch("".join(map(chr, range(0x40000, 0xE0000))))
    given, few = tmp_path / "all.json", tmp_path / "few.json"
    made = vectors()
    given.write_text(json.dumps(made | {"points": of_code_points(FIRSTS)}))
    few.write_text(json.dumps(made | {"points": of_code_points([0])}))
    run_text(MODULE / "index.js", MODULE / "text.js", given)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    for name, text in {"prio.js": joined_module(), "prio-text.js": joined_text()}.items():
        (tmp_path / name).write_text(text, "utf-8")
    run_text(tmp_path / "prio.js", tmp_path / "prio-text.js", few)


@pytest.mark.parametrize("point", [0x10EFD, 0x1E08F, 0x0378, 0x2FFFE])
def test_a_character_that_unicode_14_does_not_know_stays_where_it_is(point: int) -> None:
    # The first two are marks that came with 15.0, and would change places with others.
    assert unassigned().fullmatch(chr(point))
    assert normal_form(f"a\u0301{chr(point)}\u0323B") == f"\xe1{chr(point)}\u0323b"
