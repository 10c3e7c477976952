"""Names of faults that show only in all draws of a bucket or of a window."""

import math

import numpy as np

from aggregator.steward.audit.bucket_checks import columns, over_windows
from aggregator.steward.audit.fault import Fault, FaultKind
from aggregator.steward.audit.noise_table import Integers, NoiseTable
from aggregator.steward.audit.pair_events import law_check
from aggregator.steward.audit.tail_bounds import log_tail
from aggregator.steward.audit.window_checks import totals

_CLEAR = math.log(1e-8)
"""The p-value below which a check counts as evidence of a fault."""

_ALONE = 1e-9
"""A bucket is far off if fewer than this many are expected at its distance from 0."""

_TAIL = 1 / 50
"""The part of all buckets, those with sums furthest from 0, that shows on which side they are."""


def of_buckets(party: str, rows: Integers, table: NoiseTable) -> list[Fault]:
    """Name what is added to few buckets in every window, or what windows share."""
    windows, buckets = rows.shape
    if windows == 1 or columns(party, rows, table).log_p > _CLEAR:
        return []
    law = over_windows(table, windows)
    sums = rows.sum(axis=0)
    tails = np.append(np.cumsum(law.magnitudes()[::-1])[::-1], 0.0)
    chances = tails[np.minimum(np.abs(sums), len(tails) - 1)]
    is_far = chances * buckets < _ALONE
    rest = rows[:, ~is_far]
    if is_far.any() and rest.size and _is_right(party, rest, table):
        added = float(np.median(sums[is_far])) / windows
        where = ", ".join(map(str, np.flatnonzero(is_far)[:4]))
        text = f"about {added:.3g} is added to {is_far.sum()} buckets in every window: {where}"
        return [Fault(party, FaultKind.BIASED, text)]
    edge = int(np.argmax(tails < _TAIL))
    above, below = int((sums >= edge).sum()), int((sums <= -edge).sum())
    is_uneven = float(log_tail(above, above + below, 1 / 2)) < math.log(1e-5)
    if is_uneven and _has_right_core(sums, law):
        text = f"over all windows {above} buckets are at least {edge}, and {below} at most -{edge}"
        return [Fault(party, FaultKind.BIASED, text)]
    if law_check(party, rows, table).log_p < _CLEAR:
        return []
    ratio = float(sums.std()) / law.deviation
    text = f"sums over windows have {ratio:.3g} times the deviation that they should have"
    return [Fault(party, FaultKind.COMMON, text)]


def of_totals(party: str, rows: Integers, table: NoiseTable) -> list[Fault]:
    """Name the fault of windows whose noise adds up to too little or too much."""
    is_off = totals(party, rows, table).log_p < _CLEAR
    if not is_off or law_check(party, rows, table).log_p < _CLEAR:
        return []
    sums = ", ".join(map(str, rows.sum(axis=1)))
    text = f"the noise of each window adds up to little or to much: {sums}"
    return [Fault(party, FaultKind.CORRELATED, text)]


def _has_right_core(sums: Integers, law: NoiseTable) -> bool:
    """Return whether as many sums are near 0 as should be, so that most buckets are right."""
    inside = np.cumsum(law.magnitudes())
    middle = int(np.argmax(inside >= 1 / 2))
    near = int((np.abs(sums) <= middle).sum())
    return float(log_tail(near, len(sums), inside[middle])) > math.log(1e-4)


def _is_right(party: str, rows: Integers, table: NoiseTable) -> bool:
    checks = law_check(party, rows, table), columns(party, rows, table)
    return all(check.log_p > _CLEAR for check in checks)
