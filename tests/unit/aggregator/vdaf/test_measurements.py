"""What a client may give as a measurement, and what it is told otherwise."""

import itertools

import numpy as np
import pytest

from aggregator.vdaf.circuits import (
    Circuit,
    Count,
    Histogram,
    L1BoundSum,
    Measurement,
    MeasurementError,
    MultihotCountVec,
    Sum,
    SumVec,
)
from aggregator.vdaf.circuits.higher_degree import HigherDegree
from aggregator.vdaf.circuits.measurements import integers, sums, vectors
from aggregator.vdaf.circuits.range_checked import decode_range_checked, encode_range_checked
from aggregator.vdaf.instances import TYPES, VdafType
from field import FIELD64, FIELD128, Field, Vector
from tests.support.residues import rows_to_ints
from tests.support.small_field import small_measurements

BAD: list[tuple[Circuit, list[object], str]] = [
    (Count(), [0, 2], "measurement 1: it must be from 0 to 1, not 2"),
    (Count(), [-1], "measurement 0: it must be from 0 to 1, not -1"),
    (Count(), [None], "measurement 0: it must be an integer from 0 to 1, not None"),
    (Sum(9), [3, 10], "measurement 1: it must be from 0 to 9, not 10"),
    (Sum(9), [1.0], "measurement 0: it must be an integer from 0 to 9, not 1.0"),
    (Sum(9), ["1"], "measurement 0: it must be an integer from 0 to 9, not '1'"),
    (Sum(9), [2**70], f"measurement 0: it must be from 0 to 9, not {2**70}"),
    (Sum(9), [1, [2]], "measurement 1: it must be an integer from 0 to 9, not [2]"),
    (Histogram(3, 1), [3], "measurement 0: it must be from 0 to 2, not 3"),
    (SumVec(2, 5, 1), [[1, 2], [1, 6]], "measurement 1: entry 1 must be from 0 to 5, not 6"),
    (SumVec(2, 5, 1), [[1, 2], [1]], "measurement 1: it must have 2 entries, not 1"),
    (SumVec(2, 5, 1), [7], "measurement 0: it must be a list of 2 integers, not 7"),
    (SumVec(2, 5, 1), ["12"], "measurement 0: it must be a list of 2 integers, not '12'"),
    (SumVec(2, 5, 1), [[1, 0.5]], "measurement 0: entry 1 must be an integer from 0 to 5, not 0.5"),
    (SumVec(2, 5, 1), [[-1, 0]], "measurement 0: entry 0 must be from 0 to 5, not -1"),
    (MultihotCountVec(3, 2, 1), [[0, 2, 0]], "measurement 0: entry 1 must be from 0 to 1, not 2"),
    (MultihotCountVec(3, 2, 1), [[1, 1, 1]], "measurement 0: its weight must be at most 2, not 3"),
    (L1BoundSum(2, 5, 1), [[0, 0], [3, 3]], "measurement 1: its sum must be at most 5, not 6"),
    (L1BoundSum(2, 5, 1), [[6, 0]], "measurement 0: entry 0 must be from 0 to 5, not 6"),
    (
        L1BoundSum(3, 2**64 - 1, 1),
        [[2**64 - 1, 2**64 - 1, 2]],
        f"measurement 0: its sum must be at most {2**64 - 1}, not {2**65}",
    ),
]


@pytest.mark.parametrize(
    ("circuit", "measurements", "message"),
    [pytest.param(*case, id=f"{case[0].name}-{index}") for index, case in enumerate(BAD)],
)
def test_a_bad_measurement_is_named_with_its_limit(
    circuit: Circuit, measurements: list[object], message: str
) -> None:
    with pytest.raises(MeasurementError) as info:
        circuit.encode(measurements)  # type: ignore[arg-type]  # wrong on purpose
    assert str(info.value) == message


@pytest.mark.parametrize(
    ("circuit", "measurements"),
    [
        (Count(), [True, 0, np.uint8(1)]),
        (Sum(FIELD64.modulus - 1), [0, 2**63, FIELD64.modulus - 1]),
        (Histogram(4, 2), np.array([3, 0], dtype=np.int8)),
        (SumVec(2, 2**64 - 1, 3), [(2**64 - 1, 0), [0, 2**63]]),
        (MultihotCountVec(3, 3, 2), [[True, True, True]]),
        (L1BoundSum(3, 2**64 - 1, 5), np.array([[0, 2**63, 2**63 - 1]], dtype=np.uint64)),
        (HigherDegree(), [7, FIELD64.modulus - 1]),
    ],
    ids=lambda value: value.name if isinstance(value, Circuit) else "",
)
def test_whatever_counts_as_an_integer_is_accepted(
    circuit: Circuit, measurements: list[Measurement]
) -> None:
    encoded = circuit.encode(measurements)
    assert encoded.shape == (len(measurements), circuit.meas_len)
    rows = rows_to_ints(circuit.truncate(encoded))
    if circuit.name != "Histogram":
        expected = [np.ravel(np.array(m, dtype=object)).tolist() for m in measurements]
        assert rows == [[int(x) for x in row] for row in expected]
    else:
        assert rows == [[0, 0, 0, 1], [1, 0, 0, 0]]


@pytest.mark.parametrize("field", [FIELD64, FIELD128], ids=str)
def test_digits_reach_every_value_up_to_the_largest_and_no_more(field: Field) -> None:
    edges = [2**32 - 1, 2**32, 2**32 + 1, 2**62 + 5, 2**63 - 1, 2**63, FIELD64.modulus - 1]
    for largest in [*range(1, 40), *edges]:
        values = sorted({0, 1, largest // 2, largest - 1, largest, *range(min(largest, 40))})
        digits = encode_range_checked(field, np.array(values, dtype=np.uint64), largest)
        assert digits.shape == (len(values), largest.bit_length())
        assert {digit for row in rows_to_ints(digits) for digit in row} <= {0, 1}
        assert decode_range_checked(digits, largest).to_ints() == values
        ones = encode_range_checked(field, np.array([largest], dtype=np.uint64), largest)
        assert rows_to_ints(ones) == [[1] * largest.bit_length()]


def test_sums_are_exact_at_the_edges_of_their_words() -> None:
    largest = 2**64 - 1
    for entries in ([2**32 - 1, 1], [2**63, 2**63 - 1], [2**64 - 1, 0], [2**33 - 1, 2**33 + 1]):
        assert sums(vectors([entries], 2, largest), "sum", largest).tolist() == [sum(entries)]
    with pytest.raises(MeasurementError, match=f"not {2**64}$"):
        sums(vectors([[2**63, 2**63]], 2, largest), "sum", largest)
    with pytest.raises(MeasurementError, match=f"at most {2**32 - 1}, not {2**32}$"):
        sums(vectors([[2**32 - 1, 1]], 2, 2**32 - 1), "sum", 2**32 - 1)


def test_an_error_knows_its_place_in_a_larger_batch() -> None:
    with pytest.raises(MeasurementError) as info:
        integers([0, 9], 5)
    moved = info.value.moved_by(100)
    assert (moved.index, str(moved)) == (101, "measurement 101: it must be from 0 to 5, not 9")


@pytest.mark.parametrize("row", TYPES.values(), ids=lambda row: row.name)
def test_every_measurement_that_a_type_encodes_is_valid(row: VdafType) -> None:
    circuit = row.prio3(row.least()).circuit
    meas = circuit.encode(small_measurements(circuit))
    # Any joint randomness will do: what is valid gives zeros for all of it.
    joint_rand = range(3, 3 + len(meas) * circuit.joint_rand_len)
    joint_rands = Vector.from_ints(circuit.field, joint_rand)
    inputs = circuit.gadget_inputs(meas, joint_rands.reshape(len(meas), circuit.joint_rand_len), 1)
    outputs = circuit.evaluate(circuit.gadget.evaluate(inputs), meas, 1)
    assert set(itertools.chain(*rows_to_ints(outputs))) == {0}
