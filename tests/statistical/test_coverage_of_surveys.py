"""Every interval that a survey shows holds as often as it says, for each kind and by group.

Answers go through measurements, encoding and truncation as in a batch; the sum is split into two
shares, each aggregator adds its own noise to its own in the field, and the collector unshards them.

Size: of the 120 releases in which a count's interval is looked at, those in which a right one holds
fall five standard deviations short of 9/10 with a probability of 10^-5, and of the 24 for a figure
that takes long (shares, means, quantiles) with one of 4 * 10^-4. Seeds are fixed. One person in six
gives no answer.
Power: intervals of confidence 1/2 fall short of 9/10 so far.
"""

import math
import random
from collections.abc import Callable, Sequence
from fractions import Fraction

import pytest

from aggregator.client.table_files.cells import cell_of
from aggregator.collector.results import Noised, Quantile
from aggregator.dp.release import add_noise
from aggregator.steward.survey import Figure, Part, Plan, Sums, plan, survey_from_toml
from aggregator.steward.survey.designs import Answer
from aggregator.steward.survey.questions import Question
from field import Vector
from tests.support.entropy import SeededEntropy

pytestmark = [pytest.mark.statistical, pytest.mark.slow]

RELEASES = 120
SLOW = 5
"""One release of this many is looked at for what takes long."""
PEOPLE = 150
CONFIDENCE, LOWER = Fraction(9, 10), Fraction(1, 2)
SIGMAS = 5

QUESTIONS = {
    "choice": 'kind = "choice"\nlabels = ["red", "green", "blue"]',
    "multiple": 'kind = "multiple"\nlabels = ["a", "b", "c", "d"]\nat_most = 2',
    "any of them": 'kind = "multiple"\nlabels = ["a", "b", "c"]',
    "yes-no": 'kind = "yes-no"',
    "number": 'kind = "number"\nlow = -5\nhigh = 40\nstep = 0.5',
    "few numbers": 'kind = "number"\nlow = 0\nhigh = 3\ndesign = "histogram"',
    "variance": 'kind = "number"\nlow = 10\nhigh = 90\nvariance = true\ndesign = "sum and squares"',
    "variance of bins": 'kind = "number"\nlow = 1\nhigh = 4\nvariance = true\ndesign = "histogram"',
    "bins": 'kind = "bins"\nedges = [0, 10, 20.5, 60, 100]',
    "scale": 'kind = "scale"\nhigh = 5',
    "vector": """
kind = "vector"
column = [{name = "cost", high = 5000}, {name = "days", low = 1, high = 31, step = 0.5}]""",
    "tree": 'kind = "tree"\nlow = 0\nhigh = 100\nleaves = 4\nbranches = 2\ndesign = "every level"',
    "leaves": 'kind = "tree"\nlow = 0\nhigh = 100\nleaves = 4\ndesign = "leaves"',
}
BUDGETS = {"epsilon": 'epsilon = "1"', "rho": 'rho = "1/8"'}
CASES = [
    *((name, "epsilon") for name in QUESTIONS),
    *((name, "rho") for name in ("yes-no", "number", "tree")),
]


def survey_text(budget: str) -> str:
    head = 'title = "t"\nasked = "people"\nwindow = "day"\nfirst = 2026-01-01\n'
    return head + f"min_batch_size = 100\n[budget]\n{BUDGETS[budget]}\nwindows = 9\n"


def planned(name: str, budget: str) -> Plan:
    question = f'[[question]]\nname = "q"\n{QUESTIONS[name]}\n'
    return plan(survey_from_toml(survey_text(budget) + question))


ANSWERS: dict[str, Callable[[random.Random], Sequence[object]]] = {
    "choice": lambda made: [made.choice(["red", "red", "blue"])],
    "multiple": lambda made: [";".join(made.sample("abcd", 2))],
    "any of them": lambda made: [made.choice(["a;b;c", "none", "b"])],
    "yes-no": lambda made: [made.choice(["yes", "no", "no"])],
    "number": lambda made: [made.randint(-10, 80) / 2],
    "few numbers": lambda made: [made.randint(0, 3)],
    "variance": lambda made: [made.randint(20, 60)],
    "variance of bins": lambda made: [made.randint(1, 4)],
    "bins": lambda made: [made.randint(0, 90)],
    "scale": lambda made: [made.randint(1, 5)],
    "vector": lambda made: [made.randint(0, 5000), made.randint(1, 31)],
    "tree": lambda made: [made.randint(0, 90)],
    "leaves": lambda made: [made.randint(0, 90)],
}


def released(asked: Plan, sums: Vector, made: random.Random, number: int) -> Sums:
    """Return what a collector gets of a batch with these sums, and the best estimates."""
    mechanism, prio3 = asked.mechanism, asked.sheet.prio3
    circuit, field = prio3.circuit, sums.field
    mask = Vector.from_ints(field, [made.randrange(field.modulus) for _ in range(len(sums))])
    shares = [
        add_noise(share, mechanism, circuit, SeededEntropy(bytes([place]) + number.to_bytes(4)))
        for place, share in enumerate((sums - mask, mask))
    ]
    laws = [law for run, law in mechanism.laws(circuit, 2) for _ in range(run)]
    values = prio3.unshard_signed(shares, PEOPLE)
    assert isinstance(values, list)
    noised = [
        Noised.released(value, law, index)
        for index, (value, law) in enumerate(zip(values, laws, strict=True))
    ]
    return asked.sheet.sums(noised, PEOPLE)


def quantile(question: Question, answers: Sequence[Sequence[object]], part: Fraction) -> Fraction:
    """Return the true quantile of the numbers themselves."""
    numbers = sorted(Fraction(str(each[0])) for each in answers)
    assert question.columns == ("q",)
    return numbers[math.ceil(part * len(numbers)) - 1]


@pytest.mark.parametrize(("name", "budget"), CASES)
def test_every_figure_of_a_question_holds(name: str, budget: str) -> None:
    asked = planned(name, budget)
    ((question, _),) = asked.sheet.asked
    made = random.Random(f"{name} {budget}")  # noqa: S311  made-up answers
    answers = [ANSWERS[name](made) for _ in range(PEOPLE)]
    read = [
        [question.read([*map(cell_of, each)]).answer if index % 6 else None]
        for index, each in enumerate(answers)
    ]
    given = [each for index, each in enumerate(answers) if index % 6]

    def truth(figure: Figure) -> Fraction | None:
        if isinstance(figure.quantity, Quantile):
            return quantile(question, given, figure.quantity.part)
        return figure.quantity.estimate

    check(asked, asked.sheet.parts, read, made, truth)


def test_every_figure_by_group_holds() -> None:
    # So much epsilon that no group may be empty, as ratios to what may be nothing take long.
    text = (
        survey_text("epsilon").replace('"1"', '"5"').replace("[budget]", 'by = "group"\n[budget]')
    )
    for name, kind in (("group", "yes-no"), ("choice", "choice"), ("number", "number")):
        text += f'[[question]]\nname = "{name}"\n{QUESTIONS[kind]}\n'
    asked = plan(survey_from_toml(text))
    made = random.Random("groups")  # noqa: S311  made-up answers
    read: list[list[Answer | None]] = [
        [
            question.read([*map(cell_of, ANSWERS[kind](made))]).answer
            if made.randrange(6)
            else None
            for (question, _), kind in zip(
                asked.sheet.asked, ("yes-no", "choice", "number"), strict=True
            )
        ]
        for _ in range(PEOPLE)
    ]
    tables = asked.sheet.parts[3:]
    assert [part.name for part in tables] == ["choice by group", "number by group"]
    check(asked, tables, read, made, lambda figure: figure.quantity.estimate)


def check(
    asked: Plan,
    parts: Sequence[Part],
    answers: Sequence[Sequence[Answer | None]],
    made: random.Random,
    truth: Callable[[Figure], Fraction | None],
) -> None:
    """Count how often the intervals of some parts hold what is true."""
    circuit = asked.sheet.circuit
    read = [asked.sheet.measurement(each) for each in answers]
    sums = circuit.truncate(circuit.encode(read)).sum(axis=0)
    exact = asked.sheet.sums([Noised.exact(value) for value in sums.to_ints()], PEOPLE)
    true = [figure for part in parts for figure in part.figures(exact)]
    held, narrow, looked = ([0] * len(true) for _ in range(3))
    for number in range(RELEASES):
        batch = released(asked, sums, made, number)
        found = [figure for part in parts for figure in part.figures(batch)]
        for place, (figure, exactly) in enumerate(zip(found, true, strict=True)):
            if not isinstance(figure.quantity, Noised) and number % SLOW:
                continue
            value = truth(exactly)
            assert value is not None
            looked[place] += 1
            held[place] += value in figure.quantity.interval(CONFIDENCE)
            if isinstance(figure.quantity, Noised):
                narrow[place] += value in figure.quantity.interval(LOWER)
    for figure, of, count, lower in zip(true, looked, held, narrow, strict=True):
        least = of * CONFIDENCE - SIGMAS * math.sqrt(of * CONFIDENCE * (1 - CONFIDENCE))
        where = figure.shows, figure.group, figure.quantity.label, of, count, lower
        assert count >= least, where
        if isinstance(figure.quantity, Noised):
            assert lower < least, where
