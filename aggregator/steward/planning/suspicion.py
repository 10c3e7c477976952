"""How sure a neighbour can become: what an epsilon means for a guess that was fifty to fifty."""

from fractions import Fraction

from aggregator.dp.certified import Enclosure, exp, round_up
from aggregator.dp.decimals import Number, rational_in

BEFORE = Fraction(1, 2)
"""How sure the neighbour is before a release."""

_CERTAIN = 60
"""From this epsilon on, the remaining doubt is below the last digit shown."""


def sure_at_most(epsilon: Number, delta: Number = 0) -> Fraction:
    """Return the largest probability that the best guess between two answers is right.

    The neighbour thinks two answers of a person equally likely, and knows all other reports. The
    guess "the first" is made on a set S of outcomes. It is right with probability
    (P1(S) + 1 - P2(S)) / 2, where P1(S) <= e^epsilon P2(S) + delta, which also holds for the
    complements with both answers exchanged. The largest such value is
    (e^epsilon + delta) / (e^epsilon + 1). If delta is 0, nobody is surer than this after any
    outcome.

    Args:
        epsilon: The epsilon of the release, at least 0.
        delta: The delta of the release, from 0 to 1.

    Returns:
        From 1/2 to 1, rounded up to six decimals unless epsilon is 0.

    Source: [KOV17]: the region of errors of a test between two answers has this corner.

    Raises:
        ParameterError: A number is out of its range.
    """
    level = rational_in(epsilon, "epsilon", 0, None)
    failure = rational_in(delta, "delta", 0, 1)
    if level > _CERTAIN:
        return Fraction(1)
    if level == 0:
        return (1 + failure) / 2

    def guess(digits: int) -> Enclosure:
        odds = exp(level, digits)
        return (odds + failure) / (odds + 1)

    return min(Fraction(1), round_up(guess, 6))
