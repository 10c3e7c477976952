"""Gadgets: the non-linear parts of a validity circuit.

A gadget is a polynomial in several inputs, the *wires*. The proof says what a gadget returned at
each call; the verifiers test that claim at one random point instead of trusting it. Everything else
in a circuit is linear, so each aggregator computes it on its own share.

A gadget here works on any number of inputs at once: the last axis holds the wires of one call; the
axes before it are reports, calls, or points of a polynomial.

Source:
    VDAF, "FLP Gadgets"; [BBCGGI19], Section 4.4 for the parallel sum.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from typing_extensions import override

if TYPE_CHECKING:
    from field import Vector


class Gadget(ABC):
    """A polynomial of `arity` inputs and total degree `degree`."""

    __slots__ = ()

    @property
    @abstractmethod
    def arity(self) -> int:
        """How many wires go in."""

    @property
    @abstractmethod
    def degree(self) -> int:
        """The gadget's degree as a polynomial."""

    @abstractmethod
    def evaluate(self, inputs: Vector) -> Vector:
        """Return the gadget's value for each set of wires.

        Args:
            inputs: Shape `(..., arity)`: values of the wires at a call, or at a point of the wire
                polynomials.

        Returns:
            Shape `(...)`.
        """

    def evaluate_sum(self, inputs: Vector) -> Vector:
        """Return the sum of the gadget's values along the last axis but one.

        Args:
            inputs: Shape `(..., count, arity)`.

        Returns:
            Shape `(...)`.
        """
        return self.evaluate(inputs).sum(axis=-1)


@dataclass(frozen=True, slots=True)
class Mul(Gadget):
    """The product of two wires."""

    arity: ClassVar[int] = 2
    degree: ClassVar[int] = 2

    @override
    def evaluate(self, inputs: Vector) -> Vector:
        return inputs[..., 0] * inputs[..., 1]

    @override
    def evaluate_sum(self, inputs: Vector) -> Vector:
        return inputs[..., 0].dot(inputs[..., 1])


@dataclass(frozen=True, slots=True)
class PolyEval(Gadget):
    """A fixed polynomial of one wire.

    Args:
        coefficients: Signed integers, the constant term first, at least two, the last one not zero.
    """

    coefficients: tuple[int, ...]

    arity: ClassVar[int] = 1

    @property
    @override
    def degree(self) -> int:
        return len(self.coefficients) - 1

    @override
    def evaluate(self, inputs: Vector) -> Vector:
        wire = inputs[..., 0]
        *lower, leading = self.coefficients
        value = wire * leading
        for coefficient in lower[:0:-1]:
            value = (value + coefficient) * wire
        return value + lower[0]


@dataclass(frozen=True, slots=True)
class ParallelSum(Gadget):
    """The sum of `count` copies of one gadget, each on its own wires.

    Checking n values by one multiplication each takes a proof of about 2n elements. Summing sqrt(n)
    of them per call of this gadget leaves sqrt(n) calls of about 2 sqrt(n) wires: the proof shrinks
    to the order of sqrt(n).
    """

    subcircuit: Gadget
    count: int

    @property
    @override
    def arity(self) -> int:
        return self.subcircuit.arity * self.count

    @property
    @override
    def degree(self) -> int:
        return self.subcircuit.degree

    @override
    def evaluate(self, inputs: Vector) -> Vector:
        grouped = inputs.reshape(*inputs.shape[:-1], self.count, self.subcircuit.arity)
        return self.subcircuit.evaluate_sum(grouped)
