"""Spelling: for one window, people report letters of frequent answers that are in no word list.

An earlier window has found fingerprints that many people share and that no list explains. In the
window of a spelling, the places of the question's group have other tasks. A person in place g
reports, in a report of the same size, the letter at position g mod `letters` of their answer if its
fingerprint is one of those; people with another answer, or none, report bucket 0. The task of a
report still follows from the kept toss and not from the answer, so the aggregators, who see the
task, learn nothing new.

Bucket 1 + u * size + c counts letter c of fingerprint u. `size` is the number of letters plus two:
one code for all letters outside the alphabet, and the last for strings that have ended before.
"""

import dataclasses
import functools
import json
from collections.abc import Sequence
from fractions import Fraction

from aggregator.client.text import SPELLED_ALPHABET
from aggregator.client.text.hashing import NO_ANSWER, TextHashes
from aggregator.client.text.question import TextQuestion, check_places, question_of_table
from aggregator.client.text.strings import FINGERPRINTS, fingerprint, normal_form
from aggregator.dp.group import Group
from aggregator.errors import ParameterError
from aggregator.protocol.task import Task, info_with_digest

LETTERS = 16
"""The most positions that are asked for; fewer if there are fewer places."""

SPELLED = "letter by letter: "
"""The start of its tasks' `task_info`, by which a collector tells them from the question's."""

_VERSION = 1
_NOT_ONE = "spelling.json: not the description of a spelling"


@dataclasses.dataclass(frozen=True)
class Spelling:
    """What is asked instead of a text question for one window.

    Attributes:
        question: The question, whose places and tosses the spelling uses.
        fingerprints: Those of the strings to be spelled, in ascending order.
        alphabet: The letters that have a code of their own, each once.
        letters: How many positions are spelled, from the first on.
    """

    question: TextQuestion
    fingerprints: tuple[int, ...]
    alphabet: str = SPELLED_ALPHABET
    letters: int = LETTERS

    def __post_init__(self) -> None:
        if not 1 <= self.letters <= self.question.tasks:
            raise ParameterError(
                f"letters: must be from 1 to {self.question.tasks}, the places of the question, "
                f"not {self.letters}"
            )
        if not self.alphabet or len(set(self.alphabet)) != len(self.alphabet):
            raise ParameterError("alphabet: must have one letter or more, each once")
        # A letter that no normal form contains would have buckets that nobody reports.
        if any(normal_form(f"x{each}x") != f"x{each}x" for each in self.alphabet):
            raise ParameterError("alphabet: must be of letters that normal forms have")
        given, most = self.fingerprints, most_spelled(self.question.entries, self.alphabet)
        if not 1 <= len(given) <= most:
            raise ParameterError(
                f"fingerprints: there is room for 1 to {most} in {self.question.entries} buckets, "
                f"not for {len(given)}"
            )
        if list(given) != sorted(set(given)) or not 0 <= given[0] <= given[-1] < FINGERPRINTS:
            raise ParameterError("fingerprints: must be different and in ascending order")

    @property
    def title(self) -> str:
        """The question's title."""
        return self.question.title

    @property
    def epsilon(self) -> Fraction:
        """The epsilon of each task."""
        return self.question.epsilon

    @property
    def tasks(self) -> int:
        """How many tasks there are: one for each place."""
        return self.question.tasks

    @property
    def entries(self) -> int:
        """The buckets of each task, as many as the entries of the question's."""
        return self.question.entries

    @property
    def hashes(self) -> TextHashes:
        """The hashes of the question, to which tosses belong."""
        return self.question.hashes

    @property
    def size(self) -> int:
        """Buckets for each fingerprint."""
        return _size(self.alphabet)

    def position(self, place: int) -> int:
        """Return the position whose letter people in a place report, from 0."""
        return place % self.letters

    def measurement(self, place: int, answer: str | None) -> int:
        """Return the bucket to report from a tossed place, for any string and for no answer."""
        normal = "" if answer is None else normal_form(answer)
        found = self._numbers.get(fingerprint(normal, self.hashes.meaning))
        if not normal or found is None:
            return NO_ANSWER
        return 1 + found * self.size + self.code(normal, self.position(place))

    def code(self, normal: str, position: int) -> int:
        """Return the number of the letter of a string at a position."""
        if position >= len(normal):
            return self.size - 1
        place = self.alphabet.find(normal[position])
        return self.size - 2 if place < 0 else place

    @functools.cached_property
    def _numbers(self) -> dict[int, int]:
        return {each: number for number, each in enumerate(self.fingerprints)}

    @property
    def _table(self) -> dict[str, object]:
        return {
            "version": _VERSION,
            "question": self._question,
            "fingerprints": [f"{each:08x}" for each in self.fingerprints],
            "alphabet": self.alphabet,
            "letters": self.letters,
        }

    @property
    def _question(self) -> dict[str, object]:
        described = json.loads(self.question.to_json(()))
        return {name: described[name] for name in described.keys() - {"survey", "task_ids"}}

    def info(self, place: int, title: str | None = None) -> str:
        """Return the `task_info` of a place, which binds question, spelling and place."""
        text = json.dumps(self._table, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        first = f"{SPELLED}{self.title}" if title is None else title
        return info_with_digest(first, f"spelling\n{text}\n{place}")

    def group(self, place: int) -> Group:
        """Return the place in the question's group: people in it pay for these tasks too."""
        return self.question.group(place)

    def to_json(self, tasks: Sequence[Task]) -> str:
        """Return the public description."""
        table = self._table | {"task_ids": [str(each.task_id) for each in tasks]}
        return json.dumps(table, ensure_ascii=False, indent=2) + "\n"

    def check(self, tasks: Sequence[Task]) -> None:
        """Refuse tasks that are not this spelling's, in their order."""
        check_places(self, tasks)
        if tasks[0].policy.window is None:
            raise ParameterError(
                "window: the tasks of a spelling must have windows, or people who are asked for "
                "letters once would pay once more than the question says"
            )


def most_spelled(length: int, alphabet: str = SPELLED_ALPHABET) -> int:
    """Return how many fingerprints fit in `length` buckets."""
    return (length - 1) // _size(alphabet)


def spelling_of_json(text: str, tasks: Sequence[Task]) -> Spelling:
    """Return the spelling that a description states, checked against its tasks.

    Raises `ParameterError` if the text is no description, or not one of these tasks.
    """
    try:
        table = json.loads(text)
        version, letters, asked = table["version"], table["letters"], table["question"]
        question = question_of_table(asked)
        stated, ids = str(asked["meaning"]), table["task_ids"]
        given, alphabet = [str(each) for each in table["fingerprints"]], str(table["alphabet"])
        prints = tuple(int(each, 16) for each in given)
    except ParameterError:
        raise
    except (ValueError, TypeError, KeyError, RecursionError):
        raise ParameterError(_NOT_ONE) from None
    if version != _VERSION:
        raise ParameterError(f"spelling.json: this program knows version {_VERSION} only")
    if type(letters) is not int:
        raise ParameterError(_NOT_ONE)
    spelling = Spelling(question, prints, alphabet, letters)
    spelling.check(tasks)
    # The meaning, hashed into every fingerprint, covers the version of the normal form too.
    if (stated, ids) != (question.meaning.hex(), [str(each.task_id) for each in tasks]):
        raise ParameterError(
            "spelling.json: its meaning or its task_ids are not those of its tasks"
        )
    return spelling


def _size(alphabet: str) -> int:
    return len(alphabet) + 2
