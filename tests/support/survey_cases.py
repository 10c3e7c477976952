"""Surveys and answers to them, for comparing clients in other languages with ours."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from aggregator.client.survey.answer_sheet import AnswerSheet
from aggregator.client.survey.answers import AnswerError
from aggregator.client.survey.routing import Chosen
from aggregator.protocol.task import Task, info_with_digest
from aggregator.protocol.task_file import tasks_to_json
from aggregator.steward.survey import Meaning, Question, Sheet, Windows
from aggregator.steward.survey.questions import AnyQuestion
from tests.support.tasks import make_task

WINDOWS = Windows(7 * 86400, 4 * 86400)
HINT = "; did you mean"
"""Begins what only our client in Python says of a name that no question has."""

_QUESTION: TypeAdapter[Question] = TypeAdapter(AnyQuestion)
_WORDS = ("a", "b b", "\u00f6", "o\u0308x", "it's", '"q"', "both ' and \"", "\u0645\u200f!", "\\n")
_BELOW = [{"label": "Hill"}, {"label": "Dale"}]
_REGIONS = [
    {"label": "North", "below": _BELOW},
    {"label": "South", "below": [{"label": "Dune"}, {"label": "Bay"}, {"label": "Moor"}]},
]
_LABELS = st.lists(st.sampled_from(_WORDS), min_size=2, unique=True)
_MANY = st.just([str(number) for number in range(12)])
_COLUMNS = st.lists(
    st.tuples(st.sampled_from(["u", "v v", "\u00e9"]), st.integers(1, 9)),
    min_size=1,
    unique_by=lambda each: each[0],
).map(lambda found: [{"name": name, "high": str(high)} for name, high in found])


def _grids(steps: int) -> st.SearchStrategy[dict[str, object]]:
    """Return the ranges of numbers, of up to so many steps."""
    numbers = st.tuples(
        st.integers(-20, 20), st.integers(1, steps), st.sampled_from([(1, 1), (1, 2), (3, 10)])
    )
    return st.builds(
        lambda low, clip: {
            "low": f"{low[0] * low[2][0]}/{low[2][1]}",
            "high": f"{(low[0] + low[1]) * low[2][0]}/{low[2][1]}",
            "step": f"{low[2][0]}/{low[2][1]}",
            "clip": clip,
        },
        numbers,
        st.booleans(),
    )


def _of(kind: str, **members: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, object]]:
    return st.fixed_dictionaries({"kind": st.just(kind), **members})


def _about(written: str) -> float:
    """Return about what a fraction is."""
    top, _, bottom = written.partition("/")
    return int(top) / int(bottom or 1)


_EDGES = st.lists(
    st.sampled_from(["-5", "-1/3", "0", "1/7", "5/2", "18", "65", "123456789/2"]),
    min_size=3,
    unique=True,
).map(lambda found: sorted(found, key=_about))

_TEN = {"low": st.just("0"), "high": st.just("10")}

QUESTIONS = st.one_of(
    _of("choice", labels=st.one_of(_LABELS, _MANY)),
    _of("yes-no"),
    _of("scale", low=st.integers(-3, 1), high=st.integers(2, 6)),
    _of("scale", low=st.just(-1), high=st.just(1), labels=st.just(["bad", "fair", "2"])),
    _of("bins", edges=_EDGES, clip=st.booleans()),
    _of("multiple", labels=_LABELS),
    _of("multiple", labels=_LABELS, at_most=st.just(2)),
    _grids(30).map(lambda grid: {"kind": "number", **grid}),
    _grids(2**20).map(lambda grid: {"kind": "number", "variance": True, **grid}),
    _of("vector", column=_COLUMNS),
    _of("tree", **{**_TEN, "leaves": st.integers(3, 9), "branches": st.just(2)}),
    _of("tree", regions=st.just(_REGIONS)),
)

_NUMBERS = st.one_of(
    st.integers(-25, 130),
    st.integers(-(2**70), 2**70),
    st.floats(allow_infinity=True),
    st.sampled_from([0.5, 1.5, 2.5, 0.15, 0.45, -0.25, 1e300, 1e-300, -0.0, 1e21, 5e-7]),
    st.booleans(),
)
_WRITTEN = (
    *("", " ", "\ufeff", "\x1c3", "3\x85", ".5", "5.", "1e1", "-2.5e-1", "+4", "1E99", "1e100"),
    *("1" * 30, "1" * 31, "0." + "3" * 30, "1/2", "1,5", "0x10", "\u0665", "\u22125", "inf"),
    *("yes", "No ", "TRUE", "false", "1.0", "0", "a", " b b\n", "O\u0308", "\u00f6", "\u00f6x"),
    *("it's", "bad", "2", "Moor", "North", "\ud800", "constructor", "__proto__"),
)
"""Text as it is written in fields, right and wrong."""

_ODD = st.sampled_from(_WRITTEN)
ANSWERS = st.one_of(
    _NUMBERS,
    _ODD,
    st.none(),
    st.text(max_size=3),
    st.lists(st.sampled_from([*_WORDS, "w", 3]), max_size=3),
    st.dictionaries(st.sampled_from(["u", " v v", "\u00e9", "e\u0301", "w"]), _NUMBERS | _ODD),
)


@st.composite
def meanings(draw: st.DrawFn) -> tuple[Sheet, str]:
    """Draw what a survey asks, as its meaning."""
    asked = []
    for place, table in enumerate(draw(st.lists(QUESTIONS, min_size=1, max_size=5))):
        question = _QUESTION.validate_json(json.dumps({"name": f"q{place}", **table}))
        designs = [each for each in question.designs() if each.length < 1000]
        asked.append((question, draw(st.sampled_from(designs))))
    groups = [each for each, design in asked if each.makes_groups and design.labels]
    crossed = [each for each, design in asked if design in each.crossed_designs()]
    pairs = [(of.name, by.name) for of in crossed for by in groups if of is not by]
    tables = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=2)) if pairs else []
    sheet = Sheet(tuple(asked), tuple(tables))
    meaning = json.loads(Meaning("Visits", "patients", WINDOWS, sheet).to_json())
    chosen = AnswerSheet.of_meaning(json.dumps(meaning), "", 10**6).questions
    for place, each in enumerate(meaning["questions"]):
        if conditions := draw(_conditions(chosen[:place])):
            each["question"]["ask_if"] = conditions
    return sheet, json.dumps(meaning, ensure_ascii=False)


def _conditions(earlier: tuple[Chosen, ...]) -> st.SearchStrategy[dict[str, list[str]]]:
    """Return the conditions of a question on those before it; often none."""
    labelled = [each for each in earlier if each.choices]
    if not labelled:
        return st.just({})
    one = st.sampled_from(labelled).flatmap(
        lambda of: st.lists(st.sampled_from(list(of.choices)), min_size=1, unique=True).map(
            lambda labels: {of.name: labels}
        )
    )
    return st.one_of(st.just({}), one)


def task_of_meaning(sheet: Sheet, meaning: str) -> Task:
    """Return a task that asks what a meaning says."""
    return make_task(
        {"type": "Prio3Sections", "sections": " ".join(sheet.texts)},
        max_reports=10,
        task_info=info_with_digest("Visits", meaning),
        meaning=meaning,
    )


@st.composite
def cases(draw: st.DrawFn, answers: int = 8) -> dict[str, object]:
    """Draw a survey's public file, its sheet, and what several people's answers become."""
    sheet, meaning = draw(meanings())
    task = task_of_meaning(sheet, meaning)
    asked = AnswerSheet.of_task(task)
    names = [question.name for question in asked.questions]
    fitting = {each.name: _fitting(each) for each in asked.questions}
    people = draw(
        st.lists(
            st.fixed_dictionaries({}, optional={name: fitting[name] for name in names}),
            min_size=answers,
            max_size=answers,
        )
    )
    return {
        "file": json.loads(tasks_to_json([task])),
        "sheet": asked.data(),
        "people": [{"given": tagged(each), **outcome(asked, each)} for each in people],
    }


def _fitting(question: object) -> st.SearchStrategy[object]:
    """Return answers to a question, most of which it takes."""
    choices = list(getattr(question, "choices", ()))
    grids = list(getattr(question, "grids", ()))
    right: list[st.SearchStrategy[object]] = [st.none()]
    if choices:
        right += [st.sampled_from(choices), st.lists(st.sampled_from(choices), max_size=3)]
    if grids:
        right.append(st.fixed_dictionaries(dict.fromkeys(grids, _NUMBERS)))
    right.append(st.one_of(st.integers(-6, 12), st.integers(-12, 24).map(lambda half: half / 2)))
    right.append(st.integers(-40, 80).map(lambda tenth: f"{tenth / 20:g}"))
    return st.one_of(*right, *right, ANSWERS)


def outcome(sheet: AnswerSheet, answers: Mapping[str, object]) -> dict[str, object]:
    """Return the entries of answers as text, or what is said of them."""
    try:
        return {"entries": [str(entry) for entry in sheet.entries(answers)]}
    except AnswerError as error:
        return {"question": error.question, "says": str(error).partition(HINT)[0]}


def tagged(value: object) -> object:
    """Return a value as JSON that keeps what JSON alone does not: whole numbers, NaN and so on."""
    match value:
        case bool() | None | str():
            return value
        case int():
            return {"whole": str(value)}
        case float():
            return value if math.isfinite(value) else {"float": str(value)}
        case list():
            return [tagged(each) for each in value]
        case dict():
            return {"table": [[name, tagged(each)] for name, each in value.items()]}
    raise TypeError


def surveys(count: int) -> list[dict[str, object]]:
    """Return some surveys with people's answers, the same in each run."""
    found = list[dict[str, object]]()

    @seed(43)
    @settings(
        max_examples=count, database=None, deadline=None, suppress_health_check=list(HealthCheck)
    )
    @given(cases())
    def collect(case: dict[str, object]) -> None:
        found.append(case)

    collect()
    return found


_FIXED: tuple[dict[str, object], ...] = (
    {"kind": "choice", "labels": list(_WORDS)},
    {"kind": "choice", "labels": ["yes", "no"]},
    {"kind": "yes-no"},
    {"kind": "scale", "low": -1, "high": 3},
    {"kind": "scale", "low": -1, "high": 1, "labels": ["bad", "fair", "2"]},
    {"kind": "bins", "edges": ["-5", "-1/3", "0", "5/2", "18"]},
    {"kind": "bins", "edges": ["-5", "0", "5/2"], "clip": True},
    {"kind": "multiple", "labels": list(_WORDS), "at_most": 2},
    {"kind": "number", "low": "-2", "high": "12", "step": "1"},
    {"kind": "number", "low": "-1/2", "high": "1", "step": "1/4", "variance": True},
    {"kind": "number", "low": "0", "high": "9", "step": "3", "clip": True},
    {"kind": "vector", "column": [{"name": "u", "high": "3"}, {"name": "v v", "high": "9"}]},
    {"kind": "tree", "low": "0", "high": "10", "leaves": 7, "branches": 2},
    {"kind": "tree", "regions": _REGIONS},
)
_EVERY: tuple[object, ...] = (
    *(None, True, False, *range(-7, 14), *(half / 8 for half in range(-50, 110)), 1e300, -0.0),
    *(math.inf, math.nan, 2**70, -(2**70), 1e21, 5e-7, *_WRITTEN),
    *([], ["a"], ["a", "b b"], ["a", "b b", "it's"], ["a", "a"], ["a", "w"], [3], {}, {"u": 1}),
    *({"u": 1, "v v": "9"}, {"u": 1, " v v": 4.5}, {"u": 4, "v v": 0}, {"u": 1, "w": 1}),
    *({"u": "", "v v": 5}, {"u": None, "v v": 5}, {"u": 1, "u ": 1, "v v": 1}, {"u": True}),
)
"""Answers that are each given to every kind of question."""


def every_answer() -> list[dict[str, object]]:
    """Return a survey of each kind of question and design, and what all answers become in it."""
    found = []
    for table in _FIXED:
        question = _QUESTION.validate_json(json.dumps({"name": "q", **table}))
        for design in question.designs():
            people = [{"q": each} for each in _EVERY]
            found.append(_case(Sheet(((question, design),)), people))
    asked = []
    for name, table in (("age", _FIXED[8]), ("mood", _FIXED[3]), ("who", _FIXED[1])):
        question = _QUESTION.validate_json(json.dumps({"name": name, **table}))
        asked.append((question, question.designs()[0]))
    tables = (("age", "who"), ("mood", "who"), ("age", "mood"))
    people = [
        {"age": age, "mood": mood, "who": who}
        for age in (None, -2, 3.5)
        for mood in (None, 0, 3)
        for who in (None, "yes", "no")
    ]
    return [*found, _case(Sheet(tuple(asked), tables), people)]


def _case(sheet: Sheet, people: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """Return what people's answers become in the task that asks what a sheet does."""
    task = task_of_meaning(sheet, Meaning("Visits", "patients", WINDOWS, sheet).to_json())
    asked = AnswerSheet.of_task(task)
    return {
        "file": json.loads(tasks_to_json([task])),
        "sheet": asked.data(),
        "people": [{"given": tagged(each), **outcome(asked, each)} for each in people],
    }
