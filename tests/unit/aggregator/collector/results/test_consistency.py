"""Answers and tables that agree, against least squares by matrices and known figures."""

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest

from aggregator.collector.results import Noised, consistent
from aggregator.collector.results.batches import Batch
from aggregator.collector.results.consistency import Consistent
from aggregator.dp.by_section import equal_errors, split, with_gaussian_epsilon
from aggregator.dp.discrete_gaussian import DiscreteGaussian
from aggregator.dp.mechanisms import Mechanism
from aggregator.errors import ParameterError
from aggregator.vdaf.circuits import Sections
from tests.support.prio3_batches import seeded
from tests.support.tasks import LAPLACE, make_task

DELTA = Fraction(1, 10**6)


def released(circuit: Sections, mechanism: Mechanism, values: Sequence[int]) -> list[Noised]:
    runs = mechanism.laws(circuit)
    laws = [law for entries, law in runs for _ in range(entries)]
    return [
        Noised.released(value, law, index)
        for index, (value, law) in enumerate(zip(values, laws, strict=True))
    ]


def survey(questions: int, *, tables: bool) -> Sections:
    pairs = itertools.combinations(range(questions), 2) if tables else ()
    words = ["onehot:5"] * questions + [f"table:{a},{b}" for a, b in pairs]
    return Sections(" ".join(words), 7)


@pytest.mark.parametrize(
    ("circuit", "alone", "answer", "cell"),
    [(survey(10, tables=True), 62.7, 33.5, 51.0), (survey(10, tables=False), 26.75, 23.9, None)],
    ids=["ten questions and 45 tables", "ten questions"],
)
def test_ten_questions_of_five_answers_at_epsilon_1_have_the_computed_errors(
    circuit: Sections, alone: float, answer: float, cell: float | None
) -> None:
    shares = equal_errors(DiscreteGaussian(Fraction(1)), circuit)
    mechanism = with_gaussian_epsilon(Fraction(1), DELTA, circuit, shares)
    values = released(circuit, mechanism, [0] * circuit.output_len)
    made = Consistent(circuit, values, 1000)
    assert math.sqrt(mechanism.variance(circuit)) == pytest.approx(alone, abs=0.05)
    for number in (0, 9):
        for count in made.section(number):
            assert math.sqrt(count.law.variance()) == pytest.approx(answer, abs=0.05)
    if cell is not None:
        first, *_, last = made.section(54)
        for count in (first, last):
            assert math.sqrt(count.law.variance()) == pytest.approx(cell, abs=0.05)


def by_matrices(values: Sequence[Noised], report_count: int) -> tuple[list[float], list[float]]:
    """Weighted least squares over all consistent vectors, and the estimates' variances."""
    measurements = [
        [a == i for i in range(3)] + [b == j for j in range(2)]
        + [(a, b) == each for each in itertools.product(range(3), range(2))]
        for a, b in itertools.product(range(3), range(2))
    ]  # fmt: skip
    # Every sum is a sum of measurements, and their number is fixed: an affine space.
    rows = np.array(measurements, float)
    origin, basis = report_count * rows[0], (rows[1:] - rows[0]).T
    variances = np.array([value.law.variance() for value in values])
    inverse = np.linalg.pinv(basis.T @ (basis / variances[:, None]))
    to_values = basis @ inverse @ (basis / variances[:, None]).T
    given = np.array([float(value.value) for value in values])
    found = origin + to_values @ (given - origin)
    return list(found), list((to_values**2 * variances).sum(axis=1))


def test_estimates_are_the_least_squares_of_noise_that_differs_between_sections() -> None:
    circuit = Sections("onehot:3 onehot:2 table:0,1", 2)
    # Whose variances are as 1 to 2 to 4, so that no weight is rounded.
    mechanism = split(
        DiscreteGaussian(Fraction(1, 100)), (Fraction(4, 7), Fraction(2, 7), Fraction(1, 7))
    )
    source = seeded(4)
    given = [source.randrange(100) for _ in range(circuit.output_len)]
    values = released(circuit, mechanism, given)
    made = Consistent(circuit, values, 200)
    found = [value for number in range(3) for value in made.section(number)]
    expected, variances = by_matrices(values, 200)
    assert [float(value.value) for value in found] == pytest.approx(expected, rel=1e-6)
    assert [value.law.variance() for value in found] == pytest.approx(variances, rel=1e-6)


def test_estimates_agree_exactly_and_what_they_agree_on_has_no_noise() -> None:
    circuit = Sections("onehot:3 number:9 onehot:2 table:0,2 given:0,2,7", 2)
    mechanism = split(DiscreteGaussian(Fraction(1, 8)), (Fraction(1, 5),) * 5)
    values = released(circuit, mechanism, range(circuit.output_len))
    made = Consistent(circuit, values, 77)
    first, second, table = made.section(0), made.section(2), made.section(3)
    for row in range(3):
        assert not (sum(table[2 * row : 2 * row + 2], Noised.exact(0)) - first[row]).terms
    for column in range(2):
        difference = sum(table[column::2], Noised.exact(0)) - second[column]
        assert (difference.value, difference.terms) == (0, {})
    whole = sum(table, Noised.exact(0))
    assert (whole.value, whole.terms) == (77, {})
    assert made.section(1) == values[3:4]
    assert made.section(4) == values[-2:]
    with pytest.raises(ParameterError, match="sections are 0 to 4, not 5"):
        made.section(5)


def test_a_batch_of_sections_is_made_consistent_with_its_labels() -> None:
    task = make_task({"type": "Prio3Sections", "sections": "onehot:2 onehot:2 table:0,1"}, LAPLACE)
    document = {
        "task_id": str(task.task_id),
        "values": [60, 45, 48, 49, 20, 38, 30, 10],
        "report_count": 100,
        "interval": {"start": 0, "end": 1},
        "release": "first",
    }
    labels = ["yes", "no", "old", "young", "yes old", "yes young", "no old", "no young"]
    raw = Batch.of_document(task, document, labels)
    made = consistent(task, raw)
    assert [*made.values] == labels
    assert (made["yes"] + made["no"]).value == 100
    assert (made["yes old"] + made["yes young"] - made["yes"]).value == 0
    before, after = raw["yes old"].interval(), made["yes old"].interval()
    assert after.high - after.low < before.high - before.low
    with pytest.raises(ParameterError, match="of Prio3Histogram, not of Prio3Sections"):
        consistent(make_task(privacy=LAPLACE), raw)
