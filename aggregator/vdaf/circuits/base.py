"""`Circuit`: what a type of measurement must define, and the lengths that follow from it.

A circuit encodes a measurement as residues, defines by additions and gadget calls which residues
are valid, and says which part of them is summed. `evaluate` returns zeros, and only zeros, for a
valid encoding.

The draft's circuits have one gadget, and no call of it needs the result of another. So evaluation
falls into two halves, `gadget_inputs` before all calls and `evaluate` after them, and each half
works on all calls of all reports at once. The prover puts the gadget between the halves; the
verifier puts the gadget polynomial of the proof there.

Source:
    VDAF, "Validity Circuits".
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self, TypeAlias

from aggregator.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aggregator.vdaf.circuits.linear_form import LinearForm
    from aggregator.vdaf.circuits.measurements import Measurement
    from aggregator.vdaf.gadgets import Gadget
    from field import Field, Vector

AggResult: TypeAlias = int | list[int]

MAX_LENGTH = 2**32 - 1
"""DAP writes `length` and `chunk_length` in four bytes."""

MAX_MEASUREMENT = 2**64 - 1
"""DAP writes `max_measurement`, `max_weight` and `max_value` in eight bytes."""


class Run(NamedTuple):
    """Adjacent entries of a sum, to all of which a measurement adds the same number.

    Attributes:
        entries: How many; it may be 0.
        first: What the first of two measurements adds to each.
        second: What the second adds to each.
    """

    entries: int
    first: int
    second: int


class Summed(ABC):
    """The summed part of a measurement: all that noise and its guarantees depend on."""

    __slots__ = ()

    name: ClassVar[str]
    """The type's name in the draft, without "Prio3"; of a section, its kind."""

    is_scalar: ClassVar[bool] = False
    """Whether an aggregate result is one integer, not a list."""

    is_one_hot: ClassVar[bool] = False
    """Whether a measurement is the index of the one entry of the sum to which it adds 1."""

    @property
    @abstractmethod
    def output_len(self) -> int:
        """How many residues are summed."""

    @abstractmethod
    def furthest(self) -> Sequence[Run]:
        """Return what each of the two measurements furthest apart adds to a sum.

        Everything that depends on how far a measurement can move a sum is computed from this one
        pair, so the pair must be extremal in two ways:

        - For any two measurements and any k: the k entries in which they differ most do not differ
          by more, added up, than the k entries in which this pair differs most.
        - No measurement adds less than 0 to an entry, or more than the most that one of this pair
          adds to an entry.

        Returns:
            Runs of entries in their order, `output_len` entries in all.
        """

    def parts(self) -> Sequence[Summed]:
        """Return the sections that noise treats apart; their entries come one after another."""
        return [self]

    @property
    def most_entries(self) -> int:
        """The most entries of a sum to which one measurement adds more than 0."""
        return self.output_len


@dataclasses.dataclass(frozen=True, slots=True)
class Circuit(Summed):
    """A validity circuit over one field: a value, equal if its parameters are."""

    @property
    def takes_vectors(self) -> bool:
        """Whether a measurement is `output_len` integers, not one."""
        return not self.is_scalar and not self.is_one_hot

    @property
    @abstractmethod
    def field(self) -> Field:
        """The field of all residues."""

    @property
    @abstractmethod
    def gadget(self) -> Gadget:
        """The circuit's one gadget."""

    @property
    @abstractmethod
    def num_calls(self) -> int:
        """How many times the gadget is called."""

    @property
    @abstractmethod
    def meas_len(self) -> int:
        """How many residues encode a measurement."""

    @property
    @abstractmethod
    def joint_rand_len(self) -> int:
        """How many residues of joint randomness a proof needs; 0 if it needs none."""

    @property
    @abstractmethod
    def eval_output_len(self) -> int:
        """How many residues `evaluate` returns for a report."""

    @abstractmethod
    def encode(self, measurements: Sequence[Measurement]) -> Vector:
        """Return the encoding of each measurement.

        Returns:
            Shape `(num_measurements, meas_len)`.

        Raises:
            MeasurementError: One of them is out of range or of the wrong shape.
        """

    @abstractmethod
    def gadget_inputs(self, meas: Vector, joint_rands: Vector, num_shares: int) -> Vector:
        """Return the wires of every gadget call.

        Args:
            meas: Encoded measurements or shares of them, shape `(rows, meas_len)`.
            joint_rands: Shape `(rows, joint_rand_len)`.
            num_shares: How many shares `meas` was split into, 1 for the measurement itself; a
                constant c enters as c / num_shares, so that the shares' constants add up to c.

        Returns:
            Shape `(rows, num_calls, gadget.arity)`.
        """

    @abstractmethod
    def evaluate(self, gadget_outputs: Vector, meas: Vector, num_shares: int) -> Vector:
        """Return the circuit's outputs, all zero for a valid measurement.

        Args:
            gadget_outputs: Shape `(rows, num_calls)`.
            meas: As for `gadget_inputs`.
            num_shares: As for `gadget_inputs`.

        Returns:
            Shape `(rows, eval_output_len)`.
        """

    @abstractmethod
    def truncate(self, meas: Vector) -> Vector:
        """Return what is summed: shape `(rows, meas_len)` to `(rows, output_len)`, linear."""

    def furthest_measurements(self) -> tuple[Measurement, Measurement]:
        """Return the two measurements that `furthest` describes.

        A type whose measurement is not just what it adds to the sum overrides this.
        """
        first: list[int] = []
        second: list[int] = []
        for run in self.furthest():
            first += [run.first] * run.entries
            second += [run.second] * run.entries
        return (first, second) if self.takes_vectors else (first[0], second[0])

    def given_by(self) -> dict[int, int]:
        """Return, for each entry that only some people add to, the entry that counts them."""
        return {}

    def linear_form(self) -> LinearForm | None:
        """Return what kernels need to verify this circuit; None if only the general path can."""
        return None

    def with_optimal_chunks(self) -> Self:
        """Return this circuit with the `chunk_length` of the shortest proofs, if it has one."""
        return self

    def decode(self, values: Sequence[int]) -> AggResult:
        """Return an aggregate result from the `output_len` integers of the unsharded sum."""
        return values[0] if self.is_scalar else list(values)

    @property
    def parameters(self) -> dict[str, int | str]:
        """The type's parameters by the draft's names, without the field."""
        names = [parameter.name for parameter in dataclasses.fields(self)]
        return {name: getattr(self, name) for name in names if name != "field"}

    @property
    def wire_poly_len(self) -> int:
        """Values of a wire polynomial: the seed, one per call, padding to a power of two."""
        return next_power_of_two(1 + self.num_calls)

    @property
    def gadget_poly_len(self) -> int:
        """Values that determine the gadget polynomial, the gadget of the wire polynomials."""
        return self.gadget.degree * (self.wire_poly_len - 1) + 1

    @property
    def prove_rand_len(self) -> int:
        """Residues of prover randomness in a proof: the seed of each wire."""
        return self.gadget.arity

    @property
    def query_rand_len(self) -> int:
        """Residues of query randomness: one per output if there are several, and the test point."""
        return 1 + (self.eval_output_len if self.eval_output_len > 1 else 0)

    @property
    def proof_len(self) -> int:
        """Residues in a proof: the wire seeds and the gadget polynomial."""
        return self.gadget.arity + self.gadget_poly_len

    @property
    def verifier_len(self) -> int:
        """Residues in a verifier: the reduced output, and wires and gadget at the test point."""
        return self.gadget.arity + 2


def next_power_of_two(n: int) -> int:
    """Return the smallest power of two that is at least `n`, for `n` >= 1."""
    return 1 << (n - 1).bit_length()


def check_parameter(name: str, value: int, largest: int) -> None:
    """Refuse a circuit's parameter outside 1 to `largest`.

    Raises:
        ParameterError: Names the parameter, the range and what was given.
    """
    if type(value) is not int or not 1 <= value <= largest:
        raise ParameterError(f"{name} must be an integer from 1 to {largest}, not {value!r}")


def check_max_measurement(name: str, value: int, field: Field) -> None:
    """Refuse a largest value that is 0, that DAP cannot write, or that the field does not have.

    Raises:
        ParameterError: Names the parameter, the range and what was given.
    """
    # The weights of all digits together are the largest value, so no sum of them wraps.
    check_parameter(name, value, min(MAX_MEASUREMENT, field.modulus - 1))
