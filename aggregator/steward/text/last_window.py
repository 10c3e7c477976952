"""How many people held how many strings in the last window, for planning the next one.

The strings that were surely found are known. All others are known only as a total: how many people
wrote something that was not found, or was found with luck. How that total is spread has to be
guessed: as a continuation of the frequent strings, in proportion to a power of the rank that is
fitted to them. If the power law comes down to one person before the total is spent, the rest is
spread over strings of one person each, which are the least noise possible.
"""

import dataclasses
import json
import math
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from aggregator.errors import ParameterError
from aggregator.steward.text.plan import Tail

_SURELY: Final = 2.33
"""Standard deviations above the threshold: of 100 strings held by this many, 99 are found."""

_FEWEST: Final = 10
"""The fewest strings to which a power is fitted; for fewer the power is guessed to be 1."""

_FITTED: Final = 8
"""A power is fitted to the strings from rank n / 8 on: the most frequent ones follow no law."""

_LEAST_POWER, _MOST_POWER = 0.2, 5.0
_STEP: Final = 1.06
"""The ratio of adjacent ranks that have a count each, about as fine as the bins of `Tail.of`."""

_MOST_PEOPLE: Final = 10**9
_NOT_ONE: Final = "found: not what `prio survey results --words … --json` prints"


@dataclasses.dataclass(frozen=True, slots=True)
class LastWindow:
    """How many people held the strings that were found in a window, by estimate.

    A string held by at least `surely` people is found with 99 %. `answered` people wrote something.
    """

    counts: tuple[float, ...]
    surely: float
    answered: float
    no_answer: float

    @property
    def people(self) -> float:
        """How many people sent a report."""
        return self.answered + self.no_answer

    @property
    def surely_found(self) -> int:
        """How many strings are held by at least `surely` people."""
        return sum(each >= self.surely for each in self.counts)

    def tail(self, people: int) -> Tail:
        """Return the tail of the next window, if `people` answer as the people of this one did.

        Raises `ParameterError` if no string was surely found.
        """
        known = -np.sort(-np.array([each for each in self.counts if each >= self.surely]))
        if not len(known):
            raise ParameterError(
                "found: no string of the window is held by so many that it was surely found; guess "
                "the tail"
            )
        counts, strings = self._others(known)
        by = people / self.people
        all_counts = np.concatenate([known, counts]) * by
        all_strings = np.concatenate([np.ones(len(known)), strings])
        # A string of less than one person stands for that fraction of a string of one person.
        rare = all_counts < 1
        all_strings[rare] *= all_counts[rare]
        all_counts[rare] = 1
        return Tail(all_counts, all_strings)

    def _others(
        self, known: npt.NDArray[np.float64]
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return counts of all other strings, and how many strings have each count."""
        counts, strings = list[float](), list[float]()
        left = max(0.0, self.answered - float(known.sum()))
        power, rank = _power_of(known), float(len(known))
        last = float(min(known[-1], self.surely))
        while left > 0:
            next_rank = max(rank + 1, rank * _STEP)
            middle = math.sqrt((rank + 1) * next_rank)
            count = max(1.0, last * (middle / len(known)) ** -power)
            many = left if count == 1 else min(next_rank - rank, left / count)
            counts.append(count)
            strings.append(many)
            left, rank = (0.0 if count == 1 else left - many * count), next_rank
            if many * count < left * 1e-12:
                break  # the rest is below the precision of floats
        return np.array(counts), np.array(strings)


def _power_of(known: npt.NDArray[np.float64]) -> float:
    """Return the power of the rank with which counts fall, by least squares of logarithms."""
    if len(known) < _FEWEST:
        return 1.0
    ranks = np.arange(1, len(known) + 1)
    first = len(known) // _FITTED
    slope, _ = np.polyfit(np.log(ranks[first:]), np.log(known[first:]), 1)
    return float(min(max(-slope, _LEAST_POWER), _MOST_POWER))


def last_window(text: str) -> LastWindow:
    """Return the last window of the text question in the JSON of `prio survey results --words`.

    Or the window in the JSON of a page. Raises `ParameterError` if the text is something else, or
    has several text questions.
    """
    try:
        document = json.loads(text)
        is_page = "found" in document
        names = set() if is_page else {str(each["name"]) for each in document["texts"]}
    except (ValueError, TypeError, KeyError, RecursionError):
        raise ParameterError(_NOT_ONE) from None
    if is_page:
        return _window_in(document)
    if len(names) != 1:
        raise ParameterError("found: must have one text question; --question chooses it")
    return last_windows(text, names)[names.pop()]


def last_windows(text: str, names: Iterable[str]) -> dict[str, LastWindow]:
    """Return the last window of each text question in the JSON of `prio survey results --words`.

    Raises `ParameterError` if the text is something else, or lacks a question.
    """
    found = {}
    for name, window in newest_windows(text, names).items():
        try:
            found[name] = _window_in(window)
        except ParameterError as error:
            raise ParameterError(f"text question {name}: {error}") from None
    return found


def newest_windows(text: str, names: Iterable[str]) -> dict[str, Any]:
    """Return the newest window of each text question, as JSON of what was found; see above."""
    newest: dict[str, tuple[datetime, object]] = {}
    try:
        for each in json.loads(text)["texts"]:
            name, start = str(each["name"]), datetime.fromisoformat(each["start"])
            is_newer = name not in newest or newest[name][0] < start
            if is_newer and "spelled" not in each:
                newest[name] = start, each
    except (ValueError, TypeError, KeyError, RecursionError):
        raise ParameterError(_NOT_ONE) from None
    for name in names:
        if name not in newest:
            raise ParameterError(f"found: has no window of the text question {name}")
    return {name: newest[name][1] for name in names}


def _window_in(document: Any) -> LastWindow:  # noqa: ANN401  JSON of anything
    try:
        every = [*document["found"], *document.get("shown", ())]
        found = [(float(each["count"]), float(each["deviation"])) for each in every]
        numbers = [float(document[name]) for name in ("threshold", "no_answer", "unexplained")]
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
        raise ParameterError(_NOT_ONE) from None
    together = [*numbers, *(each for pair in found for each in pair)]
    if not all(math.isfinite(each) and abs(each) <= _MOST_PEOPLE for each in together):
        raise ParameterError(_NOT_ONE)
    threshold, no_answer, unexplained = numbers
    deviation = max((each for _, each in found), default=0.0)
    counts = tuple(count for count, _ in found)
    answered = max(0.0, sum(counts) + unexplained)
    if answered < 1:
        raise ParameterError("found: nobody wrote anything in the window")
    return LastWindow(counts, threshold + _SURELY * deviation, answered, max(0.0, no_answer))
