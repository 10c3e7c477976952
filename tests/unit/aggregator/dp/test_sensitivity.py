import itertools
from collections.abc import Iterator

import pytest

from aggregator.dp.sensitivity import (
    UnsupportedCircuit,
    changed_coordinates,
    l1_sensitivity,
    l2_sensitivity_squared,
    max_entry,
)
from aggregator.errors import ParameterError
from aggregator.vdaf.circuits import (
    Circuit,
    Count,
    HigherDegree,
    Histogram,
    L1BoundSum,
    MultihotCountVec,
    Sum,
    SumVec,
)

SMALL: list[tuple[Circuit, int, int]] = [
    (Count(), 1, 1),
    (Sum(5), 5, 1),
    (SumVec(1, 3, 1), 3, 1),
    (SumVec(2, 3, 1), 3, 2),
    (Histogram(1, 1), 1, 1),
    (Histogram(2, 1), 1, 2),
    (Histogram(4, 1), 1, 4),
    *((MultihotCountVec(4, weight, 1), 1, 4) for weight in (1, 2, 3, 4)),
    (MultihotCountVec(1, 1, 1), 1, 1),
    (L1BoundSum(1, 4, 1), 4, 1),
    (L1BoundSum(3, 4, 1), 4, 3),
]


def measurements(circuit: Circuit, largest: int, length: int) -> Iterator[tuple[int, ...]]:
    """Every vector that a circuit lets through."""
    for vector in itertools.product(range(largest + 1), repeat=length):
        total = sum(vector)
        match circuit:
            case Histogram():
                allowed = total == 1
            case MultihotCountVec():
                allowed = total <= circuit.max_weight
            case L1BoundSum():
                allowed = total <= circuit.max_value
            case _:
                allowed = True
        if allowed:
            yield vector


@pytest.mark.parametrize(("circuit", "largest", "length"), SMALL, ids=repr)
def test_sensitivities_are_those_of_the_worst_pair_of_measurements(
    circuit: Circuit, largest: int, length: int
) -> None:
    vectors = list(measurements(circuit, largest, length))
    pairs = list(itertools.product(vectors, repeat=2))
    l1 = max(sum(abs(a - b) for a, b in zip(x, y, strict=True)) for x, y in pairs)
    l2 = max(sum((a - b) ** 2 for a, b in zip(x, y, strict=True)) for x, y in pairs)
    assert l1_sensitivity(circuit) == l1
    assert l2_sensitivity_squared(circuit) == l2
    assert max_entry(circuit) == max(max(x) for x in vectors)


@pytest.mark.parametrize(("circuit", "largest", "length"), SMALL[:6], ids=repr)
def test_a_person_with_several_reports_moves_a_sum_so_much_further(
    circuit: Circuit, largest: int, length: int
) -> None:
    vectors = list(measurements(circuit, largest, length))
    sums = {
        tuple(map(sum, zip(x, y, strict=True))) for x, y in itertools.product(vectors, repeat=2)
    }
    pairs = list(itertools.product(sums, repeat=2))
    l1 = max(sum(abs(a - b) for a, b in zip(x, y, strict=True)) for x, y in pairs)
    l2 = max(sum((a - b) ** 2 for a, b in zip(x, y, strict=True)) for x, y in pairs)
    assert l1_sensitivity(circuit, 2) == l1
    assert l2_sensitivity_squared(circuit, 2) == l2


def test_only_counts_have_changed_coordinates() -> None:
    assert changed_coordinates(Count()) == 1
    assert changed_coordinates(Histogram(8, 3)) == 2
    assert changed_coordinates(MultihotCountVec(8, 3, 3)) == 6
    with pytest.raises(UnsupportedCircuit, match="Prio3SumVec does not count"):
        changed_coordinates(SumVec(8, 3, 3))


@pytest.mark.parametrize("function", [l1_sensitivity, l2_sensitivity_squared, max_entry])
def test_a_circuit_whose_sensitivity_is_not_known_is_refused(function: object) -> None:
    with pytest.raises(UnsupportedCircuit, match="Prio3HigherDegree is not known"):
        function(HigherDegree())


@pytest.mark.parametrize("reports", [0, -1, 2**32, True, 1.0])
def test_a_bound_on_reports_is_a_positive_integer(reports: int) -> None:
    with pytest.raises(ParameterError, match="max_reports_per_person must be an integer from 1"):
        l1_sensitivity(Count(), reports)
