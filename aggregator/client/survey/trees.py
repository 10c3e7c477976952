"""Hierarchies of labels or of ranges, all of whose leaves are equally deep."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from aggregator.client.survey.alternatives import Alternatives, Labels
from aggregator.client.survey.numbers import Ranges, exact


@dataclasses.dataclass(frozen=True, slots=True)
class Levels:
    """The levels of a hierarchy, the top first.

    Attributes:
        alternatives: What people answer: one of the leaves.
        labels: Of each level, the labels of its nodes.
        parents: Of each level but the first, the node above that each of its nodes belongs to.
    """

    alternatives: Alternatives
    labels: Sequence[Sequence[str]]
    parents: Sequence[Sequence[int]]

    @property
    def sizes(self) -> list[int]:
        """How many nodes each level has."""
        return [len(level) for level in self.labels]

    @property
    def paths(self) -> list[list[int]]:
        """Of each level, the node to which each leaf belongs."""
        paths = [list(range(len(self.labels[-1])))]
        for above in reversed(self.parents):
            paths.insert(0, [above[place] for place in paths[0]])
        return paths


def levels_of(asked: Mapping[str, Any], most: int) -> Levels:
    """Return the levels of a question that a meaning, which may be hostile, asks.

    It may have up to `most` leaves. Raises as `question_of` if it is no hierarchy.
    """
    if asked["regions"]:
        return _regions(asked["regions"])
    leaves, branches = int(asked["leaves"]), int(asked["branches"])
    if not 1 <= leaves <= most or branches < 2:  # noqa: PLR2004  one branch leads nowhere
        raise ValueError("not a tree")
    low, high = exact(asked["low"]), exact(asked["high"])
    edges = [low + (high - low) * place / leaves for place in range(leaves + 1)]
    clips = bool(asked["clip"])
    levels = [Ranges(edges, clips)]
    while len(levels[0].edges) - 1 > branches:
        *others, last = levels[0].edges
        levels.insert(0, Ranges([*others[::branches], last], clips))
    labels = [level.choices for level in levels]
    parents = [[place // branches for place in range(len(each))] for each in labels[1:]]
    return Levels(levels[-1], labels, parents)


def _regions(regions: Sequence[Mapping[str, Any]]) -> Levels:
    level, labels, parents = list(regions), [texts([each["label"] for each in regions])], []
    while level[0]["below"]:
        parents.append([place for place, region in enumerate(level) for _ in region["below"]])
        level = [below for region in level for below in region["below"]]
        labels.append(texts([each["label"] for each in level]))
    return Levels(Labels(labels[-1]), labels, parents)


def texts(labels: Sequence[object]) -> list[str]:
    """Return labels, or raise TypeError if one is no text."""
    if not all(isinstance(label, str) for label in labels):
        raise TypeError("not labels")
    return [str(label) for label in labels]
