"""What is told beside each found string: decoded from the tables of all levels.

Each report tells a string and one of several levels (`aggregator.client.text.levels`). Strings are
found in the sum of all tables, as ever. Then each level's table is fitted by the same least
squares. Of those who hold a string, the part with the upper level, times the range, is the mean of
their numbers above the least; the part with a label's level is the part who chose it (`means`).
"""

import dataclasses
import math
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from aggregator.client.text.amounts import Range
from aggregator.client.text.hashing import NO_ANSWER, TextHashes
from aggregator.client.text.levels import Told, entries_of
from aggregator.dp.utility import DEFAULT_CONFIDENCE
from aggregator.errors import ParameterError
from aggregator.steward.text.candidates import Candidates
from aggregator.steward.text.decode import Decoded, Found, decode, interval
from aggregator.steward.text.fit import Fit
from aggregator.steward.text.laws import Floats
from aggregator.steward.text.means import ONE, HowMuch, MeanLaw, expected_half_width
from aggregator.steward.text.plan import TextPlan

_MORE: Final = 3
"""Errors of means are told for strings of the fewest people and of so many times as many."""


def decode_beside(
    hashes: TextHashes,
    tables: npt.NDArray[np.int64],
    told: Told | None,
    candidates: Candidates,
    *,
    confidence: float = 0.95,
    **settings: Any,  # noqa: ANN401 - those of `decode`
) -> Decoded:
    """Return which candidates people hold, and what they told beside each.

    Args:
        hashes: The question's hashes.
        tables: A row for each task: its histogram as it was released, with its noise.
        told: The numbers that are possible, or the labels; None if only strings are asked for.
        candidates: The strings to try.
        confidence: The confidence of each interval.
        settings: More arguments of `decode`.

    Raises:
        ParameterError: As `decode` says.
    """
    if told is None:
        return decode(hashes, tables, candidates, confidence=confidence, **settings)
    levels = _levels(hashes, tables, told.levels)
    nobody = tables[:, [NO_ANSWER]]
    together = np.concatenate([nobody, levels.sum(axis=0)], axis=1)
    decoded = decode(hashes, together, candidates, confidence=confidence, **settings)
    strings = [*decoded.found, *decoded.shown]
    if not strings:
        return decoded
    fitted = _Fitted(hashes, levels.astype(np.float64), strings)
    if isinstance(told, Range):
        weights = np.array([0.0, float(told.size)])
        much = fitted.how_much(told, weights, confidence, is_drawn=True)
        known = [
            dataclasses.replace(each, amount=of) for each, of in zip(strings, much, strict=True)
        ]
    else:
        # Who chose a label is as who gave 1, and everybody else as who gave 0.
        cells = [
            fitted.how_much(ONE, weights, confidence, is_drawn=False)
            for weights in np.eye(told.levels)
        ]
        known = [
            dataclasses.replace(each, by=tuple(zip(told.labels, of, strict=True)))
            for each, *of in zip(strings, *cells, strict=True)
        ]
    found, shown = known[: len(decoded.found)], known[len(decoded.found) :]
    return dataclasses.replace(decoded, found=tuple(found), shown=tuple(shown))


def foretold_half_width(plan: TextPlan, asked: Range, count: float, confidence: float) -> float:
    """Return half the width, at most, of the mean's interval for what `count` people write."""
    low, high = interval(count, plan.deviation, plan.threshold, confidence)
    return expected_half_width(asked, (count, low, high), plan.deviation, confidence)


def foretold_half_widths(plan: TextPlan, asked: Range) -> list[tuple[int, float]]:
    """Return the same, at 95 %, for the fewest people that are surely found, and for more.

    Empty if nothing is surely found.
    """
    least, sure = math.ceil(plan.found_from), float(DEFAULT_CONFIDENCE)
    return [
        (count, foretold_half_width(plan, asked, count, sure))
        for count in (least, _MORE * least)
        if least <= count < plan.tail.people
    ]


def foretold_deviation(plan: TextPlan) -> float:
    """Return the standard deviation of how many of a found string's people chose one label."""
    return plan.deviation / math.sqrt(plan.levels)


def _levels(hashes: TextHashes, tables: npt.NDArray[np.int64], count: int) -> npt.NDArray[np.int64]:
    """Return the table of each level, without the entry for no answer."""
    entries = entries_of(hashes.length, count)
    if tables.shape != (hashes.tasks, entries):
        raise ParameterError(
            f"tables must be {hashes.tasks} of {entries} entries, not "
            f"{' of '.join(map(str, tables.shape))}"
        )
    strings = np.delete(tables, NO_ANSWER, axis=1)
    return strings.reshape(hashes.tasks, count, hashes.buckets).swapaxes(0, 1)


class _Fitted:
    """Strings that are fitted together to the table of each level, and what is left of these."""

    def __init__(self, hashes: TextHashes, levels: Floats, strings: list[Found]) -> None:
        self._tasks, self._strings = hashes.tasks, strings
        prints = np.array([each.fingerprint for each in strings], np.uint32)
        self._fit = fit = Fit(hashes, prints)
        tables = levels - levels.mean(axis=2, keepdims=True)
        self._parts = np.array([fit.parts(each) for each in tables])
        left = np.array(
            [fit.left(table, parts) for table, parts in zip(tables, self._parts, strict=True)]
        )
        self._noise = _covariance(left[:, fit.quiet()])
        # Near the threshold, remainders exceed those of other buckets: take the larger covariance.
        self._covariances = self._noise, _covariance(left.reshape(len(left), -1))
        self._gains = fit.gains()

    def how_much(
        self, asked: Range, weights: Floats, confidence: float, *, is_drawn: bool
    ) -> list[HowMuch]:
        """Return the sum and the mean of the levels' weights, of those who hold each string.

        A level is drawn if each person's is one by chance, by a number of theirs.
        """
        noise, counts = self._noise, self._parts.sum(axis=0) * self._tasks
        # Only tables without noise have no remainders.
        base = float(weights @ noise.sum(axis=1) / noise.sum()) if noise.any() else weights.mean()
        own = weights - base
        variance = max(own @ each @ own for each in self._covariances)
        variances = variance * np.diag(self._fit.inverse) + self._chance(own, is_drawn=is_drawn)
        deviations = self._tasks * np.sqrt(np.maximum(variances, 0))
        rests = weights @ self._parts * self._tasks - base * counts
        return [
            HowMuch.of(
                MeanLaw(asked, float(base), float(rest), float(deviation)),
                (each.count, each.low, each.high),
                confidence,
            )
            for each, rest, deviation in zip(self._strings, rests, deviations, strict=True)
        ]

    def _chance(self, weights: Floats, *, is_drawn: bool) -> Floats:
        """Return the variance, for one task, of each string's sum of weights that chance causes.

        It is in how each found string's people toss and, if levels are drawn, in these. The mean
        weight of a report, and the mean square of it, are taken within what is possible.
        """
        held = np.maximum(self._parts, 0) * self._tasks
        some = held.sum(axis=0)
        shares = held / np.where(some > 0, some, 1)
        squared = weights**2 @ shares
        fixed = (weights @ shares) ** 2 if is_drawn else squared
        counts = np.maximum(self._parts.sum(axis=0) * self._tasks, 0)
        total, squares = self._gains
        chance = counts * squared @ squares / self._tasks
        return np.asarray(chance - counts * fixed @ (total / self._tasks) ** 2, np.float64)


def _covariance(left: Floats) -> Floats:
    return np.asarray(np.cov(left, bias=True), np.float64)
