"""The characteristic function of one draw of noise, and a bound of its moment generating function.

Both have closed forms for every law, so sums of any number of draws with any coefficients need no
table of probabilities. Floating point is used with a stated bound of its error: what rests on it is
made wider by that much.
"""

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from aggregator.dp.gaussian_law import DiscreteGaussianLaw
from aggregator.dp.laws import DiscreteLaplaceLaw, NoiseLaw, TruncatedGeometricLaw
from aggregator.errors import ParameterError

Floats: TypeAlias = NDArray[np.float64]

UNIT_ROUNDOFF = 2.0**-53

_IMAGES = 2 * math.pi * np.arange(-2, 3)
"""From variance 1 on, images of the normal density beyond these are below 10^-50."""

_SUPPORT = np.arange(-16, 17)
"""Below variance 1, what lies beyond these has a probability below e^-128."""


def characteristic(law: NoiseLaw, angles: Floats) -> tuple[Floats, Floats]:
    """Return E cos(angle Z) for one draw Z of a law, and a bound of the error of each value.

    The angles may each be off by four units in the last place. Up to pi that moves no value by more
    than a few units; beyond it, where the function comes back to 1 in narrow peaks, by at most the
    standard deviation times what the angle is off by.

    Args:
        law: Whose draw.
        angles: In radians.

    Raises:
        ParameterError: The law is none of the three that mechanisms draw from.
    """
    rounding = 64 * UNIT_ROUNDOFF
    far = np.where(np.abs(angles) > math.pi, np.abs(angles), 0.0)
    errors = rounding + 8 * UNIT_ROUNDOFF * spread(law) * far
    match law:
        case DiscreteLaplaceLaw():
            return _laplace(float(law.scale), angles), errors
        case DiscreteGaussianLaw():
            return _gaussian(float(law.sigma_squared), angles), errors
        case TruncatedGeometricLaw():
            values, own_errors = _truncated(float(law.scale), law.bound, angles)
            return values, errors + own_errors
        case _:
            raise _unknown(law)


def log_moment(law: NoiseLaw, rates: Floats) -> Floats:
    """Return at least ln E e^(rate Z) for one draw Z; infinite where no bound is known.

    Truncated geometric noise has the bound of discrete Laplace noise of its scale, of which it is
    the part near zero: E cosh(rate Z) only falls when large |Z| are left out. The discrete Gaussian
    is subgaussian with its sigma^2.

    Args:
        law: Whose draw.
        rates: Positive.

    Source:
        [CKS20], "Tail bounds, and variance".
    """
    match law:
        case DiscreteGaussianLaw():
            return float(law.sigma_squared) * rates**2 / 2
        case DiscreteLaplaceLaw() | TruncatedGeometricLaw():
            # E e^(rate Z) = 1 / (1 - r^2) with r = sinh(a) / sinh(b), a = rate / 2 and b = 1 / (2
            # scale); r = e^(a - b) (1 - e^(-2a)) / (1 - e^(-2b)) does not overflow.
            b = 1 / (2 * float(law.scale))
            a = np.minimum(rates / 2, b)
            ratio = np.exp(a - b) * np.expm1(-2 * a) / math.expm1(-2 * b)
            with np.errstate(divide="ignore"):
                return np.asarray(-np.log1p(-(np.minimum(ratio, 1.0) ** 2)))
        case _:
            raise _unknown(law)


def steepest_rate(law: NoiseLaw) -> float:
    """Return the rate from which on `log_moment` is infinite."""
    match law:
        case DiscreteLaplaceLaw() | TruncatedGeometricLaw():
            return 1 / float(law.scale)
        case DiscreteGaussianLaw():
            return math.inf
        case _:
            raise _unknown(law)


def spread(law: NoiseLaw) -> float:
    """Return at least the standard deviation of one draw, and about it where it is above 1."""
    match law:
        case DiscreteGaussianLaw():
            return math.sqrt(law.sigma_squared)
        case DiscreteLaplaceLaw() | TruncatedGeometricLaw():
            # The variance 2 q / (1 - q)^2 = 1 / (2 sinh^2(1 / (2 scale))) is below 2 scale^2.
            return math.sqrt(2) * float(law.scale)
        case _:
            raise _unknown(law)


def _laplace(scale: float, angles: Floats) -> Floats:
    """Return (1 - q)^2 / (1 - 2 q cos + q^2) = 1 / (1 + sin^2(angle / 2) / sinh^2(1 / 2 scale))."""
    half = 1 / (2 * scale)
    inverse_sinh = -2 * math.exp(-half) / math.expm1(-2 * half)
    return np.asarray(1 / (1 + (np.sin(angles / 2) * inverse_sinh) ** 2))


def _truncated(scale: float, bound: int, angles: Floats) -> tuple[Floats, Floats]:
    """Return the characteristic function, the sum of q^|x| cos(x angle) to k over its norm.

    With s = sin^2(angle / 2) it is, over the norm (1 + q - 2 q^(k+1)) / (1 - q),

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


def _gaussian(variance: float, angles: Floats) -> Floats:
    """Return the characteristic function by Poisson summation, below variance 1 by its terms."""
    if variance < 1:
        weights = np.exp(-(_SUPPORT**2) / (2 * variance))
        return np.asarray(np.cos(np.multiply.outer(angles, _SUPPORT)) @ weights / weights.sum())
    nearest = angles - 2 * math.pi * np.round(angles / (2 * math.pi))
    images = np.exp(-variance / 2 * np.add.outer(nearest, _IMAGES) ** 2)
    return np.asarray(images.sum(axis=-1) / np.exp(-variance / 2 * _IMAGES**2).sum())


def _unknown(law: NoiseLaw) -> ParameterError:
    return ParameterError(f"nothing is known of sums of {type(law).__name__}")
