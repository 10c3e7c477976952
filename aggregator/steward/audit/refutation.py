"""Tries to refute a claimed epsilon by counting outcomes; it can never prove one.

An (epsilon, delta)-DP mechanism has, for every event E and every pair of neighbours D and D',
P(E | D) <= e^epsilon P(E | D') + delta. How often E happened in n runs with D and in m runs with D'
bounds both probabilities, at a stated confidence, whatever the mechanism does; so

    epsilon >= ln((lower bound of P(E | D) - delta) / upper bound of P(E | D'))

The events are fixed before anything is drawn, and the chance of a false alarm is divided among
them, so no event is chosen afterwards. Nothing here knows how noise is drawn.

Source: [CP34] for the two bounds; [DWWZK18] for the idea of counting events.
"""

import dataclasses
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from aggregator.errors import ParameterError

_THRESHOLDS = 4
_BISECTIONS = 60
_SLACK = 1 - 1e-6
"""Error probabilities are multiplied by this, to allow for floating point errors."""

Leans: TypeAlias = tuple[Counter[int], Counter[int]]
"""How often each lean was seen with the first data set, and how often with the second."""


@dataclasses.dataclass(frozen=True, slots=True)
class Neighbours:
    """The true sums of two neighbouring data sets, one integer per coordinate."""

    first: tuple[int, ...]
    second: tuple[int, ...]

    @property
    def distance(self) -> int:
        """The sum of absolute differences."""
        return sum(abs(a - b) for a, b in zip(self.first, self.second, strict=True))

    def lean(self, outcome: Sequence[int]) -> int:
        """Return how much nearer the outcome is to the first sums than to the second.

        It ranges from -distance to distance. With discrete Laplace noise of scale t, the outcome's
        privacy loss is exactly this divided by t: no event separates the two data sets better than
        a threshold on it.
        """
        return sum(
            abs(value - b) - abs(value - a)
            for value, a, b in zip(outcome, self.first, self.second, strict=True)
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """The event that bounds epsilon from below best, in words, and the vantage it was seen from.

    `hits` is how often it happened in `runs` runs with the data set for which it is typical, and in
    as many with the other. epsilon is minus infinity if the counts say nothing.
    """

    vantage: str
    event: str
    epsilon: float
    hits: tuple[int, int]
    runs: tuple[int, int]


def best_finding(
    observations: Mapping[str, Leans], distance: int, false_alarm: float, delta: float = 0.0
) -> Finding:
    """Return the largest lower bound on epsilon over all vantages and events.

    Args:
        observations: What was seen, by vantage. Runs of one data set seen from one vantage must be
            independent of each other; vantages may depend on each other in any way.
        distance: The neighbours' distance, at least 1.
        false_alarm: The probability, at most, that the bound is above the true epsilon.
        delta: The claimed delta.

    Raises:
        ParameterError: There is nothing to look at, or the probability is not between 0 and 1.
    """
    if distance < 1:
        raise ParameterError("the neighbours have equal sums: there is nothing to refute")
    if not 0 < false_alarm < 1:
        raise ParameterError(f"false_alarm must be between 0 and 1, not {false_alarm}")
    if not observations:
        raise ParameterError("there are no observations")
    thresholds = _thresholds(distance)
    share = share_of_an_event(false_alarm, distance, len(observations))
    findings = []
    for vantage, (first, second) in observations.items():
        runs = first.total(), second.total()
        for threshold in thresholds:
            above = _at_least(first, threshold), _at_least(second, threshold)
            findings.append(
                Finding(
                    vantage,
                    f"at least {threshold} nearer to the first data set",
                    epsilon_bound(above, runs, share, delta),
                    above,
                    runs,
                )
            )
            below = _at_most(second, -threshold), _at_most(first, -threshold)
            findings.append(
                Finding(
                    vantage,
                    f"at least {threshold} nearer to the second data set",
                    epsilon_bound(below, runs[::-1], share, delta),
                    below,
                    runs[::-1],
                )
            )
    return max(findings, key=lambda finding: finding.epsilon)


def epsilon_bound(
    hits: tuple[int, int], runs: tuple[int, int], error: float, delta: float = 0.0
) -> float:
    """Return a lower bound on epsilon from one event; minus infinity if the counts say nothing.

    Hits and runs are of each of the two data sets. `error` is the probability, at most, that the
    bound is too large; `delta` is the claimed one.
    """
    low = lower_bound(hits[0], runs[0], error / 2) - delta
    high = upper_bound(hits[1], runs[1], error / 2)
    return math.log(low / high) if low > 0 else -math.inf


def share_of_an_event(false_alarm: float, distance: int, vantages: int) -> float:
    """Return each event's part of the false alarm probability of a whole audit.

    `distance` is that of the sums of the two data sets.
    """
    return false_alarm / (2 * len(_thresholds(distance)) * vantages)


def _thresholds(distance: int) -> list[int]:
    return sorted({-(-distance * i // _THRESHOLDS) for i in range(1, _THRESHOLDS + 1)})


def largest_bound(runs: tuple[int, int], error: float) -> float:
    """Return the bound from an event that always happens with one data set, never with the other.

    No larger epsilon can be refuted with these numbers of runs.
    """
    return epsilon_bound((runs[0], 0), runs, error)


def lower_bound(hits: int, runs: int, error: float) -> float:
    """Return a probability that exceeds the true one with probability at most `error`.

    It is the p at which `hits` or more of `runs` have the probability `error`, the bound of
    Clopper and Pearson, which holds for every p and every number of runs.
    """
    if not 0 <= hits <= runs:
        raise ParameterError(f"hits must be from 0 to {runs}, not {hits}")
    error *= _SLACK
    if hits == 0:
        return 0.0
    if hits == runs:
        return math.exp(math.log(error) / runs)
    low, high = 0.0, hits / runs
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if _upper_tail(hits, runs, middle) < error:
            low = middle
        else:
            high = middle
    return low


def upper_bound(hits: int, runs: int, error: float) -> float:
    """Return a probability that is below the true one with probability at most `error`."""
    return 1 - lower_bound(runs - hits, runs, error)


def _upper_tail(hits: int, runs: int, p: float) -> float:
    """Return P(X >= hits) for X binomial and p below hits / runs."""
    if p == 0:
        return 0.0
    log_mass = (
        math.lgamma(runs + 1)
        - math.lgamma(hits + 1)
        - math.lgamma(runs - hits + 1)
        + hits * math.log(p)
        + (runs - hits) * math.log1p(-p)
    )
    odds = p / (1 - p)
    term = total = 1.0
    for successes in range(hits, runs):
        # The ratio of successive masses falls, and is below 1 from the mean on.
        term *= odds * (runs - successes) / (successes + 1)
        total += term
        if term < total * 1e-17:
            break
    return math.exp(log_mass) * total


def _at_least(leans: Counter[int], threshold: int) -> int:
    return sum(count for lean, count in leans.items() if lean >= threshold)


def _at_most(leans: Counter[int], threshold: int) -> int:
    return sum(count for lean, count in leans.items() if lean <= threshold)
