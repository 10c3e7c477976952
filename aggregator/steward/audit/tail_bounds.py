"""Bounds on error probabilities that hold for every number of trials, in closed form.

Source: [Hoe63], Theorem 1: a binomial count K of n trials of probability p has P(K >= k) <= e^(-n
D(k/n, p)) for k >= n p, and the same below, with D the divergence of two coins.
"""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_BISECTIONS = 60


def log_tail(hits: npt.ArrayLike, trials: npt.ArrayLike, probability: npt.ArrayLike) -> Floats:
    """Return the logarithm of a bound on the two-sided p-value of binomial counts.

    It is at most 0, and minus infinity for what cannot happen; 0 trials say nothing.
    """
    n = np.asarray(trials, np.float64)
    k = np.asarray(hits, np.float64)
    p = np.clip(np.asarray(probability, np.float64), 0.0, 1.0)
    some = np.maximum(n, 1)
    bound = np.log(2) - some * divergence(k / some, p)
    return np.where(n > 0, np.minimum(bound, 0.0), 0.0)


def log_tail_above(
    hits: npt.ArrayLike, trials: npt.ArrayLike, probability: npt.ArrayLike
) -> Floats:
    """Return the bound for large counts only; trials may then depend on earlier ones.

    It holds if each event has at most this probability, whatever happened before.
    """
    n = np.asarray(trials, np.float64)
    k = np.asarray(hits, np.float64)
    p = np.clip(np.asarray(probability, np.float64), 0.0, 1.0)
    some = np.maximum(n, 1)
    share = k / some
    return np.where(share > p, -some * divergence(share, p), 0.0)


def divergence(share: npt.ArrayLike, probability: npt.ArrayLike) -> Floats:
    """Return D(a, p) = a ln(a / p) + (1 - a) ln((1 - a) / (1 - p)), which may be infinite."""
    a, p = np.asarray(share, np.float64), np.asarray(probability, np.float64)
    return _part(a, p) + _part(1 - a, 1 - p)


def _part(a: Floats, p: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(a > 0, a * (np.log(a) - np.log(p)), 0.0)


def miss(trials: int, expected: npt.ArrayLike, true: npt.ArrayLike, log_threshold: float) -> Floats:
    """Return bounds on the probability that `log_tail` misses a wrong probability.

    A count with a `log_tail` below `log_threshold` is refused; the bound is 1 where the expected
    count would not be.
    """
    p, q = np.asarray(expected, np.float64), np.asarray(true, np.float64)
    near, far = p, q
    for _ in range(_BISECTIONS):
        middle = (near + far) / 2
        is_refused = log_tail(middle * trials, trials, p) < log_threshold
        near, far = np.where(is_refused, near, middle), np.where(is_refused, middle, far)
    # Counts that are not refused lie on the near side of `far`.
    is_refused = log_tail(q * trials, trials, p) < log_threshold
    return np.where(is_refused, np.exp(-trials * divergence(far, q)), 1.0)
