"""Spelling: which letter people are asked for, what binds it, what it costs, and what is told."""

import dataclasses
import json
from fractions import Fraction

import numpy as np
import pytest

from aggregator.client.text.question import TextQuestion
from aggregator.client.text.spelling import Spelling, most_spelled, spelling_of_json
from aggregator.client.text.strings import fingerprint
from aggregator.dp.filters import Cost
from aggregator.errors import ParameterError
from aggregator.protocol.groups import cost_of_a_person
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import task_from_table, task_to_table
from aggregator.steward.text.spelled import named_from, spelled
from aggregator.steward.text.text_tasks import text_tasks_in
from tests.support.text import question_tasks, spelled_tables

QUESTION = TextQuestion("A word?", Fraction(1), 8, 1024)
NAMES = ("pear", "fig", "äpfel", "two figs", "quince", "blackcurrant")
SPELLING = Spelling(
    QUESTION,
    tuple(sorted(fingerprint(each, QUESTION.meaning) for each in NAMES)),
    "abcdefghijklmnopqrstuvwxyz ",
    letters=8,
)
TASKS = question_tasks(QUESTION, window={"window": 10})


def spelling_tasks(spelling: Spelling) -> list[Task]:
    """Return its tasks, as `prio survey spell` makes them of the question's."""
    others = question_tasks(QUESTION, 100)
    return [
        task_from_table(
            task_to_table(task)
            | {"id": str(others[place].task_id), "task_info": spelling.info(place)}
        )
        for place, task in enumerate(TASKS)
    ]


def letter(place: int, answer: str | None) -> str:
    """Return what a report of a place says of which string."""
    bucket = SPELLING.measurement(place, answer)
    if not bucket:
        return "nothing"
    number, code = divmod(bucket - 1, SPELLING.size)
    assert SPELLING.fingerprints[number] == fingerprint(str(answer).lower(), QUESTION.meaning)
    return [*SPELLING.alphabet, "other", "end"][code]


def test_each_place_tells_the_letter_of_its_position_of_strings_that_are_asked_for() -> None:
    assert [letter(place, "FIG") for place in range(8)] == ["f", "i", "g", *["end"] * 5]
    assert [letter(place, "äpfel") for place in range(3)] == ["other", "p", "f"]
    assert letter(3, "two figs") == " "
    assert letter(7, "blackcurrant") == "r"
    for answer in ("plum", "", " ", None, "\ud800"):
        assert {letter(place, answer) for place in range(8)} == {"nothing"}
    few = dataclasses.replace(SPELLING, letters=3)
    assert [few.position(place) for place in range(8)] == [0, 1, 2, 0, 1, 2, 0, 1]
    full = most_spelled(QUESTION.length, SPELLING.alphabet)
    assert 1 + full * SPELLING.size <= QUESTION.length < 1 + (full + 1) * SPELLING.size


def test_whoever_is_in_a_place_pays_for_its_task_of_the_question_and_of_the_spelling() -> None:
    """The tasks of a spelling are no further places, or a person could be in two of them."""
    tasks, one = spelling_tasks(SPELLING), Cost(Fraction(1))
    assert [each.policy.group for each in tasks] == [each.policy.group for each in TASKS]
    both = cost_of_a_person((each.policy.group, one) for each in [*TASKS, *tasks])
    assert both.epsilon == 2  # two windows: one of each
    assert cost_of_a_person((each.policy.group, one) for each in tasks).epsilon == 1


def test_fingerprints_alphabet_letters_and_places_are_bound_into_every_task() -> None:
    tasks = spelling_tasks(SPELLING)
    text = SPELLING.to_json(tasks)
    assert spelling_of_json(text, tasks) == SPELLING
    table = json.loads(text)
    for changed in (
        {"fingerprints": table["fingerprints"][1:]},
        {"alphabet": table["alphabet"][::-1]},
        {"letters": 7},
        {"question": table["question"] | {"title": "Another word?"}},
    ):
        with pytest.raises(ParameterError, match=r"task 1 of 8: was not made for this"):
            spelling_of_json(json.dumps(table | changed), tasks)
    for others in ([tasks[1], tasks[0], *tasks[2:]], TASKS):
        with pytest.raises(ParameterError, match=r"task 1 of 8: was not made for this"):
            spelling_of_json(text, others)
    with pytest.raises(ParameterError, match="its meaning or its task_ids"):
        spelling_of_json(json.dumps(table | {"task_ids": []}), tasks)
    for broken in ("[]", "{}", json.dumps(table | {"letters": True}), "[" * 10**5):
        with pytest.raises(ParameterError, match=r"spelling.json: not the description"):
            spelling_of_json(broken, tasks)
    # Nor does a collector take them for the question, asked again.
    assert len(text_tasks_in([*TASKS, *tasks])) == 1


def test_letters_are_asked_for_in_windows() -> None:
    """Or people would pay once more than the question says."""
    tasks = [
        task_from_table({**table, "privacy": {n: e for n, e in privacy.items() if n != "window"}})
        for table in map(task_to_table, spelling_tasks(SPELLING))
        if isinstance(privacy := table["privacy"], dict)
    ]
    with pytest.raises(ParameterError, match="window: the tasks of a spelling must have windows"):
        SPELLING.check(tasks)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"letters": 9}, "letters: must be from 1 to 8, the places"),
        ({"alphabet": ""}, "alphabet: must have one letter"),
        ({"alphabet": "aba"}, "alphabet: must have one letter or more, each once"),
        ({"alphabet": "abC"}, "alphabet: must be of letters that normal forms have"),
        ({"fingerprints": ()}, "fingerprints: there is room for 1 to 35 in 1024 buckets"),
        ({"fingerprints": tuple(range(36))}, "not for 36"),
        ({"fingerprints": (2, 1)}, "ascending"),
        ({"fingerprints": (1, 1)}, "different"),
        ({"fingerprints": (1, 2**32)}, "different"),
    ],
)
def test_what_cannot_be_spelled_is_refused(changed: dict[str, object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        dataclasses.replace(SPELLING, **changed)  # type: ignore[arg-type]  # one of several fields


def test_strings_are_told_by_their_fingerprint_and_others_are_not_made_up() -> None:
    held = dict.fromkeys(NAMES, 300) | {"plum": 5000}
    tables = spelled_tables(SPELLING, held, np.random.default_rng(1), silent=1000)
    told = spelled(SPELLING, tables, tried=500)
    assert set(told.names.values()) == {"pear", "fig", "two figs", "quince", None}
    for each, name in told.names.items():
        assert name is None or fingerprint(name, QUESTION.meaning) == each
    # A letter that the alphabet has not, and one that is too long: it is said that they are not.
    assert list(told.names.values()).count(None) == 2
    assert told.expected_false == 500 * 6 / 2**32
    nobody = spelled(SPELLING, np.zeros((8, 1024), np.int64), tried=500)
    assert set(nobody.names.values()) == {None}
    with pytest.raises(ParameterError, match="tables must be 8 of 1024 buckets, not 8 of 64"):
        spelled(SPELLING, np.zeros((8, 64), np.int64))


def test_a_plan_says_from_how_many_people_on_a_string_is_told() -> None:
    letters = rng_letters(np.random.default_rng(1), 16)
    question = TextQuestion("A word?", Fraction(1), 16, 1024)
    prints = tuple(sorted(fingerprint(each, question.meaning) for each in letters))
    spelling = Spelling(question, prints)
    planned = named_from(1, 16, 16, 26, tried=500)
    for people, least, most in ((planned, 13, 16), (planned // 2, 0, 8)):
        held = dict.fromkeys(letters, people)
        tables = spelled_tables(spelling, held, np.random.default_rng(2))
        told = spelled(spelling, tables, tried=500)
        names = [each for each in told.names.values() if each is not None]
        assert set(names) <= set(letters)
        assert least <= len(names) <= most


def rng_letters(rng: np.random.Generator, count: int) -> list[str]:
    """Return strings of 16 letters, drawn evenly."""
    return ["".join(rng.choice([*"abcdefghijklmnopqrstuvwxyz"], 16)) for _ in range(count)]
