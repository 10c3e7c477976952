"""The routes through a survey allow what people may answer, and nothing else."""

import itertools

import numpy as np
import pytest

from aggregator.client.survey.routing import Needs, Routing
from aggregator.steward.survey.synthetic.routes import MOST_ROUTES, corrected, routes

CASES: dict[str, tuple[list[int], list[Needs]]] = {
    "nobody is left out": ([3, 3], [(), ()]),
    "one condition": ([3, 4], [(), ((0, (0,)),)]),
    "several labels": ([4, 3], [(), ((0, (0, 2)),)]),
    "nested": ([3, 3, 3], [(), ((0, (1,)),), ((1, (0,)),)]),
    "two conditions": ([3, 3, 3], [(), (), ((0, (0,)), (1, (1,)))]),
    "two conditions of which one is nested": (
        [3, 3, 3, 3],
        [(), ((0, (0, 1)),), ((0, (0,)), (1, (1,))), ((2, (0,)),)],
    ),
}


def people_may(sizes: list[int], needs: list[Needs], entries: tuple[int, ...]) -> bool:
    """Whether a person may give these answers: none to what is not asked."""
    answers = [
        None if entry == size - 1 else (entry,) for entry, size in zip(entries, sizes, strict=True)
    ]
    asked = Routing(tuple(needs), {}).asked(answers)
    return all(is_asked or answer is None for is_asked, answer in zip(asked, answers, strict=True))


@pytest.mark.parametrize("name", CASES)
def test_each_possible_answer_has_one_route_and_no_other_has_any(name: str) -> None:
    sizes, needs = CASES[name]
    starts = np.cumsum([0, *sizes])[:-1]
    found = routes(sizes, needs)
    assert found is not None
    for entries in itertools.product(*map(range, sizes)):
        allowing = sum(bool(route[starts + entries].all()) for route in found)
        assert allowing == people_may(sizes, needs, entries), entries


def test_with_too_many_routes_rows_are_corrected_instead() -> None:
    count = MOST_ROUTES.bit_length()
    sizes = [3] * count * 2
    needs: list[Needs] = [()] * count + [((place, (0,)),) for place in range(count)]
    assert routes(sizes, needs) is None
    rows = np.random.default_rng(1).integers(0, 3, (1000, len(sizes)))
    corrected(rows, sizes, needs)
    assert all(people_may(sizes, needs, tuple(row)) for row in rows)
    assert (rows[:, count:] < 2).any()
