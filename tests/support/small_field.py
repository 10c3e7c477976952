"""The exact law of a release in a field small enough to enumerate, wrap-around included."""

import itertools
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cache
from typing import TypeVar

import mpmath

from aggregator.dp.laws import NoiseLaw
from aggregator.dp.sensitivity import max_entry
from aggregator.vdaf.circuits import Circuit, Measurement, MeasurementError
from field import Field, project
from tests.support.residues import rows_to_ints

DIGITS = 60
NEGLIGIBLE = mpmath.mpf(10) ** -55

Outcome = TypeVar("Outcome")
Law = dict[tuple[int, ...], mpmath.mpf]
"""The probability of each outcome."""


def small_field(modulus: int) -> Field:
    """A prime field for `project` and `lift` only: it has no transform and no encoding."""
    return Field(f"F{modulus}", modulus, generator=1, two_adicity=0, encoded_size=8, words=1)


def number(fraction: Fraction) -> mpmath.mpf:
    return mpmath.mpf(fraction.numerator) / fraction.denominator


@cache
def wrapped(law: NoiseLaw, modulus: int) -> tuple[mpmath.mpf, ...]:
    """The law of one coordinate's noise after `project`: a probability for each residue."""
    with mpmath.workdps(DIGITS):
        masses = [mpmath.mpf(0)] * modulus
        reach, mass = 0, mpmath.mpf(1)
        # At least a whole turn, then until what is left cannot matter; the laws are unimodal.
        while reach <= 2 * modulus or mass > NEGLIGIBLE:
            enclosure = law.probability(reach)(DIGITS)
            mass = number((enclosure.low + enclosure.high) / 2)
            ends = {reach, -reach}
            residues = project(small_field(modulus), ends).to_ints()
            for residue in residues:
                masses[residue] += mass
            reach += 1
        return tuple(masses)


def release_law(noise: Sequence[mpmath.mpf], sums: Sequence[int]) -> Law:
    """The law of the sums of a batch with independent noise on each, all in the field."""
    modulus = len(noise)
    law = {}
    for outcome in itertools.product(range(modulus), repeat=len(sums)):
        probability = mpmath.mpf(1)
        for value, true in zip(outcome, sums, strict=True):
            probability *= noise[(value - true) % modulus]
        law[outcome] = probability
    return law


def worst_loss(first: Law, second: Law) -> mpmath.mpf:
    """The largest privacy loss of any outcome."""
    return max(mpmath.log(first[y] / second[y]) for y in first)


def hockey_stick(
    first: Mapping[Outcome, mpmath.mpf], second: Mapping[Outcome, mpmath.mpf], epsilon: mpmath.mpf
) -> mpmath.mpf:
    """The least delta at this epsilon, in this direction."""
    factor = mpmath.exp(epsilon)
    return mpmath.fsum(max(mpmath.mpf(0), p - factor * second[y]) for y, p in first.items())


def small_measurements(circuit: Circuit) -> list[Measurement]:
    """All measurements of small numbers that a circuit encodes."""
    values = range(max(max_entry(circuit), circuit.output_len) + 2)
    candidates: list[Measurement] = [*values]
    if not circuit.is_scalar and not circuit.is_one_hot:
        # A type whose measurement is not what it adds may take any number of integers.
        least = circuit.output_len if circuit.takes_vectors else 1
        for length in range(least, circuit.output_len + 1):
            candidates += itertools.product(values[: max_entry(circuit) + 2], repeat=length)
    return [measurement for measurement in candidates if _is_valid(circuit, measurement)]


def contributions(circuit: Circuit) -> list[tuple[int, ...]]:
    """Everything that one valid report can add to the sums, by encoding all small measurements."""
    encoded = circuit.encode(small_measurements(circuit))
    return list(map(tuple, rows_to_ints(circuit.truncate(encoded))))


@cache
def moves(circuit: Circuit, reports: int = 1) -> set[tuple[int, ...]]:
    """Every difference that replacing this many reports can make."""
    single = contributions(circuit)
    sums = {
        tuple(map(sum, zip(*chosen, strict=True)))
        for chosen in itertools.combinations_with_replacement(single, reports)
    }
    return {
        tuple(b - a for a, b in zip(left, right, strict=True)) for left in sums for right in sums
    }


def _is_valid(circuit: Circuit, measurement: Measurement) -> bool:
    try:
        circuit.encode([measurement])
    except MeasurementError:
        return False
    return True
