"""The routes through a survey: which answers can go together, given who is asked what.

A route decides for each question whether it is asked, and if not, which of its conditions is the
first that fails. It then allows a set of entries of each question, each independently of the
others. So all routes together allow what a person may answer, and nothing else.
"""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from aggregator.client.survey.routing import Needs

MOST_ROUTES = 64
"""With more of them, rows are corrected once they are drawn."""

Allowed: TypeAlias = NDArray[np.bool_]
"""For each entry of each column, in order, whether a route allows it."""


def routes(sizes: Sequence[int], needs: Sequence[Needs]) -> list[Allowed] | None:
    """Return what each route allows; None if there are more than `MOST_ROUTES`.

    Args:
        sizes: How many entries each column has; the last is no answer.
        needs: For each, the earlier columns and their entries of which one must be chosen.
    """
    starts = np.concatenate([[0], np.cumsum(sizes)])
    found = [np.ones(starts[-1], dtype=bool)]
    for column, own in enumerate(needs):
        if not own:
            continue
        made = list[Allowed]()
        for route in found:
            asked = route
            for place, entries in own:
                wanted = np.zeros_like(route)
                wanted[starts[place] : starts[place + 1]][list(entries)] = True
                of = slice(starts[place], starts[place + 1])
                fails = asked.copy()
                fails[of] &= ~wanted[of]
                fails[starts[column] : starts[column + 1] - 1] = False
                made.append(fails)
                asked = asked.copy()
                asked[of] &= wanted[of]
            made.append(asked)
        found = [each for each in made if _is_possible(each, starts)]
        if len(found) > MOST_ROUTES:
            return None
    return found


def corrected(rows: NDArray[np.int64], sizes: Sequence[int], needs: Sequence[Needs]) -> None:
    """Replace by no answer, in place, whatever a row says to a question that is not asked."""
    for column, own in enumerate(needs):
        for place, entries in own:
            rows[~np.isin(rows[:, place], list(entries)), column] = sizes[column] - 1


def _is_possible(route: Allowed, starts: NDArray[np.int64]) -> bool:
    return bool(np.logical_or.reduceat(route, starts[:-1]).all())
