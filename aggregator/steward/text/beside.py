"""How much people gave beside each found string: decoded from the tables of both levels.

Each report tells a string and one of two levels (`aggregator.client.text.amounts`). Strings are
found in the sum of both tables, as ever. Then each level's table is fitted by the same least
squares: of those who hold a string, the part with level 1, times the range, is the mean above the
least number (`means`).
"""

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from aggregator.client.text.amounts import LEVELS, Range, entries_of
from aggregator.client.text.hashing import NO_ANSWER, TextHashes
from aggregator.errors import ParameterError
from aggregator.steward.text.candidates import Candidates
from aggregator.steward.text.decode import Decoded, decode, interval
from aggregator.steward.text.fit import Fit
from aggregator.steward.text.laws import Floats
from aggregator.steward.text.means import HowMuch, MeanLaw, expected_half_width
from aggregator.steward.text.plan import TextPlan


def decode_beside(
    hashes: TextHashes,
    tables: npt.NDArray[np.int64],
    asked: Range | None,
    candidates: Candidates,
    *,
    confidence: float = 0.95,
    **settings: Any,  # noqa: ANN401 - those of `decode`
) -> Decoded:
    """Return which candidates people hold, and how much they gave beside each.

    Args:
        hashes: The question's hashes.
        tables: A row for each task: its histogram as it was released, with its noise.
        asked: The numbers that are possible; None if only strings are asked for.
        candidates: The strings to try.
        confidence: The confidence of each interval.
        settings: More arguments of `decode`.

    Raises:
        ParameterError: As `decode` says.
    """
    if asked is None:
        return decode(hashes, tables, candidates, confidence=confidence, **settings)
    levels = _levels(hashes, tables)
    nobody = tables[:, [NO_ANSWER]]
    together = np.concatenate([nobody, levels.sum(axis=0)], axis=1)
    decoded = decode(hashes, together, candidates, confidence=confidence, **settings)
    return _with_amounts(hashes, levels.astype(np.float64), asked, decoded, confidence)


def foretold_half_width(plan: TextPlan, asked: Range, count: float, confidence: float) -> float:
    """Return half the width, at most, of the mean's interval for what `count` people write."""
    low, high = interval(count, plan.deviation, plan.threshold, confidence)
    return expected_half_width(asked, (count, low, high), plan.deviation, confidence)


def _levels(hashes: TextHashes, tables: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the table of each level, without the entry for no answer."""
    entries = entries_of(hashes.length)
    if tables.shape != (hashes.tasks, entries):
        raise ParameterError(
            f"tables must be {hashes.tasks} of {entries} entries, not "
            f"{' of '.join(map(str, tables.shape))}"
        )
    strings = np.delete(tables, NO_ANSWER, axis=1)
    return strings.reshape(hashes.tasks, LEVELS, hashes.buckets).swapaxes(0, 1)


def _with_amounts(
    hashes: TextHashes, levels: Floats, asked: Range, decoded: Decoded, confidence: float
) -> Decoded:
    """Return the same with the amounts of all its strings, which are fitted together."""
    strings = [*decoded.found, *decoded.shown]
    if not strings:
        return decoded
    fit = Fit(hashes, np.array([each.fingerprint for each in strings], np.uint32))
    tables = levels - levels.mean(axis=2, keepdims=True)
    parts = np.array([fit.parts(each) for each in tables])
    left = np.array([fit.left(table, each) for table, each in zip(tables, parts, strict=True)])
    most = float(asked.size)
    weights, quiet = np.array([0.0, most]), fit.quiet()
    noise = _covariance(left[:, quiet])
    # Only tables without noise have no remainders.
    base = float(weights @ noise.sum(axis=1) / noise.sum()) if noise.any() else most / 2
    counts, sums = parts.sum(axis=0) * hashes.tasks, weights @ parts * hashes.tasks
    rests = sums - base * counts
    # Near the threshold, remainders exceed those of other buckets: take the larger covariance.
    most_noise = max(
        (weights - base) @ each @ (weights - base)
        for each in (noise, _covariance(left.reshape(LEVELS, -1)))
    )
    chance = _chance(fit, hashes.tasks, weights - base, parts * hashes.tasks)
    variances = most_noise * np.diag(fit.inverse) + chance
    deviations = hashes.tasks * np.sqrt(np.maximum(variances, 0))
    known = []
    for each, rest, deviation in zip(strings, rests, deviations, strict=True):
        law = MeanLaw(asked, base, float(rest), float(deviation))
        how_much = HowMuch.of(law, (each.count, each.low, each.high), confidence)
        known.append(dataclasses.replace(each, amount=how_much))
    found, shown = known[: len(decoded.found)], known[len(decoded.found) :]
    return dataclasses.replace(decoded, found=tuple(found), shown=tuple(shown))


def _covariance(left: Floats) -> Floats:
    return np.asarray(np.cov(left, bias=True), np.float64)


def _chance(fit: Fit, tasks: int, weights: Floats, held: Floats) -> Floats:
    """Return the variance, for one task, of each string's sum of weights that chance causes.

    It is in how each found string's people toss and round. The mean weight of a report, and the
    mean square of it, are taken within what is possible.
    """
    counts = np.maximum(held.sum(axis=0), 0)
    upper = np.clip(held[1] / np.where(counts > 0, counts, 1), 0, 1)
    mean = weights[0] * (1 - upper) + weights[1] * upper
    squared = weights[0] ** 2 * (1 - upper) + weights[1] ** 2 * upper
    total, squares = fit.gains()
    chance = counts * squared @ squares / tasks - counts * mean**2 @ (total / tasks) ** 2
    return np.asarray(chance, np.float64)
