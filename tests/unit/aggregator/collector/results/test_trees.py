"""Sums over leaves against the least squares estimate by linear algebra."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest

from aggregator.collector.results import Noised, Tree
from aggregator.dp.laws import DiscreteLaplaceLaw, NoiseLaw
from aggregator.errors import ParameterError

SCALES = (4, 8, 2)


def law(level: int, index: int) -> NoiseLaw:
    return DiscreteLaplaceLaw(2, Fraction(SCALES[level] + index % 2))


def level(number: int, values: Sequence[int]) -> list[Noised]:
    return [
        Noised.released(value, law(number, index), (number, index))
        for index, value in enumerate(values)
    ]


def districts(report_count: int | None = None) -> Tree:
    return Tree(
        [level(0, [40, 61]), level(1, [25, 11, 30, 20, 9]), level(2, list(range(1, 17, 2)))],
        [[0, 0, 1, 1, 1], [0, 0, 1, 2, 2, 3, 4, 4]],
        report_count,
    )


def by_least_squares(tree: Tree) -> tuple[np.ndarray, np.ndarray]:
    """The estimates of all leaves and their covariance, from the normal equations."""
    leaves = len(tree.levels[-1])
    rows, values, variances = [], [], []
    for depth, nodes in enumerate(tree.levels):
        below = np.eye(leaves) if depth == len(tree.levels) - 1 else None
        if below is None:
            inside = np.arange(len(nodes))[:, None] == np.arange(len(nodes))
            for parents in tree.parents[depth:]:
                inside = inside[:, list(parents)]
            below = inside.astype(float)
        rows += list(below)
        values += [float(node.value) for node in nodes]
        variances += [node.law.variance() for node in nodes]
    if tree.report_count is not None:
        rows.append(np.ones(leaves))
        values.append(float(tree.report_count))
        variances.append(1e-9)
    design, weights = np.array(rows), 1 / np.array(variances)
    covariance = np.linalg.inv(design.T @ (weights[:, None] * design))
    return covariance @ design.T @ (weights * np.array(values)), covariance


@pytest.mark.parametrize("report_count", [None, 105])
def test_estimates_and_their_variances_are_those_of_weighted_least_squares(
    report_count: int | None,
) -> None:
    tree = districts(report_count)
    estimates, covariance = by_least_squares(tree)
    for leaves in ([0], [7], [2, 3, 4], [0, 1, 2, 5], list(range(8))):
        found = tree.leaves(leaves)
        chosen = np.isin(np.arange(8), leaves).astype(float)
        assert float(found.value) == pytest.approx(chosen @ estimates, abs=1e-3)
        expected = chosen @ covariance @ chosen
        assert found.law.variance() == pytest.approx(expected, abs=1e-3, rel=1e-5)


def test_a_node_is_the_sum_of_its_children() -> None:
    tree = districts()
    for depth, parents in enumerate(tree.parents):
        for node in range(len(tree.levels[depth])):
            children = [child for child, parent in enumerate(parents) if parent == node]
            total = sum((tree.node(depth + 1, child).value for child in children), Fraction(0))
            assert float(tree.node(depth, node).value) == pytest.approx(float(total), abs=1e-3)


def test_every_estimate_is_the_truth_where_all_noise_was_zero_by_chance() -> None:
    leaves = [3, 1, 4, 1, 5, 9, 2, 6]
    halves = [sum(leaves[:4]), sum(leaves[4:])]
    pairs = [sum(leaves[index : index + 2]) for index in range(0, 8, 2)]
    levels = [level(0, halves), level(1, pairs), level(2, leaves)]
    for report_count in (None, sum(leaves)):
        tree = Tree.regular(levels, report_count)
        for first in range(8):
            for last in range(first, 8):
                assert tree.range(first, last).value == sum(leaves[first : last + 1])


def test_a_tree_reads_a_range_with_less_noise_than_its_leaves() -> None:
    tree = Tree.regular([level(0, [50, 50]), level(1, [10] * 10), level(2, [1] * 100)])
    long = tree.range(3, 80)
    assert long.law.variance() < sum(tree.levels[-1][leaf].law.variance() for leaf in range(3, 81))


def test_the_sum_of_all_is_the_public_number_of_reports_without_noise() -> None:
    everything = districts(105).range(0, 7)
    assert everything.value == 105
    assert everything.interval().low == everything.interval().high == 105


def test_one_level_without_a_total_is_its_own_estimate() -> None:
    tree = Tree([level(0, [5, 6, 7])], [])
    assert tree.range(1, 2).terms.keys() == (tree.levels[0][1] + tree.levels[0][2]).terms.keys()
    assert tree.range(1, 2).value == 13


def test_levels_without_noise_decide_alone() -> None:
    exact = [Noised.exact(7), Noised.exact(3)]
    tree = Tree.regular([exact, [Noised.exact(value) for value in (5, 2, 1, 2)]], 10)
    assert tree.node(0, 0).value == 7
    mixed = Tree.regular([exact, level(1, [9, 1, 1, 1])])
    assert mixed.range(0, 1).value == 7
    assert mixed.range(0, 1).interval().high == pytest.approx(7, abs=1e-3)


def test_trees_that_do_not_fit_together_are_refused() -> None:
    with pytest.raises(ParameterError, match="no multiple"):
        Tree.regular([level(0, [1, 2]), level(1, [1, 2, 3])])
    with pytest.raises(ParameterError, match="parents of level 1"):
        Tree([level(0, [1, 2]), level(1, [1, 2, 3])], [[0, 0, 0]])
    with pytest.raises(ParameterError, match="each of the 2 levels but the first"):
        Tree([level(0, [1]), level(1, [1])], [])
    with pytest.raises(ParameterError, match="at least one"):
        Tree([], [])
    with pytest.raises(ParameterError, match="leaves must be from 0 to 7"):
        districts().range(3, 8)
