"""The vectors of a text question, each step computed again from the words of docs/text.md."""

import dataclasses
import hashlib
import json
from fractions import Fraction

import pytest

from aggregator.client.survey.numbers import Grid
from aggregator.client.text.amounts import Amount
from aggregator.client.text.choices import ByChoice
from aggregator.client.text.question import TextQuestion
from aggregator.client.text.vectors import ANSWERS, text_vectors
from aggregator.codec import decode
from aggregator.dap.ids import TaskId
from aggregator.dap.messages import UploadRequest
from tests.support.tasks import LAPLACE, make_task
from tests.support.text import question_tasks

QUESTION = TextQuestion("Ein „Wört“?", Fraction(1, 2), 9, 32)
TASKS = [
    make_task(
        {"type": "Prio3Histogram", "length": 32},
        {**LAPLACE, "window": 3, "window_start": 1, **QUESTION.group(place).settings()},
        id=str(TaskId(bytes([place]) * 32)),
        task_info=QUESTION.info(place),
    )
    for place in range(9)
]


@pytest.mark.slow
def test_each_step_of_the_vectors_follows_from_the_one_before() -> None:
    QUESTION.check(TASKS)
    file = json.loads(json.dumps(text_vectors(QUESTION, TASKS, ANSWERS, 1_700_000_000)))
    assert file == json.loads(json.dumps(text_vectors(QUESTION, TASKS, ANSWERS, 1_700_000_000)))
    described = bytes.fromhex(file["question"]["described"])
    meaning = hashlib.sha256(b"prio text question" + described).digest()
    assert meaning.hex() == file["question"]["meaning"]
    for place, key in enumerate(file["keys"]):
        digest = hashlib.sha256(b"prio text key" + place.to_bytes(4, "big") + meaning).digest()
        assert digest[:16].hex() == key
    for toss in file["tosses"]:
        *refused, taken = (int(each, 16) for each in toss["drawn"])
        assert all(each >= 2**64 // 9 * 9 for each in refused)
        assert toss["task"] == taken % 9
    assert [len(toss["drawn"]) for toss in file["tosses"]] == [1, 1, 1, 1, 2]
    for answer in file["answers"]:
        normal = bytes.fromhex(answer["normal"])
        digest = hashlib.sha256(b"prio text\1" + meaning + normal).digest()
        assert digest[:4].hex() == answer["fingerprint"]
        hashed = [int.from_bytes(bytes.fromhex(each), "little") for each in answer["siphash"]]
        assert answer["buckets"] == [(1 + each % 31) * (normal != b"") for each in hashed]
    normals = [bytes.fromhex(each["normal"]).decode() for each in file["answers"]]
    assert normals == ["tea", "earl grey", "strasse", "\u00e9", "\ufffd", "", ""]


@pytest.mark.slow
def test_the_reports_of_the_vectors_are_of_the_task_that_was_tossed_for() -> None:
    file = text_vectors(QUESTION, TASKS, ANSWERS, 1_700_000_000)
    upload = json.loads(json.dumps(file))["upload"]
    number = json.loads(json.dumps(file))["tosses"][0]["task"]
    assert upload["task"]["id"] == str(TASKS[number].task_id)
    reports = decode(UploadRequest, bytes.fromhex(upload["upload_request"])).reports
    assert len(reports) == len(ANSWERS)
    measured = [each["measurement"] for each in upload["reports"]]
    assert measured == [QUESTION.hashes.bucket(number, answer) for answer in ANSWERS]


@pytest.mark.slow
def test_with_an_amount_the_level_follows_from_the_draw_and_the_entry_from_both() -> None:
    grid = Grid(Fraction(0), Fraction(1, 2), 1000, clips=False)
    question = dataclasses.replace(QUESTION, amount=Amount("How much?", grid))
    tasks = question_tasks(question)
    file = json.loads(json.dumps(text_vectors(question, tasks, ANSWERS, 1_700_000_000)))
    for answer in file["answers"]:
        *_, taken = (int(each, 16) for each in answer["drawn"])
        assert answer["level"] == int(taken % 1000 < answer["steps"])
        more = 31 * answer["level"]
        assert answer["entries"] == [each and each + more for each in answer["buckets"]]
    assert {each["level"] for each in file["answers"]} == {0, 1}
    number = file["tosses"][0]["task"]
    measured = [each["measurement"] for each in file["upload"]["reports"]]
    assert measured == [each["entries"][number] for each in file["answers"]]


@pytest.mark.slow
def test_by_another_answer_the_level_is_the_place_of_a_label_and_nothing_is_drawn() -> None:
    question = dataclasses.replace(QUESTION, by=ByChoice("age", ("young", "middle", "old")))
    tasks = question_tasks(question)
    file = json.loads(json.dumps(text_vectors(question, tasks, ANSWERS, 1_700_000_000)))
    for answer in file["answers"]:
        assert answer.keys().isdisjoint({"steps", "drawn"})
        more = 31 * answer["level"]
        assert answer["entries"] == [each and each + more for each in answer["buckets"]]
    assert {each["level"] for each in file["answers"]} == {0, 1, 2}
    number = file["tosses"][0]["task"]
    measured = [each["measurement"] for each in file["upload"]["reports"]]
    assert measured == [each["entries"][number] for each in file["answers"]]
