"""What a person loses under a law of noise, computed from the law and from nothing else."""

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

from aggregator.dp.certified import Enclosure, to_float
from aggregator.dp.laws import NoiseLaw
from aggregator.dp.mechanisms import Mechanism
from aggregator.dp.sensitivity import furthest_move
from aggregator.vdaf.circuits import (
    Circuit,
    Histogram,
    L1BoundSum,
    MultihotCountVec,
    Sections,
    Sum,
    SumVec,
)
from aggregator.vdaf.instances import TYPES


def circuits() -> list[Circuit]:
    """The circuit of each type with its least parameters, and some larger ones."""
    least = [row.prio3(row.least()).circuit for row in TYPES.values()]
    return [
        *least,
        Sum(5),
        Histogram(3, 1),
        SumVec(2, 3, 1),
        MultihotCountVec(4, 2, 2),
        L1BoundSum(3, 4, 2),
        Sections("onehot:3 number:6 atmost:3,2", 2),
        Histogram(200, 14),
    ]


DIGITS = 30
GRID = 2.0**-14
"""Losses are counted in steps of it, each rounded down, so that no true promise is refuted."""


def shifts_of(mechanism: Mechanism, circuit: Circuit) -> list[int]:
    """By how much each entry moves that a person can move, for the furthest move."""
    move = furthest_move(circuit, mechanism.max_reports_per_person)
    return [shift.size for shift in move for _ in range(shift.entries)]


@cache
def enclosed(law: NoiseLaw, value: int) -> Enclosure:
    probability = law.probability(value)
    return probability(DIGITS) if callable(probability) else Enclosure(probability, probability)


@cache
def probabilities(law: NoiseLaw, reach: int) -> NDArray:
    return np.array([to_float(law.probability(value)) for value in range(-reach, reach + 1)])


def masses(law: NoiseLaw, shift: int, reach: int) -> tuple[NDArray, NDArray]:
    """The probabilities of what is drawn, and of the same outcomes after the move up.

    For a move down they are the same backwards: `check_promise` holds laws to be even.
    """
    all_of_them = probabilities(law, reach + 2 * shift)
    return all_of_them[shift:-shift], all_of_them[: -2 * shift]


def delta_at(law: NoiseLaw, shifts: list[int], epsilon: float, reach: int) -> float:
    """A lower bound, tight to the grid, of the least delta at which epsilon holds."""
    never = 1.0  # the probability of outcomes that both neighbours have
    total: NDArray = np.ones(1)
    offset = 0
    for shift in shifts:
        drawn, moved = masses(law, shift, reach)
        both = (drawn > 0) & (moved > 0)
        steps = np.floor(np.log(drawn[both] / moved[both]) / GRID).astype(int)
        least = int(steps.min())
        row = np.zeros(int(steps.max()) - least + 1)
        np.add.at(row, steps - least, drawn[both])
        size = len(total) + len(row) - 1
        fast = 1 << (size - 1).bit_length()
        total = np.fft.irfft(np.fft.rfft(total, fast) * np.fft.rfft(row, fast), fast)[:size]
        offset += least
        never *= 1 - drawn[(drawn > 0) & (moved == 0)].sum()
    losses = (offset + np.arange(len(total))) * GRID
    above = losses > epsilon
    return 1 - never + float((total[above] * -np.expm1(epsilon - losses[above])).sum())


def renyi(law: NoiseLaw, shifts: list[int], order: float, reach: int, but_for: float = 0) -> float:
    """The Renyi divergence of this order between the neighbours, over all entries.

    Outcomes that only one of them has may be left out if their probability, over all entries, is at
    most `but_for`: then it is the divergence of the rest. Otherwise it is infinite.
    """
    found, never = 0.0, 1.0
    for shift in shifts:
        drawn, moved = masses(law, shift, reach)
        both = (drawn > 0) & (moved > 0)
        left = float(drawn[both].sum()) if (drawn[~both] > 0).any() else 1.0
        never *= left
        powers = order * np.log(drawn[both]) - (order - 1) * np.log(moved[both])
        found += float(np.log(np.exp(powers).sum() / left)) / (order - 1)
    return found if 1 - never <= but_for * (1 + 1e-9) else math.inf


def reach_of(law: NoiseLaw) -> int:
    """What is drawn at most, or beyond it with a probability below 2^-64: by the law alone."""
    if law.largest_draw is not None:
        return law.largest_draw
    reach = 1
    while (tail := law.upper_tail(reach)) is not None and to_float(tail) > 2.0**-64:
        reach *= 2
    return reach
