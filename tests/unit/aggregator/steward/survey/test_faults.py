"""A mistake in a survey file is told in its author's words: where, what, and what could be."""

import re

import pytest

from aggregator.errors import ParameterError
from aggregator.steward.survey import questions, survey_from_toml

GOOD = """
title = "Visits"
asked = "patients"
window = "week"
first = 2026-11-02
min_batch_size = 100
[budget]
epsilon = "2"
windows = 52
[[question]]
name = "department"
kind = "choice"
labels = ["surgery", "medicine"]
[[question]]
name = "age"
kind = "bins"
edges = [0, 18, 65, 120]
[[question]]
name = "wait"
kind = "number"
low = 0
high = 240
"""
KINDS = ", ".join([*questions.KINDS, "text"])


def said_of(text: str) -> list[str]:
    with pytest.raises(ParameterError) as refusal:
        survey_from_toml(text)
    return str(refusal.value).splitlines()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "edges",
            "quantiles = true\nedges",
            'question age: quantiles: must be a list such as ["1/2"]',
        ),
        (
            "edges",
            "quantiles = [50]\nedges",
            'age: quantiles: must be above 0 and at most 1, as "1/2"',
        ),
        (
            '"choice"',
            '"choise"',
            f'kind: must be one of {KINDS}, not "choise"; did you mean choice?',
        ),
        ('"choice"', '"Yes_No"', "did you mean yes-no?"),
        ('kind = "choice"\n', "", f"question department: kind: missing; must be one of {KINDS}"),
        (
            "[0, 18, 65, 120]",
            '"0 18"',
            'age: edges: must be a list such as [0, 18, 65, 120], not "0',
        ),
        ("[0, 18, 65, 120]", '[0, "x", 9]', "age: edges 2: must be an exact number such as 12"),
        (
            '["surgery", "medicine"]',
            '"x"',
            'labels: must be a list such as ["yes", "no", "do not know"]',
        ),
        ('"surgery"', "3", "department: labels 1: must be text in quotation marks, not 3"),
        ('["surgery", "medicine"]', '["x"]', "labels: from 2 to 100,000 are possible, not 1"),
        ("low = 0\n", "", "question wait: low: missing"),
        ("low = 0\n", 'low = "zero"\n', "question wait: low: must be an exact number"),
        ("low = 0", 'low = 0\nclip = "yes"', "clip: must be true or false without quotation marks"),
        (
            "low = 0",
            "low = 0\nunit = 3",
            "question wait: unit: must be text in quotation marks, not 3",
        ),
        ("edges", "weight = 0\nedges", "question age: weight: must be positive, not '0'"),
        ("edges", "design = 3\nedges", "question age: design: must be text in quotation marks"),
        (
            "edges",
            "wieght = 3\nedges",
            "question age: wieght: no such setting here; did you mean weight?",
        ),
        ("low = 0", "low = 0\nlabels = 3", "question wait: labels: no such setting here"),
        (
            '"department"',
            '"the department"',
            "question the department: name: must be at most 40 letters",
        ),
        ('name = "age"\n', "", "question 2: name: missing"),
        ('"age"', '"department"', "question: 2 have the name 'department'"),
        ('epsilon = "2"', "epsilon = 0", "budget.epsilon: must be positive, not '0'"),
        ('epsilon = "2"', 'epsilon = "two"', "budget.epsilon: must be a positive rational"),
        (
            'epsilon = "2"',
            "epsilom = 2",
            "budget.epsilom: no such setting here; did you mean epsilon?",
        ),
        ("windows = 52", "windows = 0", "budget.windows: must be at least 1, not 0"),
        (
            "windows = 52",
            'windows = "52"',
            "windows: must be a whole number without quotation marks",
        ),
        ('[budget]\nepsilon = "2"\nwindows = 52\n', "", "budget: missing: a table [budget]"),
        ('"week"', '"month"', 'window: must be a number of hours, days or weeks, such as "week"'),
        ('"week"', "7", "window: must be text in quotation marks, not 7"),
        (
            "2026-11-02",
            '"2026-11-02"',
            "first: must be a date such as 2026-11-02 without quotation",
        ),
        ("2026-11-02", "02.11.2026", "(at line 5, column 10): first = 02.11.2026"),
        ("first = 2026-11-02\n", "", "first: missing"),
        ("= 100", "= 0.5", "min_batch_size: must be a whole number, not 0.5"),
        ("= 100", "= 100\nmax_reports = 50", "max_reports: must be at least min_batch_size (100)"),
        ('"Visits"', '""', "title: must not be empty"),
        ('"Visits"', f'"{"x" * 200}"', "title: must be at most 100 characters"),
        ('"Visits"', "“Visits”", "not TOML: Invalid value (at line 2, column 9): title = “Visits”"),
        ("low = 0", "low = 0\nclip = True", "): clip = True"),
    ],
)
def test_a_mistake_is_told_with_its_place_and_what_could_stand_there(
    old: str, new: str, said: str
) -> None:
    assert old in GOOD
    lines = said_of(GOOD.replace(old, new, 1))
    assert any(said in line for line in lines), lines
    assert all(line.startswith("survey: ") for line in lines)
    assert not re.search(r"[Ii]nput|tuple|dictionary|valid (string|integer)|Field", "".join(lines))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ('kind = "scale"\nhigh = 5.5', ["x: high: must be a whole number, not 5.5"]),
        (
            'kind = "scale"\nhigh = 5\nlabels = ["a", "b"]',
            ["labels: must be 5, one for each point, not 2"],
        ),
        ('kind = "vector"', ["x: column: missing: a table [[question.column]] for each"]),
        (
            'kind = "vector"\ncolumn = []',
            ["x: column: must be a table [[question.column]] for each"],
        ),
        ('kind = "vector"\n[[question.column]]\nname = "a"', ["x: column 1.high: missing"]),
        (
            'kind = "vector"\n[[question.column]]\nname = "a"\nhihg = 1',
            ["column 1.high: missing", "column 1.hihg: no such setting here; did you mean high?"],
        ),
        ('kind = "tree"\nregions = ["a", "b"]', ["regions 1: must be a table, not", "regions 2: "]),
        (
            'kind = "tree"\nregions = [{label = "a"}, {lable = "b"}]',
            [
                "regions 2.label: missing",
                "regions 2.lable: no such setting here; did you mean label?",
            ],
        ),
    ],
)
def test_a_mistake_in_a_part_of_a_question_is_told_with_its_place(
    settings: str, said: list[str]
) -> None:
    lines = said_of(f'{GOOD}[[question]]\nname = "x"\n{settings}\n')
    assert len(lines) == len(said)
    for line, part in zip(lines, said, strict=True):
        assert line.startswith("survey: question x: ")
        assert part in line


def test_one_question_without_double_brackets_is_told_so() -> None:
    head, question = GOOD.split("[[question]]", 1)[0], '[question]\nname = "a"\nkind = "yes-no"\n'
    (line,) = said_of(head + question)
    assert line.startswith("survey: question: must be a table [[question]] for each, not {")
    (line,) = said_of(head)
    assert line == "survey: question: missing: a table [[question]] for each"


def test_of_many_faults_five_are_shown() -> None:
    lines = said_of(GOOD.replace('["surgery", "medicine"]', str([*range(48)])))
    assert lines[:2] == [
        "survey: question department: labels 1: must be text in quotation marks, not 0",
        "survey: question department: labels 2: must be text in quotation marks, not 1",
    ]
    assert lines[5:] == ["survey: and 43 more"]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('version = 1\n[[task]]\nid = "x"\n', "a task file"),
        ('version = 1\ncollector_hpke_config = "x"\n', "a task file"),
        ('service.role = "leader"\n', "a service file"),
    ],
)
def test_another_file_of_ours_is_told_from_a_survey(text: str, what: str) -> None:
    assert said_of(text) == [f"survey: this is {what}, and a survey file is needed"]


def test_what_acts_on_a_terminal_is_escaped_in_a_line_that_is_shown() -> None:
    (line,) = said_of("title = \u202ex\n")
    assert line.endswith(r": title = \u202ex")
