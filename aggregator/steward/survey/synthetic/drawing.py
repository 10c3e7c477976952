"""Rows of a mixture: as many as wanted, in each component as near to its shares as whole rows are.

Rows that are drawn independently of each other differ more from the mixture.
"""

import numpy as np
from numpy.typing import NDArray

from aggregator.steward.survey.synthetic.mixture import Mixture
from aggregator.steward.survey.synthetic.tables import Floats

Entries = NDArray[np.int64]


def rows_of(mixture: Mixture, count: int, generator: np.random.Generator) -> Entries:
    """Return rows with an entry for each column, in random order."""
    columns = len(mixture.starts) - 1
    found = np.empty((count, columns), dtype=np.int64)
    first = 0
    for component, size in enumerate(apportioned(mixture.weights, count, generator)):
        for column in range(columns):
            of = apportioned(mixture.of_column(column)[component], int(size), generator)
            labels = np.repeat(np.arange(len(of)), of)
            found[first : first + size, column] = generator.permutation(labels)
        first += int(size)
    return np.asarray(generator.permutation(found))


def apportioned(shares: Floats, count: int, generator: np.random.Generator) -> Entries:
    """Return whole numbers that add up to `count`, each its share rounded up or down.

    Which ones are rounded up is drawn, in proportion to what is left of each.
    """
    exact = shares / shares.sum() * count
    whole: Entries = np.floor(exact + 1e-9).astype(np.int64)
    left = np.maximum(exact - whole, 0)
    missing = count - int(whole.sum())
    if missing:
        # One place in each unit of the remainders' line, all at the same drawn distance.
        order = generator.permutation(len(shares))
        ends = np.cumsum(left[order])
        marks = (np.arange(missing) + generator.random()) * (ends[-1] / missing)
        np.add.at(
            whole, order[np.searchsorted(ends, marks, side="right").clip(0, len(order) - 1)], 1
        )
    return whole
