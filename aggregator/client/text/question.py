"""One text question and its tasks, each of which binds the whole question and its own place in it.

The public description (`text.json`) says what all parties and clients must agree on: the title, the
version of the normal form, the numbers of tasks and buckets, epsilon, and which number is asked for
beside a string (version 2), or by which answer strings are counted (version 3; see `levels`). Its
digest is the `meaning` that every fingerprint and key depends on, and the `task_info` of task g
ends with a digest of the description and g. That is bound into every report: with another
description, or tasks in another order, no report opens. If a survey has text questions only, no
task of its own binds what it asks, and each of theirs does: the digest is then of the survey's
meaning, too.
"""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Protocol, TypeVar

from aggregator.client.text import TASKS
from aggregator.client.text.amounts import Amount
from aggregator.client.text.choices import ByChoice
from aggregator.client.text.hashing import TextHashes
from aggregator.client.text.levels import (
    Beside,
    Written,
    check_length,
    entries_of,
    entry_of,
    told_in,
)
from aggregator.client.text.strings import NORMALISATION
from aggregator.dp.group import Group
from aggregator.dp.rationals import format_rational, parse_rational
from aggregator.entropy import Entropy
from aggregator.errors import ParameterError
from aggregator.protocol.task import Task, info_with_digest
from aggregator.protocol.task_file import task_to_table, tasks_from_toml
from aggregator.untrusted_text import first_unsafe_member

_VERSION, _WITH_AMOUNT, _BY_CHOICE = 1, 2, 3
"""The versions of a description: of strings alone, with an amount, and by another answer."""

_DOMAIN = b"prio text question"
_MECHANISM = "PureDpDiscreteLaplace"
_NOT_ONE = "text.json: not the description of a text question"
_OWN = ("id", "task_info")
"""The settings that differ between a question's tasks."""

_MOST_BYTES = 64 * 2**20
"""The most bytes of a file, so that one that never ends, such as a device, gives an error."""

Described = TypeVar("Described")


@dataclasses.dataclass(frozen=True, slots=True)
class TextQuestion:
    """What is asked, and how it is counted: epsilon is of each task, and so of a person.

    `length` is how many buckets one level has, with that for no answer. `amount` is the number that
    people give beside a string, if one is asked for; `by` is the question by whose answers strings
    are counted, if there is one. There are not both.
    `survey` is the meaning of a survey that has text questions only. It is no part of the question,
    whose fingerprints and tosses stay what they are when the survey changes.
    """

    title: str
    epsilon: Fraction
    tasks: int
    length: int
    survey: str = dataclasses.field(default="", compare=False, repr=False)
    amount: Amount | None = None
    by: ByChoice | None = None

    def __post_init__(self) -> None:
        if not self.title.strip():
            raise ParameterError("title: must not be empty")
        if first_unsafe_member({"title": self.title}):
            raise ParameterError("title: must be one line, without control characters")
        _ = self.hashes
        if self.amount is not None and self.by is not None:
            raise ParameterError("by: a question with an amount has none")
        check_length(self.length, self.beside)

    @property
    def meaning(self) -> bytes:
        """The 32 bytes that stand for the question."""
        return hashlib.sha256(_DOMAIN + self.described.encode()).digest()

    @property
    def hashes(self) -> TextHashes:
        """The hashes of the question."""
        return TextHashes(self.meaning, self.tasks, self.length)

    @property
    def beside(self) -> Beside | None:
        """What is told beside a string, if anything."""
        return self.by if self.amount is None else self.amount

    @property
    def entries(self) -> int:
        """How many entries a report has."""
        return self.length if self.beside is None else entries_of(self.length, self.beside.levels)

    def measurement(self, task: int, written: Written, entropy: Entropy) -> int:
        """Return the entry that a person in a task reports, for any string and for no answer.

        A number's level is drawn here, once for each report. Where something is asked for beside a
        string, the string alone is no answer.
        """
        bucket = self.hashes.bucket(task, self.text_in(written))
        if self.beside is None:
            return bucket
        given = written[1] if isinstance(written, tuple) else 0
        return entry_of(bucket, self.beside.level(given, entropy), self.length)

    def text_in(self, written: Written) -> str | None:
        """Return the string in an answer, None for no answer."""
        if isinstance(written, tuple):
            return written[0]
        return written if self.beside is None else None

    @property
    def described(self) -> str:
        """The exact text that the digests of the question and its tasks are made from."""
        return json.dumps(self._table, ensure_ascii=False, sort_keys=True, separators=(",", ":"))

    @property
    def _table(self) -> dict[str, object]:
        version, more = _VERSION, dict[str, object]()
        if self.amount is not None:
            version, more = _WITH_AMOUNT, {"amount": self.amount.table}
        if self.by is not None:
            version, more = _BY_CHOICE, {"by": self.by.table}
        return more | {
            "version": version,
            "normalisation": NORMALISATION,
            "title": self.title,
            "epsilon": format_rational(self.epsilon),
            "tasks": self.tasks,
            "buckets": self.length,
        }

    def info(self, task: int, title: str | None = None) -> str:
        """Return the `task_info` of one of the tasks, which binds the question and its number."""
        about = self.title if title is None else title
        if about and self.beside is not None:
            about = self.beside.told.before(about)
        return info_with_digest(about, self.bound(task))

    def bound(self, task: int) -> str:
        """Return the text whose digest ends the `task_info` of one of the tasks."""
        return "\n".join([self.described, str(task), *([self.survey] if self.survey else [])])

    def group(self, task: int) -> Group:
        """Return a task's place in the group of tasks, of which a person is in one."""
        return Group(self.meaning.hex(), task)

    def to_json(self, tasks: Sequence[Task]) -> str:
        """Return the public description."""
        of_survey = {"survey": self.survey} if self.survey else {}
        ids = {"meaning": self.meaning.hex(), "task_ids": [str(each.task_id) for each in tasks]}
        return json.dumps(self._table | of_survey | ids, ensure_ascii=False, indent=2) + "\n"

    def check(self, tasks: Sequence[Task]) -> None:
        """Refuse tasks that are not this question's, in their order."""
        check_places(self, tasks)
        asked = None if self.beside is None else self.beside.told
        for task in tasks:
            if told_in(task.title) != asked:
                raise ParameterError(
                    "task_info: says other amounts or labels than the question asks for, from "
                    "which a collector would compute other means or counts"
                )


class Places(Protocol):
    """What is asked in the places of a group, each by a task."""

    @property
    def epsilon(self) -> Fraction:
        """The epsilon of each task."""

    @property
    def tasks(self) -> int:
        """How many tasks there are."""

    @property
    def entries(self) -> int:
        """The entries of each task's histogram."""

    def info(self, task: int, title: str | None = None, /) -> str:
        """Return the `task_info` of one of them."""

    def group(self, task: int, /) -> Group:
        """Return its place."""


def check_places(asked: Places, tasks: Sequence[Task]) -> None:
    """Refuse tasks that are not what is asked, in the order of their places."""
    if len(tasks) != asked.tasks:
        raise ParameterError(f"tasks: the question has {asked.tasks}, not {len(tasks)}")
    for place, task in enumerate(tasks):
        about, table = f"task {place + 1} of {len(tasks)}", task_to_table(task)
        if not task.configuration.task_info.endswith(asked.info(place, "").encode()):
            raise ParameterError(
                f"{about}: was not made for this question and this place in it; the "
                "description or the order of tasks may have been changed or swapped since"
            )
        circuit, privacy = task.prio3.circuit, table["privacy"]
        if circuit.name != "Histogram" or circuit.output_len != asked.entries:
            raise ParameterError(f"{about}: is no histogram of {asked.entries} buckets")
        assert isinstance(privacy, dict)  # noqa: S101  what a task file has
        if privacy["mechanism"] != _MECHANISM or (
            parse_rational(str(privacy["epsilon"]), "epsilon") != asked.epsilon
        ):
            raise ParameterError(
                f"{about}: its noise is not {_MECHANISM} of epsilon "
                f"{format_rational(asked.epsilon)}"
            )
        if task.policy.group != asked.group(place):
            raise ParameterError(
                f"{about}: is not in place {place} of the group {asked.group(place).name}"
            )
        if _shared(table) != _shared(task_to_table(tasks[0])):
            raise ParameterError(f"{about}: has other settings than the first")


def question_of_json(text: str, tasks: Sequence[Task]) -> TextQuestion:
    """Return the question that a description states, checked against its tasks.

    Raises `ParameterError` if the text is no description, or not one of these tasks.
    """
    try:
        table = json.loads(text)
        question = question_of_table(table)
        stated = table["meaning"], table["task_ids"]
    except ParameterError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise ParameterError(_NOT_ONE) from None
    question.check(tasks)
    if stated != (question.meaning.hex(), [str(each.task_id) for each in tasks]):
        raise ParameterError("text.json: its meaning or its task_ids are not those of its tasks")
    return question


def question_of_table(table: Mapping[str, object]) -> TextQuestion:
    """Return the question that a description states, or raise as `question_of_json` does.

    What is no description at all also raises ValueError, TypeError, KeyError or AttributeError.
    """
    version, normalisation = table["version"], table["normalisation"]
    if version not in (_VERSION, _WITH_AMOUNT, _BY_CHOICE) or normalisation != NORMALISATION:
        raise ParameterError(
            f"text.json: this program knows versions {_VERSION} to {_BY_CHOICE}, and normal form "
            f"{NORMALISATION}, only"
        )
    tasks, length = table["tasks"], table["buckets"]
    if type(tasks) is not int or type(length) is not int:
        raise ParameterError(_NOT_ONE)
    amount, by = None, None
    if version == _WITH_AMOUNT:
        amount = Amount.of_table(_table_in(table, "amount"))
    if version == _BY_CHOICE:
        by = ByChoice.of_table(_table_in(table, "by"))
    title, epsilon = str(table["title"]), parse_rational(str(table["epsilon"]), "epsilon")
    return TextQuestion(title, epsilon, tasks, length, str(table.get("survey", "")), amount, by)


def _table_in(table: Mapping[str, object], name: str) -> Mapping[str, object]:
    found = table[name]
    if not isinstance(found, dict):
        raise ParameterError(_NOT_ONE)
    return found


def read_described(
    folder: Path, file: str, read: Callable[[str, Sequence[Task]], Described], what: str
) -> tuple[Described, list[Task]]:
    """Return what the description in a folder states, and the tasks beside it.

    Raises `ParameterError`, which begins with `what` it is about, or OSError.
    """
    try:
        tasks = tasks_from_toml(_text_of(folder / TASKS))
        return read(_text_of(folder / file), tasks), tasks
    except ParameterError as error:
        raise ParameterError(f"{what}: {error}") from error
    except UnicodeDecodeError as error:
        raise ParameterError(f"{what}: its files are not UTF-8") from error


def _text_of(file: Path) -> str:
    """Return a file's text, as editors of any system save it."""
    with file.open("rb") as stream:
        content = stream.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise ParameterError(f"{file.name} must not hold more than {_MOST_BYTES:,} bytes")
    return content.decode("utf-8-sig")


def _shared(table: dict[str, object]) -> dict[str, object]:
    shared = {name: value for name, value in table.items() if name not in _OWN}
    privacy = shared["privacy"]
    assert isinstance(privacy, dict)  # noqa: S101  what a task file has
    return shared | {"privacy": {**privacy, "group_place": None}}
