"""What each bucket shows over several windows, where all draws together look right.

- `silence`: the longest run of buckets that are 0 in every window, anywhere and at either end; how
  many such buckets there are; and the longest run of zeros in one window. A run of r buckets from a
  given one on is 0 in all W windows with probability P(Z = 0)^(r W), whatever else happens, and it
  may begin at any bucket.
- `columns`: the sums of each bucket's draws over all windows, against their law, which is that of
  a draw convolved W times. Noise that windows share makes the law wide; a number that is added to a
  few buckets in every window grows W times while the noise does not; and noise that windows take
  back makes the law narrow.
"""

import dataclasses
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from aggregator.steward.audit.noise_table import Integers, NoiseTable
from aggregator.steward.audit.pair_check import Check, check_of, log_of
from aggregator.steward.audit.pair_events import Events, law_check
from aggregator.steward.audit.tail_bounds import log_tail

Flags = npt.NDArray[np.bool_]

SILENCES = 5
"""How many events `silence` looks at; each has its own factor for the places where it may be."""


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """Buckets next to each other, from the first on; none if the length is 0."""

    first: int
    length: int

    @override
    def __str__(self) -> str:
        if not self.length:
            return "no buckets"
        return f"buckets {self.first} to {self.first + self.length - 1}"


def silent_run(rows: Integers) -> Run:
    """Return the longest run of buckets that are 0 in every row, or the first of equal length."""
    return _longest((rows == 0).all(axis=0))


def run_log_p(run: Run, windows: int, buckets: int, zero: float) -> float:
    """Return ln of a bound on the p-value of a run; a draw is 0 with probability `zero`."""
    if not run.length:
        return 0.0
    at_end = run.first == 0 or run.first + run.length == buckets
    places = 1 if at_end else buckets
    return log_of(places) + run.length * windows * log_of(zero)


def silence(name: str, rows: Integers, table: NoiseTable) -> Check:
    """Check for buckets without noise."""
    windows, buckets = rows.shape
    zero = table.zero
    silent = (rows == 0).all(axis=0)
    ends = (Run(0, _leading(silent)), Run(buckets - _leading(silent[::-1]), _leading(silent[::-1])))
    longest = _longest(silent)
    every = zero**windows
    found = [
        (log_of(buckets) + longest.length * windows * log_of(zero), f"{longest} are 0 in all"),
        *((each.length * windows * log_of(zero), f"{each} are 0 in all") for each in ends),
        (
            float(log_tail(silent.sum(), buckets, every)),
            f"{silent.sum()} buckets are 0 in all windows, {every * buckets:.1f} expected",
        ),
    ]
    runs = [_longest(row == 0) for row in rows]
    place = int(np.argmax([each.length for each in runs]))
    found.append(
        (
            log_of(windows * buckets) + runs[place].length * log_of(zero),
            f"{runs[place]} are 0 in window {place + 1}",
        )
    )
    log_p, text = min(found, key=lambda each: each[0])
    return check_of(name, "silence", SILENCES, log_p, text)


def columns(name: str, rows: Integers, table: NoiseTable) -> Check:
    """Check whether sums over windows have their law."""
    windows = len(rows)
    law = over_windows(table, windows)
    sums = rows.sum(axis=0)[None, :]
    pooled = law_check(name, sums, law, is_one_sided=True)
    largest = int(np.abs(sums).max())
    beyond = log_of(float(law.magnitudes()[largest:].sum()) * sums.size)
    log_p, worst = min(
        (pooled.log_p, f"of sums over windows: {pooled.worst}"),
        (beyond, f"the largest sum over windows of {sums.size} buckets is {largest}"),
    )
    # Each bound has its own factor for the events that it looks at.
    found = check_of(name, "columns", 2, log_p, worst)
    return dataclasses.replace(found, events=pooled.events + 1)


@lru_cache(maxsize=4)
def over_windows(table: NoiseTable, windows: int) -> NoiseTable:
    """Return the law of the sum of a bucket's draws over windows."""
    law, power = NoiseTable(np.ones(1)), table
    while windows:
        if windows % 2:
            law = law.plus(power)
        windows //= 2
        power = power.plus(power) if windows else power
    return law


def column_events(table: NoiseTable, windows: int, buckets: int) -> Events:
    """Return the events that `columns` counts."""
    return Events.of(over_windows(table, windows), buckets, is_one_sided=True)


def _leading(flags: Flags) -> int:
    return len(flags) if flags.all() else int(np.argmin(flags))


def _longest(flags: Flags) -> Run:
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(np.int8), [0]])))
    starts, ends = edges[::2], edges[1::2]
    if not len(starts):
        return Run(0, 0)
    place = int(np.argmax(ends - starts))
    return Run(int(starts[place]), int(ends[place] - starts[place]))
