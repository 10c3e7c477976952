"""When a synthetic table is useless: said beforehand by tau, and afterwards by z, at no epsilon.

Both limits of each are fits to three sets of made-up and real answers (docs/synthetic.md).
"""

import dataclasses

import numpy as np

from aggregator.steward.survey.synthetic.agreement import Agreed, deviations, interaction
from aggregator.steward.survey.synthetic.tables import Layout, Released

USEFUL_TAU, USELESS_TAU = 10, 25
"""Points that noise alone may put into a pair: up to the first it is useful, above the second
useless."""

USELESS_Z, USEFUL_Z = 5, 20
"""How far what pairs show must stand out: below the first it is useless, from the second useful."""

_MEAN_SIZE = (2 / np.pi) ** 0.5
"""The mean size of normal noise, in standard deviations."""

_PERCENT = 100


@dataclasses.dataclass(frozen=True, slots=True)
class Foretold:
    """What can be said of a synthetic table before anybody has answered.

    Attributes:
        points: What tau is for one person, in points.
    """

    points: float

    @classmethod
    def of(cls, layout: Layout) -> "Foretold":
        """Return it for a layout, which has pairs."""
        sizes = layout.sizes
        cells = np.array([sizes[each.of] * sizes[each.by] for each in layout.pairs])
        # Half of the sum of sizes is the total variation.
        return cls(float(_PERCENT * _MEAN_SIZE / 2 * (cells * deviations(layout)).mean()))

    def tau(self, people: int) -> float:
        """Return the mean total variation, in points, that noise alone causes in a pair."""
        return self.points / people

    @property
    def useful_from(self) -> int:
        """From how many people a window the table is useful."""
        return int(np.ceil(self.points / USEFUL_TAU))

    @property
    def useless_below(self) -> int:
        """Below how many people a window it is useless."""
        return int(np.ceil(self.points / USELESS_TAU))


def found_between(released: Released, made: Agreed) -> float:
    """Return z: how far pairs stand out from noise and from independent answers.

    It is about 0 if answers are independent, with a deviation of about 1. Pairs are left out that
    depend on each other because of who is asked; if no others are left, none is.
    """
    layout, people = released.layout, released.people
    shares = [np.maximum(each, 0) / np.maximum(each, 0).sum() for each in made.ones]
    filters = layout.filters
    places = [
        place
        for place, pair in enumerate(layout.pairs)
        if pair.of not in filters[pair.by]
        and pair.by not in filters[pair.of]
        and not (filters[pair.of] and filters[pair.by])
    ] or range(len(layout.pairs))
    off = expected = 0.0
    freedom = 0
    _, variances = layout.variances
    for place in places:
        pair, table, variance = layout.pairs[place], released.tables[place], variances[place]
        of, by = made.ones[pair.of], made.ones[pair.by]
        left = interaction(table - np.outer(of, by) / people)
        off += float((left**2).sum()) / variance
        spread = (1 - shares[pair.of] @ shares[pair.of]) * (1 - shares[pair.by] @ shares[pair.by])
        expected += float(spread) * people / variance
        freedom += (table.shape[0] - 1) * (table.shape[1] - 1)
    return float((off - freedom - expected) / (2 * freedom) ** 0.5)
