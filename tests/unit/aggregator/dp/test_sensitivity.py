"""What follows from the one pair of measurements that a circuit names, against all other pairs."""

import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from fractions import Fraction

import pytest

from aggregator.dp.sensitivity import (
    Shift,
    UnsupportedCircuit,
    check_counts,
    furthest_move,
    is_worst_in_every_entry,
    l1_sensitivity,
    l2_sensitivity_squared,
    max_entry,
)
from aggregator.errors import ParameterError
from aggregator.vdaf.circuits import (
    Circuit,
    Count,
    Histogram,
    L1BoundSum,
    MultihotCountVec,
    Sections,
    Sum,
    SumVec,
)
from aggregator.vdaf.circuits.higher_degree import HigherDegree
from aggregator.vdaf.instances import TYPES, VdafType
from tests.support.residues import rows_to_ints
from tests.support.small_field import contributions, moves

SMALL: list[Circuit] = [
    Count(),
    Sum(1),
    Sum(5),
    SumVec(1, 3, 1),
    SumVec(3, 1, 2),
    SumVec(2, 3, 1),
    *(Histogram(length, 1) for length in (1, 2, 3, 4)),
    *(MultihotCountVec(4, weight, 1) for weight in (1, 2, 3, 4)),
    MultihotCountVec(1, 1, 1),
    MultihotCountVec(3, 1, 1),
    *(L1BoundSum(length, 3, 1) for length in (1, 2, 3)),
    L1BoundSum(4, 1, 1),
]

OF_SECTIONS: list[Circuit] = [
    Sections("onehot:2 onehot:3", 1),
    Sections("onehot:3 bygroup:2,2", 2),
    Sections("atmost:3,2 onehot:2", 2),
    Sections("onehot:3 given:0,2,2", 2),
    Sections("onehot:2 number:3", 2),
    Sections("onehot:2 onehot:2 table:0,1", 2),
]
"""Sections of different kinds, which may refer to each other."""


def small_circuits(row: VdafType) -> Iterator[Circuit]:
    """The circuits of a type whose parameters are each the least one, or up to two more."""
    least = row.least()
    choices = [
        range(value, value + 3) if isinstance(value, int) and name != "chunk_length" else [value]
        for name, value in least.items()
    ]
    for values in itertools.product(*choices):
        given = dict(zip(least, values, strict=True))
        # All pairs, triples and quadruples of measurements are looked at.
        numbers = {name: value for name, value in given.items() if isinstance(value, int)}
        if math.prod(value for name, value in numbers.items() if name != "chunk_length") > 6:
            continue
        with suppress(ParameterError):  # some go together with no others
            yield row.prio3(given).circuit


OF_TYPES = [circuit for row in TYPES.values() for circuit in small_circuits(row)]

ALL = list(dict.fromkeys(SMALL + OF_SECTIONS + OF_TYPES))
"""The same and small circuits of every type of the table, so that none is left out."""

Sizes = tuple[int, ...]
"""How far each entry moves, the furthest first."""


def sizes_of(move: Sequence[int]) -> Sizes:
    return tuple(sorted(map(abs, move), reverse=True))


def furthest(circuit: Circuit, reports: int = 1) -> Sizes:
    """The sizes of the furthest move, with a zero for every entry that stays."""
    sizes = [shift.size for shift in furthest_move(circuit, reports) for _ in range(shift.entries)]
    return (*sizes, *[0] * (circuit.output_len - len(sizes)))


@pytest.mark.parametrize("circuit", ALL, ids=repr)
def test_the_named_measurements_are_valid_and_add_what_the_circuit_says(circuit: Circuit) -> None:
    encoded = circuit.encode([*circuit.furthest_measurements()])
    first, second = rows_to_ints(circuit.truncate(encoded))
    runs = circuit.furthest()
    assert first == [run.first for run in runs for _ in range(run.entries)]
    assert second == [run.second for run in runs for _ in range(run.entries)]


@pytest.mark.parametrize("circuit", ALL, ids=repr)
def test_no_neighbours_differ_more_in_any_number_of_entries_than_the_named_pair(
    circuit: Circuit,
) -> None:
    for reports in (1, 2, 3):
        limits = list(itertools.accumulate(furthest(circuit, reports)))
        found = {sizes_of(move) for move in moves(circuit, reports)}
        assert furthest(circuit, reports) in found
        for sizes in found:
            totals = itertools.accumulate(sizes)
            assert all(total <= limit for total, limit in zip(totals, limits, strict=True))


@pytest.mark.parametrize("circuit", ALL, ids=repr)
def test_sensitivities_are_those_of_the_worst_neighbours(circuit: Circuit) -> None:
    for reports in (1, 2):
        found = moves(circuit, reports)
        assert l1_sensitivity(circuit, reports) == max(sum(map(abs, move)) for move in found)
        assert l2_sensitivity_squared(circuit, reports) == max(
            sum(step**2 for step in move) for move in found
        )
    assert max_entry(circuit) == max(map(max, contributions(circuit)))


@pytest.mark.parametrize("circuit", SMALL, ids=repr)
def test_the_furthest_move_is_worst_in_every_entry_where_it_is_said_to_be(
    circuit: Circuit,
) -> None:
    for reports in (1, 2, 3):
        worst = furthest(circuit, reports)
        is_worst = all(
            size <= limit
            for move in moves(circuit, reports)
            for size, limit in zip(sizes_of(move), worst, strict=True)
        )
        assert is_worst_in_every_entry(circuit, reports) == is_worst


def test_a_bound_on_a_total_leaves_room_for_moves_of_more_entries() -> None:
    assert not is_worst_in_every_entry(L1BoundSum(3, 3, 1))
    assert not is_worst_in_every_entry(Histogram(3, 1), 2)
    assert not is_worst_in_every_entry(MultihotCountVec(4, 1, 1), 2)
    assert is_worst_in_every_entry(MultihotCountVec(4, 2, 1), 2)
    assert is_worst_in_every_entry(Histogram(2, 1), 3)


def loss_law(sizes: Sizes, q: Fraction) -> dict[int, Fraction]:
    """The law of the privacy loss under discrete Laplace noise, in units of 1/scale."""
    law = {0: Fraction(1)}
    for size in filter(None, sizes):
        inner = [(1 - q) * q**z for z in range(1, size)]
        entry = [mass / (1 + q) for mass in (1, *inner, q**size)]
        added: dict[int, Fraction] = {}
        for (loss, mass), (z, more) in itertools.product(law.items(), enumerate(entry)):
            lost = loss + size - 2 * z
            added[lost] = added.get(lost, Fraction(0)) + mass * more
        law = added
    return law


def delta(law: dict[int, Fraction], loss: int, q: Fraction) -> Fraction:
    """Delta at an epsilon of `loss`, in the same units."""
    # e^(epsilon - L) is q^(L - epsilon), with negative powers too.
    return sum((mass * max(0, 1 - q ** (x - loss)) for x, mass in law.items()), Fraction(0))


@pytest.mark.parametrize("q", [Fraction(1, 9), Fraction(1, 2), Fraction(9, 10)], ids=str)
@pytest.mark.parametrize("circuit", SMALL, ids=repr)
def test_no_neighbours_lose_more_under_discrete_laplace_noise_at_any_epsilon(
    circuit: Circuit, q: Fraction
) -> None:
    for reports in (1, 2):
        worst = furthest(circuit, reports)
        # The curve is a chain of chords in e^epsilon, between epsilons that are losses.
        epsilons = range(-sum(worst), sum(worst) + 1)
        limits = [delta(loss_law(worst, q), epsilon, q) for epsilon in epsilons]
        for sizes in {sizes_of(move) for move in moves(circuit, reports)}:
            law = loss_law(sizes, q)
            deltas = [delta(law, epsilon, q) for epsilon in epsilons]
            assert all(found <= limit for found, limit in zip(deltas, limits, strict=True))


@pytest.mark.parametrize("q", [Fraction(1, 9), Fraction(1, 2), Fraction(9, 10)], ids=str)
def test_a_unit_that_moves_from_a_smaller_shift_to_a_larger_one_loses_more(q: Fraction) -> None:
    """The step of the proof in docs/privacy.md: the law gains at both ends and nowhere between."""
    for larger, smaller in itertools.combinations_with_replacement(range(8, 0, -1), 2):
        split = loss_law((larger, smaller), q)
        joined = loss_law((larger + 1, smaller - 1), q)
        if smaller == 1:
            joined = loss_law((larger + 1,), q)
        gains = [joined[loss] - split[loss] for loss in sorted(split)]
        signs = [gain > 0 for gain in gains if gain]
        assert [sign for sign, _ in itertools.groupby(signs)] == [True, False, True]
        assert sum(gains) == 0


def test_the_numbers_of_a_long_vector_are_found_without_counting() -> None:
    length = 2**32 - 1
    assert furthest_move(MultihotCountVec(length, 7, 1)) == [Shift(14, 1)]
    assert l1_sensitivity(SumVec(length, 2**64 - 1, 1)) == length * (2**64 - 1)
    assert l2_sensitivity_squared(L1BoundSum(length, 9, 1), 2) == 2 * 18**2
    assert furthest_move(Histogram(length, 1), 3) == [Shift(2, 3)]


def test_a_histogram_of_one_bucket_moves_nothing() -> None:
    assert furthest_move(Histogram(1, 1)) == []
    assert l1_sensitivity(Histogram(1, 1), 5) == 0
    assert max_entry(Histogram(1, 1)) == 1


def test_only_counts_pass_for_counts() -> None:
    for circuit in (Count(), Histogram(8, 3), MultihotCountVec(8, 3, 3)):
        check_counts(circuit)
    with pytest.raises(UnsupportedCircuit, match="Prio3SumVec does not count"):
        check_counts(SumVec(8, 3, 3))
    with pytest.raises(UnsupportedCircuit, match="Prio3HigherDegree does not count"):
        check_counts(HigherDegree())


@pytest.mark.parametrize("reports", [0, -1, 2**32, True, 1.0])
def test_a_bound_on_reports_is_a_positive_integer(reports: int) -> None:
    with pytest.raises(ParameterError, match="max_reports_per_person must be an integer from 1"):
        l1_sensitivity(Count(), reports)
