"""Questions about the leaves of a hierarchy."""

import itertools
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from typing_extensions import override

from aggregator.client.survey.numbers import Grid
from aggregator.client.survey.trees import Levels, levels_of
from aggregator.client.table_files.cells import Cell
from aggregator.client.table_files.laws import number_of
from aggregator.collector.results import Tree
from aggregator.steward.survey.designs import NO_ANSWER, Design, Figure, Sums
from aggregator.steward.survey.exact import Exact
from aggregator.steward.survey.questions.base import NumberField, Question, check_labels, shares
from aggregator.steward.survey.said import Own, Said

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

    is_answered_by: ClassVar = "A place in a hierarchy"
    planned_by: ClassVar = ("regions",)

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
        given = self.low, self.high, self.leaves
        if self.regions and given == (None, None, None):
            depths = {_depth(region) for region in self.regions}
            if len(depths) != 1 or None in depths:
                raise ValueError("regions: every branch must have the same depth")
            check_labels(self.levels.labels[-1])
            check_labels([name for level in _told_apart(self.levels) for name in level])
        elif self.regions or self.low is None or self.high is None or self.leaves is None:
            raise ValueError("tree: needs either regions, or low, high and leaves")
        elif self.high <= self.low:
            raise ValueError(f"high: must be above low ({self.low}), not {self.high}")
        elif self.leaves < 2:  # noqa: PLR2004 - one leaf is no tree
            raise ValueError(f"leaves: must be at least 2, not {self.leaves}")
        if (self.leaves or len(self.levels.labels[-1])) > _MOST_LEAVES:
            raise ValueError(f"tree: may have at most {_MOST_LEAVES:,} leaves")
        return self

    @cached_property
    def levels(self) -> Levels:
        """Its levels, the top first."""
        return levels_of(self.model_dump(mode="json"), _MOST_LEAVES)

    @property
    @override
    def choices(self) -> Sequence[str]:
        return ()  # clients take no condition on a leaf if every level is asked

    @property
    @override
    def labels_in_tables(self) -> Sequence[str]:
        return self.levels.labels[-1]

    @property
    @override
    def options(self) -> Sequence[Own | Said]:
        return [Own(each) for each in _full_names(self.levels)[-1]] if self.regions else ()

    @property
    @override
    def number_fields(self) -> Sequence[NumberField]:
        match self:
            case Hierarchy(low=Fraction() as low, high=Fraction() as high, leaves=int() as leaves):
                grid = Grid(low, (high - low) / leaves, leaves, self.clip)
                return (NumberField(grid, self.unit, is_in_range=True),)
            case _:
                return ()

    @override
    def given(self, cells: Sequence[Cell], decimal_mark: str) -> object:
        label = self.label_in(cells[0], decimal_mark)
        if self.regions:
            return label
        if label in self.labels_in_tables:
            (field,) = self.number_fields
            return field.grid.low + field.grid.step * self.labels_in_tables.index(label)
        return number_of(cells[0], decimal_mark)

    @override
    def designs(self) -> tuple[Design, ...]:
        labels, parents = self.levels.labels, self.levels.parents
        # Ranges with the same name are the same range.
        names = _told_apart(self.levels) if self.regions else labels

        def from_leaves(sums: Sums) -> list[Figure]:
            return _nodes(Tree([sums.released[:-1]], []), names, self.levels.paths, sums)

        def from_all(sums: Sums) -> list[Figure]:
            entries = iter(sums.released)
            # The last entry of a level is no answer.
            levels = [list(itertools.islice(entries, len(each) + 1))[:-1] for each in labels]
            return _nodes(Tree(levels, parents), names, self.levels.paths, sums)

        ways = [self.labelled("leaves", from_leaves, names[-1])]
        if parents:
            name, extremes = "every level", ((0,), (len(labels[-1]) - 1,))
            ways.append(Design(name, self.client_question(name), from_all, extremes))
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


def _told_apart(levels: Levels) -> list[list[str]]:
    """Return each level's names: labels, with everything above them where a label repeats."""
    count = Counter(itertools.chain.from_iterable(levels.labels))
    return [
        [label if count[label] == 1 else name for label, name in zip(level, names, strict=True)]
        for level, names in zip(levels.labels, _full_names(levels), strict=True)
    ]


def _full_names(levels: Levels) -> list[list[str]]:
    """Return each level's labels with everything above them."""
    full = [list(levels.labels[0])]
    for level, above in zip(levels.labels[1:], levels.parents, strict=True):
        full.append(
            [f"{full[-1][place]} / {label}" for label, place in zip(level, above, strict=True)]
        )
    return full


def _depth(region: Region) -> int | None:
    """Return how many levels are below a node; None if they differ."""
    depths = {_depth(below) for below in region.below}
    if not depths:
        return 0
    depth = depths.pop()
    return None if depths or depth is None else depth + 1
