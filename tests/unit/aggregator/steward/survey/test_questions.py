"""Each kind of question: what it reads, how it is measured, and what the sums then say."""

import random
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from statistics import fmean, pvariance

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.client.table_files.cells import CellError, cell_of
from aggregator.collector.results import Noised
from aggregator.dp.certified import to_float
from aggregator.dp.policy_table import policy_from_mapping
from aggregator.errors import ParameterError
from aggregator.steward.survey import NO_ANSWER, Design, Sheet, Sums, Survey, plan, survey_from_toml
from aggregator.steward.survey.questions import Question
from tests.support.entropy import SeededEntropy
from tests.support.surveys import VISITS

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


def sums_of(design: Design, question: Question, rows: Sequence[Sequence[object] | None]) -> Sums:
    """Return the exact sums that aggregators would have of some rows; None is no answer."""
    sheet = Sheet(((question, design),))
    measurements = [
        sheet.measurement([None if row is None else question.read([*map(cell_of, row)]).answer])
        for row in rows
    ]
    circuit = sheet.circuit
    sums = circuit.truncate(circuit.encode(measurements)).sum(axis=0)
    return sheet.sums([Noised.exact(value) for value in sums.to_ints()], len(rows))


def counts_of(question: Question, rows: Sequence[Sequence[object]]) -> list[tuple[str, object]]:
    """Return the label and the count of each range, without noise."""
    design = question.designs()[0]
    figures = design.figures(sums_of(design, question, rows))
    return [
        (f.quantity.label, f.quantity.estimate)
        for f in figures
        if f.shows == "count" and f.quantity.label != NO_ANSWER
    ]


def shown(
    design: Design, question: Question, rows: Sequence[Sequence[object] | None]
) -> dict[str, object]:
    """Return the estimates of what a design says of rows, without noise."""
    return {
        f"{figure.shows} {figure.quantity.label}".strip(): figure.quantity.estimate
        for figure in design.figures(sums_of(design, question, rows))
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
            "count no answer": 0,
        }


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_design_of_a_question_says_the_same_of_the_same_answers(name: str) -> None:
    asked = question(name)
    cells: dict[str, Sequence[Sequence[object]]] = {
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
    said = [shown(design, asked, [*cells[name], None]) for design in asked.designs()]
    assert said[0]["count no answer"] == 1
    assert all(each == said[0] for each in said)


def test_a_choice_is_counted_by_label() -> None:
    asked = question("choice")
    said = shown(asked.designs()[0], asked, [["red"], ["blue"], ["red"]])
    assert said["count red"] == 2
    assert said["count green"] == 0
    assert said["share blue"] == Fraction(100, 3)


def test_shares_and_means_are_of_those_who_answered() -> None:
    asked = question("choice")
    said = shown(asked.designs()[0], asked, [["red"], ["blue"], None, None])
    assert (said["share red"], said["count no answer"]) == (50, 2)
    asked = question("number")
    for design in asked.designs():
        said = shown(design, asked, [["4"], ["5"], None, None])
        assert (said["sum"], said["mean"], said["count answered"]) == (9, Fraction(9, 2), 2)


@pytest.mark.parametrize("name", QUESTIONS)
def test_no_answer_adds_as_many_entries_as_any(name: str) -> None:
    asked = question(name)
    for design in asked.designs():
        nothing = design.measurement(None)
        assert len(nothing) == design.length == len(design.measurement(design.usual[-1]))
        assert nothing[design.nobody] == 1
        assert not any(design.measurement(each)[design.nobody] for each in design.usual)


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
    planned = plan(survey_of(columns, "vector"))
    laws = [law for _, law in planned.mechanism.laws(planned.sheet.circuit, 2)]
    scales = [to_float(law.variance()) ** 0.5 for law in laws if law is not None]
    # In proportion to the ranges, the first being that of the count of those who answered.
    relative = [
        scale / largest for scale, largest in zip(scales, [1, 240, 20, 5000, 10], strict=True)
    ]
    assert max(relative) < 1.05 * min(relative)
    assert scales[-1] < 200


@given(st.lists(st.tuples(st.integers(0, 5000), st.integers(2, 62)), min_size=1, max_size=6))
def test_columns_of_a_vector_add_up_exactly(rows: list[tuple[int, int]]) -> None:
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
        ("multiple", ["pain;fever;cough"], "at most 2 labels, not 'pain;fever;cough'"),
        ("multiple", ["pain;pain"], "twice"),
        ("yes-no", ["maybe"], "yes or no, or true or false, not 'maybe'"),
        ("number", ["5.5"], "from -5 to 5, not '5.5'"),
        ("number", ["ten"], "a number, not 'ten'"),
        ("number", ["1e400"], "a number, not '1e400'"),
        ("bins", ["-1"], "from 0 to 100, not '-1'"),
        ("scale", ["6"], "from 1 to 5, not '6'"),
        ("scale", ["2.5"], "whole number"),
        ("multiple", ["pain;foo"], "one of 'pain', 'fever', 'cough', 'other', not 'foo'"),
        ("vector", ["1", "32"], "days: must be from 1 to 31, not '32'; `clip = true` would take"),
        ("tree", ["North"], "one of 'N1', 'N2', 'S1', 'S2', 'S3', not 'North'"),
    ],
)
def test_what_is_no_answer_is_refused(name: str, cells: Sequence[object], message: str) -> None:
    with pytest.raises(CellError, match=message):
        question(name).read([*map(cell_of, cells)])


def test_a_number_beyond_the_range_is_clipped_and_said_so_where_the_survey_allows_it() -> None:
    asked = survey_of("low = 0\nhigh = 10\nclip = true", "number").questions[0].question
    assert (asked.read(["12"]).answer, asked.read(["12"]).is_clipped) == ((10,), True)
    assert not asked.read(["10"]).is_clipped


def test_a_decimal_comma_is_read_where_it_is_said() -> None:
    assert question("number").read(["-4,5"], ",").answer == (1,)
    with pytest.raises(CellError, match="must be a number"):
        question("number").read(["1.000,5"], ",")


def test_the_design_with_the_least_error_is_chosen() -> None:
    flat = plan(survey_of("kind = 'tree'\nlow = 0\nhigh = 4\nleaves = 4")).parts[0]
    deep = plan(survey_of("kind = 'tree'\nlow = 0\nhigh = 64\nleaves = 64")).parts[0]
    for planned in (flat, deep):
        assert all(planned.error <= 1.01 * other.error for other in planned.others)
    assert (flat.part.source.name, deep.part.source.name) == ("leaves", "every level")


def test_gaussian_noise_is_taken_where_a_delta_allows_it_and_it_is_smaller() -> None:
    yes_no = "".join(f'[[question]]\nname = "q{n}"\nkind = "yes-no"\n' for n in range(10))
    few = f'{HEAD}\n[[question]]\nname = "q"\nkind = "yes-no"\n'
    many = HEAD + yes_no
    delta = 'epsilon = "1"\ndelta = "1/1000000"'
    assert plan(survey_from_toml(many)).mechanism.name == "PureDpDiscreteLaplace"
    assert not plan(survey_from_toml(many)).rivals
    for text, name in ((few, "PureDpDiscreteLaplace"), (many, "DiscreteGaussian")):
        planned = plan(survey_from_toml(text.replace('epsilon = "1"', delta)))
        assert planned.mechanism.name == name
        assert all(times > 1 for times in planned.rivals.values())
        guarantee = planned.mechanism.guarantee(planned.sheet.circuit)
        assert guarantee.epsilon is not None
        assert guarantee.epsilon <= 1


def test_the_budget_of_a_window_pays_for_everything_and_is_split_by_weight() -> None:
    survey = survey_from_toml(
        f'{HEAD}\n[[question]]\nname = "a"\nkind = "yes-no"\nweight = 3\n'
        '[[question]]\nname = "b"\nkind = "yes-no"\n'
    )
    planned = plan(survey)
    policy = policy_from_mapping(planned.privacy)
    assert policy.mechanism.parameters()["epsilon"] == 1
    assert policy.shares == (Fraction(3, 4), Fraction(1, 4))
    assert policy.max_releases == 52
    first, second = planned.parts
    assert 2.5 < second.error / first.error < 3.5


@pytest.mark.parametrize(
    ("settings", "kind", "message"),
    [
        (
            'labels = ["a", "a"]',
            "choice",
            "'a' is there twice",
        ),
        ('labels = ["a"]', "choice", "from 2 to"),
        # What could never be answered, or not told apart, in a task that is bound for ever.
        ('labels = ["a", "b "]', "choice", "labels: 'b ' begins or ends with a blank"),
        ('labels = ["\\u00a0a", "b"]', "multiple", "begins or ends with a blank"),
        ('labels = ["a", "a "]', "choice", "'a' and 'a ' are the same label"),
        (
            'labels = ["m\\u00e9decine", "me\\u0301decine"]',
            "choice",
            r"'m\\xe9decine' and 'me\\u0301decine' are the same label",
        ),
        ('high = 2\nlabels = ["\\u00e9", "e\\u0301"]', "scale", "are the same label"),
        ('labels = ["\\u00e9"]\nnothing = "e\\u0301"', "multiple", "is one of the labels"),
        ('labels = ["a"]\nnothing = "b "', "multiple", "nothing: 'b ' begins or ends"),
        (
            """regions = [
                {label = "\\u00e9", below = [{label = "b"}]},
                {label = "e\\u0301", below = [{label = "c"}]},
            ]""",
            "tree",
            "are the same label",
        ),
        (
            'regions = [{label = "a ", below = [{label = "b"}, {label = "c"}]}]',
            "tree",
            "'a ' begins or ends",
        ),
        (
            'column = [{name = "\\u00e9", high = 1}, {name = "e\\u0301", high = 1}]',
            "vector",
            "two have the same name",
        ),
        ('column = [{name = " u", high = 1}]', "vector", "column: name: ' u' begins or ends"),
        (
            'labels = ["a", "no answer"]',
            "choice",
            "is there already: it is the label for giving none",
        ),
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
    """100 releases: a 95 % interval misses more than 16 times with 10^-5."""
    generator = random.Random(7)  # noqa: S311  made-up answers
    planned = plan(survey_of(QUESTIONS["variance"] + "\nclip = true", "number"))
    part = planned.parts[0]
    asked, design = part.question, part.part.source
    assert isinstance(design, Design)
    circuit, mechanism = planned.sheet.circuit, planned.mechanism
    laws = [law for run, law in mechanism.laws(circuit, 2) for _ in range(run)]
    entropy = SeededEntropy(b"survey")
    misses: Counter[str] = Counter()
    for draw in range(100):
        rows = [[generator.randrange(10, 91)] if index % 3 else None for index in range(3000)]
        exact = sums_of(design, asked, rows)
        released = [
            Noised.released(int(value.value) + sum(both), law, (draw, place))
            for place, (value, law, *both) in enumerate(
                zip(
                    exact.released,
                    laws,
                    mechanism.noise(circuit, entropy),
                    mechanism.noise(circuit, entropy),
                    strict=True,
                )
            )
        ]
        truths = design.figures(exact)
        figures = design.figures(planned.sheet.sums(released, len(rows)))
        for figure, truth in zip(figures, truths, strict=True):
            interval, true = figure.quantity.interval(), truth.quantity.estimate
            assert true is not None
            misses[figure.shows] += not interval.low <= true <= interval.high
    assert max(misses["mean"], misses["sum"], misses["variance"]) <= 16


@pytest.mark.parametrize(
    ("text", "label", "place"),
    [
        ('kind = "bins"\nedges = [0, 18, 65]', "0 to under 18", 0),
        ('kind = "bins"\nedges = [0, 18, 65]', " 18 to 65 ", 1),
        ('kind = "tree"\nlow = -1\nhigh = 1\nleaves = 4', "-0.5 to under 0", 1),
        ('kind = "tree"\nlow = -1\nhigh = 1\nleaves = 4', "0.5 to 1", 3),
        ('kind = "tree"\nlow = -1\nhigh = 1\nleaves = 4', "'-0.5 to under 0", 1),
        ('kind = "choice"\nlabels = ["+", "-"]', "'-", 1),
    ],
)
def test_a_range_may_stand_in_a_cell_by_its_name(text: str, label: str, place: int) -> None:
    survey = survey_from_toml(VISITS + f'[[question]]\nname = "q"\n{text}\n')
    (asked,) = survey.questions
    assert asked.question.read([cell_of(label)]).answer == (place,)
