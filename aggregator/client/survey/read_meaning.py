"""Reads the questions of a survey from its task's `meaning`, which says what its numbers mean.

That text is bound into the task, and a client derives everything from it: an application that is
given labels in another order has another task, in which no report opens. It is read here without
the models that a steward checks it with, which take long to import.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aggregator.client.survey.alternatives import Alternatives, Labels, Points, YesNo
from aggregator.client.survey.answers import Amount, Amounts, One, Question, Some, ones_at
from aggregator.client.survey.numbers import Grid, Ranges, exact
from aggregator.client.survey.trees import levels_of, texts

VERSION = 2
"""The version of meanings that are read here."""

NOT_A_MEANING = (
    LookupError,
    TypeError,
    ValueError,
    ArithmeticError,
    AttributeError,
    RecursionError,
)
"""What is raised when another text is read."""

_Asked = Mapping[str, Any]
"""A question as a meaning writes it."""


def question_of(asked: _Asked, design: str, most: int) -> Question:
    """Return the question that a meaning, which may be hostile, asks in a design.

    It may have up to `most` entries. Raises one of `NOT_A_MEANING` if it is no question.
    """
    return _WAYS[asked["kind"], design](str(asked["name"]), asked, most)


def _choice(name: str, asked: _Asked, most: int) -> Question:
    labels = texts(asked["labels"])
    return _one(name, Labels(labels), [len(labels)], most)


def _yes_no(name: str, _: _Asked, most: int) -> Question:
    return _one(name, YesNo(), [2], most)


def _scale(name: str, asked: _Asked, most: int) -> Question:
    low, high = int(asked["low"]), int(asked["high"])
    return _one(name, Points(low, high, texts(asked["labels"])), [high - low + 1], most)


def _bins(name: str, asked: _Asked, most: int) -> Question:
    edges = [exact(edge) for edge in asked["edges"]]
    return _one(name, Ranges(edges, bool(asked["clip"])), [len(edges) - 1], most)


def _leaves(name: str, asked: _Asked, most: int) -> Question:
    levels = levels_of(asked, most)
    return _one(name, levels.alternatives, levels.sizes[-1:], most)


def _every_level(name: str, asked: _Asked, most: int) -> Question:
    levels = levels_of(asked, most)
    return _one(name, levels.alternatives, levels.sizes, most, levels.paths)


def _multiple(name: str, asked: _Asked, most: int) -> Question:
    labels = texts(asked["labels"])
    length = _bounded(len(labels) + 1, most)
    at_most = int(asked["at_most"] or len(labels))
    nothing = ones_at([len(labels)], length)
    return Some(name=name, nothing=nothing, labels=Labels(labels), most=at_most)


def _sums_of_powers(powers: int) -> "_Way":
    def way(name: str, asked: _Asked, _: int) -> Question:
        nothing = ones_at([1], 2 + powers)
        return Amount(name=name, nothing=nothing, grid=_grid(asked), powers=powers)

    return way


def _each_value(name: str, asked: _Asked, most: int) -> Question:
    grid = _grid(asked)
    length = _bounded(grid.steps + 2, most)
    return Amount(name=name, nothing=ones_at([length - 1], length), grid=grid, powers=0)


def _vector(name: str, asked: _Asked, _: int) -> Question:
    grids = {str(column["name"]): _grid(column) for column in asked["column"]}
    return Amounts(name=name, nothing=ones_at([1], 2 + len(grids)), grids=grids)


_Way = Callable[[str, _Asked, int], Question]
_WAYS: Mapping[tuple[str, str], _Way] = {
    ("choice", "one answer"): _choice,
    ("yes-no", "one answer"): _yes_no,
    ("scale", "histogram"): _scale,
    ("bins", "histogram"): _bins,
    ("tree", "leaves"): _leaves,
    ("tree", "every level"): _every_level,
    ("multiple", "several answers"): _multiple,
    ("number", "sum"): _sums_of_powers(1),
    ("number", "sum and squares"): _sums_of_powers(2),
    ("number", "histogram"): _each_value,
    ("vector", "sums"): _vector,
}
"""By the kind of a question and the name of its design."""


def _one(
    name: str,
    alternatives: Alternatives,
    sizes: Sequence[int],
    most: int,
    paths: Sequence[Sequence[int]] | None = None,
) -> One:
    """Return a question with a section for each level of its answers.

    `sizes` is the number of nodes of each level; `paths` has, of each level, the node in which each
    answer is counted, and is left out if there is one level, of the answers themselves.
    """
    _bounded(sum(sizes) + len(sizes), most)
    if len(alternatives.choices) != sizes[-1]:
        raise ValueError("not a label for each")
    *starts, length = [0, *itertools.accumulate(size + 1 for size in sizes)]
    nodes = zip(*(paths or [range(sizes[-1])]), strict=True)
    return One(
        name=name,
        nothing=ones_at([start + size for start, size in zip(starts, sizes, strict=True)], length),
        alternatives=alternatives,
        ones=[[start + at for start, at in zip(starts, path, strict=True)] for path in nodes],
        lengths=[size + 1 for size in sizes],
    )


def _grid(asked: Mapping[str, Any]) -> Grid:
    return Grid.of(asked["low"], asked["high"], asked["step"], clips=bool(asked["clip"]))


def _bounded(count: int, most: int) -> int:
    # A few bytes of a hostile meaning could otherwise ask for any amount of memory.
    if not 1 <= count <= most:
        raise ValueError("not of this task")
    return count
