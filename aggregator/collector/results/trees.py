"""Sums over the leaves of a hierarchy whose every node was counted: regions, or ranges of numbers.

Each level was released with noise of its own, so a sum over leaves can be read from many sets of
nodes. The best is the weighted least squares estimate under which every node is the sum of its
children; it weighs each node by the variance of its noise. It is linear, so its noise has an exact
law. Two passes give all estimates; run backwards they give the coefficients of one.

The coefficients of inner nodes are rounded to binary fractions and those of leaves follow from
them, so that every estimate is unbiased to the last digit. That the estimate of a node is the sum
of those of its children holds up to the rounding, 10^-6 of the counts.

Source: [HRMS10], Section 4, for noise of one variance; with weights by the same two passes.
"""

import dataclasses
import itertools
from collections.abc import Collection, Sequence
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

from aggregator.collector.results.values import Exact, Noised, check_noised, combination
from aggregator.dp.decimals import integer_in
from aggregator.errors import ParameterError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from aggregator.dp.spectrum import Floats

    Ints = NDArray[np.int64]

_BITS = 20
"""The binary digits after the point that coefficients of inner nodes are rounded to."""


@dataclasses.dataclass(frozen=True, eq=False)
class Tree:
    """A hierarchy of noised counts.

    Attributes:
        levels: From the top to the leaves, each level's nodes in order. One level may be enough.
        parents: For each level but the first, each node's parent: its place in the level above.
        report_count: How many reports there are under all top nodes, if that is public.
    """

    levels: Sequence[Sequence[Noised]]
    parents: Sequence[Sequence[int]]
    report_count: int | None = None

    @classmethod
    def regular(cls, levels: Sequence[Sequence[Noised]], report_count: int | None = None) -> "Tree":
        """Return the tree in which the nodes of each level have equally many children, in order.

        Raises `ParameterError` if a level is no multiple of the one above.
        """
        parents = []
        for above, below in itertools.pairwise(levels):
            if not above or len(below) % len(above):
                raise ParameterError(
                    f"levels: {len(below)} nodes are no multiple of the {len(above)} above them"
                )
            branches = len(below) // len(above)
            parents.append([node // branches for node in range(len(below))])
        return cls(levels, parents, report_count)

    def __post_init__(self) -> None:
        if not self.levels or not all(self.levels):
            raise ParameterError("levels: there must be at least one, and each must have nodes")
        if len(self.parents) != len(self.levels) - 1:
            raise ParameterError(
                f"parents: each of the {len(self.levels)} levels but the first needs its own"
            )
        for depth, (above, below, parents) in enumerate(
            zip(self.levels[:-1], self.levels[1:], self.parents, strict=True), start=1
        ):
            if len(parents) != len(below) or set(parents) != set(range(len(above))):
                raise ParameterError(
                    f"parents of level {depth}: each node must have one of the {len(above)} above, "
                    "and each of those must have a node"
                )
        check_noised(*itertools.chain.from_iterable(self.levels))
        if self.report_count is not None:
            integer_in(self.report_count, "report_count", 1, None)

    def range(self, first: int, last: int, *, label: str = "") -> Noised:
        """Return how many lie in the leaves from `first` to `last`, both included."""
        return self.leaves(range(first, last + 1), label=label)

    def node(self, level: int, index: int) -> Noised:
        """Return the consistent estimate of one node: it is the sum of those of its children."""
        inside = [node == index for node in range(len(self.levels[level]))]
        for parents in self.parents[level:]:
            inside = [inside[parent] for parent in parents]
        leaves = [leaf for leaf, is_inside in enumerate(inside) if is_inside]
        return self.leaves(leaves, label=self.levels[level][index].label)

    def leaves(self, leaves: Collection[int], *, label: str = "") -> Noised:
        """Return how many lie in a set of leaves together, or raise `ParameterError`."""
        import numpy as np

        size, chosen = len(self.levels[-1]), set(leaves)
        if any(not 0 <= leaf < size for leaf in chosen):
            raise ParameterError(f"leaves must be from 0 to {size - 1}, not {sorted(chosen)}")
        wanted = np.zeros(size)
        wanted[list(chosen)] = 1
        root, weights = self._weights(wanted)
        exact_root = _rounded(root)
        # The part of each leaf that the coefficients of the nodes above it already count.
        counted = [exact_root] * len(self.levels[0])
        parts: list[tuple[Noised, Exact]] = [(Noised.exact(self.report_count or 0), exact_root)]
        for nodes, weights_of, parents in zip(
            self.levels[:-1], weights[:-1], self.parents, strict=True
        ):
            exact = [_rounded(weight) for weight in weights_of]
            parts += zip(nodes, exact, strict=True)
            counted = [counted[parent] + exact[parent] for parent in parents]
        rest = [Fraction(leaf in chosen) - above for leaf, above in enumerate(counted)]
        parts += zip(self.levels[-1], rest, strict=True)
        return combination(parts, label=label, unit=self.levels[-1][0].unit)

    def _weights(self, wanted: "Floats") -> "tuple[float, list[Floats]]":
        """Return the coefficients of the root and of every level's nodes in a sum over leaves.

        The two passes run backwards: first what of the sum hangs on each estimate from below, then
        what of it hangs on each count.
        """
        above, own, shares = self._passes
        on_estimates, hangs = [], wanted
        for parents, shared in zip(reversed(above), reversed(shares), strict=True):
            from_children = _added_up(parents, hangs * shared)
            on_estimates.append(hangs - from_children[parents])
            hangs = from_children
        weights = []
        for parents, part, on in zip(above, own, reversed(on_estimates), strict=False):
            weights.append(part * hangs)
            hangs = on + ((1 - part) * hangs)[parents]
        return float(weights[0][0]), [*weights[1:], hangs]

    @cached_property
    def _passes(self) -> "tuple[list[Ints], list[Floats], list[Floats]]":
        """Return each level's parents, each node's weight of its own count, and its share.

        Upwards, a node's own count and the sum of its children are each weighted by the other's
        variance; `own` begins with the root, whose count is exact or unknown, and leaves have none
        but their own. Downwards, what a parent differs by from the sum of its children is shared
        out by their variances.
        """
        import numpy as np

        above = [np.zeros(len(self.levels[0]), np.int64)]
        above += [np.array(parents, np.int64) for parents in self.parents]
        variances = [np.array([node.law.variance() for node in level]) for level in self.levels]
        own: list[Floats] = []
        shares: list[Floats] = []
        below = variances[-1]
        for depth in range(len(self.levels) - 1, -1, -1):
            of_children = _added_up(above[depth], below)
            # Children that are known exactly share the difference, which is then 0, equally.
            alike = 1 / _added_up(above[depth], np.ones_like(below))[above[depth]]
            shares.insert(0, _quotient(below, of_children[above[depth]], alike))
            if depth:
                both = of_children + variances[depth - 1]
                own.insert(0, _quotient(of_children, both, np.ones_like(both)))
                below = own[0] * variances[depth - 1]
        own.insert(0, np.array([0.0 if self.report_count is None else 1.0]))
        return above, own, shares


def _added_up(parents: "Ints", values: "Floats") -> "Floats":
    """Return the sum of the values of each parent's children."""
    import numpy as np

    return np.bincount(parents, values).astype(np.float64)


def _quotient(dividend: "Floats", divisor: "Floats", otherwise: "Floats") -> "Floats":
    """Return dividend / divisor, and `otherwise` where that is 0 / 0."""
    import numpy as np

    return np.divide(dividend, divisor, out=otherwise, where=divisor > 0)


def _rounded(weight: float) -> Fraction:
    return Fraction(round(weight * 2**_BITS), 2**_BITS)
