"""A mixture of products, fitted to noised tables and stopped when it is as far off as the noise.

    p(x) = sum over k of w_k * product over i of theta_ki(x_i)

Both w and theta are softmaxes of what is fitted, by Adam. A fit that goes on beyond the noise
learns the noise; the average of several fits from different beginnings is better than any of them.

Source: [ABKKMRS21] fit mixtures of products, and [MSM19] state the aim.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy as np

from aggregator.steward.survey.synthetic.routes import Allowed
from aggregator.steward.survey.synthetic.tables import Floats, Released

COMPONENTS = 100
_MORE_COMPONENTS = 200
_OF_A_ROUTE = 10
_FITS = 5
_STEPS = 4000
_SLOW_FROM = 2800
_RATE, _SLOW_RATE = 0.05, 0.01
_DECAYS = 0.9, 0.99
_SPREAD = 0.3
_NEVER = -1e9
_SLACK = 4
"""How many standard deviations the distance from the tables may be above 1."""


@dataclasses.dataclass(frozen=True, eq=False)
class Target:
    """What is fitted: shares of pairs and of single answers, each with its weight.

    Attributes:
        starts: The first entry of each column, and the number of entries.
        pairs: The shares of pairs of entries, symmetric.
        pair_weights: The inverse of their variances; 0 where nothing is known.
        ones: The shares of entries.
        weights: The inverse of their variances.
        cells: How many released cells there are.
    """

    starts: Sequence[int]
    pairs: Floats
    pair_weights: Floats
    ones: Floats
    weights: Floats
    cells: int

    @classmethod
    def of(cls, released: Released) -> "Target":
        """Return the target of released counts."""
        layout, people = released.layout, released.people
        starts = [0, *np.cumsum(layout.sizes).tolist()]
        entries = starts[-1]
        pairs, pair_weights = np.zeros((entries, entries)), np.zeros((entries, entries))
        own, of_pairs = layout.variances
        for pair, table, variance in zip(layout.pairs, released.tables, of_pairs, strict=True):
            rows = slice(starts[pair.of], starts[pair.of + 1])
            columns = slice(starts[pair.by], starts[pair.by + 1])
            pairs[rows, columns], pairs[columns, rows] = table / people, table.T / people
            pair_weights[rows, columns] = pair_weights[columns, rows] = people**2 / variance
        weights = np.repeat(people**2 / own, layout.sizes)
        cells = entries + sum(table.size for table in released.tables)
        return cls(
            starts, pairs, pair_weights, np.concatenate(released.ones) / people, weights, cells
        )

    def distance(self, logits: Floats, of_entries: Floats) -> tuple[float, Floats, Floats]:
        """Return the mean squared distance in units of the noise, and its gradient.

        Args:
            logits: Of the components.
            of_entries: The logits of each component's entries.
        """
        w, theta = softmax(logits), self.shares(of_entries)
        weighted = w[:, None] * theta
        off, off_one = theta.T @ weighted - self.pairs, w @ theta - self.ones
        residual, residual_one = self.pair_weights * off, self.weights * off_one
        distance = (residual * off).sum() / 2 + (residual_one * off_one).sum()
        mixed = theta @ residual
        of_theta = 2 * w[:, None] * (mixed + residual_one)
        of_w = (mixed * theta).sum(axis=1) + 2 * theta @ residual_one
        inner = np.add.reduceat(of_theta * theta, self.starts[:-1], axis=1)
        gradient = theta * (of_theta - np.repeat(inner, np.diff(self.starts), axis=1))
        own = w * (of_w - w @ of_w)
        return float(distance) / self.cells, own / self.cells, gradient / self.cells

    def shares(self, of_entries: Floats) -> Floats:
        """Return the shares of the logits of each component's entries, column by column."""
        sizes = np.diff(self.starts)
        most = np.maximum.reduceat(of_entries, self.starts[:-1], axis=1)
        grown = np.exp(of_entries - np.repeat(most, sizes, axis=1))
        whole = np.add.reduceat(grown, self.starts[:-1], axis=1)
        return np.asarray(grown / np.repeat(whole, sizes, axis=1))


@dataclasses.dataclass(frozen=True, eq=False)
class Mixture:
    """A mixture of products.

    Attributes:
        starts: As of the target.
        weights: Of the components; they add up to 1.
        shares: For each component, the shares of the entries of each column.
        misfit: The mean squared distance from the released cells, in units of the noise: the
            largest of its fits.
        is_far: Whether that is more than chance would do.
    """

    starts: Sequence[int]
    weights: Floats
    shares: Floats
    misfit: float
    is_far: bool

    def of_column(self, column: int) -> Floats:
        """Return, for each component, the shares of one column."""
        return self.shares[:, self.starts[column] : self.starts[column + 1]]

    @cached_property
    def ones(self) -> Floats:
        """The shares of all entries."""
        return np.asarray(self.weights @ self.shares)

    def one(self, column: int) -> Floats:
        """Return the shares of a column."""
        return self.ones[self.starts[column] : self.starts[column + 1]]

    def pair(self, of: int, by: int) -> Floats:
        """Return the shares of the pairs of two columns."""
        return np.asarray((self.weights[:, None] * self.of_column(of)).T @ self.of_column(by))

    def apart(self, columns: Sequence[int]) -> "Mixture":
        """Return the mixture with some columns made independent of all others."""
        shares = self.shares.copy()
        for column in columns:
            shares[:, self.starts[column] : self.starts[column + 1]] = self.one(column)
        return dataclasses.replace(self, shares=shares)

    def share(self, entries: Mapping[int, int]) -> float:
        """Return the share of people with all of some entries, one for each named column."""
        product = self.weights
        for column, entry in entries.items():
            product = product * self.of_column(column)[:, entry]
        return float(product.sum())


def fitted(
    released: Released,
    beginning: Sequence[Floats],
    allowed: Sequence[Allowed],
    generator: Callable[[int], np.random.Generator],
) -> Mixture:
    """Return the average of five fits.

    Args:
        released: What is fitted.
        beginning: The shares of each column with which components begin, all above 0.
        allowed: What each route allows.
        generator: Returns the randomness of each fit, by its number.
    """
    target = Target.of(released)
    limit = 1 + _SLACK * (2 / target.cells) ** 0.5
    logits = np.log(np.concatenate(beginning))
    found = list[tuple[float, Floats, Floats]]()
    for components in (COMPONENTS, _MORE_COMPONENTS):
        each = max(_OF_A_ROUTE, components // len(allowed))
        masks = np.repeat(np.array(allowed), each, axis=0)
        found = [_fit(target, logits, masks, generator(number)) for number in range(_FITS)]
        if max(distance for distance, _, _ in found) <= limit:
            break
    misfit = max(distance for distance, _, _ in found)
    weights = np.concatenate([w for _, w, _ in found]) / _FITS
    shares = np.concatenate([theta for _, _, theta in found])
    return Mixture(target.starts, weights, shares, misfit, misfit > limit)


def _fit(
    target: Target, logits: Floats, masks: Allowed, generator: np.random.Generator
) -> tuple[float, Floats, Floats]:
    """Return how far a fit ended from its target, its weights and its shares."""
    spread = _SPREAD * generator.standard_normal(masks.shape)
    values = [np.zeros(len(masks)), np.where(masks, logits + spread, _NEVER)]
    first, second = ([np.zeros_like(each) for each in values] for _ in range(2))
    slow, fast = _DECAYS
    step = 0
    while True:
        distance, *gradients = target.distance(*values)
        if distance <= 1 or step == _STEPS:
            return distance, softmax(values[0]), target.shares(values[1])
        step += 1
        rate = _RATE if step <= _SLOW_FROM else _SLOW_RATE
        for at, gradient in enumerate(gradients):
            first[at] += (1 - slow) * (gradient - first[at])
            second[at] += (1 - fast) * (gradient**2 - second[at])
            size = np.sqrt(second[at] / (1 - fast**step)) + 1e-12
            values[at] -= rate * (first[at] / (1 - slow**step)) / size


def softmax(logits: Floats) -> Floats:
    """Return the shares of logits."""
    grown = np.exp(logits - logits.max())
    return np.asarray(grown / grown.sum())
