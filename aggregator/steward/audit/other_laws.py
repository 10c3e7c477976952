"""Laws that wrong noise may have: the usual families, discrete and rounded."""

import math
from collections.abc import Callable, Mapping

import numpy as np

from aggregator.steward.audit.noise_table import Floats, NoiseTable

_BISECTIONS = 50

Weights = Callable[[Floats, float], Floats]
"""Weights of integers under noise of about this standard deviation, before normalisation."""


def table_of(weights: Weights, deviation: float, reach: int) -> NoiseTable:
    """Return a law of a family on the integers from -reach to reach."""
    found = weights(np.arange(-reach, reach + 1).astype(np.float64), deviation)
    return NoiseTable(found / found.sum())


def of_deviation(weights: Weights, deviation: float, reach: int) -> NoiseTable:
    """Return the law of a family with exactly this standard deviation."""
    low, high = deviation / 2, deviation * 2
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        is_low = table_of(weights, middle, reach).deviation < deviation
        low, high = (middle, high) if is_low else (low, middle)
    return table_of(weights, high, reach)


def discrete_laplace(values: Floats, deviation: float) -> Floats:
    """Return e^(-|z| / t)."""
    return np.exp(-np.abs(values) * math.sqrt(2) / deviation)


def discrete_gaussian(values: Floats, deviation: float) -> Floats:
    """Return e^(-z^2 / (2 sigma^2))."""
    return np.exp(-((values / deviation) ** 2) / 2)


def rounded_laplace(values: Floats, deviation: float) -> Floats:
    """Return the mass of a continuous law between z - 1/2 and z + 1/2."""
    rate = math.sqrt(2) / deviation
    beyond, inside = (np.exp(-(np.abs(values) + half) * rate) for half in (-1 / 2, 1 / 2))
    return np.where(values == 0, 2 * (1 - inside), beyond - inside)


def rounded_gaussian(values: Floats, deviation: float) -> Floats:
    """Return the mass of a continuous law between z - 1/2 and z + 1/2."""
    scale = deviation * math.sqrt(2)
    edges = [(abs(value) - 1 / 2) / scale for value in values]
    return np.array([math.erfc(edge) - math.erfc(edge + 1 / scale) for edge in edges])


FAMILIES: Mapping[str, Weights] = {
    "discrete Laplace noise": discrete_laplace,
    "discrete Gaussian noise": discrete_gaussian,
    "continuous Laplace noise, rounded,": rounded_laplace,
    "continuous Gaussian noise, rounded,": rounded_gaussian,
}
