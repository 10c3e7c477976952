"""Releases of text questions, simulated as sums: the toss, the hash, and both parties' noise."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from aggregator.client.text.hashing import TextHashes
from aggregator.client.text.question import TextQuestion
from aggregator.client.text.spelling import Spelling
from aggregator.client.text.strings import FINGERPRINTS, fingerprint, normal_form
from aggregator.dap.ids import TaskId
from aggregator.dap.times import Interval
from aggregator.dp.rationals import format_rational
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import task_from_table, task_to_table
from aggregator.steward.text.candidates import Listed, Prints
from tests.support.tasks import make_task

Counts = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True)
class Fingerprints:
    """Candidates of which these fingerprints are known, and the lists that name some of them."""

    prints: Prints
    lists: Listed | None = None

    @property
    def count(self) -> int:
        return len(self.prints)

    def chunks(self) -> Iterator[Prints]:
        return iter(np.array_split(self.prints, 1 + len(self.prints) // 2**16))


@dataclasses.dataclass(frozen=True)
class Everything(Fingerprints):
    """Fingerprints that stand for all there are, of which only these can be held or listed."""

    @property
    def count(self) -> int:
        return FINGERPRINTS


def zipf_counts(people: int, strings: int) -> Counts:
    shares = 1 / np.arange(1, strings + 1)
    return np.rint(people * shares / shares.sum()).astype(np.int64)


def some_prints(count: int, rng: np.random.Generator, high: int = 2**32) -> Prints:
    """Return different fingerprints below `high`, in random order."""
    drawn = np.unique(rng.integers(0, high, count + count // 10 + 10, dtype=np.uint32))
    return rng.permutation(drawn)[:count]


def released(
    hashes: TextHashes,
    prints: Prints,
    counts: Counts,
    epsilon: float,
    rng: np.random.Generator,
    silent: int = 0,
) -> Counts:
    """Return the released tables: everybody tosses for one task, and both parties add noise."""
    shape, even = (hashes.tasks, hashes.length), np.full(hashes.tasks, 1 / hashes.tasks)
    tables = np.zeros(shape, np.int64)
    tossed = rng.multinomial(counts, even)
    for task in range(hashes.tasks):
        np.add.at(tables[task], 1 + hashes.string_buckets(task, prints), tossed[:, task])
    tables[:, 0] += rng.multinomial(silent, even)
    return tables + _noise(shape, epsilon, rng)


def released_amounts(
    hashes: TextHashes,
    prints: Prints,
    given: tuple[Counts, Counts, int],
    epsilon: float,
    rng: np.random.Generator,
) -> Counts:
    """Return the released tables of both levels of a question with an amount.

    `given` has the place of each person's string among the fingerprints, the steps of their number,
    and how many there are at most.
    """
    who, steps, most = given
    level = (rng.integers(0, most, len(who)) < steps).astype(np.int64)
    return released_levels(hashes, prints, (who, level, 2), epsilon, rng)


def released_levels(
    hashes: TextHashes,
    prints: Prints,
    given: tuple[Counts, Counts, int],
    epsilon: float,
    rng: np.random.Generator,
) -> Counts:
    """Return the released tables of all levels.

    `given` has the place of each person's string among the fingerprints, their level, and how many
    levels there are.
    """
    who, level, levels = given
    tossed = rng.integers(0, hashes.tasks, len(who))
    tables = np.zeros((hashes.tasks, 1 + levels * hashes.buckets), np.int64)
    for task in range(hashes.tasks):
        mine = tossed == task
        buckets = hashes.string_buckets(task, prints)[who[mine]]
        entries = 1 + buckets + level[mine] * hashes.buckets
        tables[task] = np.bincount(entries, minlength=tables.shape[1])
    return tables + _noise(tables.shape, epsilon, rng)


def _noise(shape: tuple[int, ...], epsilon: float, rng: np.random.Generator) -> Counts:
    """Return the noise of both parties."""
    draws = [rng.geometric(1 - np.exp(-epsilon / 2), shape) for _ in range(4)]
    return draws[0] - draws[1] + draws[2] - draws[3]


def question_tasks(
    question: TextQuestion,
    first_id: int = 0,
    window: Mapping[str, str | int] | None = None,
    **settings: str | int,
) -> list[Task]:
    """Return the tasks of a question, whose ids are numbers from one on."""
    privacy = {"mechanism": "PureDpDiscreteLaplace", "epsilon": format_rational(question.epsilon)}
    return [
        make_task(
            {"type": "Prio3Histogram", "length": question.entries, "chunk_length": 8},
            privacy | question.group(place).settings() | (window or {}),
            id=str(TaskId((first_id + place).to_bytes(32))),
            task_info=question.info(place),
            **settings,
        )
        for place in range(question.tasks)
    ]


def released_words(
    question: TextQuestion, held: Mapping[str, int], rng: np.random.Generator, silent: int = 0
) -> Counts:
    """Return the released tables of strings that this many people hold."""
    prints = [fingerprint(normal_form(each), question.meaning) for each in held]
    counts = np.array([*held.values()], np.int64)
    found = np.array(prints, np.uint32)
    return released(question.hashes, found, counts, float(question.epsilon), rng, silent)


def released_beside(
    question: TextQuestion, held: Mapping[str, tuple[int, int]], rng: np.random.Generator
) -> Counts:
    """Return the released tables of strings, each with how many hold it and the steps they give.

    Where strings are counted by another answer, these are the places of labels that they choose.
    """
    assert question.beside is not None
    prints = np.array(
        [fingerprint(normal_form(each), question.meaning) for each in held], np.uint32
    )
    counts, steps = (np.array(each) for each in zip(*held.values(), strict=True))
    who = np.repeat(np.arange(len(held)), counts)
    told, epsilon = np.repeat(steps, counts), float(question.epsilon)
    if question.amount is not None:
        given = who, told, question.amount.grid.steps
        return released_amounts(question.hashes, prints, given, epsilon, rng)
    given = who, told, question.beside.levels
    return released_levels(question.hashes, prints, given, epsilon, rng)


def result_documents(tasks: list[Task], tables: Counts) -> list[dict[str, Any]]:
    """Return the results of one window, as far as a decoder reads them."""
    return [
        {"task_id": str(task.task_id), "values": row.tolist(), "interval": {"start": 0, "end": 100}}
        for task, row in zip(tasks, tables, strict=True)
    ]


def spelled_tables(
    spelling: Spelling, held: Mapping[str, int], rng: np.random.Generator, silent: int = 0
) -> Counts:
    """Return the released tables of a spelling: people toss for a place, and tell its letter."""
    shape = (spelling.tasks, spelling.entries)
    even, tables = np.full(spelling.tasks, 1 / spelling.tasks), np.zeros(shape, np.int64)
    for string, people in [*held.items(), ("", silent)]:
        for place, count in enumerate(rng.multinomial(people, even)):
            tables[place, spelling.measurement(place, string)] += count
    return tables + _noise(shape, float(spelling.epsilon), rng)


def spelling_tasks(spelling: Spelling, tasks: Sequence[Task], interval: Interval) -> list[Task]:
    """Return the tasks of a spelling, as `prio survey spell` makes them of a question's."""
    times = {"start": interval.start.units, "duration": interval.duration.units}
    return [
        task_from_table(
            task_to_table(task)
            | {"id": str(TaskId(bytes([200 + place]) * 32)), "task_info": spelling.info(place)}
            | {"interval": times}
        )
        for place, task in enumerate(tasks)
    ]
