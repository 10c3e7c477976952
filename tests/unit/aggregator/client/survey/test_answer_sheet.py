"""What an application's client makes of answers: what a steward's tools make, or an error."""

import itertools
import json
import math
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from aggregator.client.survey.answer_sheet import AnswerSheet
from aggregator.client.survey.answers import AnswerError
from aggregator.client.survey.read_meaning import question_of
from aggregator.client.survey.routing import Routing
from aggregator.client.table_files.cells import CellError, cell_of
from aggregator.errors import ParameterError
from aggregator.protocol.task import Task, info_with_digest
from aggregator.protocol.task_file import task_from_toml, task_to_toml
from aggregator.steward.survey import Meaning, Question, Sheet, Windows
from aggregator.steward.survey.questions import AnyQuestion
from aggregator.steward.survey.questions.vectors import Vector
from tests.support.surveys import VISITS, department, task_of
from tests.support.tasks import make_task

WINDOWS = Windows(7 * 86400, 4 * 86400)
_QUESTION: TypeAdapter[Question] = TypeAdapter(AnyQuestion)
HILLS = [{"label": "Hill"}, {"label": "Dale"}]
ASKED: list[dict[str, object]] = [
    {"kind": "choice", "labels": ["a", "b b", "ö"]},
    {"kind": "choice", "labels": [str(number) for number in range(40)]},
    {"kind": "yes-no"},
    {"kind": "scale", "high": 5},
    {"kind": "scale", "low": -1, "high": 1, "labels": ["bad", "fair", "2"]},
    {"kind": "bins", "edges": ["0", "1/3", "65", "120"]},
    {"kind": "bins", "edges": ["-5", "0", "5/2"], "clip": True},
    {"kind": "multiple", "labels": ["x", "y", "z"], "at_most": 2},
    {"kind": "multiple", "labels": ["x"]},
    {"kind": "number", "low": "-4", "high": "4", "step": "1/2"},
    {"kind": "number", "low": "1", "high": "40", "variance": True, "clip": True},
    {"kind": "number", "low": "0", "high": str(2**40)},
    {"kind": "vector", "column": [{"name": "u", "high": "3"}, {"name": "v", "high": "9"}]},
    {"kind": "tree", "low": "0", "high": "10", "leaves": 7, "branches": 2},
    {
        "kind": "tree",
        "regions": [
            {"label": "North", "below": HILLS},
            {"label": "South", "below": [{"label": "Dune"}, {"label": "Bay"}, {"label": "Moor"}]},
        ],
    },
]
TEXTS = st.one_of(
    st.text(max_size=4),
    st.sampled_from(["a", "b b", " ö ", "39", "yes", "FALSE", "bad", "2", "x", "Moor", "1e1", ""]),
    st.none(),
)
GIVEN = st.one_of(
    st.integers(-8, 130),
    st.integers(),
    st.floats(),
    st.decimals(),
    st.booleans(),
    TEXTS,
)
SOME = st.lists(st.sampled_from(["x", "y", "z", "w"]), max_size=4)
PAIRS = st.dictionaries(st.sampled_from(["u", "v"]), GIVEN)
BY_KIND = {
    "choice": TEXTS,
    "yes-no": st.one_of(
        TEXTS.filter(lambda each: each not in ("Y", "N", "y", "n")),
        st.booleans(),
        st.integers(-1, 2),
    ),
    "multiple": SOME,
    "vector": PAIRS,
}
"""Numbers of a table can be labels, and Y and N of other tools are yes and no there; of an
application they are not. All else is the same."""


def task_with(sheet: Sheet, meaning: str = "") -> Task:
    """Return the task that asks what a sheet does, with another meaning if one is given."""
    said = meaning or Meaning("Visits", "patients", WINDOWS, sheet).to_json()
    return make_task(
        {"type": "Prio3Sections", "sections": " ".join(sheet.texts)},
        max_reports=10,
        task_info=info_with_digest("Visits", said),
        meaning=said,
    )


@st.composite
def sheets(draw: st.DrawFn) -> Sheet:
    asked = []
    for place, table in enumerate(draw(st.lists(st.sampled_from(ASKED), min_size=1, max_size=4))):
        question = _QUESTION.validate_json(json.dumps({"name": f"q{place}", **table}))
        designs = [each for each in question.designs() if each.length < 1000]
        asked.append((question, draw(st.sampled_from(designs))))
    groups = [each for each, design in asked if each.makes_groups and design.labels]
    crossed = [each for each, design in asked if design in each.crossed_designs()]
    pairs = [(of.name, by.name) for of in crossed for by in groups if of is not by]
    tables = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=3)) if pairs else []
    return Sheet(tuple(asked), tuple(tables))


def read_by_steward(question: Question, answer: object) -> object:
    """Return the answer as a table of answers has it, or None; raise what such a table raises."""
    if isinstance(question, Vector):
        cells = [answer.get(name) for name in question.columns]  # type: ignore[attr-defined]  # of PAIRS
    else:
        cells = [answer]
    read = [cell_of(each) for each in cells]
    return None if question.is_missing(read) else question.read(read).answer


@pytest.mark.slow
@settings(max_examples=60)
@given(sheets(), st.data())
def test_a_client_adds_what_a_steward_would_and_refuses_what_one_refuses(
    sheet: Sheet, data: st.DataObject
) -> None:
    client = AnswerSheet.of_task(task_with(sheet))
    answers: dict[str, object] = {}
    readings = []
    for question, _ in sheet.asked:
        kind = question.model_dump()["kind"]
        answers[question.name] = answer = data.draw(BY_KIND.get(kind, GIVEN))
        try:
            readings.append(read_by_steward(question, answer))
        except CellError:
            with pytest.raises(AnswerError, match=f"^{question.name}: (.: )?must "):
                client.entries(answers)
            return
    entries = client.entries(answers)
    assert entries == sheet.measurement(readings)  # type: ignore[arg-type]  # as they were read
    sheet.circuit.encode([entries])
    assert len(client.entries({})) == len(entries)


def test_these_are_all_kinds_of_questions() -> None:
    kinds = get_args(get_args(AnyQuestion)[0])
    names = {get_args(kind.model_fields["kind"].annotation)[0] for kind in kinds}
    assert {table["kind"] for table in ASKED} == names


def visits() -> AnswerSheet:
    """Return a sheet of one question of each way of answering."""
    names = ("one", "many", "yes", "point", "mood", "bin", "clipped", "some", "any", "half")
    asked = []
    for name, table in zip([*names, "least", "far", "pair", "range", "place"], ASKED, strict=True):
        question = _QUESTION.validate_json(json.dumps({"name": name, **table}))
        asked.append((question, question.designs()[0]))
    return AnswerSheet.of_task(task_with(Sheet(tuple(asked))))


GIVEN_ANSWER = "4711"


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({"one": GIVEN_ANSWER}, "one: must be one of 'a', 'b b', 'ö'"),
        ({"one": 4711}, "one: must be one of 'a', 'b b', 'ö'"),
        ({"one": ["a"]}, "one: must be one of 'a', 'b b', 'ö'"),
        (
            {"many": GIVEN_ANSWER},
            "many: must be one of '0', '1', '2', '3', '4', '5', '6', '7' and 32 more",
        ),
        ({"yes": GIVEN_ANSWER}, "yes: must be yes or no, or true or false"),
        ({"yes": 10**5000}, "yes: must be yes or no, or true or false"),
        ({"point": GIVEN_ANSWER}, "point: must be a whole number from 1 to 5"),
        (
            {"mood": GIVEN_ANSWER},
            "mood: must be a whole number from -1 to 1, or one of 'bad', 'fair', '2'",
        ),
        ({"bin": GIVEN_ANSWER}, "bin: must be from 0 to 120"),
        ({"some": ["x", GIVEN_ANSWER]}, "some: must be one of 'x', 'y', 'z'"),
        (
            {"some": GIVEN_ANSWER},
            "some: must be a list of labels, each of them one of 'x', 'y', 'z'",
        ),
        ({"some": ["x", "y", "z"]}, "some: must be at most 2 labels"),
        ({"some": ["x", "x"]}, "some: must have no label twice"),
        ({"half": 4711.5}, "half: must be from -4 to 4"),
        ({"half": True}, "half: must be a number"),
        ({"half": float("inf")}, "half: must be a number"),
        ({"half": np.bool_(1)}, "half: must be a number"),
        ({"half": np.timedelta64(4711, "D")}, "half: must be a number"),
        ({"half": "\ud800"}, "half: must be a number"),
        ({"half": "."}, "half: must be a number"),
        ({"yes": 0.5}, "yes: must be yes or no, or true or false"),
        ({"one": "\ud800"}, "one: must be one of 'a', 'b b', 'ö'"),
        ({"one": b"a"}, "one: must be one of 'a', 'b b', 'ö'"),
        ({"half": {"4711": 4711}}, "half: must be a number"),
        ({"half": np.array([4711, 1])}, "half: must be a number"),
        ({"pair": {"u": 4711, "v": 1}}, "pair: u: must be from 0 to 3"),
        ({"pair": [4711]}, "pair: must be a table of numbers by these names: u, v"),
        (
            {"pair": {"u": 1, "u ": 1, "v": 1}},
            "pair: must be a table of numbers by these names: u, v",
        ),
        ({"pair": {"w": 4711}}, "pair: must be a table of numbers by these names: u, v"),
        ({"rnage": GIVEN_ANSWER}, "answers: there is no question 'rnage'; did you mean range?"),
    ],
)
def test_an_error_names_the_question_and_the_limit_and_never_the_answer(
    answers: dict[str, object], message: str
) -> None:
    with pytest.raises(AnswerError) as caught:
        visits().entries({"yes": True, **answers})
    assert str(caught.value) == message
    assert caught.value.__cause__ is None
    assert GIVEN_ANSWER not in repr(caught.value)


def test_answers_that_are_no_table_are_refused() -> None:
    with pytest.raises(AnswerError, match="answers: must be a table by the names of questions"):
        visits().entries([4711])  # type: ignore[arg-type]  # as a hostile body of JSON


def conditional(name: str, labels: list[str]) -> AnswerSheet:
    """Return a sheet of all ways of answering, whose last is asked only of some."""
    asked = []
    for place, table in enumerate([*ASKED, {"kind": "yes-no"}]):
        question = _QUESTION.validate_json(json.dumps({"name": f"q{place}", **table}))
        asked.append((question, question.designs()[0]))
    sheet = Sheet(tuple(asked))
    meaning = json.loads(Meaning("Visits", "patients", WINDOWS, sheet).to_json())
    meaning["questions"][-1]["question"]["ask_if"] = {name: labels}
    return AnswerSheet.of_task(task_with(sheet, json.dumps(meaning)))


@pytest.mark.parametrize(
    ("name", "labels", "asks", "does_not"),
    [
        ("q0", ["a", "ö"], "ö", "b b"),
        ("q2", ["no"], False, True),
        ("q3", ["1", "5"], 5, 4),
        ("q4", ["bad"], -1, "fair"),
        ("q5", ["0.333333 to under 65"], 64, 65),
        ("q7", ["x", "y"], ["z", "x"], ["z"]),
    ],
)
def test_who_is_not_asked_a_question_has_given_no_answer_to_it(
    name: str, labels: list[str], asks: object, does_not: object
) -> None:
    sheet = conditional(name, labels)
    last = f"q{len(ASKED)}"
    assert sheet.entries({name: asks, last: "yes"})[-3:] == [1, 0, 0]
    # What a field holds that was hidden meanwhile is no answer, and no fault that would tell.
    for other in ({name: does_not}, {name: None}, {}):
        assert sheet.entries({**other, last: "yes"})[-3:] == [0, 0, 1]
        assert sheet.entries({**other, last: "nonsense"}) == sheet.entries(other)


@pytest.mark.parametrize(
    ("name", "labels"), [("q99", ["x"]), ("q15", ["yes"]), ("q0", ["x"]), ("q9", ["1"])]
)
def test_a_condition_on_what_is_no_earlier_label_is_refused(name: str, labels: list[str]) -> None:
    with pytest.raises(ParameterError, match="not that of a survey"):
        conditional(name, labels)


def test_what_is_left_out_none_or_blank_is_no_answer() -> None:
    nothing = visits().entries({})
    assert visits().entries({"one": None, "half": "  ", "pair": {"u": 1}, "some": ""}) == nothing
    assert visits().entries({"some": []}) != nothing


class NAType:
    """As pandas has one, whose comparisons are neither true nor false."""

    def __ne__(self, other: object) -> bool:
        raise TypeError

    __hash__ = object.__hash__


@pytest.mark.parametrize(
    "missing",
    [math.nan, np.float32("nan"), np.float64("nan"), Decimal("NaN"), Decimal("sNaN"), NAType()],
    ids=["nan", "float32", "float64", "decimal", "signalling", "pandas"],
)
def test_what_data_frames_have_in_gaps_is_no_answer_to_any_question(missing: object) -> None:
    nothing = visits().entries({})
    for question in visits().questions:
        assert visits().entries({question.name: missing}) == nothing
    assert visits().entries({"pair": {"u": 1, "v": missing}}) == nothing


@pytest.mark.parametrize(
    ("name", "given", "meant"),
    [
        ("half", np.float32(0.5), "0.5"),
        ("half", np.float16(-0.5), "-.5"),
        ("half", np.longdouble("3.5"), "3.5"),
        ("half", np.int8(-3), "-3"),
        ("half", np.str_("2.5"), "2.5"),
        ("least", np.uint64(40), "40."),
        ("bin", np.float32(0.7), "0.7"),
        ("point", np.float32(3), 3),
        ("point", np.int64(3), "3.0"),
        ("yes", np.bool_(1), "yes"),
        ("yes", np.bool_(0), "no"),
        ("yes", np.int64(0), "0.0"),
        ("yes", 1.0, "1.0"),
        ("one", np.str_("b b"), " b b"),
        ("pair", {np.str_("u"): np.float32(3), "v": np.int16(9)}, {"v": 9, " u": 3}),
    ],
)
def test_numbers_and_truth_values_of_numpy_are_read_as_those_of_python(
    name: str, given: object, meant: object
) -> None:
    entries = visits().entries({name: given})
    assert entries == visits().entries({name: meant}) != visits().entries({})


def test_a_32_bit_float_is_the_shortest_number_that_it_reads_back_from() -> None:
    """As a double, 0.7 would be 0.699999988079071, in the bin below."""
    bins = question_of({**BINS, "edges": ["0", "7/10", "1"]}, "histogram", 10)
    assert bins.read(np.float32(0.7)) == bins.read("0.7") == (1,)


BINS = {"kind": "bins", "name": "q", "clip": False}
COMPOSED, TAKEN_APART = "m\xe9decine", "me\u0301decine"


@pytest.mark.parametrize("label", [COMPOSED, TAKEN_APART])
@pytest.mark.parametrize("given", [COMPOSED, TAKEN_APART, f" {TAKEN_APART}\n"])
def test_a_label_is_the_same_in_every_normal_form_and_with_blanks_around_it(
    label: str, given: str
) -> None:
    labels = ["x", label]
    of_one = question_of({"kind": "choice", "name": "q", "labels": labels}, "one answer", 9)
    assert of_one.read(given) == (1,)
    some = {"kind": "multiple", "name": "q", "labels": labels, "at_most": None}
    assert question_of(some, "several answers", 9).read([given]) == (1,)
    point = {"kind": "scale", "name": "q", "low": 1, "high": 2, "labels": labels}
    assert question_of(point, "histogram", 9).read(given) == (1,)
    column = {"name": label, "low": "0", "high": "9", "step": "1", "clip": False}
    asked = {"kind": "vector", "name": "q", "column": [column]}
    assert question_of(asked, "sums", 9).read({given: 4}) == (4,)
    needs = Routing.of([of_one], [()], {"text": [("q", [given])]}).texts
    assert needs == {"text": ((0, (1,)),)}


def test_labels_that_are_alike_are_no_question() -> None:
    """Who reads a task could otherwise not say which of them an answer is."""
    for labels in ([COMPOSED, TAKEN_APART], ["a", "a "]):
        with pytest.raises(ValueError, match="are the same label"):
            question_of({"kind": "choice", "name": "q", "labels": labels}, "one answer", 9)


def test_a_million_accents_are_no_label_and_found_to_be_none_at_once() -> None:
    """Python's own normalisation would take hours, in a server that takes answers."""
    with pytest.raises(AnswerError, match="one: must be one of"):
        visits().entries({"one": "a" + "\u0301\u0323" * 500_000})


def test_numbers_are_exact_whatever_they_are_written_in() -> None:
    answers = ("0.5", 0.5, Fraction(1, 2), " 5e-1 ")
    assert len({tuple(visits().entries({"half": each})) for each in answers}) == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({'"version":2': '"version":3'}, "version 3 is not known"),
        ({'"tables":[]': '"tables":[["x","y"]]'}, "not that of a survey"),
        ({'"questions":': '"question":'}, "not that of a survey"),
        ({'"questions":': '"questions":4,"asked":'}, "not that of a survey"),
        ({'"choice"': '"ballot"'}, "kind of question that is not known here"),
        ({'"medicine"': "2"}, "not that of a survey"),
        ({'"medicine"': '"medicine","children"'}, "not that of a survey"),
        ({',"medicine"': ""}, "its reports have other sections"),
        ({'"medicine"': '"surgery"'}, "not that of a survey"),
        # Labels that nothing is added for.
        (
            {
                '["surgery","medicine"]': '["surgery","medicine","children"]',
                "one answer": "histogram",
                '"choice"': '"scale","low":1,"high":2',
            },
            "not that of a survey",
        ),
        ({'["surgery","medicine"]': "[" * 10**5}, "not that of a survey"),
        # Of sizes that would fill a memory, were they believed.
        (
            {
                "one answer": "histogram",
                '"choice"': '"scale","low":1,"high":1000000000000',
                '["surgery","medicine"]': "[]",
            },
            "not that of a survey",
        ),
        (
            {
                "one answer": "leaves",
                '"choice"': (
                    '"tree","regions":[],"low":"0","high":"1","clip":false,"branches":2,'
                    '"leaves":1000000000000'
                ),
            },
            "not that of a survey",
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_meaning_that_is_not_of_the_task_is_refused(
    changes: dict[str, str], message: str
) -> None:
    task = task_of(VISITS + department())
    meaning = task.meaning
    for old, new in changes.items():
        assert meaning.count(old) == 1
        meaning = meaning.replace(old, new)
    with pytest.raises(ParameterError, match=message):
        AnswerSheet.of_task(task_with(Meaning.of_task(task).sheet, meaning))


HOSTILE = ("0", 0, "1e999", "-1", "1/3", "0" * 60, None, [], {}, True, "9" * 5000)


@pytest.mark.parametrize("place", range(len(ASKED)))
def test_whatever_a_question_says_is_read_or_refused(place: int) -> None:
    question = _QUESTION.validate_json(json.dumps({"name": "q", **ASKED[place]}))
    for design in question.designs():
        text = Meaning("Visits", "patients", WINDOWS, Sheet(((question, design),))).to_json()
        meaning = json.loads(text)
        asked = meaning["questions"][0]["question"]
        for name, value in itertools.product([*asked], HOSTILE):
            meaning["questions"][0]["question"] = asked | {name: value}
            written = json.dumps(meaning, separators=(",", ":"))
            # As a number, too: JSON of this size is infinite.
            for said in {written, written.replace('"1e999"', "1e999")}:
                with suppress(ParameterError):
                    AnswerSheet.of_meaning(said, "", 1000)
                with suppress(ParameterError):
                    Meaning.from_json(said)


def test_questions_that_are_larger_together_than_a_report_are_not_made() -> None:
    """A few bytes of a task file would ask for much memory, question after question."""
    task = task_of(VISITS + department())
    meaning = json.loads(task.meaning)
    first = meaning["questions"][0]
    for number in range(99):
        question = {**first["question"], "name": f"more {number}"}
        meaning["questions"].append({**first, "question": question})
    with pytest.raises(ParameterError, match="not that of a survey"):
        AnswerSheet.of_task(task_with(Meaning.of_task(task).sheet, json.dumps(meaning)))


def test_a_label_that_is_there_twice_among_very_many_is_found_at_once() -> None:
    """To count each would take ten thousand million steps, which a few bytes would ask for."""
    labels = [*map(str, range(100_000)), "99999"]
    with pytest.raises(ValueError, match="labels: '99999' is there twice"):
        question_of({"kind": "choice", "name": "q", "labels": labels}, "one answer", 10**6)


def test_a_name_that_two_questions_have_is_refused() -> None:
    task = task_of(VISITS + department() + department().replace("department", "ward"))
    meaning = task.meaning.replace('"ward"', '"department"')
    assert meaning != task.meaning
    with pytest.raises(ParameterError, match="not that of a survey"):
        AnswerSheet.of_task(task_with(Meaning.of_task(task).sheet, meaning))


def test_a_task_of_no_survey_is_refused() -> None:
    with pytest.raises(ParameterError, match="is of no survey"):
        AnswerSheet.of_task(make_task())


def test_labels_that_were_swapped_in_a_task_file_are_noticed() -> None:
    """Who hands an application its file could make people say the opposite of what they said."""
    file = task_to_toml(task_of(VISITS + department(("surgery", "medicine"))))
    swapped = file.replace('surgery\\",\\"medicine', 'medicine\\",\\"surgery')
    assert swapped != file
    with pytest.raises(ParameterError, match="meaning: is not the one that task_info was made"):
        task_from_toml(swapped)
