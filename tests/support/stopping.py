"""The best moment to stop, by backward induction: what a collector gains by looking at results.

The privacy loss of n releases is a walk on a lattice. After each release the collector, who knows
the loss, stops or goes on; if it stops after n releases, the stated epsilon is epsilon(n). Its best
rule is computed from the last release backwards. It gains

    E[(1 - e^(epsilon(n) - L))+]    the true delta of the epsilon that was stated when it stopped:
                                    P(E) - E'[e^epsilon(n) 1_E] for the worst event E
    P(L > epsilon(n))               how often the loss ever exceeds what is stated

Nothing here is shared with the code under test. Numbers are doubles, sums of positive terms only:
n releases with a law of w probabilities make a relative error of at most n (w + 2) 2^-53, which is
below 10^-9 for everything here. A loss is compared with an epsilon exactly; their difference errs
by some 10^-13. The walk is followed within twelve standard deviations of its mean, and whatever
leaves that range is counted as more than it can be, some 10^-30.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class LossLaw:
    """The law of one release's loss: drift + (first + i) spacing with probability masses[i]."""

    spacing: Fraction
    drift: Fraction
    first: int
    masses: Array

    @property
    def last(self) -> int:
        return self.first + len(self.masses) - 1

    def expectation(self, values: Array) -> Array:
        """Return the mean of an increasing function of the walk after one more release."""
        below = np.full(max(0, -self.first), values[0])
        above = np.ones(max(0, self.last))
        return np.correlate(np.concatenate((below, values, above)), self.masses, mode="valid")


def randomised_response(epsilon: Fraction) -> LossLaw:
    """Return the loss of a count with discrete Laplace noise, as coarsely as suffices.

    It is epsilon or -epsilon; nothing between the two sums says more about the person.
    """
    truth = 1 / (1 + math.exp(-epsilon))
    return LossLaw(2 * epsilon, -epsilon, 0, np.array([1 - truth, truth]))


def discrete_gaussian(variance_parameter: int) -> LossLaw:
    """Return the loss of a count with discrete Gaussian noise of that sigma^2, 1/(2 sigma^2)-zCDP.

    The noise y comes with the loss (1 - 2y) / (2 sigma^2).
    """
    reach = math.ceil(11 * math.sqrt(variance_parameter))
    masses = np.exp(-(np.arange(-reach, reach + 1.0) ** 2) / (2 * variance_parameter))
    spacing = Fraction(1, variance_parameter)
    return LossLaw(spacing, spacing / 2, -reach, masses / masses.sum())


@dataclasses.dataclass(frozen=True)
class Gain:
    """The gain of the best rule for each aim.

    Attributes:
        delta: The largest true delta of the epsilon stated at the stop.
        passing: The largest probability that the loss is above it at the stop.
    """

    delta: float
    passing: float


def best_stop(law: LossLaw, stated: Sequence[Fraction | None]) -> Gain:
    """Return what stopping at the best moment gains.

    Args:
        law: The law of each release's loss.
        stated: The epsilon stated after 1, 2, ... releases; None where the collector may not stop.
            After the last it must.
    """
    low, high = _range(law, len(stated))
    deltas = passings = np.zeros(high - low + 1)
    for n in range(len(stated), 0, -1):
        if n < len(stated):
            deltas, passings = law.expectation(deltas), law.expectation(passings)
        epsilon = stated[n - 1]
        if epsilon is not None:
            border = (epsilon - n * law.drift) / law.spacing
            start = max(0, math.floor(border) + 1 - low)
            above = np.arange(start + low, high + 1) - float(border)
            deltas, passings = deltas.copy(), passings.copy()
            deltas[start:] = np.maximum(
                deltas[start:], -np.expm1(-np.maximum(above, 0) * float(law.spacing))
            )
            passings[start:] = 1
    return Gain(*(float(law.expectation(gains)[-low]) for gains in (deltas, passings)))


def _range(law: LossLaw, releases: int) -> tuple[int, int]:
    steps = np.arange(law.first, law.last + 1)
    mean = float(law.masses @ steps)
    spread = 12 * math.sqrt(releases * float(law.masses @ (steps - mean) ** 2))
    low = math.floor(min(0.0, releases * mean) - spread)
    high = math.ceil(max(0.0, releases * mean) + spread)
    return max(low, releases * min(0, law.first)), min(high, releases * max(0, law.last))


Counts = tuple[int, ...]
"""How many releases of each kind were made."""


def best_choice(
    unit: Fraction,
    kinds: Sequence[int],
    allowed: Callable[[Counts], bool],
    stated: Callable[[Counts], Fraction],
) -> Gain:
    """Return what a collector gains who also chooses what to ask next, after seeing results.

    Args:
        unit: The unit of the epsilons.
        kinds: The epsilons to choose from for each release, in units; each is randomised response.
        allowed: Whether these numbers of releases of each kind may be made.
        stated: The epsilon that is stated after these numbers.
    """

    @cache
    def values(counts: Counts) -> tuple[Array, Array]:
        """Return the gains by the loss, from -reach to reach units."""
        reach = sum(count * kind for count, kind in zip(counts, kinds, strict=True))
        border = stated(counts) / unit
        above = np.arange(-reach, reach + 1) - float(border)
        passings = (np.arange(-reach, reach + 1) > math.floor(border)).astype(float)
        deltas = passings * -np.expm1(-np.maximum(above, 0) * float(unit))
        for place, kind in enumerate(kinds):
            after = (*counts[:place], counts[place] + 1, *counts[place + 1 :])
            if allowed(after):
                truth = 1 / (1 + math.exp(-kind * unit))
                for now, then in zip((deltas, passings), values(after), strict=True):
                    mean = truth * then[2 * kind :] + (1 - truth) * then[: len(then) - 2 * kind]
                    np.maximum(now, mean, out=now)
        return deltas, passings

    deltas, passings = values((0,) * len(kinds))
    return Gain(float(deltas[0]), float(passings[0]))
