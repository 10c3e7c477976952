"""A survey is read from its public files, and nobody who hands them out can change what it asks."""

import json
from fractions import Fraction
from pathlib import Path

import pytest

from aggregator.client.contributions import survey_digest
from aggregator.client.survey.asked_survey import read_survey
from aggregator.client.text.question import TextQuestion
from aggregator.errors import ParameterError
from aggregator.protocol.task_file import tasks_to_toml
from tests.support.survey_folders import write_survey_folder
from tests.support.surveys import VISITS, department
from tests.support.tasks import HELPER_URL
from tests.support.text import question_tasks
from tests.support.texts import WORD

AGE = {"kind": "number", "name": "age", "low": "0", "high": "9", "step": "1", "clip": False}
NUMBER = {"question": AGE, "design": "sum"}
WINDOW = {"window": 168, "window_start": 0, "population": "patients", "max_releases": 52}


def meaning(title: str = "Visits", **changed: object) -> str:
    table = {
        "version": 2,
        "survey": title,
        "asked": "patients",
        "window": {"seconds": 604800, "offset": 0},
        "questions": [],
        "tables": [],
        "texts": {name: question(name).meaning.hex() for name in ("place", "word")},
    } | changed
    return json.dumps(table, sort_keys=True, separators=(",", ":"))


def question(name: str, survey: str = "") -> TextQuestion:
    return TextQuestion(f"Visits, {name}", Fraction(1, 2), 8, 16, survey)


def write_text(folder: Path, name: str, survey: str, **settings: str | int) -> None:
    """Write a text question's files, with tasks that are bound to this survey."""
    asked, place = question(name, survey), folder / "text" / name
    tasks = question_tasks(asked, ord(name[0]) * 256, WINDOW, **settings)
    place.mkdir(parents=True)
    (place / "text.json").write_text(asked.to_json(tasks))
    (place / "tasks.toml").write_text(tasks_to_toml(tasks))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("place", "word"):
        write_text(tmp_path, name, meaning())
    (tmp_path / "survey.json").write_text(f"{meaning()}\n")
    return tmp_path


def test_a_survey_of_text_questions_alone_has_no_task_beside_theirs(folder: Path) -> None:
    asked = read_survey(folder / "survey.json")
    assert asked.task is None
    assert asked.meaning == meaning()
    assert asked.digest == survey_digest(meaning())
    assert [*asked.texts] == [*asked.sheet.texts] == ["place", "word"]
    assert asked.tasks == [each for _, tasks in asked.texts.values() for each in tasks]
    assert asked.first.policy.population == "patients"
    assert asked.sheet.entries({"word": "plum", "place": None}) == []


def test_a_survey_with_other_questions_has_the_task_that_is_bound_to_its_meaning(
    tmp_path: Path,
) -> None:
    made = tmp_path / "made"
    tasks = write_survey_folder(made, VISITS + WORD + department())
    for name in ("task.toml", "task.json"):
        asked = read_survey(made / name)
        assert asked.task == asked.first == tasks[""][0]
        assert asked.meaning == asked.task.meaning
        assert [*asked.texts["word"][1]] == tasks["word"] == asked.tasks[1:]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (meaning("Visitors"), "text question place: is another one than the survey's"),
        (meaning(asked="staff"), "text question place: is another one than the survey's"),
        (
            meaning(window={"seconds": 3600, "offset": 0}),
            "text question place: is another one than the survey's",
        ),
        (
            meaning(texts={"word": question("word").meaning.hex()}),
            "text question place: the survey has no such question",
        ),
        (
            meaning(texts={"word": question("place").meaning.hex(), "place": "00"}),
            "text question place: is another one than the survey's",
        ),
        (meaning(version=3), "survey.json: meaning: version 3 is not known"),
        (meaning(questions=[{}]), "survey.json: meaning: not that of a survey"),
        (meaning(questions=[NUMBER]), "survey.json: must have text questions, and no others"),
        (meaning(texts={}), "survey.json: must have text questions, and no others"),
        (meaning(texts=7), "survey.json: meaning: not that of a survey"),
        ("{}", "version: missing"),
    ],
)
def test_whoever_hands_out_its_files_cannot_change_what_all_its_tasks_bind(
    folder: Path, changed: str, said: str
) -> None:
    (folder / "survey.json").write_text(changed)
    with pytest.raises(ParameterError, match=said):
        read_survey(folder / "survey.json")


def test_nor_leave_a_question_out_nor_give_one_tasks_of_another_survey_or_party(
    folder: Path,
) -> None:
    word = folder / "text" / "word"
    described = (word / "text.json").read_text()
    (word / "text.json").write_text("[]")
    with pytest.raises(ParameterError, match=r"word: text\.json: not the description"):
        read_survey(folder / "survey.json")
    (word / "text.json").write_text(described.replace("patients", "staff"))
    with pytest.raises(ParameterError, match="word: task 1 of 8: was not made for this question"):
        read_survey(folder / "survey.json")
    for each in word.iterdir():
        each.unlink()
    word.rmdir()
    with pytest.raises(ParameterError, match="word: the survey has it, and its files are missing"):
        read_survey(folder / "survey.json")
    write_text(folder, "word", meaning(), leader=HELPER_URL, helper="https://other.example/")
    with pytest.raises(ParameterError, match="word: its tasks have another leader than"):
        read_survey(folder / "survey.json")


def test_a_changed_description_is_refused_and_so_is_another_order_of_tasks(folder: Path) -> None:
    file = folder / "text" / "word" / "text.json"
    ours = file.read_text()
    changes = {
        "task 1 of 8: was not made for this question": ours.replace("Visits, word", "Which tree?"),
        "was not made for this question and this place in": ours.replace('s": 16', 's": 64'),
        "tasks: the question has 9, not 8": ours.replace('"tasks": 8', '"tasks": 9'),
        "and normal form 1, only": ours.replace('"normalisation": 1', '"normalisation": 2'),
        "its meaning or its task_ids": ours.replace('"meaning": "', '"meaning": "00'),
    }
    for said, text in changes.items():
        assert text != ours
        file.write_text(text)
        with pytest.raises(ParameterError, match=said):
            read_survey(folder / "survey.json")
    file.write_text(ours)
    asked, tasks = read_survey(folder / "survey.json").texts["word"]
    with pytest.raises(ParameterError, match="task 1 of 8: was not made for this question and"):
        asked.check(tasks[::-1])


def test_a_question_is_the_same_whichever_survey_asks_it(folder: Path) -> None:
    """Its fingerprints and tosses outlive a change of the survey."""
    found, _ = read_survey(folder / "survey.json").texts["word"]
    assert found.survey
    assert found == question("word")
    assert found.meaning == question("word").meaning
    assert found.info(0) != question("word").info(0)
