"""What a task's numbers mean is bound into the task."""

import dataclasses
import json

import pytest

from aggregator.errors import ParameterError
from aggregator.protocol.task_file import task_from_toml, task_to_toml
from aggregator.steward.survey import Meaning
from tests.support.surveys import VISITS, department, task_of
from tests.support.tasks import make_task

SURVEY = VISITS + department(["surgery", "<script>alert(1)</script>", "\u2067medicine"])


def swap(text: str) -> str:
    return text.replace("surgery", "?").replace("medicine", "surgery").replace("?", "medicine")


def test_labels_travel_in_the_task_file() -> None:
    task = task_from_toml(task_to_toml(task_of(SURVEY)))
    meaning = Meaning.of_task(task)
    assert (
        meaning.sheet.question("department").model_dump()["labels"][1]
        == "<script>alert(1)</script>"
    )
    assert (meaning.title, meaning.windows.seconds) == ("Visits", 7 * 86400)


def test_a_meaning_of_another_version_is_called_that() -> None:
    text = task_of(SURVEY).meaning.replace('"version":2', '"version":1')
    with pytest.raises(ParameterError, match="version 1 is not known: make the task again"):
        Meaning.from_json(text)


def test_a_swapped_order_of_labels_is_refused() -> None:
    text = task_to_toml(task_of(SURVEY))
    swapped = swap(text)
    assert swapped != text
    with pytest.raises(ParameterError, match="labels or ranges may have been changed"):
        task_from_toml(swapped)


def test_labels_in_another_order_make_a_task_with_another_fingerprint() -> None:
    assert task_of(swap(SURVEY)).fingerprint != task_of(SURVEY).fingerprint


def test_a_title_of_any_length_leaves_room_for_the_digest() -> None:
    task = task_of(SURVEY.replace('"Visits"', json.dumps("é" * 100)))
    assert len(task.configuration.task_info) <= 255
    assert Meaning.of_task(task).title == "é" * 100


def test_a_task_without_a_survey_has_no_labels() -> None:
    with pytest.raises(ParameterError, match="is of no survey"):
        Meaning.of_task(make_task())


@pytest.mark.parametrize(
    "text", ["{}", "[]", "1", "nonsense", '{"version":1}', '{"version":2}', "\x00", "[" * 100_000]
)
def test_what_is_no_meaning_is_refused(text: str) -> None:
    with pytest.raises(ParameterError, match="meaning"):
        Meaning.from_json(text)


@pytest.mark.parametrize("acting", [r"\u001b[31m", r"\u009b", r"\n"])
def test_labels_that_would_act_on_a_terminal_are_refused(acting: str) -> None:
    said = "survey: question department: labels: must be without control characters"
    with pytest.raises(ParameterError, match=said):
        task_of(SURVEY.replace("alert(1)", acting))
    text = Meaning.of_task(task_of(SURVEY)).to_json()
    assert "alert(1)" in text
    with pytest.raises(ParameterError, match="meaning: labels: must be without control characters"):
        Meaning.from_json(text.replace("alert(1)", acting))


@pytest.mark.parametrize("override", ["\u202d", "\u202e"])
def test_a_survey_with_a_label_that_is_read_the_other_way_round_is_refused(override: str) -> None:
    said = "survey: question department: labels: must be without control characters"
    with pytest.raises(ParameterError, match=said):
        task_of(SURVEY.replace("alert(1)", f"{override}oN"))
    with pytest.raises(ParameterError, match="survey: title: must be without"):
        task_of(SURVEY.replace('"Visits"', json.dumps(f"{override}Visits")))


def test_a_question_without_a_name_goes_by_its_number_when_its_text_acts() -> None:
    text = SURVEY.replace('name = "department"', "").replace("alert(1)", "\\u001b")
    with pytest.raises(ParameterError, match=r"survey: question [0-9]+: labels: must be without"):
        task_of(text)


def test_labels_keep_the_joiners_and_marks_of_their_languages() -> None:
    word = "\u0646\u0645\u06cc\u200c\u062e \u200e👩\u200d🌾"
    assert word in Meaning.of_task(task_of(SURVEY.replace("alert(1)", word))).to_json()


TWO = (
    SURVEY + '[[question]]\nname = "age"\nkind = "number"\nlow = 0\nhigh = 9\n'
    '[[question]]\nname = "again"\nkind = "yes-no"\n'
).replace("[budget]", 'by = "department"\n[budget]')


def test_questions_tables_and_their_order_travel_in_the_task_file() -> None:
    task = task_from_toml(task_to_toml(task_of(TWO)))
    sheet = Meaning.of_task(task).sheet
    names = ["department", "age", "again", "age by department", "again by department"]
    assert [part.name for part in sheet.parts] == names
    assert sheet.circuit == task.prio3.circuit


def test_what_is_no_meaning_of_the_tasks_own_sections_is_refused() -> None:
    one, two = task_of(SURVEY), task_of(TWO)
    # The digest is that of the meaning: a task can still be made wrongly.
    with pytest.raises(ParameterError, match=r"asked as onehot:4 .*, which is another type"):
        Meaning.of_task(dataclasses.replace(one, meaning=two.meaning))


@pytest.mark.parametrize(
    "changed",
    [
        ('"design":"one answer"', '"design":"histogram"'),
        ('[["age","department"]', '[["age","age"]'),
        ('[["age","department"]', '[["age","who"]'),
        ('[["age","department"]', '[["department","age"]'),
        ('[["age","department"]', "[[1]"),
    ],
)
def test_a_meaning_of_what_cannot_be_asked_is_refused(changed: tuple[str, str]) -> None:
    text = Meaning.of_task(task_of(TWO)).to_json()
    assert changed[0] in text
    with pytest.raises(ParameterError, match=r"tables|meaning|design"):
        Meaning.from_json(text.replace(*changed))
