"""The named Prio3s: by function, by code point and configuration bytes, by name and parameters.

`TYPES` has one row a type: a new type of measurement is a circuit and a row.

Source:
    VDAF, "Variants"; DAP, "VDAF Configuration Encodings"; draft-ietf-ppm-l1-bound-sum, "DAP
    Integration".
"""

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from aggregator.errors import ParameterError
from aggregator.vdaf.circuits import (
    BitVectorCircuit,
    Circuit,
    Count,
    HigherDegree,
    Histogram,
    L1BoundSum,
    MultihotCountVec,
    Sum,
    SumVec,
)
from aggregator.vdaf.prio3 import Prio3
from field import FIELD64, Field

TEST_ALGORITHM_ID: Final = 0xFFFFFFFF
"""The code point that types without one share in the draft's test vectors; no task can name it."""


@dataclasses.dataclass(frozen=True, slots=True)
class VdafType:
    """A row of the table.

    Attributes:
        name: The type's name in task files and vector files.
        algorithm_id: Its code point.
        circuit: Makes its circuit from the parameters, by name.
        layout: The parameters in the order of the configuration bytes, each with its size.
        num_proofs: How many proofs a report carries.
    """

    name: str
    algorithm_id: int
    circuit: Callable[..., Circuit]
    layout: tuple[tuple[str, int], ...] = ()
    num_proofs: int = 1

    def prio3(self, parameters: Mapping[str, int], num_shares: int = 2) -> Prio3:
        """Return the type's Prio3 with these parameters.

        Args:
            parameters: Exactly those of `layout`; without `chunk_length` the optimal one is taken.
            num_shares: How many aggregators share a measurement.

        Raises:
            ParameterError: A parameter is missing, unknown or out of its range; the message names
                it.
        """
        known = {name for name, _ in self.layout}
        for name in sorted(parameters.keys() - known):
            raise ParameterError(f"{self.name} has no parameter {name}")
        for name in sorted(known - parameters.keys() - {"chunk_length"}):
            raise ParameterError(f"{self.name} needs the parameter {name}")
        if known <= parameters.keys():
            circuit = self.circuit(**parameters)
        else:
            circuit = _with_optimal_chunk_length(self.circuit(**parameters, chunk_length=1))
        return Prio3(self.algorithm_id, circuit, num_shares, self.num_proofs)


COUNT: Final = VdafType("Prio3Count", 0x00000001, Count)
SUM: Final = VdafType("Prio3Sum", 0x00000002, Sum, (("max_measurement", 8),))
SUM_VEC: Final = VdafType(
    "Prio3SumVec",
    0x00000003,
    SumVec,
    (("length", 4), ("max_measurement", 8), ("chunk_length", 4)),
)
HISTOGRAM: Final = VdafType(
    "Prio3Histogram", 0x00000004, Histogram, (("length", 4), ("chunk_length", 4))
)
MULTIHOT_COUNT_VEC: Final = VdafType(
    "Prio3MultihotCountVec",
    0x00000005,
    MultihotCountVec,
    (("length", 4), ("chunk_length", 4), ("max_weight", 8)),
)
L1_BOUND_SUM: Final = VdafType(
    "Prio3L1BoundSum",
    0x00000007,
    L1BoundSum,
    (("length", 4), ("max_value", 8), ("chunk_length", 4)),
)
SUM_VEC_WITH_MULTIPROOF: Final = VdafType(
    "Prio3SumVecWithMultiproof",
    TEST_ALGORITHM_ID,
    partial(SumVec, field=FIELD64),
    SUM_VEC.layout,
    num_proofs=3,
)
HIGHER_DEGREE: Final = VdafType("Prio3HigherDegree", TEST_ALGORITHM_ID, HigherDegree)

TYPES: Final[Mapping[str, VdafType]] = {
    vdaf_type.name: vdaf_type
    for vdaf_type in (
        COUNT,
        SUM,
        SUM_VEC,
        HISTOGRAM,
        MULTIHOT_COUNT_VEC,
        L1_BOUND_SUM,
        SUM_VEC_WITH_MULTIPROOF,
        HIGHER_DEGREE,
    )
}

_BY_ALGORITHM_ID: Final[Mapping[int, VdafType]] = {
    vdaf_type.algorithm_id: vdaf_type
    for vdaf_type in TYPES.values()
    if vdaf_type.algorithm_id != TEST_ALGORITHM_ID
}


def prio3_count(num_shares: int = 2) -> Prio3:
    """Return Prio3Count: measurements 0 and 1, and their sum."""
    return COUNT.prio3({}, num_shares)


def prio3_sum(max_measurement: int, num_shares: int = 2) -> Prio3:
    """Return Prio3Sum: integers from 0 to `max_measurement`, and their sum."""
    return SUM.prio3({"max_measurement": max_measurement}, num_shares)


def prio3_sum_vec(
    length: int, max_measurement: int, chunk_length: int | None = None, num_shares: int = 2
) -> Prio3:
    """Return Prio3SumVec: vectors of integers from 0 to `max_measurement`, and their sum."""
    parameters = {"length": length, "max_measurement": max_measurement}
    return SUM_VEC.prio3(parameters | _given(chunk_length), num_shares)


def prio3_histogram(length: int, chunk_length: int | None = None, num_shares: int = 2) -> Prio3:
    """Return Prio3Histogram: buckets from 0 to `length` - 1, and how many fall in each."""
    return HISTOGRAM.prio3({"length": length} | _given(chunk_length), num_shares)


def prio3_multihot_count_vec(
    length: int, max_weight: int, chunk_length: int | None = None, num_shares: int = 2
) -> Prio3:
    """Return Prio3MultihotCountVec: vectors with at most `max_weight` ones, and their sum."""
    parameters = {"length": length, "max_weight": max_weight}
    return MULTIHOT_COUNT_VEC.prio3(parameters | _given(chunk_length), num_shares)


def prio3_l1_bound_sum(
    length: int, max_value: int, chunk_length: int | None = None, num_shares: int = 2
) -> Prio3:
    """Return Prio3L1BoundSum: vectors that add up to at most `max_value`, and their sum."""
    parameters = {"length": length, "max_value": max_value}
    return L1_BOUND_SUM.prio3(parameters | _given(chunk_length), num_shares)


def prio3_sum_vec_with_multiproof(
    length: int,
    max_measurement: int,
    chunk_length: int,
    num_shares: int = 2,
    *,
    field: Field = FIELD64,
    num_proofs: int = 3,
) -> Prio3:
    """Return the experimental Prio3SumVecWithMultiproof: many proofs make a small field safe."""
    circuit = SumVec(length, max_measurement, chunk_length, field)
    return Prio3(TEST_ALGORITHM_ID, circuit, num_shares, num_proofs)


def prio3_higher_degree(num_shares: int = 2) -> Prio3:
    """Return the draft's test type with a gadget of degree three."""
    return HIGHER_DEGREE.prio3({}, num_shares)


def vdaf_from_parameters(type_name: str, parameters: Mapping[str, int]) -> Prio3:
    """Return a Prio3 for two aggregators by its type's name.

    Args:
        type_name: "Prio3Histogram" and so on.
        parameters: By name; without `chunk_length` the optimal one is taken.

    Raises:
        ParameterError: The type is unknown, or a parameter is missing, unknown or out of its range.
    """
    if type_name not in TYPES:
        raise ParameterError(f"type must be one of {', '.join(TYPES)}, not {type_name!r}")
    return TYPES[type_name].prio3(parameters)


def prio3_from_configuration(vdaf_type: int, configuration: bytes) -> Prio3:
    """Return the Prio3 of a DAP task.

    Args:
        vdaf_type: The code point.
        configuration: The type's parameters as DAP writes them.

    Raises:
        ParameterError: The code point is unknown, the bytes are too few or too many, or a parameter
            is out of its range.
    """
    if vdaf_type not in _BY_ALGORITHM_ID:
        raise ParameterError(f"vdaf_type must be a known code point, not {vdaf_type:#010x}")
    row = _BY_ALGORITHM_ID[vdaf_type]
    size = sum(size for _, size in row.layout)
    if len(configuration) != size:
        raise ParameterError(
            f"the vdaf_configuration of {row.name} must have {size} bytes, not {len(configuration)}"
        )
    parameters, start = {}, 0
    for name, size in row.layout:
        parameters[name] = int.from_bytes(configuration[start : start + size], "big")
        start += size
    return row.prio3(parameters)


def configuration_bytes(prio3: Prio3) -> bytes:
    """Return the parameters of a Prio3 as DAP writes them.

    Raises:
        ParameterError: The type has no code point of its own.
    """
    if prio3.algorithm_id not in _BY_ALGORITHM_ID:
        raise ParameterError(f"Prio3{prio3.circuit.name} with this code point has no configuration")
    row, parameters = _BY_ALGORITHM_ID[prio3.algorithm_id], prio3.circuit.parameters
    return b"".join(parameters[name].to_bytes(size, "big") for name, size in row.layout)


def optimal_chunk_length(circuit: BitVectorCircuit) -> int:
    """Return the chunk length that makes the circuit's proofs shortest, whatever its own is.

    Among equally short proofs the one with the shortest chunks wins, since its verifiers are
    shorter.
    """
    # The number of calls counts only by the power of two above it. So for each power as many calls
    # as fit under it are tried, which makes the chunks as short as that power allows.
    chunk_lengths = sorted(
        -(-circuit.meas_len // (2**power - 1))
        for power in range(1, circuit.meas_len.bit_length() + 1)
    )
    shortest: int = min(chunk_lengths, key=lambda n: circuit.with_chunk_length(n).proof_len)
    return shortest


def _with_optimal_chunk_length(circuit: Circuit) -> Circuit:
    """Return a vector circuit with the chunk length that makes its proofs shortest."""
    if not isinstance(circuit, BitVectorCircuit):
        return circuit
    return circuit.with_chunk_length(optimal_chunk_length(circuit))


def _given(chunk_length: int | None) -> dict[str, int]:
    """Return the parameter if there is one."""
    return {} if chunk_length is None else {"chunk_length": chunk_length}
