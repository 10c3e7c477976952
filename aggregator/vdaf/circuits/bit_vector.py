"""`ChunkedBitsCircuit`: the vector types, which all encode a measurement as zeros and ones.

A type says how it encodes and what it checks besides the digits; this class checks the digits.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Self

from typing_extensions import override

from aggregator.vdaf.circuits.base import MAX_LENGTH, Circuit, check_parameter
from aggregator.vdaf.gadgets import Gadget, Mul, ParallelSum

if TYPE_CHECKING:
    from field import Vector


class ChunkedBitsCircuit(Circuit):
    """A circuit whose residues must all be 0 or 1, checked in chunks.

    For one residue m the check is m * (m - 1) = 0. For a chunk of them it is

        sum over j of r^(j+1) * m_j * (m_j - 1) = 0

    with r random and unknown to the client that chose the m_j: a nonzero polynomial in r has few
    zeros. A chunk is one call of a parallel sum of multiplications and has its own r; the range
    check is the sum over all chunks.

    Source:
        VDAF, "Prio3SumVec"; [BBCGGI19], Section 4.4.
    """

    __slots__ = ()

    chunk_length: int
    """How many residues one call checks."""

    def __post_init__(self) -> None:
        check_parameter("chunk_length", self.chunk_length, MAX_LENGTH)

    @override
    def with_optimal_chunks(self) -> Self:
        # Of equally short proofs the one with the shortest chunks wins: its verifiers are shorter.
        # Only the power of two above the number of calls matters. So for each power, try as many
        # calls as fit under it, which makes the chunks as short as that power allows.
        chunkings = (
            {"chunk_length": -(-self.meas_len // (2**power - 1))}
            for power in range(1, self.meas_len.bit_length() + 1)
        )
        circuits = [dataclasses.replace(self, **each) for each in chunkings]
        return min(circuits, key=lambda each: (each.proof_len, each.chunk_length))

    @property
    @override
    def gadget(self) -> Gadget:
        return ParallelSum(Mul(), self.chunk_length)

    @property
    @override
    def num_calls(self) -> int:
        return -(-self.meas_len // self.chunk_length)

    @property
    @override
    def joint_rand_len(self) -> int:
        return self.num_calls

    @override
    def gadget_inputs(self, meas: Vector, joint_rands: Vector, num_shares: int) -> Vector:
        from field import Vector, concat, powers, stack

        # The wires of a call are r * m, m - 1, r^2 * m', m' - 1, ...; the last call is padded with
        # m = 0, which is a valid bit.
        rows = len(meas)
        calls, length = self.num_calls, self.chunk_length
        padding = Vector.zeros(self.field, (rows, calls * length - self.meas_len))
        chunks = concat([meas, padding]).reshape(rows, calls, length)
        one = self.field.inverse(num_shares)
        pairs = stack([powers(joint_rands, length) * chunks, chunks - one], axis=3)
        return pairs.reshape(rows, calls, 2 * length)


class BitVectorCircuit(ChunkedBitsCircuit):
    """Such a circuit with `length` entries, all of one kind."""

    __slots__ = ()

    length: int
    """How many sums there are."""

    @override
    def __post_init__(self) -> None:
        check_parameter("length", self.length, MAX_LENGTH)
        ChunkedBitsCircuit.__post_init__(self)

    @property
    @override
    def output_len(self) -> int:
        return self.length
