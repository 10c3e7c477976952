"""Which strings people wrote, and how many wrote each: released histograms of hashes, decoded.

Whoever has the releases can test any string at any time: that is post-processing and costs no
privacy. Decoding takes several passes. A pass adds up each candidate's buckets, limited
(`laws.Clip`), and takes the candidates that reach a threshold, which is so high that few strings
would pass that nobody holds. Then the counts of all strings found so far are fitted together by
least squares and subtracted, so that the next pass can look lower. The threshold falls by four
tenths a pass, until the exact law of the remaining tables forbids it. A string whose fitted count
is below the last threshold is dropped again.
"""

import dataclasses
import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Final

import numpy as np
import numpy.typing as npt

from aggregator.client.text.hashing import NO_ANSWER, TextHashes
from aggregator.client.text.strings import FINGERPRINTS
from aggregator.errors import ParameterError
from aggregator.steward.text.candidates import Candidates, Prints
from aggregator.steward.text.fit import Fit
from aggregator.steward.text.laws import Clip, Floats, least_threshold
from aggregator.steward.text.plan import FALSE_STRINGS
from aggregator.steward.text.search import reaching

FALL: Final = 0.6
"""The factor of the threshold from one pass to the next."""

_MOST_PASSES: Final = 40
MOST_FOUND: Final = 5000
"""The most strings whose counts are fitted together: the matrix has a row and column for each."""

_NEVER: Final = 1e-15
"""Truths for which a normal law's tail is below this are ruled out in any case."""


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """A string that people hold, by its fingerprint.

    It has no names if only fingerprints were tried. The count is an estimate, with its standard
    deviation and an interval, by the normal law of an estimate that passed.
    """

    fingerprint: int
    names: tuple[str, ...]
    count: float
    deviation: float
    low: float
    high: float


@dataclasses.dataclass(frozen=True, slots=True)
class Decoded:
    """What a set of releases shows.

    Attributes:
        found: The strings, those held by most people first.
        candidates: How many fingerprints were tried.
        threshold: The least score at which a string counts as held.
        expected_false: How many of the found strings nobody holds, by expectation: empty strings
            that passed, in all passes, and strings that share a fingerprint with a held one.
        no_answer: How many gave no answer, estimated.
        unexplained: How many people gave an answer that was not found, estimated.
    """

    found: tuple[Found, ...]
    candidates: int
    threshold: float
    expected_false: float
    no_answer: float
    unexplained: float


def decode(
    hashes: TextHashes,
    tables: npt.NDArray[np.int64],
    candidates: Candidates,
    *,
    false: float = FALSE_STRINGS,
    confidence: float = 0.95,
    most_found: int = MOST_FOUND,
    progress: Callable[[int], None] | None = None,
) -> Decoded:
    """Return which candidates people hold.

    Args:
        hashes: The question's hashes.
        tables: A row for each task: its histogram as it was released, with its noise.
        candidates: The strings to try.
        false: How many empty strings may be expected to pass in the last pass.
        confidence: The confidence of each interval.
        most_found: The most strings to fit together, in a matrix with a row for each.
        progress: Called with the number of fingerprints tried since its last call; every pass tries
            all of them. If it raises, the search ends.

    Raises:
        ParameterError: The tables have the wrong shape, an argument is out of range, or more than
            `most_found` strings pass.
    """
    if tables.shape != (hashes.tasks, hashes.length):
        raise ParameterError(
            f"tables must be {hashes.tasks} of {hashes.length} buckets, not "
            f"{' of '.join(map(str, tables.shape))}"
        )
    if not 0 < false <= 1:
        raise ParameterError(f"false must be above 0 and at most 1, not {false}")
    if not 0 < confidence < 1:
        raise ParameterError(f"confidence must be between 0 and 1, not {confidence}")
    advance = progress or (lambda _: None)
    return _Decoder(hashes, tables, candidates, false, advance, most_found).run(confidence)


class _Decoder:
    """What has been found so far, and the remainders of the tables."""

    def __init__(
        self,
        hashes: TextHashes,
        tables: npt.NDArray[np.int64],
        candidates: Candidates,
        false: float,
        progress: Callable[[int], None],
        most_found: int = MOST_FOUND,
    ) -> None:
        strings = np.delete(tables, NO_ANSWER, axis=1).astype(np.float64)
        self.hashes, self.candidates = hashes, candidates
        self.false, self.progress, self.most_found = false, progress, most_found
        self.people = float(strings.sum())
        self.no_answer = float(tables[:, NO_ANSWER].sum())
        self.tables = strings - strings.mean(axis=1, keepdims=True)
        self.prints: Prints = np.zeros(0, np.uint32)
        self.counts: Floats = np.zeros(0)
        self.fit = Fit(hashes, self.prints)
        self.left = self.tables
        self.expected = 0.0

    def run(self, confidence: float) -> Decoded:
        """Return what all passes find."""
        # A string is held by no more people than all tasks' largest buckets hold together.
        threshold = float(self.tables.max(axis=1).sum())
        for _ in range(_MOST_PASSES):
            threshold, is_least = self._next_threshold(FALL * threshold)
            grew = self._pass(threshold)
            if is_least and not grew:
                break
        while len(self.counts) and self.counts.min() < threshold:
            self._fit(self.prints[self.counts >= threshold])
        deviations = self._deviations()
        order = np.argsort(-self.counts, kind="stable")
        rows = zip(self.prints[order], self.counts[order], deviations[order], strict=True)
        found = tuple(self._row(*row, threshold, confidence) for row in rows)
        lists = self.candidates.lists
        shared = 0 if lists is None else lists.named * len(found) / FINGERPRINTS
        return Decoded(
            found,
            self.candidates.count,
            threshold,
            self.expected + shared,
            self.no_answer,
            self.people - float(self.counts.sum()),
        )

    def _next_threshold(self, wanted: float) -> tuple[float, bool]:
        """Return the threshold of the next pass, and whether no lower one is allowed."""
        # The unit is a person: however small the remainders, the deviation is at least 1.
        deviation = max(1.0, math.sqrt(self.hashes.tasks * float(self.left.var())))
        if wanted > deviation and self._expected_false(wanted) <= self.false:
            return wanted, False
        return least_threshold(self._expected_false, self.false, deviation), True

    def _expected_false(self, threshold: float) -> float:
        clip = Clip(threshold, self.hashes.tasks)
        return self.candidates.count * clip.chance([clip.law(row) for row in self.left])

    def _pass(self, threshold: float) -> bool:
        """Take the candidates that reach the threshold; return whether any of them is new."""
        clip = Clip(threshold, self.hashes.tasks)
        units = clip.units(self.left)
        level = clip.level(float(units.mean(axis=1).sum()))
        self.expected += self._expected_false(threshold)
        reached = reaching(self.hashes, units, level, self.candidates, self.progress)
        fresh = np.setdiff1d(reached, self.prints)
        if not len(fresh):
            return False
        if len(fresh) + len(self.prints) > self.most_found:
            raise ParameterError(
                f"tables: more than {self.most_found} strings pass, which is more than are fitted "
                "together; the tables are not of this question, or hold more than it is made for"
            )
        self._fit(np.concatenate([self.prints, fresh]))
        return True

    def _fit(self, prints: Prints) -> None:
        """Fit the counts of all these strings together, and subtract them."""
        self.prints, self.fit = prints, Fit(self.hashes, prints)
        parts = self.fit.parts(self.tables)
        self.counts = parts * self.hashes.tasks
        self.left = self.fit.left(self.tables, parts)

    def _deviations(self) -> Floats:
        """Return the standard deviation of each count.

        One part is that of buckets without a found string: noise, and strings that were not found.
        The other part is the toss that assigns people to tasks: of a string that shares a bucket
        with another, more or fewer people may be in that task than in the others. Each count is a
        fixed linear function of each string's number of people in each task, which is multinomial.
        """
        tasks = self.hashes.tasks
        total, squares = self.fit.gains()
        tossed = np.maximum(self.counts, 0) @ (squares / tasks - (total / tasks) ** 2)
        quiet = self.left[self.fit.quiet()]
        alone = np.diag(self.fit.inverse)
        # Near the threshold, remainders exceed those of other buckets: take the larger variance.
        variances = np.maximum(quiet.var() * alone + tossed, self.left.var() * alone)
        deviations: Floats = tasks * np.sqrt(variances)
        return deviations

    def _row(
        self, found: int, count: float, deviation: float, threshold: float, confidence: float
    ) -> Found:
        low, high = interval(count, deviation, threshold, confidence)
        lists = self.candidates.lists
        names = () if lists is None else lists.names(int(found))
        return Found(int(found), names, count, deviation, low, min(high, 1e300))


def interval(
    count: float, deviation: float, threshold: float, confidence: float
) -> tuple[float, float]:
    """Return an interval for a count, given that only estimates above the threshold are shown.

    A truth is ruled out if, among the estimates that pass, one this high or one this low has less
    than half the allowed probability of a miss. The law is taken to be normal.
    """
    half_miss = (1 - confidence) / 2
    normal = NormalDist()

    def below(truth: float) -> float:
        """Return the chance that an estimate that passes is as small as this one."""
        passing = normal.cdf((truth - threshold) / deviation)
        if passing < _NEVER:
            return 1.0
        return 1 - normal.cdf((truth - count) / deviation) / passing

    def where(chance: float, low: float, high: float) -> float:
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if below(middle) > chance else (low, middle)
        return high

    widest = 10 * deviation
    low = where(1 - half_miss, 0.0, max(count, 0.0) + widest)
    return low, where(half_miss, low, count + widest)
