"""Closed forms of characteristic and moment generating functions of one draw, for `NoiseLaw`.

With them, sums of any number of draws with any coefficients need no table of probabilities.
Floating point is used with a stated bound on its error, and results are widened by that bound.
"""

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]

UNIT_ROUNDOFF = 2.0**-53

_IMAGES = 2 * math.pi * np.arange(-2, 3)
"""From variance 1 on, images of the normal density beyond these are below 10^-50."""

_SUPPORT = np.arange(-16, 17)
"""Below variance 1, what lies beyond these has a probability below e^-128."""


def rounding_errors(spread: float, angles: Floats) -> Floats:
    """Return bounds on the rounding errors of values of a characteristic function.

    The angles may each be off by four units in the last place. Up to pi that moves no value by more
    than a few units; beyond it, where the function comes back to 1 in narrow peaks, by at most the
    standard deviation times what the angle is off by.

    Args:
        spread: At least the standard deviation of the draw.
        angles: In radians.
    """
    far = np.where(np.abs(angles) > math.pi, np.abs(angles), 0.0)
    return np.asarray(64 * UNIT_ROUNDOFF + 8 * UNIT_ROUNDOFF * spread * far)


def geometric_log_moment(scale: float, rates: Floats) -> Floats:
    """Return ln E e^(rate Z) of a discrete Laplace draw Z; infinite from rate 1 / scale on.

    E e^(rate Z) = 1 / (1 - r^2) with r = sinh(a) / sinh(b), a = rate / 2 and b = 1 / (2 scale);
    r = e^(a - b) (1 - e^(-2a)) / (1 - e^(-2b)) does not overflow.
    """
    b = 1 / (2 * scale)
    a = np.minimum(rates / 2, b)
    ratio = np.exp(a - b) * np.expm1(-2 * a) / math.expm1(-2 * b)
    with np.errstate(divide="ignore"):
        return np.asarray(-np.log1p(-(np.minimum(ratio, 1.0) ** 2)))


def geometric_spread(scale: float) -> float:
    """Return at least the standard deviation of a discrete Laplace draw.

    The variance 2 q / (1 - q)^2 = 1 / (2 sinh^2(1 / (2 scale))) is below 2 scale^2.
    """
    return math.sqrt(2) * scale


def laplace(scale: float, angles: Floats) -> Floats:
    """Return the characteristic function of a discrete Laplace draw.

    (1 - q)^2 / (1 - 2 q cos + q^2) = 1 / (1 + sin^2(angle / 2) / sinh^2(1 / 2 scale))
    """
    half = 1 / (2 * scale)
    inverse_sinh = -2 * math.exp(-half) / math.expm1(-2 * half)
    return np.asarray(1 / (1 + (np.sin(angles / 2) * inverse_sinh) ** 2))


def truncated(scale: float, bound: int, angles: Floats) -> tuple[Floats, Floats]:
    """Return the characteristic function of a truncated draw.

    It is the sum of q^|x| cos(x angle) for |x| <= k over the norm (1 + q - 2 q^(k+1)) / (1 - q).
    With s = sin^2(angle / 2) that sum is

        (1 - q^2 - 2 q^(k+1) (cos((k+1) angle) - q cos(k angle))) / ((1 - q)^2 + 4 q s)

    The numerator is off by a few units of its largest term and by what (k+1) angle is off by.
    """
    q, less = math.exp(-1 / scale), -math.expm1(-1 / scale)
    edge = math.exp(-(bound + 1) / scale)
    waves = np.cos((bound + 1) * angles) - q * np.cos(bound * angles)
    norm = (1 + q - 2 * edge) / less
    below = norm * (less**2 + 4 * q * np.sin(angles / 2) ** 2)
    off = less + edge * (1 + (bound + 1) * (np.abs(angles) + 1 / scale))
    values = (less * (1 + q) - 2 * edge * waves) / below
    return np.clip(values, -1.0, 1.0), 16 * UNIT_ROUNDOFF * off / below


def gaussian(variance: float, angles: Floats) -> Floats:
    """Return the characteristic function of a discrete Gaussian draw.

    It is found by Poisson summation; below variance 1, term by term.
    """
    if variance < 1:
        weights = np.exp(-(_SUPPORT**2) / (2 * variance))
        return np.asarray(np.cos(np.multiply.outer(angles, _SUPPORT)) @ weights / weights.sum())
    nearest = angles - 2 * math.pi * np.round(angles / (2 * math.pi))
    images = np.exp(-variance / 2 * np.add.outer(nearest, _IMAGES) ** 2)
    return np.asarray(images.sum(axis=-1) / np.exp(-variance / 2 * _IMAGES**2).sum())
