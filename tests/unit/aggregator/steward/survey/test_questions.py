"""Each kind of question: what it reads, how it is measured, and what the sums then say."""

import random
from collections.abc import Sequence
from fractions import Fraction
from statistics import fmean, pvariance

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.collector.results import Noised
from aggregator.dp.policy import MECHANISMS, policy_from_mapping
from aggregator.errors import ParameterError
from aggregator.steward.survey import AnswerError, Design, Survey, plan, survey_from_toml
from aggregator.steward.survey.cells import Cell
from aggregator.steward.survey.questions import Question
from aggregator.vdaf.instances import SUM_VEC
from tests.support.entropy import SeededEntropy

HEAD = """
title = "Visits"
asked = "patients"
window = "week"
first = 2026-11-02
min_batch_size = 100
[budget]
epsilon = "1"
windows = 52
"""

QUESTIONS = {
    "choice": 'labels = ["red", "green", "blue"]',
    "multiple": 'labels = ["pain", "fever", "cough", "other"]\nat_most = 2',
    "any": 'kind = "multiple"\nlabels = ["pain", "fever", "cough"]',
    "yes-no": "",
    "number": 'low = -5\nhigh = 5\nstep = 0.5\nunit = "°C"',
    "variance": 'kind = "number"\nlow = 10\nhigh = 90\nvariance = true',
    "bins": "edges = [0, 10, 20.5, 100]",
    "scale": "high = 5",
    "vector": """
[[question.column]]
name = "drugs"
high = 5000
[[question.column]]
name = "days"
low = 1
high = 31
step = 0.5
""",
    "tree": """
regions = [
  {label = "North", below = [{label = "N1"}, {label = "N2"}]},
  {label = "South", below = [{label = "S1"}, {label = "S2"}, {label = "S3"}]},
]
""",
    "ranges": 'kind = "tree"\nlow = 0\nhigh = 100\nleaves = 20',
}


def survey_of(settings: str, kind: str = "choice") -> Survey:
    own = "" if "kind =" in settings else f'kind = "{kind}"\n'
    return survey_from_toml(f'{HEAD}\n[[question]]\nname = "q"\n{own}{settings}')


def question(name: str) -> Question:
    return survey_of(QUESTIONS[name], name).questions[0].question


def sums_of(design: Design, question: Question, rows: Sequence[Sequence[Cell]]) -> list[Noised]:
    """Return the exact sums that aggregators would have of some rows."""
    circuit = design.prio3().circuit
    measurements = [design.measurement(question.read(row).answer) for row in rows]
    sums = circuit.truncate(circuit.encode(measurements)).sum(axis=0)
    return [Noised.exact(value) for value in sums.to_ints()]


def counts_of(question: Question, rows: Sequence[Sequence[Cell]]) -> list[tuple[str, object]]:
    """Return the label and the count of each range, without noise."""
    design = question.designs()[0]
    figures = design.figures(sums_of(design, question, rows), len(rows))
    return [(f.quantity.label, f.quantity.estimate) for f in figures if f.shows == "count"]


def shown(design: Design, question: Question, rows: Sequence[Sequence[Cell]]) -> dict[str, object]:
    """Return the estimates of what a design says of rows, without noise."""
    return {
        f"{figure.shows} {figure.quantity.label}".strip(): figure.quantity.estimate
        for figure in design.figures(sums_of(design, question, rows), len(rows))
    }


def test_regions_of_one_name_are_told_apart_by_what_is_above_them() -> None:
    asked = survey_of(
        """
regions = [
  {label = "North", below = [{label = "Hill", below = [{label = "a"}, {label = "North"}]}]},
  {label = "South", below = [{label = "Hill", below = [{label = "b"}]}]},
]
""",
        "tree",
    ).questions[0]
    for design in asked.question.designs():
        said = shown(design, asked.question, [["a"], ["North"], ["b"]])
        assert {name: value for name, value in said.items() if name.startswith("count")} == {
            "count North": 2,
            "count South": 1,
            "count North / Hill": 2,
            "count South / Hill": 1,
            "count a": 1,
            "count North / Hill / North": 1,
            "count b": 1,
        }


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_design_of_a_question_says_the_same_of_the_same_answers(name: str) -> None:
    asked = question(name)
    cells: dict[str, Sequence[Sequence[Cell]]] = {
        "choice": [["red"], ["blue"], ["red"]],
        "multiple": [["pain;fever"], ["none"], ["cough"]],
        "any": [["pain;fever;cough"], [["cough"]], ["none"]],
        "yes-no": [["yes"], ["0"], [True]],
        "number": [["-5"], ["4.5"], [0.5]],
        "variance": [["10"], ["90"], [31]],
        "bins": [["0"], ["20.5"], ["100"]],
        "scale": [["5"], [1], ["3"]],
        "vector": [["5000", "1"], [12, 2.5], ["0", "31"]],
        "tree": [["N1"], ["S3"], ["S1"]],
        "ranges": [["0"], ["99.9"], ["50"]],
    }
    said = [shown(design, asked, cells[name]) for design in asked.designs()]
    assert said[0]
    assert all(each == said[0] for each in said)


def test_a_choice_is_counted_by_label() -> None:
    asked = question("choice")
    said = shown(asked.designs()[0], asked, [["red"], ["blue"], ["red"]])
    assert said["count red"] == 2
    assert said["count green"] == 0
    assert said["share blue"] == Fraction(100, 3)


def test_several_choices_of_one_person_are_counted_each() -> None:
    asked = question("multiple")
    said = shown(asked.designs()[0], asked, [["pain; fever"], ["fever"], ["none"]])
    assert (said["count pain"], said["count fever"], said["count cough"]) == (1, 2, 0)


@given(st.lists(st.integers(0, 20).map(lambda steps: steps / 2 - 5), min_size=1, max_size=9))
def test_sum_and_mean_of_a_number_are_in_its_own_unit(numbers: list[float]) -> None:
    asked = question("number")
    for design in asked.designs():
        said = shown(design, asked, [[number] for number in numbers])
        assert said["sum"] == sum(map(Fraction, numbers))
        assert float(said["mean"]) == pytest.approx(fmean(numbers))  # type: ignore[arg-type]  # there is one


@given(st.lists(st.integers(10, 90), min_size=1, max_size=9))
def test_the_variance_is_that_of_the_numbers(numbers: list[int]) -> None:
    asked = question("variance")
    for design in asked.designs():
        said = shown(design, asked, [[number] for number in numbers])
        assert float(said["variance"]) == pytest.approx(pvariance(numbers))  # type: ignore[arg-type]  # there is one


def test_pain_scores_do_not_drown_in_the_noise_of_costs() -> None:
    """Four columns under one maximum, at ε = 1, gave ± 82,260 on a sum of pain scores of 15,220."""
    columns = """
column = [
  {name = "wait_minutes", high = 240}, {name = "visits", high = 20},
  {name = "cost_eur", high = 5000}, {name = "pain_score", high = 10},
]
"""
    (planned,) = plan(survey_of(columns, "vector"))
    design, mechanism = planned.best.design, planned.best.mechanism
    one_maximum = SUM_VEC.prio3({"length": 4, "max_measurement": 5000}).circuit
    assert mechanism.half_width(one_maximum, Fraction(95, 100)) == 82_260
    circuit = design.prio3().circuit
    sums = [243_000, 9_000, 1_200_000, 15_220]
    largest = [240, 20, 5000, 10]
    law = mechanism.law(circuit, 2)
    steps = design.measurement(tuple(largest))
    assert isinstance(steps, list)
    values = [
        Noised.released(total * step // high, law, index)
        for index, (total, step, high) in enumerate(zip(sums, steps, largest, strict=True))
    ]
    pain = next(
        figure.quantity
        for figure in design.figures(values, 3000)
        if (figure.shows, figure.quantity.label) == ("sum", "pain_score")
    )
    interval = pain.interval()
    assert pain.estimate == 15_220
    assert 164 < interval.high - 15_220 < 168


def test_columns_of_a_vector_have_noise_in_proportion_to_their_own_ranges() -> None:
    ranges = [100_000, 30, 7, 1]
    columns = "".join(f'[[question.column]]\nname = "c{r}"\nhigh = {r}\n' for r in ranges)
    (planned,) = plan(survey_of(columns, "vector"))
    design, mechanism = planned.best.design, planned.best.mechanism
    law = mechanism.law(design.prio3().circuit, 2)
    values = [Noised.released(0, law, index) for index in range(4)]
    errors = {
        figure.quantity.label: figure.quantity.interval().high
        for figure in design.figures(values, 1000)
        if figure.shows == "sum"
    }
    relative = [float(errors[f"c{r}"]) / r for r in ranges]
    assert max(relative) < 1.05 * min(relative)


@given(st.lists(st.tuples(st.integers(0, 5000), st.integers(2, 62)), min_size=1, max_size=6))
def test_scaling_a_vector_rounds_nothing(rows: list[tuple[int, int]]) -> None:
    asked = question("vector")
    said = shown(asked.designs()[0], asked, [[drugs, days / 2] for drugs, days in rows])
    assert said["sum drugs"] == sum(drugs for drugs, _ in rows)
    assert said["sum days"] == Fraction(sum(days for _, days in rows), 2)


def test_a_tree_counts_every_node() -> None:
    asked = question("tree")
    for design in asked.designs():
        said = shown(design, asked, [["N1"], ["S3"], ["S1"], ["S1"]])
        assert (said["count North"], said["count South"], said["count S1"]) == (1, 3, 2)


def test_a_range_says_which_edge_it_has() -> None:
    bins = question("bins")
    labels = ["0 to under 10", "10 to under 20.5", "20.5 to 100"]
    assert [label for label, _ in counts_of(bins, [["10"], ["20.4"], ["100"]])] == labels
    assert [count for _, count in counts_of(bins, [["10"], ["20.4"], ["100"]])] == [0, 2, 1]
    tree = counts_of(question("ranges"), [["75"], ["100"]])
    assert ("80 to 100", 1) in tree
    assert ("75 to under 80", 1) in tree
    assert ("95 to 100", 1) in tree


def test_quantiles_come_from_bins() -> None:
    asked = question("bins")
    said = shown(asked.designs()[0], asked, [["5"]] * 5 + [["15"]] * 5)
    assert said["quantile median"] == 10


@pytest.mark.parametrize(
    ("name", "cells", "message"),
    [
        ("choice", ["purple"], "one of 'red', 'green', 'blue', not 'purple'"),
        ("multiple", ["pain;fever;cough"], "at most 2 labels, not 3"),
        ("multiple", ["pain;pain"], "twice"),
        ("yes-no", ["maybe"], "yes or no, not 'maybe'"),
        ("number", ["5.5"], "from -5 to 5, not '5.5'"),
        ("number", ["ten"], "a number, not 'ten'"),
        ("number", ["1e400"], "a number, not '1e400'"),
        ("bins", ["-1"], "from 0 to 100, not '-1'"),
        ("scale", ["6"], "from 1 to 5, not '6'"),
        ("scale", ["2.5"], "whole number"),
        ("vector", ["1", "32"], "days: must be from 1 to 31"),
        ("tree", ["North"], "one of 'N1', 'N2', 'S1', 'S2', 'S3', not 'North'"),
    ],
)
def test_what_is_no_answer_is_refused(name: str, cells: Sequence[Cell], message: str) -> None:
    with pytest.raises(AnswerError, match=message):
        question(name).read(cells)


def test_a_number_beyond_the_range_is_clipped_and_said_so_where_the_survey_allows_it() -> None:
    asked = survey_of("low = 0\nhigh = 10\nclip = true", "number").questions[0].question
    assert (asked.read(["12"]).answer, asked.read(["12"]).is_clipped) == ((10,), True)
    assert not asked.read(["10"]).is_clipped


def test_a_decimal_comma_is_read_where_it_is_said() -> None:
    assert question("number").read(["-4,5"], ",").answer == (1,)
    with pytest.raises(AnswerError, match="must be a number"):
        question("number").read(["1.000,5"], ",")


def test_the_design_with_the_least_error_is_chosen() -> None:
    flat = plan(survey_of("kind = 'tree'\nlow = 0\nhigh = 9\nleaves = 9"))[0]
    deep = plan(survey_of("kind = 'tree'\nlow = 0\nhigh = 64\nleaves = 64"))[0]
    for planned in (flat, deep):
        assert all(planned.best.error <= other.error for other in planned.others)
    assert (flat.best.design.name, deep.best.design.name) == ("leaves", "every level")


def test_a_delta_is_used_where_noise_can_be_truncated_and_nowhere_else() -> None:
    head = HEAD.replace('epsilon = "1"', 'epsilon = "1"\ndelta = "1/100"')
    survey = survey_from_toml(
        f'{head}\n[[question]]\nname = "a"\nkind = "choice"\nlabels = ["x", "y"]\n'
        '[[question]]\nname = "b"\nkind = "number"\nlow = 0\nhigh = 5000\n'
    )
    choice, number = plan(survey)
    assert {way.mechanism.name for way in (choice.best, *choice.others)} == {
        "PureDpDiscreteLaplace",
        "TruncatedGeometric",
    }
    assert number.best.mechanism.name == "PureDpDiscreteLaplace"


def test_every_mechanism_of_the_table_is_tried_that_the_budget_can_pay() -> None:
    budgets = {"epsilon": '= "1"\ndelta = "1/200"', "rho": '= "1/50"'}
    for first, amount in budgets.items():
        head = HEAD.replace('epsilon = "1"', f"{first} {amount}")
        asked = 'name = "q"\nkind = "choice"\nlabels = ["x", "y"]'
        survey = survey_from_toml(f"{head}\n[[question]]\n{asked}")
        (planned,) = plan(survey)
        tried = {way.mechanism.name for way in (planned.best, *planned.others)}
        assert tried == {
            kind.name for kind in MECHANISMS.values() if first in kind.parameter_names[:1]
        }


def test_the_budget_of_a_window_is_split_by_weight() -> None:
    survey = survey_from_toml(
        f'{HEAD}\n[[question]]\nname = "a"\nkind = "yes-no"\nweight = 3\n'
        '[[question]]\nname = "b"\nkind = "yes-no"\n'
    )
    tables = [policy_from_mapping(planned.privacy) for planned in plan(survey)]
    spent = [table.mechanism.parameters()["epsilon"] for table in tables]
    assert spent == [Fraction(3, 4), Fraction(1, 4)]
    assert [table.max_releases for table in tables] == [52, 52]


@pytest.mark.parametrize(
    ("settings", "kind", "message"),
    [
        (
            'labels = ["a", "a"]',
            "choice",
            "'a' is there twice",
        ),
        ('labels = ["a"]', "choice", "from 2 to"),
        ('lables = ["a", "b"]', "choice", "lables"),
        ('labels = ["a", "b"]\nat_most = 3', "multiple", "at_most: must be from 1 to 2"),
        ("low = 0\nhigh = 1\nstep = 0.3", "number", "whole number of steps"),
        ("low = 1\nhigh = 0", "number", "above low"),
        ("edges = [0, 2, 1]", "bins", "ascending"),
        ("high = 1", "scale", "from 2"),
        ("low = 0\nhigh = 1", "tree", "needs either regions"),
        (
            """regions = [
                {label = "a", below = [{label = "b"}]},
                {label = "a", below = [{label = "c"}]},
            ]""",
            "tree",
            "'a' is there twice",
        ),
        ('regions = [{label = "a", below = [{label = "b"}]}, {label = "c"}]', "tree", "same depth"),
        ("low = 0\nhigh = 1\nleaves = 5000000", "tree", "at most 1,024 leaves"),
        ("", "pie", "kind|pie"),
    ],
)
def test_a_survey_that_cannot_be_asked_is_refused_by_name(
    settings: str, kind: str, message: str
) -> None:
    with pytest.raises(ParameterError, match=message) as refusal:
        survey_of(settings, kind)
    assert "question q" in str(refusal.value)
    assert "at least 1 item" not in str(refusal.value)


@pytest.mark.slow
def test_noise_covers_the_truth_as_often_as_it_says() -> None:
    """1,000 releases of each question: a 95 % interval misses more than 80 times with 10^-5."""
    generator = random.Random(7)  # noqa: S311  made-up answers
    asked = question("number")
    (planned,) = plan(survey_of(QUESTIONS["number"], "number"))
    design, mechanism = planned.best.design, planned.best.mechanism
    circuit = design.prio3().circuit
    law = mechanism.law(circuit, 2)
    entropy = SeededEntropy(b"survey")
    misses = 0
    for _ in range(1000):
        rows = [[generator.randrange(21) / 2 - 5] for _ in range(20)]
        (exact,) = sums_of(design, asked, rows)
        noise = mechanism.noise(circuit, entropy)[0] + mechanism.noise(circuit, entropy)[0]
        value = Noised.released(int(exact.value) + noise, law, "draw")
        mean = next(f.quantity for f in design.figures([value], 20) if f.shows == "mean")
        interval, truth = mean.interval(), sum(map(Fraction, (row[0] for row in rows))) / 20
        misses += not interval.low <= truth <= interval.high
    assert misses <= 80
