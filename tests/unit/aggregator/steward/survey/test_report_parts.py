"""A report that holds every question and every table, and nothing that depends on the answers."""

import itertools
import random
from fractions import Fraction
from statistics import NormalDist

import pytest

from aggregator.collector.results import Noised, compare
from aggregator.dp.certified import to_float
from aggregator.dp.laws import DiscreteLaplaceLaw
from aggregator.errors import ParameterError
from aggregator.steward.survey import Sheet, plan, survey_from_toml
from aggregator.steward.survey.designs import Answer
from tests.support.surveys import VISITS, department

TEXT = (
    VISITS
    + """
[[question]]
name = "smokes"
kind = "yes-no"
[[question]]
name = "cigarettes"
kind = "number"
low = 1
high = 40
variance = true
[[question]]
name = "region"
kind = "choice"
labels = ["north", "south"]
[[question]]
name = "pains"
kind = "multiple"
labels = ["head", "back"]
[[question]]
name = "mood"
kind = "scale"
high = 3
"""
)
ANSWERS: list[list[Answer | None]] = [
    [(0,), (19,), (0,), (0, 1), (2,)],
    [(0,), (9,), (1,), (), (1,)],
    [(1,), None, (1,), (1,), (0,)],
    [(0,), (4,), None, None, (2,)],
    [None] * 5,
]


def sheet_of(tables: str) -> Sheet:
    text = TEXT.replace("[budget]", f"{tables}\n[budget]")
    return plan(survey_from_toml(text)).sheet


def figures(sheet: Sheet) -> dict[tuple[str, ...], Fraction | None]:
    """Return the exact figures of all answers."""
    circuit = sheet.circuit
    measurements = [sheet.measurement(each) for each in ANSWERS]
    sums = circuit.truncate(circuit.encode(measurements)).sum(axis=0).to_ints()
    released = sheet.sums([Noised.exact(each) for each in sums], len(ANSWERS))
    return {
        (part.name, figure.shows, figure.quantity.label, figure.group): figure.quantity.estimate
        for part in sheet.parts
        for figure in part.figures(released)
    }


def rows_by_group(sheet: Sheet) -> list[tuple[str, dict[str, Fraction]]]:
    """Return of each table how many of each group answered."""
    measurements = [sheet.measurement(each) for each in ANSWERS]
    sums = sheet.circuit.truncate(sheet.circuit.encode(measurements)).sum(axis=0).to_ints()
    released = sheet.sums([Noised.exact(each) for each in sums], len(ANSWERS))
    return [
        (part.name, {group: each.value for group, each in found.items()})
        for part in sheet.parts
        if isinstance(found := part.source.answered(part.of(released)), dict)
    ]


def test_a_report_has_one_size_whatever_is_in_it() -> None:
    sheet = sheet_of('tables = "all"')
    circuit = sheet.circuit
    every = itertools.product(*((given, None) for given in ANSWERS[0]))
    assert {circuit.encode([sheet.measurement(each)]).shape for each in every} == {
        (1, circuit.meas_len)
    }


def test_counts_and_means_by_group_are_of_those_who_answered_both() -> None:
    found = figures(sheet_of('by = "region"'))
    assert found["mood by region", "count", "3", "north"] == 1
    assert found["mood by region", "mean", "", "south"] == Fraction(3, 2)
    assert found["smokes by region", "share", "yes", "south"] == 50
    assert found["cigarettes by region", "mean", "", "north"] == 20
    assert found["cigarettes by region", "count", "answered", "south"] == 1
    assert found["cigarettes", "mean", "", ""] == Fraction(35, 3)
    for part, answered in rows_by_group(sheet_of('by = "region"')):
        for group, people in answered.items():
            counts = [
                each
                for (name, shows, label, of), each in found.items()
                if (name, shows, of) == (part, "count", group) and each is not None
                if not part.startswith("cigarettes") or label == "answered"
            ]
            assert people == sum(counts), (part, group)


def test_by_asks_every_table_that_can_be() -> None:
    names = [part.name for part in sheet_of('by = "region"').parts[5:]]
    assert names == ["smokes by region", "cigarettes by region", "mood by region"]


def test_all_tables_are_each_pair_once() -> None:
    pairs = sheet_of('tables = "all"').tables
    assert len({frozenset(pair) for pair in pairs}) == len(pairs) == 6
    assert all(by != "cigarettes" for _, by in pairs)
    assert not any("pains" in pair for pair in pairs)


def test_chosen_tables_are_those() -> None:
    sheet = sheet_of('tables = [["cigarettes", "smokes"], ["mood", "region"]]')
    assert sheet.texts == [
        "onehot:3",
        "onehot:2",
        "given:1,1,39",
        "given:1,1,1521",
        "onehot:3",
        "atmost:3,2",
        "onehot:4",
        "onehot:3",
        "given:7,2,39",
        "given:7,2,1521",
        "table:6,4",
    ]


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ('by = "nobody"', "by: must be the name of a question, not 'nobody'"),
        ('by = "cigarettes"', "by: cigarettes: groups must be the labels"),
        ('by = "pains"', "by: pains: groups must be"),
        ('tables = [["mood", "age"]]', "tables: the survey has no question 'age'"),
        (
            'tables = [["mood", "mood"]]',
            "tables: mood by mood: groups must be",
        ),
        (
            'tables = [["pains", "mood"]]',
            "tables: pains by mood: a table is of one answer or one number",
        ),
        ('tables = [["mood", "cigarettes"]]', "tables: mood by cigarettes: groups must be"),
        ('tables = "some"', "tables"),
    ],
)
def test_a_table_that_cannot_be_is_refused_by_name(tables: str, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        sheet_of(tables)


def test_what_is_planned_adds_up_to_the_whole_budget() -> None:
    text = TEXT.replace("[budget]", 'tables = "all"\n[budget]')
    planned = plan(survey_from_toml(text))
    assert sum(part.share for part in planned.parts) == 1
    assert all(part.error > 0 for part in planned.parts)


def test_no_interval_reaches_beyond_what_is_certain_however_few_answer() -> None:
    sheet = sheet_of('by = "region"')
    made = random.Random(4)  # noqa: S311  made-up noise
    laws = [DiscreteLaplaceLaw(2, Fraction(40))] * sheet.circuit.output_len
    limits = {"share": (0, 100), "variance": (0, Fraction(39, 2) ** 2)}
    means = {"cigarettes": (1, 40), "mood": (1, 3)}
    first, second = (
        sheet.sums(
            [
                Noised.released(made.randint(-90, 99), law, (window, place))
                for place, law in enumerate(laws)
            ],
            12,
        )
        for window in range(2)
    )
    nothing = 0
    for part in sheet.parts:
        for one, other in zip(part.figures(first), part.figures(second), strict=True):
            if one.shows in ("count", "sum"):
                continue
            low, high = limits.get(one.shows) or means[part.question.name]
            found = one.quantity.interval()
            assert low <= found.low <= found.high <= high
            nothing += found.method.startswith("nothing is learned")
            apart = compare(one.quantity, other.quantity).interval
            assert low - high <= apart.low <= apart.high <= high - low
    assert nothing


def test_two_windows_must_differ_by_as_much_as_their_comparison_will_need() -> None:
    planned = plan(survey_from_toml(TEXT))
    sheet, people = planned.sheet, 100
    laws = [law for run, law in planned.mechanism.laws(sheet.circuit, 2) for _ in range(run)]
    first, second = (
        sheet.sums(
            [Noised.released(10, law, (window, index)) for index, law in enumerate(laws)], people
        )
        for window in range(2)
    )
    part = planned.part("region")
    counts = (part.part.figures(each)[0].quantity for each in (first, second))
    found = compare(*counts).interval
    assert part.shows == "count"
    assert found.high - found.low == 2 * part.difference
    assert part.error < part.difference < 2 * part.error


@pytest.mark.slow
def test_ten_questions_and_all_their_tables_have_the_computed_errors() -> None:
    head = VISITS.replace('epsilon = "1"', 'epsilon = "1"\ndelta = "1/1000000"')
    questions = [
        department(("a", "b", "c", "d")).replace("department", f"q{number}") for number in range(10)
    ]
    text = head.replace("[budget]", 'tables = "all"\n[budget]') + "".join(questions)
    planned = plan(survey_from_toml(text))
    assert planned.mechanism.name == "DiscreteGaussian"
    assert planned.rivals["PureDpDiscreteLaplace"] == pytest.approx(220 / 62.68, abs=0.01)
    assert {part.share for part in planned.parts} == {Fraction(1, 55)}
    (deviation,) = {
        to_float(law.variance()) ** 0.5
        for _, law in planned.mechanism.laws(planned.sheet.circuit, 2)
        if law is not None
    }
    assert deviation == pytest.approx(62.7, abs=0.05)
    # All answers and tables agree, which makes them more precise than they are released.
    for name, expected in (("q0", 33.5), ("q8 by q9", 51.0)):
        half_width = float(planned.part(name).error)
        assert half_width == pytest.approx(NormalDist().inv_cdf(0.975) * expected, rel=0.01)
