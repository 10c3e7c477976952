"""What people write by what they chose, in a survey file, in tables of answers, and on the page."""

import io
import json
import re
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from aggregator.client import AnswerError, Outbox, SurveyClient
from aggregator.client.survey.asked_survey import survey_in
from aggregator.client.survey.texts import TextParts
from aggregator.client.table_files.csv_tables import csv_table
from aggregator.client.text.choices import ByChoice
from aggregator.errors import ParameterError
from aggregator.protocol.task_file import task_to_toml
from aggregator.steward.survey import Columns, read_answers, survey_from_toml
from aggregator.steward.survey.form.page import form_page
from aggregator.steward.survey.made_up import made_up
from aggregator.steward.survey.texts import plan_texts
from aggregator.steward.survey.wording import Wording
from aggregator.steward.survey.write_meaning import Meaning
from tests.support.commands import run_here
from tests.support.entropy import ScriptedEntropy, SeededEntropy
from tests.support.survey_folders import write_survey_folder
from tests.support.surveys import FIRST, VISITS, department
from tests.support.texts import WORD, asked_in, texts_in

BY = 'by = "department"\n'
SURVEY = VISITS + department(text="Which department?") + WORD + BY
FIRST_ONE = '[[question]]\nname = "first"\nkind = "yes-no"\n'


def test_a_question_is_counted_by_another_and_its_tasks_have_an_entry_for_each_label() -> None:
    question, tasks = texts_in(SURVEY)["word"]
    assert question.by == ByChoice("department", ("surgery", "medicine"))
    assert {task.prio3.circuit.output_len for task in tasks} == {31}
    question.check(tasks)
    # Nothing of a question by itself changes.
    plain, _ = texts_in(VISITS + department() + WORD)["word"]
    assert json.loads(plain.described)["version"] == 1
    yes_no, _ = texts_in(VISITS + FIRST_ONE + WORD + 'by = "first"\n')["word"]
    assert yes_no.by == ByChoice("first", ("yes", "no"))


@pytest.mark.parametrize(
    ("survey", "says"),
    [
        (
            SURVEY.replace(BY, 'by = "ward"\n'),
            "by: must be the name of a choice or yes-no question",
        ),
        (SURVEY.replace(BY, 'by = "departmnt"\n'), "not 'departmnt'.*department"),
        (SURVEY.replace(BY, 'by = "word"\n'), "by: must be the name of a choice"),
        (SURVEY.replace(BY, 'by = ""\n'), "by: must be the name of a choice"),
        (SURVEY.replace(BY, "by = 1\n"), "by: "),
        (SURVEY.replace('"choice"', '"multiple"'), "by: must be the name of a choice"),
        (VISITS + WORD.replace('"1/4"', '"1"') + BY, "by: must be the name of a choice"),
        (
            VISITS + FIRST_ONE + department() + 'ask_if = { first = "yes" }\n' + WORD + BY,
            "by: department: is not asked of everybody",
        ),
        (SURVEY + 'amount = { text = "How much?", low = 0, high = 9 }\n', "by: a question with an"),
        (SURVEY.replace("medicine", "m" * 150), "the labels of department are too long"),
        (SURVEY.replace("buckets = 16", "buckets = 524289"), "with these labels must be at most"),
    ],
)
def test_a_question_that_cannot_be_counted_by_another_is_refused_with_the_reason(
    survey: str, says: str
) -> None:
    with pytest.raises(ParameterError, match=f"question word: .*{says}"):
        survey_from_toml(survey)


def test_a_plan_reckons_with_the_noise_of_all_labels_and_foretells_errors_of_each() -> None:
    alone = (VISITS + department() + WORD).replace("buckets = 16\ntasks = 8\n", "")
    more = alone.replace('epsilon = "1"', 'epsilon = "2"').replace('"1/4"', '"1"')
    more += "people = 100000\n"
    (plain,), (planned,) = (plan_texts(survey_from_toml(each)) for each in (more, more + BY))
    assert planned.plan.levels == 2
    assert planned.plan.found_from > 1.1 * plain.plan.found_from
    assert plain.deviation_of_a_label is None
    assert planned.deviation_of_a_label == pytest.approx(planned.plan.deviation / 2**0.5)


def test_a_command_says_what_counts_of_labels_will_be_worth(tmp_path: Path) -> None:
    file = tmp_path / "survey.toml"
    file.write_text(SURVEY.replace("buckets = 16", "buckets = 512\npeople = 100000"))
    done = run_here("survey", "check", file)
    said = r"8 tasks of 512 buckets for each of 2 labels of department, .*; of each answer to "
    assert re.search(said + r"department ± \d+; ", done.stdout), done
    (text,) = json.loads(run_here("survey", "check", file, "--json").stdout)["texts"]
    assert text["by"]["labels"] == ["surgery", "medicine"]
    assert text["by"]["standard_deviation"] < text["standard_deviation"]
    write_survey_folder(tmp_path / "made", SURVEY)
    shown = run_here("survey", "show", tmp_path / "made" / "task.toml").stdout
    assert '  by question = "department"\n  by labels = ["surgery", "medicine"]\n' in shown


def test_made_up_people_write_by_what_they_choose() -> None:
    everybody = list(made_up(survey_from_toml(SURVEY), 400))
    for each in everybody:
        written = each.texts["word"]
        assert isinstance(written, tuple)
        assert each.answers[0] == (written[1],)
    assert {written[1] for each in everybody if isinstance(written := each.texts["word"], tuple)}


def test_a_table_needs_no_column_more_and_rows_without_an_answer_are_counted() -> None:
    meaning = Meaning.from_json(asked_in(SURVEY).meaning)
    rows = ["surgery,back", "medicine,Back", ",knee", "surgery,", ","]
    text = "day,department,word\n" + "".join(f"2026-11-02,{each}\n" for each in rows)
    found = read_answers(
        csv_table(io.StringIO(text)),
        meaning.sheet.questions,
        meaning.windows,
        Columns("day"),
        meaning.asked_texts,
        {"word": "department"},
    )
    written = [row["word"] for rows in found.written.values() for row in rows]
    assert written == [("back", 0), ("Back", 1), None, None, None]
    counts = found.read["word"]
    assert (counts.answers, counts.missing, counts.halves) == (2, 3, 1)


def test_a_dry_run_says_how_many_wrote_and_did_not_choose(tmp_path: Path) -> None:
    write_survey_folder(tmp_path / "made", SURVEY)
    table = tmp_path / "answers.csv"
    table.write_text("time,person,department,word\n2026-11-02,1,,x\n2026-11-02,2,surgery,x\n")
    arguments = ("survey", "upload", tmp_path / "made" / "task.toml", table, "--dry-run")
    named = ("--person-column", "person", "--state", tmp_path / "state")
    done = run_here(*arguments, *named)
    assert "word: 1 answer, 1 missing (1 with no answer to department), 0 clipped" in done.stdout
    document = json.loads(run_here(*arguments, *named, "--json").stdout)
    assert [each.get("halves") for each in document["questions"] if each["name"] == "word"] == [1]


def test_an_application_gives_both_answers_and_the_text_alone_is_none(tmp_path: Path) -> None:
    folder = tmp_path / "made"
    write_survey_folder(folder, SURVEY)
    survey = SurveyClient(folder / "task.json")
    try:
        both = {"word": "Back", "department": "medicine"}
        assert survey.row(both).texts == {"word": ("Back", 1)}
        assert survey.row({"word": "Back"}).texts == {"word": None}
        assert survey.row({"department": "medicine"}).texts == {"word": None}
        for wrong in (7, ("Back", 1)):
            with pytest.raises(AnswerError, match="word: must be text, or None"):
                survey.row({"word": wrong, "department": "medicine"})
        with pytest.raises(AnswerError, match="department: must be one of"):
            survey.row({"word": "Back", "department": "eyes"})
    finally:
        survey.close()


def test_a_hidden_text_is_no_answer_whatever_was_chosen(tmp_path: Path) -> None:
    folder = tmp_path / "made"
    write_survey_folder(folder, SURVEY + 'ask_if = { department = "surgery" }\n')
    survey = SurveyClient(folder / "task.json")
    try:
        assert survey.row({"word": "Back", "department": "medicine"}).texts == {"word": None}
        assert survey.row({"word": "Back", "department": "surgery"}).texts == {"word": ("Back", 0)}
    finally:
        survey.close()


def test_a_report_is_in_the_entry_of_the_label_and_nothing_is_drawn(tmp_path: Path) -> None:
    asked = asked_in(SURVEY)
    question, tasks = asked.texts["word"]
    with closing(Outbox(tmp_path / "outbox.sqlite")) as outbox:
        tosses = TextParts(asked.texts, {}, outbox, SeededEntropy(b"toss")).tosses("17")
        parts = TextParts(asked.texts, {}, outbox, ScriptedEntropy(b""))
        (place,) = {toss.number for toss in tosses}
        bucket = question.hashes.bucket(place, "back")
        for written, entry in ((("Back", 0), bucket), (("Back", 1), bucket + 15), (None, 0)):
            assert parts.parts(tosses, {"word": written}, 0) == [(tasks[place], entry)]


def test_files_whose_question_is_counted_by_other_labels_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "made"
    write_survey_folder(folder, SURVEY)
    file = folder / "task.toml"
    asked = survey_in(file.read_text(), file)
    assert asked.texts["word"][0].by is not None
    assert asked.task is not None
    for change in (("surgery", "surgeons"), ('"name":"department"', '"name":"ward"')):
        assert change[0] in asked.meaning
        changed = replace(asked.task, meaning=asked.meaning.replace(*change))
        with pytest.raises(ParameterError):
            survey_in(task_to_toml(changed), file)
    # Even the maker of all files cannot: the labels of both must agree.
    for labels in (["medicine", "surgery"], ["surgery", "medicine", "eyes"], ["surgery"]):
        with pytest.raises(ParameterError, match="by: the survey has no choice 'department' of"):
            asked.sheet.check_labels("department", labels)
    with pytest.raises(ParameterError, match="by: the survey has no choice 'word'"):
        asked.sheet.check_labels("word", ["surgery", "medicine"])


GERMAN = """
[translations.de]
title = "Besuche"
[translations.de.question.department]
text = "Welche Abteilung?"
labels = ["Chirurgie", "Innere"]
[translations.de.question.word]
text = "Was tut weh?"
"""


def test_a_page_says_by_which_question_it_is_counted_in_each_language() -> None:
    survey = survey_from_toml(SURVEY + GERMAN, FIRST)
    wording = Wording(**{name: getattr(survey, name) for name in Wording.model_fields})
    page = form_page(asked_in(SURVEY + GERMAN), wording)
    plain = form_page(asked_in(VISITS + department() + WORD))
    hint = r"and only if you answer that, too:</span> <span[^>]*>Which department\?</span>"
    assert re.search(hint, page)
    assert "und nur, wenn Sie auch diese beantworten:" in page
    assert "that answer is split and sent along with the hash" in page
    (described,) = re.findall(r'id="survey">(.*?)</script>', page)
    (text,) = json.loads(described)["texts"]
    assert text["description"]["by"] == {
        "question": "department",
        "labels": ["surgery", "medicine"],
    }
    assert "write_by" not in plain
    assert "only if you answer that, too" not in plain
