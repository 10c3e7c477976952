"""What a text question will find: threshold, counts, errors and bytes before anything is asked.

The tail says how many people hold each of the strings that are not found. These are noise to the
others. A tail has to be guessed (`zipf`) or taken from an earlier window. A task's bucket holds the
noise of both aggregators and, for each string that hashes to it, a Poisson number of the people who
tossed for this task; of a string that was found and subtracted, only the deviation from its mean is
left. The law of a bucket is computed from that by characteristic functions, and the law of scores
by `laws`.
"""

import dataclasses
import functools
import math
from fractions import Fraction
from typing import Final

import numpy as np
import numpy.typing as npt

from aggregator.client.text.hashing import FEWEST_TASKS, MOST_TASKS, check_shape
from aggregator.client.text.strings import FINGERPRINTS
from aggregator.dp.certified import to_float
from aggregator.dp.laws import DiscreteLaplaceLaw
from aggregator.errors import ParameterError
from aggregator.steward.text.laws import Clip, Floats, least_threshold

FALSE_STRINGS: Final = 0.01
"""How many strings that nobody holds may be expected among all that pass."""

SURELY: Final = 0.99
"""The chance of being found from which a plan says that a string is found."""

_BINS: Final = 40
"""Bins of counts per power of ten; the mean of a bin stands for its counts."""
_AGGREGATORS: Final = 2
_CLOSE: Final = 1.005
_ROUNDS: Final = 40
Complexes = npt.NDArray[np.complex128]

_GRID: Final = 0.04
"""The distance, in logarithms, of the counts at which the chance of being found is computed."""


@dataclasses.dataclass(frozen=True, eq=False)
class Tail:
    """How many people hold how many strings, those held by most people first.

    `strings[i]` strings are held by `counts[i]` people each.
    """

    counts: Floats
    strings: Floats

    @classmethod
    def of(cls, counts: Floats) -> "Tail":
        """Return the tail of strings held by `counts` people, with nearby counts merged."""
        counts = np.asarray(counts, np.float64)
        counts = counts[counts > 0]
        if not len(counts):
            raise ParameterError("counts: at least one string must be held by somebody")
        bins = np.rint(np.log10(counts) * _BINS).astype(np.int64)
        _, which = np.unique(-bins, return_inverse=True)
        strings = np.bincount(which).astype(np.float64)
        return cls(np.bincount(which, counts) / strings, strings)

    @property
    def people(self) -> float:
        """How many people gave an answer."""
        return float(self.counts @ self.strings)


def zipf(people: int, strings: int, exponent: float = 1.0) -> Tail:
    """Return a guessed tail: the k-th most frequent string is held in proportion to k^-exponent."""
    shares = np.arange(1, strings + 1, dtype=np.float64) ** -exponent
    return Tail.of(people * shares / shares.sum())


@dataclasses.dataclass(frozen=True, eq=False)
class TextPlan:
    """What is found of a tail with one choice of tasks and buckets.

    epsilon is of each task, and so of a person; `length` includes the bucket for no answer. Each
    bucket has one entry for each of the `levels` of a number beside the string, of which there is
    one if none is asked for. Of the `candidates` that are tested, `false` is how many may be
    expected to be found wrongly.
    """

    tail: Tail
    epsilon: float
    tasks: int
    length: int
    candidates: float = FINGERPRINTS
    false: float = FALSE_STRINGS
    levels: int = 1
    _spectra: dict[float, tuple[Complexes, float]] = dataclasses.field(
        default_factory=dict, init=False, repr=False
    )

    def __post_init__(self) -> None:
        check_shape(self.tasks, self.length)
        if not self.epsilon > 0:
            raise ParameterError(f"epsilon must be above 0, not {self.epsilon}")
        if not 1 <= self.candidates <= FINGERPRINTS:
            raise ParameterError(
                f"candidates must be from 1 to {FINGERPRINTS}, not {self.candidates}"
            )

    @property
    def buckets(self) -> int:
        """How many buckets of a task hold strings."""
        return self.length - 1

    @functools.cached_property
    def found_from(self) -> float:
        """The least count at which a string is found with a chance of 99 %.

        Found strings are subtracted, which lets the threshold fall so that more are found; this is
        the fixed point of that, reached from above.
        """
        count = float(self.tail.counts.max()) + 1
        for _ in range(_ROUNDS):
            threshold = self._threshold(count)
            lower = self._surely_found(count, threshold)
            if lower * _CLOSE >= count:
                return max(lower, count)
            count = lower
        return count

    @functools.cached_property
    def threshold(self) -> float:
        """The least score at which a string counts as held by somebody."""
        return self._threshold(self.found_from)

    @functools.cached_property
    def deviation(self) -> float:
        """The standard deviation of a found string's count."""
        values, law = self._bucket(self.found_from)
        return math.sqrt(self.tasks * float(law @ values**2))

    @functools.cached_property
    def found(self) -> float:
        """How many strings of the tail are expected to be found."""
        counts = np.exp(np.arange(0, math.log(3 * self.found_from), _GRID))
        start = max(0, len(counts) - 100)  # strings held by fewer are not found
        chances = [self._chance(each, self.found_from, self.threshold) for each in counts[start:]]
        of_bins = np.interp(self.tail.counts, counts[start:], chances, left=0, right=1)
        return float(of_bins @ self.tail.strings)

    def _bucket(self, found_from: float, more: float = 0) -> tuple[Floats, Floats]:
        """Return the values of one bucket less the mean of all, and their chances.

        Strings held by at least `found_from` people are found and subtracted; one further string
        adds `more` to this bucket.
        """
        if found_from not in self._spectra:
            self._spectra.clear()
            self._spectra[found_from] = self._spectrum(found_from)
        spectrum, mean = self._spectra[found_from]
        size = 2 * (len(spectrum) - 1)
        law = np.fft.irfft(spectrum * np.exp(more / self.tasks * _steps(size)), size)
        law = np.maximum(law, 0)  # the rounding of the transform leaves values below 0
        values = np.asarray(np.fft.fftfreq(size, 1 / size) - mean, np.float64)
        return values, np.asarray(law / law.sum(), np.float64)

    def _spectrum(self, found_from: float) -> tuple[Complexes, float]:
        """Return the characteristic function of a bucket, and the mean of all buckets."""
        tail, tasks = self.tail, self.tasks
        is_found = tail.counts >= found_from
        means = tail.counts / tasks
        most = 4 * found_from / tasks + 50  # beyond every limit, a value's size does not matter
        spread = 40 / min(1.0, self.epsilon) + 12 * math.sqrt(most + float(means.max()))
        size = 2 ** math.ceil(math.log2(2 * (2 * most + spread)))
        steps, turn = _steps(size), 2j * np.pi * np.fft.rfftfreq(size)
        logarithm = np.zeros(len(turn), np.complex128)
        shown = np.where(is_found, means, np.minimum(means, most))
        for held, strings, found in zip(shown, tail.strings, is_found, strict=True):
            moved = held * steps + (turn * round(held) if found else 0)
            logarithm += strings * np.log1p(np.expm1(moved) / self.buckets)
        decay = math.exp(-self.epsilon / 2)
        noise = (1 - decay) ** 2 / np.abs(1 - decay * np.exp(turn)) ** 2
        mean = float((tail.strings * means)[~is_found].sum()) / self.buckets
        return np.exp(logarithm) * noise ** (_AGGREGATORS * self.levels), mean

    def _threshold(self, found_from: float) -> float:
        """Return the least threshold that keeps false strings out while these are unfound."""
        values, law = self._bucket(found_from)

        def expected(threshold: float) -> float:
            clip = Clip(threshold, self.tasks)
            buckets = clip.law(values, law)
            return self.candidates * clip.chance_of_equal(buckets, buckets)

        return least_threshold(expected, self.false, math.sqrt(self.tasks * float(law @ values**2)))

    def _chance(self, count: float, found_from: float, threshold: float) -> float:
        """Return the chance that a string held by `count` people is found."""
        clip = Clip(threshold, self.tasks)
        of_all = clip.law(*self._bucket(found_from))
        return clip.chance_of_equal(clip.law(*self._bucket(found_from, count)), of_all)

    def _surely_found(self, found_from: float, threshold: float) -> float:
        low, high = threshold / 2, 4 * threshold
        while high / low > _CLOSE:
            middle = math.sqrt(low * high)
            if self._chance(middle, found_from, threshold) < SURELY:
                low = middle
            else:
                high = middle
        return high


def best_plan(
    tail: Tail, epsilon: float, length: int, candidates: float = FINGERPRINTS, levels: int = 1
) -> TextPlan:
    """Return the plan with the number of tasks that finds the rarest strings.

    It tries several numbers around the one with the least variance, sqrt(S / (length v)), where S
    is the sum of the squares of the counts that are not found and v the variance of both
    aggregators' noise in all levels. It never takes fewer than 8: with few tasks the tail is heavy.
    """
    law = DiscreteLaplaceLaw(_AGGREGATORS, 2 / Fraction(epsilon))
    noise = levels * to_float(law.variance())
    plan = TextPlan(tail, epsilon, FEWEST_TASKS, length, candidates, levels=levels)
    found_from = math.inf
    for _ in range(_ROUNDS):
        left = tail.counts < found_from
        squares = float(tail.counts[left] ** 2 @ tail.strings[left])
        tasks = max(FEWEST_TASKS, min(MOST_TASKS, round(math.sqrt(squares / (length * noise)))))
        plan = dataclasses.replace(plan, tasks=tasks)
        likely = 12 * math.sqrt(tasks * noise + squares / (tasks * length) + tail.people / length)
        if likely * _CLOSE >= found_from:
            break
        found_from = likely
    around = {min(MOST_TASKS, max(FEWEST_TASKS, round(plan.tasks * by))) for by in _AROUND}
    plans = [dataclasses.replace(plan, tasks=tasks) for tasks in sorted(around)]
    return min(plans, key=lambda each: each.found_from)


_AROUND: Final = (0.7, 0.85, 1, 1.2, 1.4)


def _steps(size: int) -> Complexes:
    """Return the exponent of the characteristic function of a Poisson number of mean 1."""
    return np.asarray(np.expm1(-2j * np.pi * np.fft.rfftfreq(size)), np.complex128)
