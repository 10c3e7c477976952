"""Which questions are asked of whom, and that people who are not asked are like everybody else."""

import io
import json
from datetime import UTC, datetime

import pytest

from aggregator.client.table_files.cells import CellError
from aggregator.client.table_files.csv_tables import csv_table
from aggregator.errors import ParameterError
from aggregator.steward.survey import Columns, Meaning, Windows, read_answers, survey_from_toml
from tests.support.surveys import VISITS, task_of

SMOKERS = (
    VISITS
    + """
[[question]]
name = "smoker"
kind = "yes-no"
[[question]]
name = "why"
kind = "multiple"
labels = ["habit", "taste", "friends"]
ask_if = { smoker = "yes" }
[[question]]
name = "whose"
kind = "choice"
labels = ["a friend's", "mine"]
ask_if = { smoker = "yes", why = ["friends", "taste"] }
[[question]]
name = "cigarettes"
kind = "number"
low = 0
high = 60
"""
)
HEAD = "day,smoker,why,whose,cigarettes\n"
WINDOWS = Windows.of("week", datetime(2026, 11, 2, tzinfo=UTC))
YES, NO = (0,), (1,)


@pytest.mark.parametrize(
    ("smoker", "why", "asked"),
    [
        (NO, None, [True, False, False, True]),
        (None, None, [True, False, False, True]),
        (YES, None, [True, True, False, True]),
        (YES, (0,), [True, True, False, True]),
        (YES, (0, 2), [True, True, True, True]),
        (NO, (0, 2), [True, False, False, True]),  # given, and not asked: it counts for nothing
    ],
)
def test_a_question_is_asked_if_all_is_so_that_it_depends_on(
    smoker: tuple[int] | None, why: tuple[int, ...] | None, asked: list[bool]
) -> None:
    assert survey_from_toml(SMOKERS).routing.asked([smoker, why, None, None]) == asked


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('{ smoker = "yes" }', '{ smokes = "yes" }', "asked before it, not 'smokes'; did you"),
        ('{ smoker = "yes" }', '{ whose = "mine" }', "asked before it, not 'whose'"),
        ('{ smoker = "yes" }', '{ why = "taste" }', "asked before it, not 'why'"),
        (
            '{ smoker = "yes" }',
            '{ smoker = "no answer" }',
            "label 'no answer': it has 'yes', 'no'",
        ),
        ('{ smoker = "yes" }', '{ smoker = "Yes" }', "no label 'Yes'; did you mean yes?"),
        ('{ smoker = "yes" }', "{ smoker = [] }", "smoker: must be a label or a list of labels"),
        ('{ smoker = "yes" }', "{ smoker = true }", "smoker: must be a label or a list of labels"),
        ('{ smoker = "yes" }', '{ smoker = ["no", "no"] }', "smoker: a label is there twice"),
        ('{ smoker = "yes" }', '"smoker"', "must be the name of a question and its labels"),
    ],
)
def test_what_a_question_cannot_depend_on_is_named(old: str, new: str, said: str) -> None:
    with pytest.raises(ParameterError) as refusal:
        survey_from_toml(SMOKERS.replace(old, new))
    assert str(refusal.value).startswith("survey: question why: ask_if: ")
    assert said in str(refusal.value)


WORD = """
[[question]]
name = "brand"
kind = "text"
epsilon = "1/4"
tasks = 8
ask_if = { smoker = "yes", why = ["taste", "habit"] }
"""


def test_a_text_question_depends_on_any_other_and_none_on_it() -> None:
    """A page that asks others would otherwise measure something else."""
    # It may stand before them: people are asked it after all others.
    assert survey_from_toml(VISITS + WORD + SMOKERS.removeprefix(VISITS)).routing.texts
    routing = survey_from_toml(SMOKERS + WORD).routing
    for smoker, why, is_asked in (
        (YES, (0,), True),
        (YES, (2,), False),
        (YES, None, False),
        (NO, (0,), False),
        (None, None, False),
    ):
        assert routing.asked_texts([smoker, why, None, None]) == {"brand": is_asked}
    task = task_of(SMOKERS + WORD)
    meaning = Meaning.of_task(task)
    assert meaning.routing == routing
    always = task_of(SMOKERS + WORD.rsplit("ask_if", 1)[0])
    assert always.fingerprint != task.fingerprint
    with pytest.raises(ParameterError, match="question brand: ask_if: must name a question that"):
        survey_from_toml(SMOKERS + WORD.replace("smoker =", "smokes ="))
    after = '[[question]]\nname = "more"\nkind = "yes-no"\nask_if = { brand = "x" }\n'
    with pytest.raises(ParameterError, match="more: ask_if: must name a question that is asked"):
        survey_from_toml(SMOKERS + WORD + after)
    for changed in (
        {"brand": {"whose": ["his"]}},
        {"brands": {"smoker": ["yes"]}},
        [],
        {"brand": {}},
    ):
        table = json.loads(task.meaning) | {"texts_asked_if": changed}
        text = json.dumps(table, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        with pytest.raises(ParameterError, match="meaning: not"):
            Meaning.from_json(text)


def test_what_somebody_wrote_who_was_not_asked_is_refused_by_row_and_column() -> None:
    meaning = Meaning.of_task(task_of(SMOKERS + WORD))
    columns = Columns(time="day", of_question={"brand": ["which"]}, missing=["n/a"])
    rows = "2026-11-02,yes,habit,,3,x\n2026-11-02,no,,,0,n/a\n2026-11-02,yes,friends,,,\n"

    def read(text: str) -> int:
        table = csv_table(io.StringIO("day,smoker,why,whose,cigarettes,which\n" + text))
        questions, texts = meaning.sheet.questions, meaning.asked_texts
        return read_answers(table, questions, WINDOWS, columns, texts).count

    assert read(rows) == 3
    with pytest.raises(CellError) as refusal:
        read(rows + "2026-11-02,no,,,0,secret\n")
    condition = "smoker is yes and why is taste or habit"
    assert (
        str(refusal.value)
        == f"the table, line 5, which: must be empty: it is asked only if {condition}"
    )


def test_a_number_has_no_labels_to_depend_on() -> None:
    last = '[[question]]\nname = "more"\nkind = "yes-no"\nask_if = { cigarettes = "0" }\n'
    with pytest.raises(ParameterError, match="more: ask_if: cigarettes has no labels"):
        survey_from_toml(SMOKERS + last)


def test_whom_a_question_is_asked_is_bound_into_the_task() -> None:
    """A page that asks others would otherwise measure something else under the same name."""
    task = task_of(SMOKERS)
    assert Meaning.of_task(task).sheet.questions[1].ask_if == (("smoker", ("yes",)),)
    others = SMOKERS.replace('{ smoker = "yes" }', '{ smoker = "no" }')
    assert task_of(others).fingerprint != task.fingerprint
    meaning = json.loads(task.meaning)
    meaning["questions"][1]["question"]["ask_if"] = {"whose": ["mine"]}
    text = json.dumps(meaning, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    with pytest.raises(ParameterError, match="not that of a survey"):
        Meaning.from_json(text)


def test_an_answer_to_what_was_not_asked_is_refused_by_row_and_column() -> None:
    questions = Meaning.of_task(task_of(SMOKERS)).sheet.questions
    rows = "2026-11-02,yes,friends,mine,3\n2026-11-02,no,,,0\n2026-11-02,,,,\n"

    def read(text: str) -> int:
        table = csv_table(io.StringIO(HEAD + text))
        return read_answers(table, questions, WINDOWS, Columns(time="day")).count

    assert read(rows) == 3
    with pytest.raises(CellError) as refusal:
        read(rows + "2026-11-02,no,habit,,0\n2026-11-02,yes,habit,mine,0\n2026-11-02,x,habit,,0\n")
    smoking, reason = "smoker is yes", "why is friends or taste"
    assert str(refusal.value).splitlines() == [
        f"the table, line 5, why: must be empty: it is asked only if {smoking}",
        f"the table, line 6, whose: must be empty: it is asked only if {smoking} and {reason}",
        "the table, line 7, smoker: must be yes or no, or true or false, not 'x'",
    ]


def test_a_report_is_as_large_whoever_is_asked_what() -> None:
    """The network and the leader would otherwise learn an answer from what was not asked."""
    sheet = Meaning.of_task(task_of(SMOKERS)).sheet
    people = [(YES, (2,), (1,), (3,)), (YES, None, None, None), (NO, None, None, (0,))]
    assert {len(sheet.measurement(given)) for given in people} == {sheet.circuit.output_len}
