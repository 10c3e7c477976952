"""Bounds for how many people gave three answers, of which only pairs were released.

Whatever the joint distribution is, with a, b and c for people who gave each answer, ab for both:

    max(0, ab + ac - a, ab + bc - b, ac + bc - c) <= abc
    abc <= min(ab, ac, bc, n - a - b - c + ab + ac + bc)

Each of the seven terms is a combination of released counts, whose noise has an exact law. Each gets
a seventh of the miss on its one side, so that all hold at once.
"""

from collections.abc import Sequence
from fractions import Fraction

from aggregator.collector.results import ConfidenceInterval, Noised, combination
from aggregator.dp.utility import DEFAULT_CONFIDENCE
from aggregator.errors import ParameterError
from aggregator.steward.survey.synthetic.best import Best

_THREE = 3
_TERMS = 7


def bounds_of_three(
    best: Best, entries: Sequence[tuple[int, int]], confidence: Fraction = DEFAULT_CONFIDENCE
) -> ConfidenceInterval:
    """Return the interval of the number of people who gave three answers.

    Args:
        best: The released counts.
        entries: Three times a column and its entry.
        confidence: With which it holds.

    Raises:
        ParameterError: There are not three, or two of the questions are in no table.
    """
    if len(entries) != _THREE:
        raise ParameterError(f"answers: must be to three questions, not {len(entries)}")
    layout = best.layout
    (one, a), (two, b), (three, c) = entries
    for of, by in ((one, two), (one, three), (two, three)):
        layout.check_pair(of, by)
    singles = best.one(one)[a], best.one(two)[b], best.one(three)[c]
    ab, ac = best.pair(one, two)[a][b], best.pair(one, three)[a][c]
    bc = best.pair(two, three)[b][c]
    people = Noised.exact(best.people)
    lower = [
        combination([(ab, 1), (ac, 1), (singles[0], -1)]),
        combination([(ab, 1), (bc, 1), (singles[1], -1)]),
        combination([(ac, 1), (bc, 1), (singles[2], -1)]),
    ]
    nobody = [(people, 1), *((each, -1) for each in singles), (ab, 1), (ac, 1), (bc, 1)]
    upper = [ab, ac, bc, combination(nobody)]
    # Laws are symmetric: an interval with twice the miss has half of it on each side.
    each = 1 - 2 * (1 - confidence) / _TERMS
    low = max(term.interval(each).low for term in lower)
    high = min(term.interval(each).high for term in upper)
    low, high = min(low, high), max(low, high)  # the other way round, one of them missed
    method = "bounds from pairs, each by its exact law"
    return ConfidenceInterval(low, high, confidence, method).within(0, best.people)
