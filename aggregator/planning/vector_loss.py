"""The privacy loss of a vector under the noise of two honest aggregators, rounded up.

More than two coordinates have too many different losses to list. So each coordinate's loss is put
on a grid, and the coordinates are added by Fourier transform. An atom between two grid points is
split between them so that its probability under both neighbours does not change: the curve
delta(epsilon) of a coordinate then runs along chords of the true, convex one. It is never below the
truth, and above it only in second order of the grid, by a relative 10^-9 at most; where epsilon is
a possible loss, such as 0, the curve has a kink, and that may be 10^-6. Doubles err in either
direction, most of all in the transform, by up to 3 10^-16 per coordinate where we measured it:
10^-15 per coordinate is added, and where that is a part in 10^3 or more nothing is said.

As for fewer coordinates (`two_draw_loss`): the largest loss stays epsilon0, and the figures need
trust in both aggregators. Do not advertise them.

Source:
    The split of atoms: "connecting the dots", [DGKKM22].
"""

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from aggregator.dp.decimals import Number, rational_in
from aggregator.errors import ParameterError
from aggregator.planning.loss_law import MOST_EPSILON0, Move

# Grid points from 0 to epsilon0, and atoms of one coordinate on either side of zero.
_GRID_BITS = 20
_MOST_ATOMS = 4_000_000
_MOST_COORDINATES = 2**12
# What is added for the errors of doubles: of the sum itself, and of one coordinate's transform.
_SLACK = 1e-12
_SLACK_OF_ONE = 1e-15
_LEAST_MULTIPLE = 1000
# The mass further out is less than e^-45 of the whole; it is added to the largest loss.
_REACH = 45


@dataclass(frozen=True, slots=True)
class VectorTwoDrawLaw:
    """The loss of any number of moved coordinates under the sum of two honest draws."""

    epsilon0: Fraction
    move: Move

    @classmethod
    def of(cls, epsilon0: Number, move: Move) -> "VectorTwoDrawLaw":
        """Make the law for an epsilon0 above 0, at most 1000, and a move of up to 4096 coordinates.

        Raises:
            ParameterError: epsilon0 is outside its range, or the move is too long for the grid.
        """
        number = rational_in(epsilon0, "epsilon0", 0, MOST_EPSILON0, open_low=True)
        if move.coordinates > _MOST_COORDINATES:
            raise ParameterError(
                f"coordinates moved must be at most {_MOST_COORDINATES} for two honest aggregators,"
                f" not {move.coordinates}: the figures for one honest aggregator bound them"
            )
        if _reach(number, move) > _MOST_ATOMS:
            raise ParameterError(
                f"epsilon0 must be above {_REACH * move.length / _MOST_ATOMS:.3g} for two honest"
                f" aggregators, not {epsilon0}: the figures for one honest aggregator bound them"
            )
        return cls(number, move)

    def delta(self, epsilon: Number) -> Decimal | None:
        """Return delta at `epsilon`, rounded up by less than 0.002 of itself.

        None if it is too small for doubles: the figures for one honest aggregator bound it.
        """
        bound = rational_in(epsilon, "epsilon", 0, None)
        if bound >= self.epsilon0:
            return Decimal(0)
        masses, step = _grid_law(self.epsilon0, self.move)
        middle = (masses.size - 1) // 2
        first = math.floor(float(bound) / step) + 1
        losses = np.arange(first, middle + 1) * step
        share = -np.expm1(float(bound) - losses)
        found = float(np.dot(masses[middle + first :], np.maximum(share, 0))) * (1 + _SLACK)
        slack = self.move.coordinates * _SLACK_OF_ONE
        return Decimal(found + slack) if found > _LEAST_MULTIPLE * slack else None

    def expected(self) -> Decimal:
        """Return the expected loss: the coordinates' losses add up."""
        losses, masses = _coordinate(self.epsilon0, self.move)
        return Decimal(self.move.coordinates * float(np.dot(losses, masses)))


def _reach(epsilon0: Fraction, move: Move) -> int:
    return math.ceil(_REACH * move.length / epsilon0) + move.step + 40


def _coordinate(epsilon0: Fraction, move: Move) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the losses ln P(s)/P(s - step) of one coordinate and their probabilities."""
    rate = float(epsilon0 / move.length)
    far = _reach(epsilon0, move)
    s = np.arange(-far, far + 1)
    here, there = np.abs(s), np.abs(s - move.step)
    # c = (1+q^2)/(1-q^2) = coth(rate), and ((1-q)/(1+q))^2 = tanh(rate/2)^2.
    c = 1 / math.tanh(rate)
    losses = rate * (there - here) + np.log1p((here - there) / (there + c))
    masses = math.tanh(rate / 2) ** 2 * np.exp(-rate * here) * (here + c)
    return losses, masses


@lru_cache(maxsize=4)
def _grid_law(epsilon0: Fraction, move: Move) -> tuple[NDArray[np.float64], float]:
    """Return the law of the sum on a grid around zero, and the grid's step."""
    count = move.coordinates
    points = 2**_GRID_BITS // 2 ** math.ceil(math.log2(count))
    largest = float(epsilon0 / count)
    step = largest / points
    losses, masses = _coordinate(epsilon0, move)
    place = np.clip(losses / step, -points, points)
    below = np.minimum(np.floor(place), points - 1)
    # p = p1 + p2 and p e^-loss = p1 e^-g + p2 e^-(g + step).
    upper = masses * np.expm1(-(place - below) * step) / math.expm1(-step)
    index = below.astype(np.int64) + points
    single = np.bincount(index, masses - upper, minlength=2 * points + 1)
    single += np.bincount(index + 1, upper, minlength=2 * points + 1)
    single[-1] += max(0.0, 1 - float(masses.sum()))
    size = 2 * points * count + 1
    length = 1 << (size - 1).bit_length()
    total = np.fft.irfft(np.fft.rfft(single, length) ** count, length)[:size]
    return np.maximum(total, 0), step
