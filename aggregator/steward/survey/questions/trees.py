"""Questions about the leaves of a hierarchy."""

import itertools
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from typing_extensions import override

from aggregator.collector.results import Tree
from aggregator.steward.survey.cells import Cell, Reading, label
from aggregator.steward.survey.designs import NO_ANSWER, Design, Figure, Sums
from aggregator.steward.survey.exact import Exact
from aggregator.steward.survey.questions.base import (
    Question,
    bin_of,
    check_labels,
    range_labels,
    shares,
)

_MOST_LEAVES = 1024
"""The most leaves: every node's consistent estimate is computed from every count."""


class Region(BaseModel):
    """A node of a hierarchy: its label, and the nodes below it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    label: str = Field(min_length=1)
    below: tuple["Region", ...] = Field(default=(), strict=False)


class Hierarchy(Question):
    """A leaf of a hierarchy: counts of every node, which agree across levels.

    Either `regions` is a hierarchy of labels, equally deep everywhere, or `low`, `high` and
    `leaves` cut a range of numbers into equal parts.

    Attributes:
        regions: The top nodes, each with the nodes below it.
        low: The least possible number.
        high: The largest possible number.
        leaves: How many parts the range is cut into.
        branches: How many ranges of one level make up a range of the next.
        unit: The unit of the number.
        clip: Whether a number beyond the range counts in the nearest leaf; otherwise it is refused.
    """

    kind: Literal["tree"]
    regions: tuple[Region, ...] = Field(default=(), strict=False)
    low: Exact | None = None
    high: Exact | None = None
    leaves: int | None = None
    branches: int = Field(default=4, ge=2)
    unit: str = ""
    clip: bool = False

    @model_validator(mode="after")
    def _check(self) -> "Hierarchy":
        if self.regions and (self.low, self.high, self.leaves) == (None, None, None):
            depths = {_depth(region) for region in self.regions}
            if len(depths) != 1 or None in depths:
                raise ValueError("regions: every branch must have the same depth")
            check_labels(self.levels()[0][-1])
            check_labels([name for level in _told_apart(*self.levels()) for name in level])
        elif self.regions or self._range is None:
            raise ValueError("tree: needs either regions, or low, high and leaves")
        else:
            low, high, leaves = self._range
            if high <= low:
                raise ValueError(f"high: must be above low ({low}), not {high}")
            if leaves < 2:  # noqa: PLR2004 - one leaf is no tree
                raise ValueError(f"leaves: must be at least 2, not {leaves}")
        if len(self.levels()[0][-1]) > _MOST_LEAVES:
            raise ValueError(f"tree: may have at most {_MOST_LEAVES:,} leaves")
        return self

    @property
    def _range(self) -> tuple[Fraction, Fraction, int] | None:
        """The range of a tree of numbers and its number of leaves; None for regions."""
        if self.low is None or self.high is None or self.leaves is None:
            return None
        return self.low, self.high, min(self.leaves, _MOST_LEAVES + 1)

    def levels(self) -> tuple[list[list[str]], list[list[int]]]:
        """Return each level's labels, and for each level but the first, its nodes' parents."""
        if self._range is None:
            return _levels_of_regions(self.regions)
        return _levels_of_ranges(_edges(*self._range), self.branches)

    @property
    def paths(self) -> list[str]:
        """The labels of all leaves, each below those of all regions that it is in."""
        return _full_names(*self.levels())[-1]

    @override
    def read(self, cells: Sequence[Cell], decimal_mark: str = ".") -> Reading:
        if self._range is None:
            return Reading((label(cells[0], self.levels()[0][-1]),))
        return bin_of(cells[0], _edges(*self._range), decimal_mark, clips=self.clip)

    @override
    def designs(self) -> tuple[Design, ...]:
        labels, parents = self.levels()
        # Ranges with the same name are the same range.
        names = labels if self._range is not None else _told_apart(labels, parents)
        leaves = len(labels[-1])
        # Each leaf's index in every level, top first.
        paths = [list(range(leaves))]
        for above in reversed(parents):
            paths.insert(0, [above[place] for place in paths[0]])
        # The first entry of each level: the last of a level is no answer.
        starts = [0, *itertools.accumulate(len(level) + 1 for level in labels)]

        def from_leaves(sums: Sums) -> list[Figure]:
            return _nodes(Tree([sums.released[:-1]], []), names, paths, sums)

        def from_all(sums: Sums) -> list[Figure]:
            levels = [sums.released[low : high - 1] for low, high in itertools.pairwise(starts)]
            return _nodes(Tree(levels, parents), names, paths, sums)

        ways = [self.labelled("leaves", names[-1], from_leaves)]
        if parents:
            name = "every level"
            ways.append(Design(name, self.as_asked(name), from_all, ((0,), (leaves - 1,))))
        return tuple(ways)


def _nodes(
    tree: Tree, labels: Sequence[Sequence[str]], paths: Sequence[Sequence[int]], sums: Sums
) -> list[Figure]:
    figures = []
    everybody = tree.leaves(range(len(labels[-1])), label="answered")
    for level, names in enumerate(labels):
        counts = [
            tree.leaves(
                [leaf for leaf, place in enumerate(paths[level]) if place == node], label=name
            ).named(name)
            for node, name in enumerate(names)
        ]
        figures += [Figure("count", count, is_wanted=True) for count in counts]
        figures += shares(counts, everybody)
    return [*figures, Figure("count", sums.best[-1].named(NO_ANSWER))]


def _told_apart(
    labels: Sequence[Sequence[str]], parents: Sequence[Sequence[int]]
) -> list[list[str]]:
    """Return each level's names: labels, with everything above them where a label repeats."""
    full = _full_names(labels, parents)
    count = Counter(itertools.chain.from_iterable(labels))
    return [
        [label if count[label] == 1 else name for label, name in zip(level, names, strict=True)]
        for level, names in zip(labels, full, strict=True)
    ]


def _full_names(
    labels: Sequence[Sequence[str]], parents: Sequence[Sequence[int]]
) -> list[list[str]]:
    """Return each level's labels with everything above them."""
    full = [list(labels[0])]
    for level, above in zip(labels[1:], parents, strict=True):
        full.append(
            [f"{full[-1][place]} / {label}" for label, place in zip(level, above, strict=True)]
        )
    return full


def _edges(low: Fraction, high: Fraction, leaves: int) -> list[Fraction]:
    return [low + (high - low) * index / leaves for index in range(leaves + 1)]


def _levels_of_ranges(
    edges: Sequence[Fraction], branches: int
) -> tuple[list[list[str]], list[list[int]]]:
    levels = [list(edges)]
    while len(levels[0]) - 1 > branches:
        below = levels[0]
        levels.insert(0, [*below[:-1:branches], below[-1]])
    labels = [range_labels(level) for level in levels]
    return labels, [[place // branches for place in range(len(each))] for each in labels[1:]]


def _levels_of_regions(regions: Sequence[Region]) -> tuple[list[list[str]], list[list[int]]]:
    labels, parents = [[region.label for region in regions]], []
    level = list(regions)
    while level[0].below:
        parents.append([index for index, region in enumerate(level) for _ in region.below])
        level = [below for region in level for below in region.below]
        labels.append([region.label for region in level])
    return labels, parents


def _depth(region: Region) -> int | None:
    """Return how many levels are below a node; None if they differ."""
    depths = {_depth(below) for below in region.below}
    if not depths:
        return 0
    depth = depths.pop()
    return None if depths or depth is None else depth + 1
