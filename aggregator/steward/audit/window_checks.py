"""What whole windows show: their totals, and whether one window permutes another.

- `totals`: the sum of a window's draws, whose law is that of a draw convolved as often as there are
  buckets: whether all totals are nearer to 0 than they should be, whether one is too far from it,
  and whether the total of all windows is.
- `order`: whether two windows have the same magnitudes equally often. Given the magnitudes of both
  together, every way to divide them into two halves is equally likely: with 2 n_v of each magnitude
  v, two windows of L draws are alike with probability product C(2 n_v, n_v) / C(2 L, L), whatever
  the law. So noise that is permuted, reversed or strided is found, with any signs.
"""

import math
from collections.abc import Sequence

import numpy as np

from aggregator.steward.audit.noise_table import Floats, Integers, NoiseTable
from aggregator.steward.audit.pair_check import Check, check_of, log_of, log_pmf

TOTALS = 3
"""How many events `totals` looks at."""

_ERROR = 1e-12
"""More than the rounding error of a total's probability."""

_DEVIATIONS = 20


def totals(name: str, rows: Integers, table: NoiseTable) -> Check:
    """Check whether totals of windows are as far from 0 as they should be."""
    windows, buckets = rows.shape
    sums = np.abs(rows.sum(axis=1))
    near, far, of_all = int(sums.max()), int(sums.max()), abs(int(rows.sum()))
    found = [
        (
            windows * log_of(within(table, buckets, near)),
            f"no window's draws add up to more than {near}",
        ),
        (
            log_of(windows) + log_of(_beyond(table, buckets, far)),
            f"the draws of window {int(np.argmax(sums)) + 1} add up to {far} or its negative",
        ),
        (
            log_of(_beyond(table, buckets * windows, of_all)),
            f"all draws add up to {of_all} or its negative",
        ),
    ]
    log_p, text = min(found, key=lambda each: each[0])
    return check_of(name, "totals", TOTALS, log_p, text)


def order(name: str, pairs: Sequence[tuple[str, Integers, Integers]]) -> Check:
    """Check whether a row has the magnitudes of another, in any order."""
    log_p, worst = 0.0, "no two have the same magnitudes"
    for label, left, right in pairs:
        found = alike_log_p(left, right)
        if found is not None and found <= log_p:
            log_p, worst = found, f"{label} have the same magnitudes, in whatever order"
    return check_of(name, "order", len(pairs), log_p, worst)


def alike_log_p(left: Integers, right: Integers) -> float | None:
    """Return ln of the probability that rows are as alike as these; None if they differ."""
    values, counts = np.unique(np.abs(left), return_counts=True)
    others, of_others = np.unique(np.abs(right), return_counts=True)
    if not (np.array_equal(values, others) and np.array_equal(counts, of_others)):
        return None
    return float(_log_halves(counts).sum() - _log_halves(np.array([len(left)]))[0])


def order_power(table: NoiseTable, buckets: int, log_threshold: float) -> float:
    """Return a lower bound on the probability that a permuted window is refused.

    The p-value of a permuted window is a sum over magnitudes of a function that falls with their
    counts. Counts of a fixed number of draws are negatively associated, so the variance of the sum
    is at most that of its terms, and Cantelli's inequality bounds how often it is not low enough.
    """
    chances = table.magnitudes()
    chances = chances[(chances > 0) & (chances < 1)]
    counts = np.arange(buckets + 1)
    terms = _log_halves(counts) - counts * math.log(4)
    weights = np.exp(log_pmf(buckets, chances))
    means = weights @ terms
    variance = float((weights @ terms**2 - means**2).sum())
    whole = float(_log_halves(np.array([buckets]))[0]) - buckets * math.log(4)
    room = log_threshold - (float(means.sum()) - whole)
    return room**2 / (room**2 + max(variance, 0.0)) if room > 0 else 0.0


def within(table: NoiseTable, draws: int, largest: int) -> float:
    """Return a lower bound on the probability that draws add up to at most this size."""
    law = _total(table, draws)
    middle = len(law) // 2
    low, high = max(0, middle - largest), min(len(law), middle + largest + 1)
    return min(1.0, float(law[low:high].sum()) + _ERROR)


def _beyond(table: NoiseTable, draws: int, least: int) -> float:
    law = _total(table, draws)
    middle = len(law) // 2
    inside = law[max(0, middle - least + 1) : middle + least].sum() if least else 0.0
    return min(1.0, max(0.0, 1.0 - float(inside)) + _ERROR)


def _total(table: NoiseTable, draws: int) -> Floats:
    """Return the law of the sum of `draws` draws, on a circle with 0 in the middle.

    Beyond 20 standard deviations and the reach of single draws, the mass that wraps around is far
    below `_ERROR`, and so is the rounding error.
    """
    reach = math.ceil(_DEVIATIONS * table.deviation * math.sqrt(draws)) + 4 * table.reach
    half = 1 << (min(reach, draws * table.reach) + 1).bit_length()
    circle = np.zeros(2 * half)
    circle[table.values % (2 * half)] = table.probabilities
    law = np.fft.irfft(np.fft.rfft(circle) ** draws, 2 * half)
    return np.roll(law, half)


def _log_halves(counts: Integers) -> Floats:
    """Return ln C(2 n, n) of each n."""
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, 2 * int(counts.max()) + 1)))])
    return np.asarray(logs[2 * counts] - 2 * logs[counts], np.float64)
