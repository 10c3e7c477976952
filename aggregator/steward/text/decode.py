"""Which strings people wrote, and how many wrote each: released histograms of hashes, decoded.

Whoever has the releases can test any string at any time: that is post-processing and costs no
privacy. Decoding takes several passes. A pass adds up each candidate's buckets, limited
(`laws.Clip`), and takes the candidates that reach a threshold, which is so high that few strings
would pass that nobody holds. Then the counts of all strings found so far are fitted together by
least squares and subtracted, so that the next pass can look lower. The threshold falls by four
tenths a pass, until the exact law of the remaining tables forbids it. A string whose fitted count
is below the last threshold is dropped again.

Where lists name some of very many candidates, passes over the lists alone come first and, on tables
from which everything found is subtracted, last. They go down to a threshold of their own, which is
lower: fewer strings could pass it that nobody holds.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import Final

import numpy as np
import numpy.typing as npt

from aggregator.client.text.hashing import NO_ANSWER, TextHashes
from aggregator.client.text.strings import FINGERPRINTS
from aggregator.errors import ParameterError
from aggregator.steward.text.candidates import Candidates, Listed, Prints
from aggregator.steward.text.fit import Fit
from aggregator.steward.text.laws import Clip, Floats, least_threshold
from aggregator.steward.text.means import HowMuch
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

    It has no names if it is in no list. The count is an estimate, with its standard deviation and
    an interval, by the normal law of an estimate that passed the threshold. A string that is shown
    whatever its count has no threshold, and perhaps nobody holds it. `amount` is of the numbers
    beside it, if such are asked for; `by` has how many chose each label, and which part of them, if
    strings are counted by another answer.
    """

    fingerprint: int
    names: tuple[str, ...]
    count: float
    deviation: float
    low: float
    high: float
    threshold: float | None
    amount: HowMuch | None = None
    by: tuple[tuple[str, HowMuch], ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Tried:
    """What some candidates had to pass; see `Decoded`."""

    candidates: int
    threshold: float
    expected_false: float


@dataclasses.dataclass(frozen=True, slots=True)
class Decoded:
    """What a set of releases shows.

    Attributes:
        found: The strings that passed, those held by most people first.
        candidates: How many fingerprints were tried.
        threshold: The least score at which a string counts as held.
        expected_false: How many of the found strings nobody holds, by expectation: empty strings
            that passed, in all passes, and strings that share a fingerprint with a held one.
        no_answer: How many gave no answer, estimated.
        unexplained: How many people gave an answer that is not shown, estimated.
        listed: The same of strings in lists, if others were tried too. Then `threshold` is that of
            strings in no list; the other numbers above are of both.
        shown: The strings to show whatever their count, those of the highest counts first.
    """

    found: tuple[Found, ...]
    candidates: int
    threshold: float
    expected_false: float
    no_answer: float
    unexplained: float
    listed: Tried | None = None
    shown: tuple[Found, ...] = ()


def decode(
    hashes: TextHashes,
    tables: npt.NDArray[np.int64],
    candidates: Candidates,
    *,
    false: float = FALSE_STRINGS,
    confidence: float = 0.95,
    show: Listed | None = None,
    most_found: int = MOST_FOUND,
    progress: Callable[[int], None] | None = None,
) -> Decoded:
    """Return which candidates people hold.

    Args:
        hashes: The question's hashes.
        tables: A row for each task: its histogram as it was released, with its noise.
        candidates: The strings to try.
        false: How many empty strings may be expected to pass in the last pass, of the candidates
            and, if other candidates are tried too, of those in lists.
        confidence: The confidence of each interval.
        show: Strings to show whatever their count. Their intervals only hold if they were named
            before anybody looked at the tables.
        most_found: The most strings to fit together, in a matrix with a row for each.
        progress: Called with the number of fingerprints tried since its last call; every pass tries
            all of them. If it raises, the search ends.

    Raises:
        ParameterError: The tables have the wrong shape, an argument is out of range, more strings
            are to be shown than a task has buckets, or more than `most_found` strings pass.
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
    if show is not None and show.count > hashes.buckets:
        raise ParameterError(
            f"show: may have as many strings as a task has buckets, {hashes.buckets:,}, and has "
            f"{show.count:,}"
        )
    advance = progress or (lambda _: None)
    decoder = _Decoder(hashes, tables, candidates, false, advance, most_found)
    return decoder.run(confidence, show)


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

    def run(self, confidence: float, show: Listed | None = None) -> Decoded:
        """Return what all passes find, and the counts of strings to show whatever they are."""
        lists = self.candidates.lists
        others = None if lists is self.candidates else lists
        # What lists explain is found first, in seconds: passes over all candidates begin lower.
        first = None if others is None else self._passes(others)
        every = self._passes(self.candidates)
        listed = None if others is None else self._passes(others)
        if show is not None:
            self._fit(np.union1d(self.prints, show.prints))
        floors = self._floors(every, listed, show)
        while (is_low := self.counts < floors).any():
            self._fit(self.prints[~is_low])
            floors = floors[~is_low]
        deviations, order = self._deviations(), np.argsort(-self.counts, kind="stable")
        known = [each for each in (lists, show) if each is not None]
        every_found = [
            _found(found, count, deviation, floor, confidence, known)
            for found, count, deviation, floor in zip(
                self.prints[order].tolist(),
                self.counts[order].tolist(),
                deviations[order].tolist(),
                floors[order].tolist(),
                strict=True,
            )
        ]
        shared = 0.0 if lists is None else lists.named * len(every_found) / FINGERPRINTS
        false = every.expected_false + shared
        if first is not None and listed is not None:
            of_lists = first.expected_false + listed.expected_false
            false += of_lists
            among = every.expected_false * listed.candidates / every.candidates
            listed = dataclasses.replace(listed, expected_false=of_lists + among + shared)
        return Decoded(
            tuple(each for each in every_found if each.threshold is not None),
            self.candidates.count,
            every.threshold,
            false,
            self.no_answer,
            self.people - float(self.counts.sum()),
            listed,
            tuple(each for each in every_found if each.threshold is None),
        )

    def _passes(self, candidates: Candidates) -> Tried:
        """Take all that can be found of these candidates; return what they had to pass."""
        # A string is held by no more people than all tasks' largest buckets hold together.
        threshold, false = float(self.left.max(axis=1).sum()), 0.0
        for _ in range(_MOST_PASSES):
            threshold, is_least = self._next_threshold(FALL * threshold, candidates.count)
            false += self._expected_false(threshold, candidates.count)
            grew = self._pass(threshold, candidates)
            if is_least and not grew:
                break
        return Tried(candidates.count, threshold, false)

    def _floors(self, every: Tried, listed: Tried | None, show: Listed | None) -> Floats:
        """Return the least count at which each string of the fit is shown."""
        floors = np.full(len(self.prints), every.threshold)
        if listed is not None and self.candidates.lists is not None:
            floors[self.candidates.lists.have(self.prints)] = listed.threshold
        if show is not None:
            floors[show.have(self.prints)] = -math.inf
        return floors

    def _next_threshold(self, wanted: float, candidates: int) -> tuple[float, bool]:
        """Return the threshold of the next pass, and whether no lower one is allowed."""

        def expected(threshold: float) -> float:
            return self._expected_false(threshold, candidates)

        # The unit is a person: however small the remainders, the deviation is at least 1.
        deviation = max(1.0, math.sqrt(self.hashes.tasks * float(self.left.var())))
        if wanted > deviation and expected(wanted) <= self.false:
            return wanted, False
        return least_threshold(expected, self.false, deviation), True

    def _expected_false(self, threshold: float, candidates: int) -> float:
        clip = Clip(threshold, self.hashes.tasks)
        return candidates * clip.chance([clip.law(row) for row in self.left])

    def _pass(self, threshold: float, candidates: Candidates) -> bool:
        """Take the candidates that reach the threshold; return whether any of them is new."""
        clip = Clip(threshold, self.hashes.tasks)
        units = clip.units(self.left)
        level = clip.level(float(units.mean(axis=1).sum()))
        reached = reaching(self.hashes, units, level, candidates, self.progress)
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


def _found(
    found: int,
    count: float,
    deviation: float,
    floor: float,
    confidence: float,
    known: Sequence[Listed],
) -> Found:
    threshold = floor if math.isfinite(floor) else None
    low, high = interval(count, deviation, threshold, confidence)
    names = tuple(dict.fromkeys(name for each in known for name in each.names(found)))
    return Found(found, names, count, deviation, low, min(high, 1e300), threshold)


def interval(
    count: float, deviation: float, threshold: float | None, confidence: float
) -> tuple[float, float]:
    """Return an interval for a count, given that only estimates above the threshold are shown.

    Without a threshold it is the usual one, from 0 on. A truth is ruled out if, among the estimates
    that pass, one this high or one this low has less than half the allowed probability of a miss.
    The law is taken to be normal.
    """
    half_miss = (1 - confidence) / 2
    normal = NormalDist()

    def below(truth: float) -> float:
        """Return the chance that an estimate that passes is as small as this one."""
        passing = 1.0 if threshold is None else normal.cdf((truth - threshold) / deviation)
        if passing < _NEVER:
            return 1.0
        return 1 - normal.cdf((truth - count) / deviation) / passing

    def where(chance: float, low: float, high: float) -> float:
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if below(middle) > chance else (low, middle)
        return high

    widest = max(count, 0.0) + 10 * deviation
    # Exactly 0 where that is possible: perhaps nobody holds a string that is shown in any case.
    low = 0.0 if below(0.0) <= 1 - half_miss else where(1 - half_miss, 0.0, widest)
    return low, where(half_miss, low, widest)
