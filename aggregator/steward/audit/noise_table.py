"""The law of noise as a table of floats, to compare with statistics of thousands of draws.

Every entry is rounded from a certified enclosure, and sums of two draws are convolutions of
positive numbers, so a probability is right to a dozen digits; the mass beyond the table is below
10^-25.
"""

import dataclasses

import numpy as np
import numpy.typing as npt

from aggregator.dp.certified import to_float
from aggregator.dp.laws import NoiseLaw
from aggregator.errors import ParameterError

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

MOST_VALUES = 20_000
"""The most noise values tabulated on one side of zero: a few seconds of work."""

_BEYOND = 1e-25


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class NoiseTable:
    """A law on the integers from -reach to reach.

    Attributes:
        probabilities: Shape `(2 reach + 1,)`, that of -reach first; they add up to 1.
    """

    probabilities: Floats = dataclasses.field(repr=False)

    @classmethod
    def of(cls, law: NoiseLaw) -> "NoiseTable":
        """Tabulate a law.

        Raises:
            ParameterError: The noise is too wide.
        """
        reach = _reach(law)
        half = np.array([to_float(law.probability(value)) for value in range(reach + 1)])
        return cls._normalised(np.concatenate([half[:0:-1], half]))

    @property
    def reach(self) -> int:
        """The largest value in the table."""
        return len(self.probabilities) // 2

    @property
    def values(self) -> Integers:
        """All values in the table, in order."""
        return np.arange(-self.reach, self.reach + 1)

    @property
    def deviation(self) -> float:
        """The standard deviation about the mean."""
        values = self.values
        mean = float(values @ self.probabilities)
        return float(np.sqrt((values - mean) ** 2 @ self.probabilities))

    def magnitudes(self) -> Floats:
        """Return P(|Z| = m) for m from 0 to reach."""
        upper, lower = self.probabilities[self.reach :], self.probabilities[self.reach :: -1]
        both = upper + lower
        both[0] /= 2
        return both

    def plus(self, other: "NoiseTable") -> "NoiseTable":
        """Return the law of the sum of two independent draws."""
        return self._normalised(np.convolve(self.probabilities, other.probabilities))

    def shifted(self, offset: int) -> "NoiseTable":
        """Return the law of a draw plus a constant."""
        padded = np.pad(self.probabilities, abs(offset))
        return NoiseTable(np.roll(padded, offset))

    def rescaled(self, factor: float) -> "NoiseTable":
        """Return the law of the same family with its scale parameter multiplied by `factor`.

        Laws of discrete Laplace and truncated geometric noise are proportional to e^(-|z| / t), so
        another scale is a power of the same law. For discrete Gaussian noise that power scales
        sigma^2.
        """
        with np.errstate(divide="ignore"):
            logs = np.log(self.probabilities) / factor
        return self._normalised(np.exp(logs - logs.max()))

    def logs_of(self, draws: Integers) -> float:
        """Return the log-likelihood of some draws; minus infinity if one is impossible."""
        if np.abs(draws).max(initial=0) > self.reach:
            return -np.inf
        counts = np.bincount(draws.ravel() + self.reach, minlength=len(self.probabilities))
        seen = counts > 0
        with np.errstate(divide="ignore"):
            return float(counts[seen] @ np.log(self.probabilities[seen]))

    @classmethod
    def _normalised(cls, weights: Floats) -> "NoiseTable":
        return cls(weights / weights.sum())


def _reach(law: NoiseLaw) -> int:
    """Return the least r beyond which a draw lies with a probability below 10^-25."""

    def is_beyond(value: int) -> bool:
        tail = law.upper_tail(value + 1)
        return tail is None or to_float(tail) < _BEYOND

    low, high = 0, 1
    while not is_beyond(high):
        low, high = high, 2 * high
        if low > MOST_VALUES:
            raise ParameterError(
                f"scale: noise that reaches beyond {MOST_VALUES} is too wide to be tabulated; "
                "a larger epsilon or rho makes it narrower"
            )
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_beyond(middle) else (middle, high)
    return high
