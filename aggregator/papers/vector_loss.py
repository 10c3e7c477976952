"""The privacy loss of a vector under the noise of two honest aggregators, rounded up.

More than two coordinates have too many different losses to list. So each coordinate's loss is put
on a grid, and the coordinates are added by Fourier transform. The result is never below the truth;
if the allowance for errors of doubles is more than a hundredth of it, no result is given.

**The grid rounds up.** delta(epsilon) is E[max(0, 1 - e^epsilon v_1 ... v_n)] over the coordinates'
v = e^-loss, which is convex in each v. An atom between two grid points is split between them so
that its probability and its part of E[v] do not change: by Jensen's inequality, one coordinate
after the other, the mean can only grow. It grows in second order of the grid: by a relative 10^-9
where we measured it, or 10^-6 where epsilon is a possible loss, such as 0. The mean also grows with
each loss and each probability. So the errors of the doubles that these are computed in are added to
them (`_ERROR_OF_LOSS`, `_ERROR_OF_MASS`; sums of n terms err by n units), and the probability
beyond the grid's atoms is added to that of the largest loss.

**The transform is bounded** by `grid_sum`.

As for fewer coordinates (`two_draw_loss`): the largest loss stays epsilon0, and the figures need
trust in both aggregators. Do not advertise them.

Source: The split of atoms: "connecting the dots", [DGKKM22].
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
from aggregator.papers.grid_sum import GridSum
from aggregator.papers.loss_law import MOST_EPSILON0, Move

# Grid points from 0 to epsilon0, and atoms of one coordinate on either side of zero.
_GRID_BITS = 20
_MOST_ATOMS = 4_000_000
_MOST_COORDINATES = 2**12
# Relative errors of doubles: generous sums of half units of the last place.
_UNIT = 2.0**-53
_ERROR_OF_LOSS = 32 * _UNIT  # relative to the largest loss of a coordinate
_ERROR_OF_MASS = 256 * _UNIT  # where it matters, exponents are at most 60
_LEAST_MULTIPLE = 100
# Atoms beyond this reach have less than e^-40 of the whole.
_REACH = 45


@dataclass(frozen=True, slots=True)
class VectorTwoDrawLaw:
    """The loss of any number of moved coordinates under the sum of two honest draws."""

    epsilon0: Fraction
    move: Move

    @classmethod
    def of(cls, epsilon0: Number, move: Move) -> "VectorTwoDrawLaw":
        """Make the law for an epsilon0 above 0, at most 1000, and a move of up to 4096 coordinates.

        Raises `ParameterError` also if the move is too long for the grid.
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
        """Return delta at `epsilon`, rounded up by hardly more than a hundredth.

        None if it is too small for doubles; the figures for one honest aggregator then bound it.
        """
        bound = rational_in(epsilon, "epsilon", 0, None)
        if bound >= self.epsilon0:
            return Decimal(0)
        law, error_of_mass = _grid_law(self.epsilon0, self.move)
        found, error = law.above(bound)
        scale = 1 + 1.01 * self.move.coordinates * error_of_mass
        if found <= _LEAST_MULTIPLE * error:
            return None
        return Decimal(min(1.0, scale * (found + error)))

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


@lru_cache(maxsize=2)
def _grid_law(epsilon0: Fraction, move: Move) -> tuple[GridSum, float]:
    """Return the law of the sum of all coordinates, each rounded up to a grid around zero.

    Returns it with the relative error of a coordinate's probabilities.
    """
    count = move.coordinates
    # One less, so that the sum of a power of two of them fits a transform half as long.
    points = 2**_GRID_BITS // 2 ** math.ceil(math.log2(count)) - 1
    largest = math.nextafter(float(epsilon0 / count), math.inf)
    step = largest / points
    losses, masses = _coordinate(epsilon0, move)
    place = np.clip((losses + _ERROR_OF_LOSS * largest) / step, -points, points)
    below = np.minimum(np.floor(place), points - 1)
    # p = p1 + p2 and p e^-loss = p1 e^-g + p2 e^-(g + step).
    upper = masses * np.expm1(-(place - below) * step) / math.expm1(-step)
    index = below.astype(np.int64) + points
    single = np.zeros(2 * points + 1)
    single += np.bincount(index, np.maximum(masses - upper, 0), minlength=2 * points + 1)
    single += np.bincount(index + 1, upper, minlength=2 * points + 1)
    single[-1] += _mass_beyond(epsilon0, move)
    return GridSum.of(single, count, step), _ERROR_OF_MASS + losses.size * _UNIT


def _mass_beyond(epsilon0: Fraction, move: Move) -> float:
    """Return an upper bound on the probability of what `_coordinate` leaves out."""
    rate, first = float(epsilon0 / move.length), _reach(epsilon0, move) + 1
    q = math.exp(-rate)
    # Both tails, each q^m (c + m) (1 - q) / (1 + q)^2 and q^(m + 1) / (1 + q)^2.
    edge = (1 / math.tanh(rate) + first) * -math.expm1(-rate) + q
    return 2 * math.exp(-rate * first) * edge / (1 + q) ** 2 * (1 + _ERROR_OF_MASS)
