"""A number beside a string: one entry of a report, and one question that is bound as a whole."""

import dataclasses
import hashlib
import json
from collections import Counter
from fractions import Fraction

import pytest

from aggregator.client.survey.numbers import Grid
from aggregator.client.text.amounts import Amount, drawn_below, range_of, without_range
from aggregator.client.text.question import TextQuestion, question_of_json
from aggregator.client.text.spelling import Spelling, spelling_of_json
from aggregator.dap.times import Interval
from aggregator.errors import ParameterError
from tests.support.entropy import ScriptedEntropy, SeededEntropy
from tests.support.text import question_tasks, spelling_tasks

GRID = Grid(Fraction(-1, 2), Fraction(1, 4), 10, clips=True)
AMOUNT = Amount("How much?", GRID, "euros a week")
PLAIN = TextQuestion("Fruit, shop: which?", Fraction(1, 2), 8, 16)
ASKED = dataclasses.replace(PLAIN, amount=AMOUNT)
SAID = "with amounts of -1/2 to 2 euros a week in steps of 1/4: "


def test_a_question_without_an_amount_is_described_byte_for_byte_as_ever() -> None:
    described = (
        '{"buckets":16,"epsilon":"1/2","normalisation":1,"tasks":8,'
        '"title":"Fruit, shop: which?","version":1}'
    )
    assert PLAIN.described == described
    assert PLAIN.meaning.hex() == "9b888cac5f1718447f0ff8c21ba7cef33da2d39c9ac34628246c43657d8fddce"
    info = "Fruit, shop: which? meaning:-Sf1jinVb52D3nBeZsHApqMQVNIXjmq7VycCo_BOr7Y"
    assert PLAIN.info(3) == info
    assert json.loads(PLAIN.to_json(()))["version"] == 1
    assert PLAIN.entries == PLAIN.length


def test_the_whole_amount_is_bound_with_the_question() -> None:
    described = (
        '{"amount":{"clip":true,"high":"2","low":"-1/2","step":"1/4","text":"How much?",'
        '"unit":"euros a week"},"buckets":16,"epsilon":"1/2","normalisation":1,"tasks":8,'
        '"title":"Fruit, shop: which?","version":2}'
    )
    assert ASKED.described == described
    assert ASKED.meaning == hashlib.sha256(b"prio text question" + described.encode()).digest()
    tasks = question_tasks(ASKED)
    assert question_of_json(ASKED.to_json(tasks), tasks) == ASKED
    for name, other in {
        "text": "What?",
        "unit": "euros",
        "low": "-3/4",
        "high": "9/4",
        "step": "1/2",
        "clip": False,
    }.items():
        changed = json.loads(ASKED.to_json(tasks))
        changed["amount"][name] = other
        with pytest.raises(ParameterError):
            question_of_json(json.dumps(changed), tasks)
    for version in (1, 3):
        changed = json.loads(ASKED.to_json(tasks)) | {"version": version}
        with pytest.raises(ParameterError):
            question_of_json(json.dumps(changed), tasks)


@pytest.mark.parametrize(
    "amount",
    [
        None,
        [],
        {},
        {"low": "0"},
        {**AMOUNT.table, "high": 2},
        {**AMOUNT.table, "step": "0"},
        {**AMOUNT.table, "step": "-1"},
    ],
)
def test_what_is_no_amount_is_no_description(amount: object) -> None:
    tasks = question_tasks(ASKED)
    changed = json.loads(ASKED.to_json(tasks)) | {"amount": amount}
    with pytest.raises(ParameterError, match=r"text\.json: not the description"):
        question_of_json(json.dumps(changed), tasks)


def test_a_task_says_which_amounts_are_possible_and_may_not_say_others() -> None:
    assert ASKED.info(0).startswith(SAID + ASKED.title)
    assert range_of(ASKED.info(0)) == AMOUNT.told
    assert without_range(SAID + "Visits, shop") == "Visits, shop"
    # What marks a rehearsal stays in front.
    rehearsed = ASKED.info(0, "Made up: Visits, shop")
    assert rehearsed.startswith(f"Made up: {SAID}Visits, shop")
    assert range_of(rehearsed) == AMOUNT.told
    assert without_range(f"Made up: {SAID}Visits") == "Made up: Visits"
    assert range_of(PLAIN.info(0)) is None
    for low, high, step in (("1", "0", "1"), ("0", "0", "1"), ("0", "1", "0"), ("0", "1", "2/3")):
        assert range_of(f"with amounts of {low} to {high} in steps of {step}: Visits") is None
    for asked, info in (
        (ASKED, PLAIN.title),
        (ASKED, SAID.replace("2 euros", "20 euros") + PLAIN.title),
        (PLAIN, SAID + PLAIN.title),
    ):
        tasks = question_tasks(asked)
        bound = dataclasses.replace(
            tasks[0].configuration,
            task_info=(info + asked.info(0, "")).encode(),
        )
        changed = dataclasses.replace(tasks[0], configuration=bound)
        with pytest.raises(ParameterError, match="says other amounts"):
            asked.check([changed, *tasks[1:]])


def test_a_report_has_one_of_two_entries_for_each_bucket_of_strings() -> None:
    assert ASKED.entries == 31
    entropy, seen = SeededEntropy(b"amounts"), Counter[int]()
    for _ in range(200):
        seen[ASKED.measurement(2, ("Pear", 3), entropy)] += 1
    bucket = ASKED.hashes.bucket(2, "pear")
    assert bucket > 0
    assert set(seen) == {bucket, bucket + 15}
    assert abs(seen[bucket + 15] - 60) < 5 * (200 * 0.3 * 0.7) ** 0.5
    assert max(ASKED.hashes.bucket(0, str(each)) for each in range(500)) + 15 == ASKED.entries - 1


def test_the_least_number_never_has_the_upper_level_and_the_largest_always() -> None:
    for drawn in range(GRID.steps):
        levels = [
            AMOUNT.level(steps, ScriptedEntropy(drawn.to_bytes(8, "big")))
            for steps in range(GRID.steps + 1)
        ]
        assert levels == [int(drawn < steps) for steps in range(GRID.steps + 1)]


def test_every_draw_is_as_likely_for_any_number_of_steps() -> None:
    assert drawn_below(3, ScriptedEntropy(b"\xff" * 8 + bytes(7) + b"\x07")) == 1
    counts = Counter(drawn_below(10, SeededEntropy(b"%d" % each)) for each in range(2000))
    assert max(abs(counts[each] - 200) for each in range(10)) < 6 * 200**0.5


@pytest.mark.parametrize("written", [None, "Pear", ("", 4), (" ", 10)])
def test_who_gives_only_one_of_string_and_number_gave_no_answer(
    written: str | tuple[str, int] | None,
) -> None:
    entropy = SeededEntropy(b"half an answer")
    assert {ASKED.measurement(place, written, entropy) for place in range(8)} == {0}
    assert PLAIN.measurement(1, "Pear", entropy) == PLAIN.hashes.bucket(1, "pear")


def test_letters_are_asked_for_in_as_many_entries() -> None:
    question = dataclasses.replace(
        ASKED, length=32, amount=dataclasses.replace(AMOUNT, unit="euros")
    )
    spelling = Spelling(question, (7, 8), letters=4)
    assert spelling.entries == question.entries == 63
    window = {"window": 3, "window_start": 0}
    tasks = spelling_tasks(spelling, question_tasks(question, 0, window), Interval.of(3, 3))
    assert spelling_of_json(spelling.to_json(tasks), tasks) == spelling


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"text": " "}, "text: must not be empty"),
        ({"text": "two\nlines"}, "without control characters"),
        ({"unit": "euros: "}, "unit: must have no colon"),
        ({"unit": "e" * 90}, "are too long: .* must have at most 100 bytes"),
        (
            {"grid": Grid(Fraction(0), Fraction(1), 2**32 + 1, clips=False)},
            "high: must be at most 4,294,967,296 steps above low, not 4,294,967,297",
        ),
    ],
)
def test_an_amount_that_cannot_be_asked_for_is_refused(
    change: dict[str, object], says: str
) -> None:
    with pytest.raises(ParameterError, match=f"^amount: .*{says}"):
        dataclasses.replace(AMOUNT, **change)  # type: ignore[arg-type]  # wrong values


def test_reports_with_two_entries_for_each_bucket_are_no_longer_than_others_may_be() -> None:
    with pytest.raises(ParameterError, match="buckets: with an amount must be at most 524288"):
        dataclasses.replace(ASKED, length=2**19 + 1)
    assert dataclasses.replace(ASKED, length=2**19).entries == 2**20 - 1
