"""Makes columns and pairs agree, in floating point: the estimates of `results.consistency`.

That module has exact values with exact laws; here the same combinations are computed with arrays,
of one release or of many noised copies of it, and their standard deviations by formula.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from aggregator.collector.results.post_processing import project_on_simplex
from aggregator.steward.survey.synthetic.tables import Floats, Layout


@dataclasses.dataclass(frozen=True, eq=False)
class Agreed:
    """Counts that agree: of each column, and of each pair; the last axes are the entries."""

    ones: Sequence[Floats]
    tables: Sequence[Floats]


def agreed(layout: Layout, ones: Sequence[Floats], tables: Sequence[Floats], people: int) -> Agreed:
    """Return the best linear unbiased estimates under which everything agrees.

    Arrays may have more axes in front, such as one for copies.
    """
    own, of_pairs = layout.variances
    sums = [each / variance for each, variance in zip(ones, own, strict=True)]
    weights = [1 / variance for variance in own]
    for pair, table, variance in zip(layout.pairs, tables, of_pairs, strict=True):
        for place, axis in ((pair.of, -1), (pair.by, -2)):
            summed = variance * table.shape[axis]
            sums[place] = sums[place] + table.sum(axis=axis) / summed
            weights[place] += 1 / summed
    deviations = [_centred(each / weight) for each, weight in zip(sums, weights, strict=True)]
    found = []
    for pair, table in zip(layout.pairs, tables, strict=True):
        rows, columns = table.shape[-2:]
        found.append(
            interaction(table)
            + deviations[pair.of][..., :, None] / columns
            + deviations[pair.by][..., None, :] / rows
            + people / (rows * columns)
        )
    return Agreed([each + people / each.shape[-1] for each in deviations], found)


def interaction(table: Floats) -> Floats:
    """Return what is left of a table without its total, rows and columns."""
    rows = table.mean(axis=-1, keepdims=True)
    columns = table.mean(axis=-2, keepdims=True)
    return np.asarray(table - rows - columns + rows.mean(axis=-2, keepdims=True))


def deviations(layout: Layout) -> Floats:
    """Return the standard deviation of the noise in each pair's cells once everything agrees.

    The three parts of a cell are uncorrelated: the interaction, and the deviations of both answers.
    """
    own, of_pairs = layout.variances
    weights = 1 / own
    sizes = layout.sizes
    for pair, variance in zip(layout.pairs, of_pairs, strict=True):
        weights[pair.of] += 1 / (variance * sizes[pair.by])
        weights[pair.by] += 1 / (variance * sizes[pair.of])
    found = []
    for pair, variance in zip(layout.pairs, of_pairs, strict=True):
        rows, columns = sizes[pair.of], sizes[pair.by]
        of_rows = (1 - 1 / rows) / (weights[pair.of] * columns**2)
        of_columns = (1 - 1 / columns) / (weights[pair.by] * rows**2)
        left = variance * (1 - 1 / rows) * (1 - 1 / columns)
        found.append((left + of_rows + of_columns) ** 0.5)
    return np.array(found)


def plausible(counts: Floats, people: int, least: float) -> Floats:
    """Return shares near those of some counts that are at least about `least`, and add up to 1."""
    projected = project_on_simplex([round(each) for each in counts.tolist()], people)
    raised = np.maximum(np.array(projected, dtype=float) / people, least)
    return np.asarray(raised / raised.sum())


def _centred(counts: Floats) -> Floats:
    return np.asarray(counts - counts.mean(axis=-1, keepdims=True))
