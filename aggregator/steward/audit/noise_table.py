"""The law of noise as a table of floats, to compare with statistics of thousands of draws.

Every entry is rounded from a certified enclosure, and sums of two draws are convolutions of
positive numbers, so a probability is right to a dozen digits; the mass beyond the table is below
10^-25. Noise that reaches beyond `MOST_VALUES` is tabulated in steps: a draw is then known only by
its nearest multiple of a step, whose law is exact, too, and by whether it is 0.
"""

import dataclasses

import numpy as np
import numpy.typing as npt

from aggregator.dp.certified import to_float
from aggregator.dp.laws import NoiseLaw
from aggregator.errors import ParameterError

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

MOST_VALUES = 2_000
"""The most values told apart on one side of zero; that many take a second of work."""

MOST_STEPS = 1_000
"""The most steps on one side of zero, where there are more than `MOST_VALUES` values."""

LARGEST = 2**40
"""Draws are clipped to this size: nothing larger is noise, and floats stay exact."""

_BEYOND = 1e-25


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class NoiseTable:
    """A law on the integers from -reach to reach.

    Attributes:
        probabilities: Shape `(2 reach + 1,)`, that of -reach first; they add up to 1.
        step: How many values each entry stands for; an odd number.
        exact_zero: The probability of the value 0, if the middle entry stands for several values.
    """

    probabilities: Floats = dataclasses.field(repr=False)
    step: int = 1
    exact_zero: float | None = None

    @classmethod
    def of(cls, law: NoiseLaw) -> "NoiseTable":
        """Tabulate a law, in steps if it is wide.

        Raises `ParameterError` if the noise is too wide for a table.
        """
        reach = _reach(law)
        if reach > MOST_VALUES:
            return cls._in_steps(law, 2 * -(-reach // (2 * MOST_STEPS)) + 1)
        half = np.array([to_float(law.probability(value)) for value in range(reach + 1)])
        return cls._normalised(np.concatenate([half[:0:-1], half]))

    @classmethod
    def _in_steps(cls, law: NoiseLaw, step: int) -> "NoiseTable":
        # Beyond a variance of 2^24 a Gaussian tail is known to a relative 10^-5, which moves no
        # count that an audit looks at.
        edges = range(step // 2 + 1, _reach(law) + 2 * step, step)
        found = [law.upper_tail(edge) for edge in edges]
        tails = np.array([0.0 if tail is None else to_float(tail) for tail in found])
        half = tails[:-1] - tails[1:]
        whole = cls._normalised(np.concatenate([half[::-1], [1 - 2 * tails[0]], half]))
        return cls(whole.probabilities, step, to_float(law.probability(0)))

    @property
    def zero(self) -> float:
        """The probability of the value 0."""
        return float(self.probabilities[self.reach]) if self.exact_zero is None else self.exact_zero

    def in_steps(self, draws: Integers) -> Integers:
        """Return draws in the table's units: the nearest number of steps."""
        if self.step == 1:
            return draws
        steps = np.sign(draws) * ((np.abs(draws) + self.step // 2) // self.step)
        return np.where(np.abs(draws) == LARGEST, draws, steps)

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

    def cut_off(self, times: float) -> "NoiseTable":
        """Return the law of a draw of which more than so many deviations is cut off."""
        furthest = min(self.reach, round(times * self.deviation))
        places = np.clip(self.values, -furthest, furthest) + self.reach
        kept = np.bincount(places, self.probabilities, len(self.probabilities))
        return NoiseTable(kept.astype(np.float64))

    def logs_of(self, draws: Integers) -> float:
        """Return the log-likelihood of draws; minus infinity if one is impossible."""
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
        if low > LARGEST // 2**10:
            raise ParameterError(
                f"scale: noise that reaches beyond {LARGEST // 2**10} is too wide to be audited; "
                "a larger epsilon or rho makes it narrower"
            )
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_beyond(middle) else (middle, high)
    return high
