"""Whether the noise of two running aggregators is as their task says: tests with a stated error.

The maker of all reports of a batch knows both un-noised aggregate shares; the holder of the
collector's key opens both noised ones. The difference is each aggregator's own noise, one draw per
bucket, so that one release of a long histogram is thousands of draws from an exactly known law;
their sum is the error of the result. Each of the three series, `leader`, `helper` and `sum`, is
checked for:

- `law`: how often |Z| <= m for each m, Z = v for each v, and Z = r modulo 2, 3, 4 and 5: binomial
  counts with exact probabilities;
- `extremes`: whether the largest |Z| of n draws is possible: n P(|Z| >= it), the union bound;
- `signs`: how many nonzero draws are positive (a fair coin), in total and in each window;
- `windows`: for each pair of windows, and each cyclic shift of one, forwards and backwards, in
  how many buckets |Z| is equal (a binomial count: no bucket is in two pairs) and in how many signs
  agree (a fair coin);
- `buckets`: the same within each window at each lag. Products of signs along a lag are independent
  fair coins, since its pairs form paths. Equal magnitudes are bounded only from above: given all
  earlier ones, each has at most the probability of the likeliest magnitude.

- `silence` and `columns`: what each bucket shows over windows (`bucket_checks`); `totals` and
  `order`: what whole windows show (`window_checks`).

Between the two aggregators, `peers` and `order` ask what `windows` and `order` ask, in the same
window and in different ones; and `reports` compares the reports counted with those uploaded. Signs
are tested given all magnitudes: the laws are symmetric. Every p-value is a bound that holds for
every number of draws (see `tail_bounds`), multiplied by the number of events that a check looks at;
each check gets an equal share of the false alarm probability. So a pair that adds the right noise
is accused with at most that probability, whatever its task.
"""

import dataclasses
import itertools
import math
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from aggregator.errors import ParameterError
from aggregator.steward.audit.bucket_checks import columns, silence
from aggregator.steward.audit.noise_table import LARGEST, Integers, NoiseTable
from aggregator.steward.audit.pair_check import Check, check_of
from aggregator.steward.audit.pair_events import law_check
from aggregator.steward.audit.tail_bounds import log_tail, log_tail_above
from aggregator.steward.audit.window_checks import order, totals

SERIES = ("leader", "helper", "sum")
Spectrum: TypeAlias = npt.NDArray[np.complex128]

_FAIR = 0.5
_CHECKS = 9 * len(SERIES) + 3
_ENTRIES_AT_ONCE = 2**17
"""Of rows that are transformed together, 1 MiB; one after the other takes four times as long."""


@dataclasses.dataclass(frozen=True, slots=True)
class Mistake:
    """A report that is not in a share exactly once.

    Attributes:
        party: Whose share: `leader` or `helper`.
        text: Which report it is, and what is wrong.
    """

    party: str
    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class Releases:
    """The results of some windows, less the true sums.

    Noise is int64 of shape (windows, buckets), clipped to `LARGEST`. `counted` reports are as the
    leader says. Each of `mistakes` is a report that is missing from a share, or in it more than
    once; the share's noise is what remains after correcting that.
    """

    leader: Integers
    helper: Integers
    total: Integers
    counted: tuple[int, ...]
    uploaded: tuple[int, ...]
    mistakes: tuple["Mistake", ...] = ()

    def __post_init__(self) -> None:
        if self.leader.ndim != 2 or self.leader.size == 0:  # noqa: PLR2004 - windows and buckets
            raise ParameterError("releases: there must be at least one window with one bucket")
        if not self.leader.shape == self.helper.shape == self.total.shape:
            raise ParameterError("releases: all three series must have one shape")
        if not len(self.counted) == len(self.uploaded) == len(self.leader):
            raise ParameterError("releases: each window must have both counts of reports")

    def series(self) -> Iterator[tuple[str, Integers]]:
        """Yield the three series by name."""
        yield from zip(SERIES, (self.leader, self.helper, self.total), strict=True)


@dataclasses.dataclass(frozen=True, slots=True)
class Laws:
    """What the noise should be: one aggregator's draw, and the sum of both."""

    single: NoiseTable
    both: NoiseTable

    @classmethod
    def of(cls, single: NoiseTable) -> "Laws":
        """Return the laws for two aggregators that both draw from the same law, value by value."""
        return cls(single, single.plus(single))


@dataclasses.dataclass(frozen=True, slots=True)
class Likeness:
    """How alike pairs of draws are, by their distance; every array has one entry for each lag.

    Attributes:
        lags: How far apart the draws are, in buckets.
        pairs: How many pairs there are.
        equal: In how many pairs |Z| is equal.
        agree: In how many pairs the signs agree.
        nonzero: In how many pairs neither draw is zero.
    """

    lags: Integers
    pairs: Integers
    equal: Integers
    agree: Integers
    nonzero: Integers

    @classmethod
    def across(cls, left: Integers, right: Integers) -> "Likeness":
        """Compare two rows at every cyclic shift."""
        length = len(left)
        return cls(np.arange(length), np.full(length, length), *_alike(left, right, length))

    @classmethod
    def within(cls, rows: Integers) -> "Likeness":
        """Compare each row with itself at every lag, and add up the rows."""
        windows, length = rows.shape
        # The zeros at the end keep values from coming back in when they are shifted out.
        found = np.array([_alike(row, row, 2 * length) for row in rows]).sum(axis=0)
        lags = np.arange(1, length)
        return cls(lags, windows * (length - lags), *found[:, 1:length])

    def describe(self, index: int, same: float) -> str:
        """Describe one comparison: indices run over all magnitudes first, then over all signs."""
        at = index % len(self.lags)
        lag = self.lags[at]
        where = f"{lag} apart" if lag else "bucket by bucket"
        if index < len(self.lags):
            pairs = self.pairs[at]
            equal = f"{self.equal[at]} of {pairs} pairs, {same * pairs:.1f} expected"
            return f"{where}: |Z| is equal in {equal}"
        return f"{where}: signs agree in {self.agree[at]} of {self.nonzero[at]} pairs"


def audit(releases: Releases, laws: Laws, false_alarm: float) -> list[Check]:
    """Make every check once.

    The laws say what the noise should be. `false_alarm` is the probability, at most, that any check
    refuses right noise; a `ParameterError` if it is not between 0 and 1.
    """
    threshold = check_threshold(false_alarm)
    checks = []
    for name, draws in releases.series():
        table = laws.both if name == "sum" else laws.single
        rows = table.in_steps(draws)
        checks += [
            law_check(name, rows, table),
            _extremes(name, rows, table),
            _signs(name, rows),
            _windows(name, rows, table),
            _buckets(name, rows, table),
            silence(name, draws, table),
            columns(name, rows, table),
            totals(name, rows, table),
            order(name, _pairs_of_windows(rows)),
        ]
    peers = _pairs_of_peers(releases, laws.single)
    checks += [
        _across("pair", "peers", peers, laws.single),
        order("pair", peers),
        _reports(releases),
    ]
    return [dataclasses.replace(each, is_refused=each.log_p < threshold) for each in checks]


def check_threshold(false_alarm: float) -> float:
    """Return the logarithm of the p-value below which a check of `audit` refuses.

    Raises `ParameterError` if the false alarm is not between 0 and 1.
    """
    if not 0 < false_alarm < 1:
        raise ParameterError(f"false_alarm must be between 0 and 1, not {false_alarm}")
    return math.log(false_alarm / _CHECKS)


def same_probability(table: NoiseTable) -> float:
    """Return the probability that two independent draws have the same magnitude."""
    return float((table.magnitudes() ** 2).sum())


def _extremes(name: str, rows: Integers, table: NoiseTable) -> Check:
    largest = int(np.abs(rows).max())
    tail = float(table.magnitudes()[largest:].sum())
    log_p = math.log(tail * rows.size) if tail > 0 else -math.inf
    size = f"beyond {LARGEST}" if largest == LARGEST else str(largest)
    return check_of(name, "extremes", 1, log_p, f"the largest |Z| of {rows.size} draws is {size}")


def _signs(name: str, rows: Integers) -> Check:
    positive = np.concatenate([[(rows > 0).sum()], (rows > 0).sum(axis=1)])
    nonzero = np.concatenate([[(rows != 0).sum()], (rows != 0).sum(axis=1)])
    logs = log_tail(positive, nonzero, _FAIR)
    worst = int(np.argmin(logs))
    where = "all windows" if worst == 0 else f"window {worst}"
    text = f"{positive[worst]} of {nonzero[worst]} draws that are not 0 are positive in {where}"
    return check_of(name, "signs", len(logs), logs[worst], text)


def _windows(name: str, rows: Integers, table: NoiseTable) -> Check:
    return _across(name, "windows", _pairs_of_windows(rows), table)


def _pairs_of_windows(rows: Integers) -> list[tuple[str, Integers, Integers]]:
    return [
        (f"windows {i + 1} and {j + 1}", rows[i], rows[j])
        for i, j in itertools.combinations(range(len(rows)), 2)
    ]


def _pairs_of_peers(releases: Releases, table: NoiseTable) -> list[tuple[str, Integers, Integers]]:
    return [
        (f"the leader's window {i + 1} and the helper's {j + 1}", ours, theirs)
        for i, ours in enumerate(table.in_steps(releases.leader))
        for j, theirs in enumerate(table.in_steps(releases.helper))
    ]


def _across(
    name: str, check: str, pairs: list[tuple[str, Integers, Integers]], table: NoiseTable
) -> Check:
    """Compare independent rows with each other, at every cyclic shift, forwards and backwards."""
    same = same_probability(table)
    log_p, worst, events = math.inf, "nothing to compare", 0
    turned = [(f"{label} reversed", left, right[::-1]) for label, left, right in pairs]
    for label, left, right in [*pairs, *turned]:
        found = Likeness.across(left, right)
        logs = np.concatenate(
            [log_tail(found.equal, found.pairs, same), log_tail(found.agree, found.nonzero, _FAIR)]
        )
        events += len(logs)
        index = int(np.argmin(logs))
        if logs[index] < log_p:
            log_p, worst = float(logs[index]), f"{label}, {found.describe(index, same)}"
    return check_of(name, check, events, log_p, worst)


def _buckets(name: str, rows: Integers, table: NoiseTable) -> Check:
    """Compare each row with itself, at every lag."""
    found, likeliest = Likeness.within(rows), float(table.magnitudes().max())
    logs = np.concatenate(
        [
            log_tail_above(found.equal, found.pairs, likeliest),
            log_tail(found.agree, found.nonzero, _FAIR),
        ]
    )
    if not len(logs):
        return check_of(name, "buckets", 0, 0.0, "nothing to compare")
    index = int(np.argmin(logs))
    text = f"buckets of one window, {found.describe(index, likeliest)}"
    return check_of(name, "buckets", len(logs), logs[index], text)


def _reports(releases: Releases) -> Check:
    """Compare the number of reports counted with that uploaded: chance plays no part."""
    wrong = [mistake.text for mistake in releases.mistakes]
    wrong += [
        f"window {index + 1} holds {counted} reports by the leader's word, {uploaded} were uploaded"
        for index, (counted, uploaded) in enumerate(
            zip(releases.counted, releases.uploaded, strict=True)
        )
        if counted != uploaded
    ]
    text = "; ".join(wrong) or "every window holds the reports that were uploaded for it"
    return check_of("pair", "reports", 1, -math.inf if wrong else 0.0, text)


def _alike(left: Integers, right: Integers, size: int) -> tuple[Integers, Integers, Integers]:
    """Compare `left[i]` with `right[i + d]` for all shifts d, cyclically modulo `size`.

    Returns for each d how many magnitudes are equal, how many signs agree, and how many pairs are
    both not zero.
    """

    def together(*rows: npt.NDArray[np.generic]) -> Spectrum:
        first, second = (np.fft.rfft(each.astype(np.float64), size) for each in rows)
        return np.conj(first) * second

    def counts(spectra: Spectrum) -> Integers:
        return np.rint(np.fft.irfft(spectra, size)).astype(np.int64)

    left_sizes, right_sizes = np.abs(left), np.abs(right)
    equal = np.zeros(size // 2 + 1, np.complex128)
    values = np.intersect1d(left_sizes, right_sizes)
    at_once = max(1, _ENTRIES_AT_ONCE // size)
    for first in range(0, len(values), at_once):
        some = values[first : first + at_once, np.newaxis]
        equal += together(left_sizes == some, right_sizes == some).sum(axis=0)
    nonzero = counts(together(left != 0, right != 0))
    product = counts(together(np.sign(left), np.sign(right)))
    return counts(equal), (nonzero + product) // 2, nonzero
