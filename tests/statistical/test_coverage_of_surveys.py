"""Every interval that a survey shows holds as often as it says, for each kind of question.

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

from aggregator.collector.results import Noised, Quantile
from aggregator.dp.release import add_noise
from aggregator.steward.survey import Plan, Sums, plan, survey_from_toml
from aggregator.steward.survey.cells import Cell
from aggregator.steward.survey.questions import Question
from field import Vector
from tests.support.entropy import SeededEntropy

pytestmark = [pytest.mark.statistical, pytest.mark.slow]

RELEASES = 120
SLOW = 5
"""Of so many releases one is looked at for what takes long."""
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


def planned(name: str, budget: str) -> Plan:
    head = 'title = "t"\nasked = "people"\nwindow = "day"\nfirst = 2026-01-01\n'
    size = f"min_batch_size = 100\n[budget]\n{BUDGETS[budget]}\nwindows = 9\n"
    question = f'[[question]]\nname = "q"\n{QUESTIONS[name]}\n'
    return plan(survey_from_toml(head + size + question))


ANSWERS: dict[str, Callable[[random.Random], Sequence[Cell]]] = {
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


def quantile(question: Question, answers: Sequence[Sequence[Cell]], part: Fraction) -> Fraction:
    """Return the true quantile of the numbers themselves."""
    numbers = sorted(Fraction(str(each[0])) for each in answers)
    assert question.columns == ("q",)
    return numbers[math.ceil(part * len(numbers)) - 1]


@pytest.mark.parametrize(("name", "budget"), CASES)
def test_every_figure_of_a_question_holds(name: str, budget: str) -> None:
    asked = planned(name, budget)
    ((question, design),) = asked.sheet.asked
    made = random.Random(f"{name} {budget}")  # noqa: S311  made-up answers
    answers = [ANSWERS[name](made) for _ in range(PEOPLE)]
    circuit = asked.sheet.circuit
    read = [
        asked.sheet.measurement([question.read(each).answer if index % 6 else None])
        for index, each in enumerate(answers)
    ]
    sums = circuit.truncate(circuit.encode(read)).sum(axis=0)
    exact = [Noised.exact(value) for value in sums.to_ints()]
    true = design.figures(asked.sheet.sums(exact, PEOPLE))
    given = [each for index, each in enumerate(answers) if index % 6]
    held, narrow, looked = ([0] * len(true) for _ in range(3))
    for number in range(RELEASES):
        found = design.figures(released(asked, sums, made, number))
        for place, (figure, truth) in enumerate(zip(found, true, strict=True)):
            if not isinstance(figure.quantity, Noised) and number % SLOW:
                continue
            value = truth.quantity.estimate
            if isinstance(figure.quantity, Quantile):
                value = quantile(question, given, figure.quantity.part)
            assert value is not None
            looked[place] += 1
            held[place] += value in figure.quantity.interval(CONFIDENCE)
            narrow[place] += value in figure.quantity.interval(LOWER)
    for figure, of, count, lower in zip(true, looked, held, narrow, strict=True):
        least = of * CONFIDENCE - SIGMAS * math.sqrt(of * CONFIDENCE * (1 - CONFIDENCE))
        where = figure.shows, figure.quantity.label, of, count, lower
        assert count >= least, where
        if isinstance(figure.quantity, Noised):
            assert lower < least, where
