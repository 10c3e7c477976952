"""Surveys in the JavaScript module, by Node: its sheets, entries and refusals are ours."""

import json
from pathlib import Path

import pytest

from aggregator.client.module import joined_module, joined_survey
from aggregator.client.survey.asked_survey import AskedSurvey
from aggregator.errors import ParameterError
from aggregator.protocol.permit_codes import code_of, secret_of
from aggregator.protocol.task_file import task_for_clients, tasks_to_json
from tests.kat.test_permit_vectors import VECTORS
from tests.support.node import MODULE, run_tests
from tests.support.survey_cases import every_answer, surveys
from tests.support.surveys import VISITS, department
from tests.support.texts import WORD, asked_in

SURVEYS = 60


def test_a_person_has_one_report_of_each_question_in_a_window_that_is_open(tmp_path: Path) -> None:
    surgeons = WORD + 'ask_if = { department = "surgery" }\n'
    asked = asked_in(VISITS + department() + surgeons)
    assert asked.task is not None
    alone = asked_in(VISITS + WORD.replace('"1/4"', '"1"'))
    amount = 'amount = { text = "How much?", low = -5, high = 15, step = "1/2" }\n'
    beside = asked_in(VISITS + WORD.replace('"1/4"', '"1"') + amount)
    labels = asked_in(VISITS + department() + WORD + 'by = "department"\n')
    assert labels.task is not None
    file = json.loads(tasks_to_json([asked.task]))
    swapped = json.loads(tasks_to_json([asked.task]))
    swapped["task"][0]["meaning"] = asked.meaning.replace("medicine", "Medicine")
    given = tmp_path / "vectors.json"
    given.write_text(
        json.dumps(
            {
                "file": file,
                "swapped": swapped,
                "texts": texts_of(asked),
                "alone": alone.meaning,
                "texts_alone": texts_of(alone),
                "beside": beside.meaning,
                "texts_beside": texts_of(beside),
                "labels": json.loads(tasks_to_json([labels.task])),
                "texts_labels": texts_of(labels),
                "opens": asked.first.opens,
                "closes": asked.first.closes,
            }
        )
    )
    run_tests("survey_client.mjs", SURVEY_VECTORS=str(given))


def test_permits_are_made_of_a_code_as_in_python(tmp_path: Path) -> None:
    code = VECTORS["code"]
    others = [code[:place] + "z" + code[place + 1 :] for place in range(34) if code[place] != "-"]
    others += [code[:-1], code + "0", code.replace("m", "u"), "é" + code, "#p=", ""]
    for each in others:
        with pytest.raises(ParameterError):
            secret_of(each)
    asked = asked_in(
        VISITS.replace("[budget]", 'answers = "by invitation"\n[budget]') + department() + WORD
    )
    assert asked.task is not None
    given = {
        "vectors": VECTORS,
        "others": others,
        "second": code_of(bytes(16)),
        "survey": json.loads(tasks_to_json([asked.task])),
        "texts": texts_of(asked),
        "now": 1000 * (asked.first.opens + 60),
    }
    (tmp_path / "vectors.json").write_text(json.dumps(given))
    run_tests("permits.mjs", PERMIT_VECTORS=str(tmp_path / "vectors.json"))


def texts_of(asked: AskedSurvey) -> dict[str, object]:
    """Return the public files of each text question."""
    return {
        name: {
            "description": json.loads(question.to_json(tasks)),
            "tasks": [task_for_clients(each) for each in tasks],
        }
        for name, (question, tasks) in asked.texts.items()
    }


@pytest.mark.slow
def test_what_answers_become_and_what_is_said_of_bad_ones_is_ours_in_files_and_joined(
    tmp_path: Path,
) -> None:
    given = tmp_path / "vectors.json"
    given.write_text(json.dumps([*every_answer(), *surveys(SURVEYS)]))
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "prio.js").write_text(joined_module(), "utf-8")
    part = tmp_path / "prio-survey.js"
    part.write_text(joined_survey(), "utf-8")
    for module in (MODULE / "survey.js", part):
        run_tests("survey.mjs", SURVEY_MODULE=str(module), SURVEY_VECTORS=str(given))
