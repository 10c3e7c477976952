"""The named Prio3s: by name and parameters, by code point and configuration bytes.

`TYPES` has one row per type. A new type of measurement is a circuit, a row, and its vectors.

Source:
    VDAF, "Variants"; DAP, "VDAF Configuration Encodings"; draft-ietf-ppm-l1-bound-sum, "DAP
    Integration".
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

from aggregator.errors import ParameterError
from aggregator.untrusted_text import meant
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
from aggregator.vdaf.circuits.section_lists import bytes_of_sections, sections_of_bytes
from aggregator.vdaf.prio3 import Prio3

Value: TypeAlias = int | str
"""A parameter's value."""


@dataclasses.dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a type: bytes of its configuration, and an option on the command line.

    Attributes:
        name: As the draft writes it.
        size: The bytes of a number in the configuration; None for a text, which takes the rest.
        help: What it is, for a reader of the command line.
        least: The least value at which measurements differ; None if it can be left out.
        typical: A usual value, for benchmarks; None if it can be left out.
        text_to_bytes: Encodes a text.
        text_of_bytes: Decodes a text.
    """

    name: str
    size: int | None
    help: str
    least: Value | None = None
    typical: Value | None = None
    text_to_bytes: Callable[[str], bytes] = str.encode
    text_of_bytes: Callable[[bytes], str] = bytes.decode

    @property
    def kind(self) -> type[int] | type[str]:
        """The type of its values."""
        return str if self.size is None else int

    def to_bytes(self, value: Value) -> bytes:
        """Return a value's bytes in the configuration.

        Raises:
            ParameterError: The value is of another kind, or there is no room for it.
        """
        if self.size is None:
            if not isinstance(value, str):
                raise ParameterError(f"{self.name} must be text, not {value!r}")
            return self.text_to_bytes(value)
        if not isinstance(value, int):
            raise ParameterError(f"{self.name} must be a whole number, not {value!r}")
        if value >= (limit := 256**self.size):
            raise ParameterError(
                f"{self.name} must be below {limit}, not {value}: the configuration has no room "
                "for more"
            )
        return value.to_bytes(self.size, "big")

    def of_bytes(self, data: bytes) -> Value:
        """Return the value that these bytes encode.

        Raises:
            ParameterError: They do not encode a text.
        """
        return self.text_of_bytes(data) if self.size is None else int.from_bytes(data, "big")


@dataclasses.dataclass(frozen=True, slots=True)
class VdafType:
    """A row of the table.

    Attributes:
        name: The type's name in task files and vector files.
        short_name: Its name where the command line asks for a circuit.
        algorithm_id: Its code point.
        circuit: Makes its circuit from the parameters, by name.
        parameters: Its parameters in the order of the configuration bytes.
        num_proofs: How many proofs a report carries.

    Raises:
        ParameterError: The circuit has other parameters, a parameter has no typical value that the
            circuit takes, or `furthest` leaves out an entry of the sum or adds less than 0 to one.
        TypeError: The circuit lacks a method; the message names it.
    """

    name: str
    short_name: str
    algorithm_id: int
    circuit: Callable[..., Circuit]
    parameters: tuple[Parameter, ...] = ()
    num_proofs: int = 1

    def __post_init__(self) -> None:
        circuit = self.prio3(self.least()).circuit
        self.prio3(self.typical())
        names = {parameter.name for parameter in self.parameters}
        if names != circuit.parameters.keys():
            raise ParameterError(
                f"{self.name}: the row has the parameters {', '.join(sorted(names))}, the circuit "
                f"{', '.join(sorted(circuit.parameters))}"
            )
        covered = sum(run.entries for run in circuit.furthest())
        if covered != circuit.output_len:
            raise ParameterError(
                f"{self.name}: furthest must be of all {circuit.output_len} entries, not {covered}"
            )
        for run in circuit.furthest():
            if min(run) < 0:
                raise ParameterError(
                    f"{self.name}: furthest must have runs of at least 0 entries, to which each "
                    f"measurement adds at least 0, not {run}"
                )

    def prio3(self, parameters: Mapping[str, Value], num_shares: int = 2) -> Prio3:
        """Return the type's Prio3 with these parameters.

        Args:
            parameters: All of them, by name; `chunk_length` may be left out for the optimal one.
            num_shares: How many aggregators share a measurement.

        Raises:
            ParameterError: A parameter is missing, unknown or out of its range; the message names
                it.
        """
        known = {parameter.name for parameter in self.parameters}
        for name in sorted(parameters.keys() - known):
            raise ParameterError(f"{self.name} has no parameter {name}{meant(name, known)}")
        for name in sorted(known - parameters.keys() - {"chunk_length"}):
            raise ParameterError(f"{self.name} needs the parameter {name}")
        if known <= parameters.keys():
            circuit = self.circuit(**parameters)
        else:
            circuit = self.circuit(**parameters, chunk_length=1).with_optimal_chunks()
        for parameter in self.parameters:
            if parameter.name in circuit.parameters:
                parameter.to_bytes(circuit.parameters[parameter.name])
        return Prio3(self.algorithm_id, circuit, num_shares, self.num_proofs)

    def least(self) -> dict[str, Value]:
        """Return parameters of a small task in which measurements differ."""
        return {each.name: each.least for each in self.parameters if each.least is not None}

    def typical(self) -> dict[str, Value]:
        """Return parameters of a usual task."""
        return {each.name: each.typical for each in self.parameters if each.typical is not None}


LENGTH: Final = Parameter("length", 4, "Buckets, or entries of a vector", least=2, typical=100)
MAX_MEASUREMENT: Final = Parameter(
    "max_measurement", 8, "Largest value of one entry", least=1, typical=255
)
MAX_WEIGHT: Final = Parameter("max_weight", 8, "Most ones in one vector", least=1, typical=10)
MAX_VALUE: Final = Parameter(
    "max_value", 8, "Most that the entries of one vector add up to", least=1, typical=255
)
CHUNK_LENGTH: Final = Parameter(
    "chunk_length", 4, "Residues that one gadget call checks, the best number if not given"
)

COUNT: Final = VdafType("Prio3Count", "count", 0x00000001, Count)
SUM: Final = VdafType("Prio3Sum", "sum", 0x00000002, Sum, (MAX_MEASUREMENT,))
SUM_VEC: Final = VdafType(
    "Prio3SumVec", "sumvec", 0x00000003, SumVec, (LENGTH, MAX_MEASUREMENT, CHUNK_LENGTH)
)
HISTOGRAM: Final = VdafType(
    "Prio3Histogram", "histogram", 0x00000004, Histogram, (LENGTH, CHUNK_LENGTH)
)
MULTIHOT_COUNT_VEC: Final = VdafType(
    "Prio3MultihotCountVec",
    "multihot",
    0x00000005,
    MultihotCountVec,
    (LENGTH, CHUNK_LENGTH, MAX_WEIGHT),
)
L1_BOUND_SUM: Final = VdafType(
    "Prio3L1BoundSum", "l1boundsum", 0x00000007, L1BoundSum, (LENGTH, MAX_VALUE, CHUNK_LENGTH)
)
SECTIONS: Final = VdafType(
    "Prio3Sections",
    "sections",
    0xFFFF0053,
    Sections,
    (
        CHUNK_LENGTH,
        Parameter(
            "sections",
            None,
            "What a report holds, section after section, such as 'onehot:5 number:100'",
            least="onehot:2 number:2 given:0,1,3",
            typical=" ".join(["onehot:5"] * 10),
            text_to_bytes=bytes_of_sections,
            text_of_bytes=sections_of_bytes,
        ),
    ),
)


def by_name(rows: Iterable[VdafType]) -> dict[str, VdafType]:
    """Return a table of types.

    Raises:
        ParameterError: Two rows have the same name or code point, or a row's name is not its
            circuit's, by which task files are written.
    """
    table: dict[str, VdafType] = {}
    for row in rows:
        circuit = row.prio3(row.least()).circuit
        if row.name != f"Prio3{circuit.name}":
            raise ParameterError(f"{row.name} must be Prio3{circuit.name}, as its circuit is named")
        for other in table.values():
            if {row.name, row.short_name} & {other.name, other.short_name}:
                raise ParameterError(f"{row.name} and {other.name} have the same name")
            if row.algorithm_id == other.algorithm_id:
                raise ParameterError(f"{row.name} and {other.name} have the same code point")
        table[row.name] = row
    return table


TYPES: Final = by_name((COUNT, SUM, SUM_VEC, HISTOGRAM, MULTIHOT_COUNT_VEC, L1_BOUND_SUM, SECTIONS))
"""Every type that a task may name; all else that depends on types reads this table."""

TEXTS: Final = frozenset(
    each.name for row in TYPES.values() for each in row.parameters if each.kind is str
)
"""The names of parameters that are text."""


def vdaf_from_parameters(type_name: str, parameters: Mapping[str, Value]) -> Prio3:
    """Return a Prio3 for two aggregators by its type's name.

    Args:
        type_name: "Prio3Histogram" and so on.
        parameters: By name; `chunk_length` may be left out for the optimal one.

    Raises:
        ParameterError: The type is unknown, or a parameter is missing, unknown or out of its range.
    """
    if type_name not in TYPES:
        raise ParameterError(
            f"type must be one of {', '.join(TYPES)}, not {type_name!r}{meant(type_name, TYPES)}"
        )
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
    row = _row(vdaf_type)
    if row is None:
        raise ParameterError(f"vdaf_type must be a known code point, not {vdaf_type:#010x}")
    size = sum(parameter.size or 0 for parameter in row.parameters)
    is_exact = all(parameter.size is not None for parameter in row.parameters)
    if len(configuration) != size and (is_exact or len(configuration) < size):
        least = "" if is_exact else "at least "
        raise ParameterError(
            f"the vdaf_configuration of {row.name} must have {least}{size} bytes, "
            f"not {len(configuration)}"
        )
    parameters, start = {}, 0
    for parameter in row.parameters:
        end = len(configuration) if parameter.size is None else start + parameter.size
        parameters[parameter.name] = parameter.of_bytes(configuration[start:end])
        start = end
    return row.prio3(parameters)


def configuration_bytes(prio3: Prio3) -> bytes:
    """Return the parameters of a Prio3 as DAP writes them.

    Raises:
        ParameterError: The type has no code point of its own.
    """
    row, values = _row(prio3.algorithm_id), prio3.circuit.parameters
    if row is None:
        raise ParameterError(f"Prio3{prio3.circuit.name} with this code point has no configuration")
    return b"".join(each.to_bytes(values[each.name]) for each in row.parameters)


def _row(algorithm_id: int) -> VdafType | None:
    """Return the type with this code point, if any."""
    return next((row for row in TYPES.values() if row.algorithm_id == algorithm_id), None)
