"""The joint fit of found strings: what each adds to the buckets of all tasks.

A count is spread over the tasks, so a string's bucket holds 1/`tasks` of it in each; buckets less
their mean are fitted to that by least squares. A table has a row for each task, less its mean.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from aggregator.client.text.hashing import TextHashes
from aggregator.steward.text.candidates import Prints
from aggregator.steward.text.laws import Floats

_LEAST_FREE: Final = 10
"""Noise is measured in buckets without a found string, if more than one in this many is one."""


class Fit:
    """Strings that are fitted together, by their fingerprints."""

    def __init__(self, hashes: TextHashes, prints: Prints) -> None:
        self._tasks, self._width = hashes.tasks, hashes.buckets
        self._buckets = [hashes.string_buckets(task, prints) for task in range(hashes.tasks)]
        shared = np.full((len(prints), len(prints)), -self._tasks / self._width)
        for mine in self._buckets:
            shared += mine[:, None] == mine[None, :]
        self.inverse: Floats = np.linalg.inv(shared)

    def parts(self, table: Floats) -> Floats:
        """Return how much of each string is in one task."""
        seen = np.zeros(len(self.inverse))
        for row, mine in zip(table, self._buckets, strict=True):
            seen += row[mine]
        return self.inverse @ seen

    def left(self, table: Floats, parts: Floats) -> Floats:
        """Return what is left of a table if these parts are subtracted."""
        held = np.array([np.bincount(mine, parts, self._width) for mine in self._buckets])
        return np.asarray(table - held + held.mean(axis=1, keepdims=True), np.float64)

    def quiet(self) -> npt.NDArray[np.bool_]:
        """Return the buckets without a found string; all of them if those are too few."""
        free = np.ones((self._tasks, self._width), np.bool_)
        for row, mine in zip(free, self._buckets, strict=True):
            row[mine] = False
        return free if free.sum() > free.size / _LEAST_FREE else np.ones_like(free)

    def gains(self) -> tuple[Floats, Floats]:
        """Return what each part gains from one more person of each string, summed over the tasks.

        A row is for the string that has one more, a column for the part. The second is the sum of
        the squares.
        """
        total, squares = np.zeros_like(self.inverse), np.zeros_like(self.inverse)
        for mine in self._buckets:
            used, places = np.unique(mine, return_inverse=True)
            by_bucket = np.zeros((len(used), len(mine)))
            np.add.at(by_bucket, places, self.inverse)
            added = by_bucket[places]
            total += added
            squares += added**2
        return total, squares
