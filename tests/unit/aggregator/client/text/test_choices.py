"""A text question by the answers to another: what is bound, what tasks say, and which entry."""

import dataclasses
import hashlib
import json
from fractions import Fraction

import pytest

from aggregator.client.survey.numbers import Grid
from aggregator.client.text.amounts import Amount
from aggregator.client.text.choices import ByChoice, choice_in
from aggregator.client.text.levels import told_in, without_told
from aggregator.client.text.question import TextQuestion, question_of_json
from aggregator.client.text.spelling import Spelling, spelling_of_json
from aggregator.dap.times import Interval
from aggregator.errors import ParameterError
from tests.support.entropy import ScriptedEntropy
from tests.support.text import question_tasks, spelling_tasks

BY = ByChoice("age", ("under 30", '30 "or" more: [x]', "ni\u00f1o"))
PLAIN = TextQuestion("Fruit, shop: which?", Fraction(1, 2), 8, 16)
ASKED = dataclasses.replace(PLAIN, by=BY)
SAID = 'by age ["under 30","30 \\"or\\" more: [x]","ni\u00f1o"]: '


def test_the_other_question_and_all_labels_are_bound_with_the_question() -> None:
    described = (
        '{"buckets":16,"by":{"labels":["under 30","30 \\"or\\" more: [x]","ni\u00f1o"],'
        '"question":"age"},"epsilon":"1/2","normalisation":1,"tasks":8,'
        '"title":"Fruit, shop: which?","version":3}'
    )
    assert ASKED.described == described
    assert ASKED.meaning == hashlib.sha256(b"prio text question" + described.encode()).digest()
    tasks = question_tasks(ASKED)
    assert question_of_json(ASKED.to_json(tasks), tasks) == ASKED
    labels = [*BY.labels]
    for other in (
        {"question": "sex", "labels": labels},
        {"question": "age", "labels": labels[::-1]},
        {"question": "age", "labels": labels[:2]},
        {"question": "age", "labels": "abc"},
        {"question": "age", "labels": [1, 2, 3]},
        {"labels": labels},
        labels,
        None,
    ):
        changed = json.loads(ASKED.to_json(tasks)) | {"by": other}
        with pytest.raises(ParameterError):
            question_of_json(json.dumps(changed), tasks)
    for version in (1, 2, 4):
        changed = json.loads(ASKED.to_json(tasks)) | {"version": version}
        with pytest.raises(ParameterError):
            question_of_json(json.dumps(changed), tasks)


def test_a_task_names_the_labels_and_may_not_name_others() -> None:
    assert ASKED.info(0).startswith(SAID + ASKED.title)
    assert told_in(ASKED.info(0)) == BY
    assert without_told(SAID + "Visits, shop") == "Visits, shop"
    rehearsed = ASKED.info(0, "Made up: Visits, shop")
    assert rehearsed.startswith(f"Made up: {SAID}Visits, shop")
    assert told_in(rehearsed) == BY
    assert without_told(f"Made up: {SAID}Visits") == "Made up: Visits"
    for asked, info in (
        (ASKED, PLAIN.title),
        (ASKED, SAID.replace("under", "above") + PLAIN.title),
        (PLAIN, SAID + PLAIN.title),
    ):
        tasks = question_tasks(asked)
        bound = dataclasses.replace(
            tasks[0].configuration, task_info=(info + asked.info(0, "")).encode()
        )
        changed = dataclasses.replace(tasks[0], configuration=bound)
        with pytest.raises(ParameterError, match="says other amounts or labels"):
            asked.check([changed, *tasks[1:]])


@pytest.mark.parametrize(
    "title",
    [
        "by age: Visits",
        'by age ["a"]: Visits',
        'by age ["a","a"]: Visits',
        'by age ["a","\\q"]: Visits',
        'by age ["a","\\u0007"]: Visits',
        'by ["a","b"]: Visits',
        f'by age ["a","{"b" * 200}"]: Visits',
    ],
)
def test_a_title_that_names_no_labels_is_a_title(title: str) -> None:
    assert choice_in(title) is None
    assert told_in(title) is None


def test_the_entry_is_that_of_the_bucket_among_those_of_the_label() -> None:
    assert ASKED.entries == 1 + 3 * 15
    nothing = ScriptedEntropy(b"")
    for place in range(8):
        bucket = ASKED.hashes.bucket(place, "pear")
        entries = [ASKED.measurement(place, ("Pear", level), nothing) for level in range(3)]
        assert entries == [bucket, bucket + 15, bucket + 30]
    last = max(ASKED.hashes.bucket(0, str(each)) for each in range(500))
    assert last + 30 == ASKED.entries - 1
    for written in (None, "Pear", ("", 1), (" ", 2)):
        assert {ASKED.measurement(place, written, nothing) for place in range(8)} == {0}


def test_letters_are_asked_for_in_as_many_entries() -> None:
    question = dataclasses.replace(PLAIN, length=32, by=ByChoice("sex", ("f", "m")))
    spelling = Spelling(question, (7, 8), letters=4)
    assert spelling.entries == question.entries == 63
    tasks = question_tasks(question, 0, {"window": 3, "window_start": 0})
    letters = spelling_tasks(spelling, tasks, Interval.of(3, 3))
    assert spelling_of_json(spelling.to_json(letters), letters) == spelling


@pytest.mark.parametrize(
    ("question", "labels", "says"),
    [
        ("age", ("a",), "two labels or more"),
        ("age", ("a", "a"), "is there twice"),
        ("age", ("a", " a"), "are the same label"),
        ("age", ("a", "two\nlines"), "without control characters"),
        ("an age", ("a", "b"), "must be a name"),
        ("age", ("a" * 80, "b" * 80), "the labels of age are too long: .*at most 160 bytes"),
    ],
)
def test_labels_by_which_nothing_can_be_counted_are_refused(
    question: str, labels: tuple[str, ...], says: str
) -> None:
    with pytest.raises(ParameterError, match=f"^by: .*{says}"):
        ByChoice(question, labels)


def test_a_question_has_either_a_number_or_labels_and_no_more_entries_than_a_report_may() -> None:
    amount = Amount("How much?", Grid(Fraction(0), Fraction(1), 10, clips=False))
    with pytest.raises(ParameterError, match="by: a question with an amount has none"):
        dataclasses.replace(ASKED, amount=amount)
    with pytest.raises(ParameterError, match="buckets: with these labels must be at most 349525"):
        dataclasses.replace(ASKED, length=349_526)
    assert dataclasses.replace(ASKED, length=349_525).entries <= 2**20
