"""The exact law of the privacy loss of a noisy release, for the worst pair of neighbours.

The loss of an outcome z is L(z) = ln P(z)/Q(z), where P is the law of the release with the person's
report and Q its law with that report replaced; z is drawn from P. The law of L says everything: the
guarantee is the curve delta(epsilon) = E[max(0, 1 - e^(epsilon - L))]. P(|L| <= epsilon) only
describes it: post-processing does not preserve it, and it must not be called a guarantee.

Discrete Laplace noise gives losses on a lattice: with q = e^(-epsilon0/size), a move of one
coordinate by m has the loss epsilon0' (1 - 2z/m) with probability 1/(1+q) at z = 0, q^m/(1+q) at
z = m, and (1-q) q^z/(1+q) between. The losses of several coordinates add up. `LatticeLaw` is the
law for one honest aggregator, `LaplaceLaw` the continuous law, `two_draw_loss.TwoDrawLaw` the law
for the sum of two draws.

A number that is out of its range raises `ParameterError`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

from aggregator.dp.decimals import DIGITS, Number, expm1, rational_in, to_decimal, working
from aggregator.dp.sensitivity import (
    Shift,
    UnsupportedCircuit,
    furthest_move,
    is_worst_in_every_entry,
    nothing_changes,
)
from aggregator.errors import ParameterError
from aggregator.vdaf.circuits import Circuit

# A convolution of more cells takes over ten seconds.
_MOST_CELLS = 5_000_000
_MOST_BINOMIAL = 100_000
MOST_EPSILON0 = 1000


@dataclass(frozen=True, slots=True)
class Move:
    """How far one replaced report can move an aggregate: `coordinates` entries, each by `step`.

    Discrete Laplace noise is scaled to its L1 length. `others` are entries that move by another
    step.
    """

    coordinates: int
    step: int
    others: tuple[Shift, ...] = ()

    @property
    def shifts(self) -> tuple[Shift, ...]:
        """How many entries move by how much."""
        return Shift(self.coordinates, self.step), *self.others

    @property
    def entries(self) -> int:
        """How many entries move."""
        return sum(shift.entries for shift in self.shifts)

    @property
    def length(self) -> int:
        """The L1 length of the move."""
        return sum(shift.entries * shift.size for shift in self.shifts)


def worst_move(circuit: Circuit, honest_draws: int = 1) -> Move:
    """Return the replacement of one measurement with the largest loss under discrete Laplace noise.

    Args:
        circuit: What is summed.
        honest_draws: How many draws of noise are added up.

    Raises:
        UnsupportedCircuit: No measurement changes a sum, the worst replacement is not known for
            two draws, or it moves some entries further than others.
    """
    shifts = furthest_move(circuit)
    if not shifts:
        raise nothing_changes(circuit)
    if honest_draws > 1 and not is_worst_in_every_entry(circuit):
        draws = f"{honest_draws} draws"
        raise UnsupportedCircuit(
            f"the exact loss of Prio3{circuit.name} under {draws} of noise is not known"
        )
    return Move(coordinates=shifts[0].entries, step=shifts[0].size, others=tuple(shifts[1:]))


@dataclass(frozen=True, slots=True)
class Atom:
    """One possible loss and how likely it is."""

    loss: Decimal
    probability: Decimal


@dataclass(frozen=True, slots=True)
class LatticeLaw:
    """The loss of discrete Laplace noise of scale `move.length / epsilon0` from one draw.

    The losses are epsilon0 (1 - 2j/N) for j = 0..N, N the move's length.
    """

    epsilon0: Fraction
    move: Move

    @classmethod
    def of(cls, epsilon0: Number, move: Move) -> "LatticeLaw":
        """Make the law for an epsilon0 above 0 and at most 1000.

        Raises `ParameterError`, also if the law has too many atoms to add up.
        """
        number = rational_in(epsilon0, "epsilon0", 0, MOST_EPSILON0, open_low=True)
        # One coordinate has closed forms, and several moved by 1 each are binomial.
        steps = max(shift.size for shift in move.shifts)
        if move.entries > 1 and steps > 1 and move.length * move.entries > _MOST_CELLS:
            raise ParameterError(
                "length^2 * max_measurement must be at most 5,000,000 for the exact law, not"
                f" {move.length * move.entries}: quote epsilon0 instead"
            )
        if steps == 1 and move.coordinates > _MOST_BINOMIAL:
            raise ParameterError(
                f"coordinates moved must be at most {_MOST_BINOMIAL:,} for the exact law, not"
                f" {move.coordinates}: quote epsilon0 instead"
            )
        return cls(number, move)

    @property
    def probabilities(self) -> tuple[Decimal, ...]:
        """The probability of each loss, from epsilon0 down to -epsilon0."""
        return _lattice_probabilities(self.epsilon0, self.move)

    @property
    def support(self) -> tuple[Atom, ...]:
        """Every loss with its probability, largest loss first."""
        with working():
            return tuple(
                Atom(to_decimal(self._loss(j)), probability)
                for j, probability in enumerate(self.probabilities)
            )

    def probability_at_most(self, epsilon: Number) -> Decimal:
        """Return P(|L| <= `epsilon`)."""
        bound = rational_in(epsilon, "epsilon", 0, None)
        # The indices with a loss in [-epsilon, epsilon] run from first to size - first.
        first, size = self._first_at_most(bound), self.move.length
        return self._between(first, size - first)

    def probability_above(self, epsilon: Number) -> Decimal:
        """Return P(L > `epsilon`)."""
        bound = rational_in(epsilon, "epsilon", 0, None)
        return self._between(0, self._first_at_most(bound) - 1)

    def delta(self, epsilon: Number) -> Decimal:
        """Return the exact delta at `epsilon`."""
        bound = rational_in(epsilon, "epsilon", 0, None)
        if bound >= self.epsilon0:
            return Decimal(0)
        last, size = self._first_at_most(bound) - 1, self.move.length
        with working(self._digits):
            if self.move.entries == 1:
                # The neighbour's law is this one reversed.
                growth = to_decimal(bound).exp()
                value = self._between(0, last) - growth * self._between(size - last, size)
                return max(Decimal(0), value)
            return sum(
                (
                    -probability * expm1(to_decimal(bound - self._loss(j)))
                    for j, probability in enumerate(self.probabilities[: last + 1])
                ),
                Decimal(0),
            )

    def expected(self) -> Decimal:
        """Return the expected loss: the coordinates' losses add up."""
        with working(self._digits):
            rate, found = to_decimal(self.epsilon0 / self.move.length), Decimal(0)
            q = (-rate).exp()
            for entries, step in self.move.shifts:
                # E[j] of one coordinate is the sum of P(j >= i) = q^i/(1+q) over i = 1..step.
                mean = q * expm1(-step * rate) / (expm1(-rate) * (1 + q))
                found += entries * rate * (step - 2 * mean)
            return found

    def expected_of(self, function: Callable[[Decimal], Decimal]) -> Decimal:
        """Return E[`function`(L)]."""
        with working():
            return sum(
                (atom.probability * function(atom.loss) for atom in self.support), Decimal(0)
            )

    def _loss(self, j: int) -> Fraction:
        return self.epsilon0 * (1 - Fraction(2 * j, self.move.length))

    @property
    def _digits(self) -> int:
        """Enough digits for differences as small as the square of epsilon0."""
        return DIGITS + 10 + 2 * len(str(self.epsilon0.denominator // self.epsilon0.numerator))

    def _first_at_most(self, bound: Fraction) -> int:
        """Return the least index whose loss is at most `bound`, which is at least 0."""
        return max(0, math.ceil(self.move.length * (1 - bound / self.epsilon0) / 2))

    def _between(self, first: int, last: int) -> Decimal:
        """Return the probability of the indices from `first` to `last`, both within 0..N."""
        if first > last:
            return Decimal(0)
        with working(self._digits):
            if self.move.entries > 1:
                return sum(self.probabilities[first : last + 1], Decimal(0))
            rate = to_decimal(self.epsilon0 / self.move.length)
            scale = 1 + (-rate).exp()
            # P(j >= i) = q^i/(1+q) for i >= 1, and 1 for i = 0.
            if first == 0:
                size = self.move.length
                return Decimal(1) if last == size else 1 - (-(last + 1) * rate).exp() / scale
            if last == self.move.length:
                return (-first * rate).exp() / scale
            return -(-first * rate).exp() * expm1(-(last + 1 - first) * rate) / scale


@lru_cache(maxsize=8)
def _lattice_probabilities(epsilon0: Fraction, move: Move) -> tuple[Decimal, ...]:
    """Return the law of the lattice index j, the sum of all single-coordinate indices."""
    with working(DIGITS + 10):
        q = to_decimal(-epsilon0 / move.length).exp()
        count = move.entries
        if all(shift.size == 1 for shift in move.shifts):
            # Binomial: each coordinate's loss is negative with probability q/(1+q).
            weights = [Decimal(1)]
            for j in range(count):
                weights.append(weights[-1] * (count - j) / (j + 1))
        else:
            weights = _spread(1 - q, move)
        # A single coordinate has 1, 1-q, ..., 1-q, 1 times q^j/(1+q): factor q^j/(1+q) out of all.
        scale = (1 + q) ** -count
        probabilities = []
        for weight in weights:
            probabilities.append(weight * scale)
            scale *= q
        return tuple(probabilities)


def _spread(inner: Decimal, move: Move) -> list[Decimal]:
    """Return the coefficients of the product of 1 + inner (x + ... + x^(step-1)) + x^step.

    There is one factor for each entry that moves by a step. Multiplied out one factor at a time
    with a running sum. The product is symmetric, and hardly falls up to its middle, so the running
    sum's differences lose few digits there.
    """
    row = [Decimal(1)]
    for step in (shift.size for shift in move.shifts for _ in range(shift.entries)):
        size = len(row) + step
        half = (size + 1) // 2
        padded = row + [Decimal(0)] * max(0, half - len(row))
        window = Decimal(0)
        left = []
        for j in range(half):
            ends = padded[j] + (row[j - step] if step <= j < step + len(row) else 0)
            left.append(ends + inner * window)
            window += padded[j]
            leaving = j - step + 1
            if 0 <= leaving < len(row):
                window -= row[leaving]
        row = left + left[: size - half][::-1]
    return row


@dataclass(frozen=True, slots=True)
class LaplaceLaw:
    """The loss of continuous Laplace noise of scale Delta/epsilon0, all of Delta in one coordinate.

    It is epsilon0 with probability 1/2, -epsilon0 with probability e^-epsilon0 / 2, and spread out
    between these. It is the same for every number of coordinates: the worst case concentrates the
    move in one.
    """

    epsilon0: Fraction

    @classmethod
    def of(cls, epsilon0: Number) -> "LaplaceLaw":
        """Build it from an epsilon0 above 0 and at most 1000."""
        return cls(rational_in(epsilon0, "epsilon0", 0, MOST_EPSILON0, open_low=True))

    def probability_at_most(self, epsilon: Number) -> Decimal:
        """Return P(|L| <= `epsilon`), e^(-epsilon0/2) sinh(epsilon/2) below epsilon0."""
        bound = rational_in(epsilon, "epsilon", 0, None)
        if bound >= self.epsilon0:
            return Decimal(1)
        with working():
            half = expm1(to_decimal(bound))
            return half * to_decimal(-(self.epsilon0 + bound) / 2).exp() / 2

    def probability_above(self, epsilon: Number) -> Decimal:
        """Return P(L > `epsilon`), at least one half below epsilon0."""
        bound = rational_in(epsilon, "epsilon", 0, None)
        if bound >= self.epsilon0:
            return Decimal(0)
        with working():
            return 1 - to_decimal((bound - self.epsilon0) / 2).exp() / 2

    def delta(self, epsilon: Number) -> Decimal:
        """Return the exact delta at `epsilon`, 1 - e^(-(epsilon0 - epsilon)/2)."""
        bound = rational_in(epsilon, "epsilon", 0, None)
        if bound >= self.epsilon0:
            return Decimal(0)
        with working():
            return -expm1(to_decimal((bound - self.epsilon0) / 2))

    def expected(self) -> Decimal:
        """Return E[L] = epsilon0 - 1 + e^-epsilon0."""
        with working():
            bound = to_decimal(self.epsilon0)
            return bound + expm1(-bound)
