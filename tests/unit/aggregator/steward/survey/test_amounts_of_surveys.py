"""A number beside what people write, in a survey file, in tables of answers, and on the page."""

import io
import json
import re
from collections import Counter
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest

from aggregator.client import AnswerError, Outbox, SurveyClient
from aggregator.client.survey.numbers import Grid
from aggregator.client.survey.texts import TextParts
from aggregator.client.table_files.cells import CellError
from aggregator.client.table_files.csv_tables import csv_table
from aggregator.client.text.amounts import LEVELS
from aggregator.client.text.levels import Written
from aggregator.errors import ParameterError
from aggregator.steward.survey import Columns, read_answers, survey_from_toml
from aggregator.steward.survey.form.page import form_page
from aggregator.steward.survey.made_up import made_up
from aggregator.steward.survey.texts import plan_texts
from aggregator.steward.survey.wording import Wording
from aggregator.steward.survey.write_meaning import Meaning
from tests.support.commands import run_here
from tests.support.entropy import SeededEntropy
from tests.support.survey_folders import write_survey_folder
from tests.support.surveys import FIRST, VISITS, department
from tests.support.texts import WORD, asked_in, texts_in

AMOUNT = 'amount = { text = "How much?", low = -5, high = 15, step = "1/2", unit = "euros" }\n'
SURVEY = VISITS + department() + WORD + AMOUNT
GRID = Grid(Fraction(-5), Fraction(1, 2), 40, clips=False)


def test_a_question_asks_for_a_number_and_its_tasks_have_two_levels() -> None:
    question, tasks = texts_in(SURVEY)["word"]
    assert question.amount is not None
    assert question.amount.grid == GRID
    assert (question.amount.text, question.amount.unit) == ("How much?", "euros")
    assert {task.prio3.circuit.output_len for task in tasks} == {31}
    question.check(tasks)
    # Nothing of a question without a number changes.
    plain, _ = texts_in(VISITS + department() + WORD)["word"]
    assert json.loads(plain.described)["version"] == 1
    assert plain.meaning != question.meaning


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (('"How much?"', '" "'), "amount: text: must not be empty"),
        (("low = -5, ", ""), "amount.low: missing"),
        (("high = 15", "high = -5"), "amount: high must be above low"),
        (("high = 15", 'high = "61/4"'), "amount: high must be a whole number of steps of 1/2"),
        (("high = 15", "high = 4294967296"), r"amount: high: must be at most 4,294,967,296 steps"),
        (('"euros"', '"euros: "'), "amount: unit: must have no colon"),
        (('"euros"', f'"{"e" * 90}"'), "amount: low, high, step and unit: are too long"),
        (('unit = "euros"', "of = 1"), r"amount\.of: no such setting"),
        (("buckets = 16", "buckets = 524289"), "buckets: with an amount must be at most 524288"),
    ],
)
def test_an_amount_that_cannot_be_asked_for_is_refused_with_its_field_and_limit(
    change: tuple[str, str], says: str
) -> None:
    assert change[0] in SURVEY
    with pytest.raises(ParameterError, match=f"question word: {says}"):
        survey_from_toml(SURVEY.replace(*change))


def test_a_plan_reckons_with_the_noise_of_both_levels_and_foretells_errors_of_means() -> None:
    alone = (VISITS + WORD).replace('"1/4"', '"1"').replace("buckets = 16\ntasks = 8\n", "")
    more = alone + "people = 100000\n"
    (plain,), (planned,) = (plan_texts(survey_from_toml(each)) for each in (more, more + AMOUNT))
    assert planned.plan.levels == LEVELS
    assert planned.plan.found_from > 1.1 * plain.plan.found_from
    assert plain.errors_of_means == []
    (least, error), (many, smaller) = planned.errors_of_means
    assert many == 3 * least
    # As simulations of ± 9.9 and 4.2 of 100 say, of a range of 20.
    assert error == pytest.approx(2, rel=0.15)
    assert smaller == pytest.approx(0.87, rel=0.15)
    assert planned.by_people(100).errors_of_means == []


def test_a_command_says_what_means_will_be_worth(tmp_path: Path) -> None:
    file = tmp_path / "survey.toml"
    file.write_text(SURVEY.replace("buckets = 16", "buckets = 512\npeople = 100000"))
    done = run_here("survey", "check", file)
    said = r"8 tasks of 512 buckets with two levels each, .*; mean ± \S+ euros of what \S+ people"
    assert re.search(said, done.stdout), done
    (text,) = json.loads(run_here("survey", "check", file, "--json").stdout)["texts"]
    assert text["amount"]["unit"] == "euros"
    assert text["amount"]["errors_of_means"][0]["error"] > 0
    write_survey_folder(tmp_path / "made", SURVEY)
    shown = run_here("survey", "show", tmp_path / "made" / "task.toml").stdout
    assert '  amount text = "How much?"\n' in shown


def test_made_up_people_give_numbers_too() -> None:
    written = [each.texts["word"] for each in made_up(survey_from_toml(SURVEY), 400)]
    pairs = [each for each in written if isinstance(each, tuple)]
    assert len(pairs) == 400
    assert {0, 40} <= {steps for _, steps in pairs} <= set(range(41))


def read(text: str, columns: Columns | None = None) -> tuple[list[object], object]:
    survey = Meaning.from_json(asked_in(SURVEY).meaning)
    asked = survey.asked_texts
    found = read_answers(
        csv_table(io.StringIO(text)),
        survey.sheet.questions,
        survey.windows,
        columns or Columns("day"),
        asked,
        {"word": GRID},
    )
    return [row["word"] for rows in found.written.values() for row in rows], found.read["word"]


def test_a_table_has_a_column_of_text_and_one_of_the_number() -> None:
    rows = ["back,3", "neck,-5", "knee,15", ",4", "ear,", ",", "eye,3.2"]
    text = "day,department,word,word_amount\n" + "".join(f"2026-11-02,,{each}\n" for each in rows)
    written, counts = read(text)
    assert written == [("back", 16), ("neck", 0), ("knee", 40), None, None, None, ("eye", 16)]
    # A row with only one of both is nobody's answer, and is counted so that it is seen.
    assert (counts.answers, counts.missing, counts.halves) == (4, 3, 2)
    assert counts.ranges == {"": (-5, 15)}
    named = Columns("day", of_question={"word": ["what", "spent"]})
    text = text.replace("word,word_amount", "what,spent")
    assert read(text, named)[0] == written


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("back,16", "word_amount: must be from -5 to 15, not '?16'?; `clip = true` would"),
        ("back,much", "word_amount: must be a number, not 'much'"),
        (",16", "word_amount: must be from -5 to 15"),
    ],
)
def test_a_number_that_is_none_or_out_of_range_is_a_fault_of_its_column(
    row: str, says: str
) -> None:
    with pytest.raises(CellError, match=f"line 2, {says}"):
        read(f"day,department,word,word_amount\n2026-11-02,,{row}\n")


def test_a_text_with_a_number_is_read_from_two_columns() -> None:
    with pytest.raises(CellError, match="word: is read from two columns, of text and of a number"):
        read("day,department,what\n2026-11-02,,x\n", Columns("day", of_question={"word": ["what"]}))
    with pytest.raises(CellError, match="word_amount"):
        read("day,department,word\n2026-11-02,,x\n")


def test_an_application_gives_text_and_number_and_half_of_it_is_no_answer(tmp_path: Path) -> None:
    folder = tmp_path / "made"
    write_survey_folder(folder, SURVEY)
    survey = SurveyClient(folder / "task.json")
    try:
        assert survey.row({"word": ("Back", 3)}).texts == {"word": ("Back", 16)}
        assert survey.row({"word": ["Back", "3.25"]}).texts == {"word": ("Back", 16)}
        for half in (None, "Back", ("Back", None), (None, 3), ("", 3), ("Back", float("nan"))):
            assert survey.row({"word": half}).texts == {"word": None}
        for wrong in (7, ("Back",), ("Back", 3, 4), (7, 3), {"Back": 3}):
            with pytest.raises(AnswerError, match="word: must be text and a number, or None"):
                survey.row({"word": wrong})
        with pytest.raises(AnswerError, match=r"word: must be from -5 to 15$"):
            survey.row({"word": ("Back", 16)})
    finally:
        survey.close()


def test_a_level_is_drawn_for_each_report_by_which_its_entry_is_one_of_two(tmp_path: Path) -> None:
    asked = asked_in(SURVEY)
    question, tasks = asked.texts["word"]
    with closing(Outbox(tmp_path / "outbox.sqlite")) as outbox:
        parts = TextParts(asked.texts, {}, outbox, SeededEntropy(b"levels"))
        tosses = parts.tosses("17")
        (place,) = {toss.number for toss in tosses}

        def reported(written: Written) -> Counter[int]:
            made = [parts.parts(tosses, {"word": written}, 0) for _ in range(200)]
            assert {task.task_id for ((task, _),) in made} == {tasks[place].task_id}
            return Counter(entry for ((_, entry),) in made)

        bucket = question.hashes.bucket(place, "back")
        assert reported(("Back", 0)) == {bucket: 200}
        assert reported(("Back", 40)) == {bucket + 15: 200}
        some = reported(("Back", 30))
        assert some.keys() == {bucket, bucket + 15}
        assert abs(some[bucket + 15] - 150) < 6 * (200 * 0.75 * 0.25) ** 0.5
        assert reported(None) == reported("Back") == {0: 200}


def test_a_page_asks_for_both_and_says_what_becomes_of_the_number() -> None:
    page, plain = (form_page(asked_in(each)) for each in (SURVEY, VISITS + department() + WORD))
    assert 'id="q1-text"' in page
    assert re.search(r'<label for="q1-number"><bdi[^>]*>How much\?</bdi></label>', page)
    assert re.search(r'id="q1-number-unit"[^>]*>euros</bdi>', page)
    assert "only “low” or “high” is split and sent along with the hash" in page
    (described,) = re.findall(r'id="survey">(.*?)</script>', page)
    (text,) = json.loads(described)["texts"]
    assert text["grid"] == {"low": ["-5", "1"], "step": ["1", "2"], "steps": "40", "clip": False}
    assert text["names"]["high"] == "15"
    assert "q1-number" not in plain
    assert "along with the hash" not in plain


GERMAN = """
[translations.de]
title = "Besuche"
[translations.de.question.department]
text = "Abteilung?"
labels = ["Chirurgie", "Innere"]
[translations.de.question.word]
text = "Was tut weh?"
"""
OF_AMOUNT = 'amount = { text = "Wie viel?", unit = "Euro" }\n'


def test_a_translation_has_the_words_and_the_unit_of_the_number() -> None:
    survey = survey_from_toml(SURVEY + GERMAN + OF_AMOUNT, FIRST)
    wording = Wording(**{name: getattr(survey, name) for name in Wording.model_fields})
    page = form_page(asked_in(SURVEY + GERMAN + OF_AMOUNT), wording)
    assert "Wie viel?" in page
    assert "Euro" in page
    for change, says in {
        "": "amount: missing",
        'amount = { text = "Wie viel?" }\n': "amount: unit: missing",
        'amount = { text = "" }\n': "text",
    }.items():
        with pytest.raises(ParameterError, match=says):
            survey_from_toml(SURVEY + GERMAN + change)
    with pytest.raises(ParameterError, match="amount: the question has none"):
        survey_from_toml(VISITS + department() + WORD + GERMAN + OF_AMOUNT)
