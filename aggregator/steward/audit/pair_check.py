"""One check of noise: a question, and a bound on the p-value of the answer."""

import dataclasses
import math

import numpy as np

from aggregator.steward.audit.noise_table import Floats


@dataclasses.dataclass(frozen=True, slots=True)
class Check:
    """One question about one series, and a bound on the p-value of the answer.

    Attributes:
        series: `leader`, `helper`, `sum` or, between the aggregators, `pair`.
        name: The question; see `pair_audit`.
        events: How many events were looked at.
        log_p: The natural logarithm of a bound on the p-value, including the factor `events`; at
            most 0.
        worst: The least likely event, in words.
        is_refused: Whether the p-value is below the check's share of the false alarm probability.
    """

    series: str
    name: str
    events: int
    log_p: float
    worst: str
    is_refused: bool = False


def check_of(series: str, name: str, events: int, log_p: float, worst: str) -> Check:
    """Return a check, from the number of its events and the bound for the least likely one."""
    return Check(series, name, events, min(0.0, float(log_p) + math.log(max(1, events))), worst)


def log_of(probability: float | np.floating) -> float:
    """Return the logarithm of a probability; minus infinity of 0."""
    return math.log(probability) if probability > 0 else -math.inf


def log_pmf(trials: int, probabilities: Floats) -> Floats:
    """Return ln P(K = k) of binomial counts for k from 0 to `trials`, a row for each probability.

    Probabilities are above 0 and below 1.
    """
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, trials + 1)))])
    ways = logs[-1] - logs - logs[::-1]
    k = np.arange(trials + 1)
    p = np.asarray(probabilities)[:, None]
    return np.asarray(ways + k * np.log(p) + (trials - k) * np.log1p(-p), np.float64)
