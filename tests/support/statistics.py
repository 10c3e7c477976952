"""Goodness of fit of a stated size: the correct law exceeds the limit once in 10^9 times."""

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

SIX_SIGMA = 6.0
"""One-sided false-alarm rate about 10^-9."""


def chi_square_limit(degrees: int, sigmas: float = SIX_SIGMA) -> float:
    """Wilson-Hilferty: the chi-square quantile at this many standard deviations."""
    spread = 2 / (9 * degrees)
    return degrees * (1 - spread + sigmas * math.sqrt(spread)) ** 3


def cells_of(probability: Callable[[int], float], num_cells: int) -> list[tuple[int, int, float]]:
    """Cut the integers into cells of about equal probability: first, last (inclusive), mass.

    The law is symmetric and unimodal; the outermost cells take the tails.
    """
    reach, total = 0, probability(0)
    masses = {0: total}
    while total < 1 - 1e-3 / num_cells and reach < 3_000_000:
        reach += 1
        masses[reach] = masses[-reach] = probability(reach)
        total += 2 * masses[reach]
    cells, first, mass = [], -reach, 0.0
    for value in range(-reach, reach + 1):
        mass += masses[value]
        if mass >= 1 / num_cells:
            cells.append((first, value, mass))
            first, mass = value + 1, 0.0
    low, _, below = cells[0][0], cells[0][1], sum(cell[2] for cell in cells)
    assert low == -reach
    cells[-1] = (cells[-1][0], reach, cells[-1][2] + (1 - below))
    return cells


def chi_square(
    draws: Sequence[int] | NDArray[np.int64], cells: list[tuple[int, int, float]]
) -> float:
    """Pearson's statistic of the draws against the cells' masses."""
    values = np.asarray(draws)
    edges = np.array([first for first, _, _ in cells[1:]])
    counts = np.bincount(np.searchsorted(edges, values, side="right"), minlength=len(cells))
    expected = np.array([mass for _, _, mass in cells]) * len(values)
    assert expected.min() > 10, "too few draws for so many cells"
    return float(((counts - expected) ** 2 / expected).sum())


def contingency(left: NDArray[np.int64], right: NDArray[np.int64]) -> tuple[float, int]:
    """Chi-square of independence of two equally long samples, each cut at its quintiles."""
    sides = []
    for sample in (left, right):
        edges = np.unique(np.quantile(sample, [0.2, 0.4, 0.6, 0.8]).astype(np.int64))
        sides.append(np.searchsorted(edges, sample, side="left"))
    rows, columns = sides[0].max() + 1, sides[1].max() + 1
    table = np.zeros((rows, columns))
    np.add.at(table, (sides[0], sides[1]), 1)
    expected = table.sum(1, keepdims=True) * table.sum(0, keepdims=True) / len(left)
    return float(((table - expected) ** 2 / expected).sum()), int((rows - 1) * (columns - 1))
