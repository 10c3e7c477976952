"""How surely an audit of a pair finds a fault: lower bounds on its power, known beforehand.

Each bound is for one check alone, so the audit as a whole does no worse. For noise tabulated in
steps, the law at another scale is computed from the steps, and so is right to about one part in
10^4.
"""

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from aggregator.steward.audit.bucket_checks import (
    SILENCES,
    Run,
    column_events,
    over_windows,
    run_log_p,
)
from aggregator.steward.audit.noise_table import NoiseTable
from aggregator.steward.audit.other_laws import FAMILIES, of_deviation
from aggregator.steward.audit.pair_audit import check_threshold, same_probability
from aggregator.steward.audit.pair_events import Events
from aggregator.steward.audit.tail_bounds import log_tail, log_tail_above, miss
from aggregator.steward.audit.window_checks import TOTALS, order_power, within

SURELY = 0.999
"""The power at which the smallest detectable faults are stated."""

_BISECTIONS = 20
_ROUNDING = 1e-9
_WIDEST_FACTOR = 2.0
"""The largest factor of the scale that is tried."""


@dataclasses.dataclass(frozen=True, slots=True)
class Power:
    """A fault of one aggregator, and the power to find it.

    The probability is a lower bound, by the check that is named.
    """

    fault: str
    check: str
    probability: float


@dataclasses.dataclass(frozen=True, slots=True)
class Reach:
    """The smallest faults that are found with a probability of at least `SURELY`.

    Attributes:
        scale_below: The factor of a scale that is too small; None if no such fault is surely found.
        scale_above: The factor of a scale that is too large; None if no such fault is surely found.
        repeated_share: The share of the buckets in which a later window repeats an earlier one.
        silent_run: The length of a run of buckets that have no noise in any window.
        silent_share: The share of buckets that have no noise in any window, wherever they are.
        biased_share: The share of buckets to which twice the deviation is added.
        common_share: The share of the variance that all windows have in common.
    """

    scale_below: float | None
    scale_above: float | None
    repeated_share: float | None
    silent_run: int | None
    silent_share: float | None
    biased_share: float | None
    common_share: float | None


@dataclasses.dataclass(frozen=True, slots=True)
class PowerOfAudit:
    """The power of an audit of `windows` windows with `buckets` each.

    `table` is the law of one aggregator's draw; the false alarm is that of the whole audit.
    """

    table: NoiseTable
    windows: int
    buckets: int
    false_alarm: float

    def faults(self) -> list[Power]:
        """Return the power against one example of each kind of fault."""
        table, reach = self.table, self.table.reach
        laws = [
            ("adds no noise", NoiseTable(np.ones(1))),
            ("adds noise of half the scale", table.rescaled(1 / 2)),
            ("adds noise of twice the scale", table.rescaled(2)),
            ("adds noise of 9/10 of the scale", table.rescaled(9 / 10)),
            (f"adds {table.step} to every bucket", table.shifted(1)),
        ]
        laws += [
            (f"cuts its noise off at {times} times its deviation", table.cut_off(times))
            for times in (3, 6)
        ]
        laws += [
            (f"adds {name} of the same deviation", of_deviation(weights, table.deviation, reach))
            for name, weights in FAMILIES.items()
        ]
        return [
            *(Power(f, "law", self._of_law(law)) for f, law in laws if _differ(law, table)),
            Power("repeats its noise in another window", "windows", self._of_repeats(1.0)),
            Power("reverses its noise in another window", "windows", self._of_repeats(1.0)),
            Power("permutes its noise in another window", "order", self._of_order()),
            Power("draws once for two neighbouring buckets", "buckets", self._of_neighbours()),
            Power("adds the other aggregator's noise", "peers", self._of_peers()),
            *(
                Power(
                    f"adds the other aggregator's noise to 1 of {one_of} buckets",
                    "peers",
                    self._of_some_peers(1 / one_of),
                )
                for one_of in (2, 10)
            ),
            Power("adds no noise to the last bucket", "silence", self._of_run(1, is_end=True)),
            Power("adds no noise to the last 16 buckets", "silence", self._of_run(16, is_end=True)),
            Power("adds no noise to some 16 buckets in a row", "silence", self._of_run(16)),
            Power("adds no noise to 1 of 50 buckets", "silence", self._of_silent(1 / 50)),
            Power(
                f"adds {self.offset * table.step} to 1 of 100 buckets, in every window",
                "columns",
                self._of_columns(self._biased(1 / 100)),
            ),
            Power(
                "adds one draw in all windows, to 1 of 10 buckets",
                "columns",
                self._of_columns(self._repeated(1 / 10)),
            ),
            *(
                Power(f"has {share} of its noise's variance in common in all windows", *found)
                for share, found in (
                    ("1/10", self._of_common(0.1)),
                    ("1/20", self._of_common(0.05)),
                )
                if found is not None
            ),
            Power("adds noise that adds up to 0 in every window", "totals", self._of_zero_totals()),
        ]

    def reach(self) -> Reach:
        """Return the smallest faults that are found with power `SURELY`."""

        def below(x: float) -> float:
            return float(_WIDEST_FACTOR**-x)

        def above(x: float) -> float:
            return float(_WIDEST_FACTOR**x)

        down = _least(lambda x: self._of_law(self.table.rescaled(below(x))))
        up = _least(lambda x: self._of_law(self.table.rescaled(above(x))))
        return Reach(
            scale_below=None if down is None else below(down),
            scale_above=None if up is None else above(up),
            repeated_share=_least(self._of_repeats),
            silent_run=next(
                (run for run in range(1, self.buckets + 1) if self._of_run(run) > 0), None
            ),
            silent_share=_least(self._of_silent),
            biased_share=_least(lambda share: self._of_columns(self._biased(share))),
            common_share=_least(lambda share: (self._of_common(share) or ("", 0.0))[1]),
        )

    def _log_threshold(self, events: int) -> float:
        return check_threshold(self.false_alarm) - math.log(max(1, events))

    def _of_law(self, law: NoiseTable) -> float:
        draws = self.windows * self.buckets
        events = Events.of(self.table, draws)
        expected = events.shares(self.table.values, self.table.probabilities)
        true = events.shares(law.values, law.probabilities)
        missed = miss(draws, expected, true, self._log_threshold(len(events)))
        return 1 - float(np.nan_to_num(missed, nan=1.0).min())  # none can miss what neither draws

    def _of_repeats(self, share: float) -> float:
        pairs = self.windows * (self.windows - 1) // 2
        if pairs == 0:
            return 0.0
        same = same_probability(self.table)
        true = share + (1 - share) * same
        threshold = self._log_threshold(4 * self.buckets * pairs)
        return 1 - float(miss(self.buckets, same, true, threshold))

    def _of_neighbours(self) -> float:
        """Return the power (1 or 0) if every other pair of neighbours has equal magnitudes."""
        pairs = self.windows * (self.buckets - 1)
        equal = self.windows * (self.buckets // 2)
        likeliest = float(self.table.magnitudes().max())
        threshold = self._log_threshold(2 * (self.buckets - 1))
        return float(log_tail_above(equal, pairs, likeliest) < threshold)

    def _of_peers(self) -> float:
        """Return the power (1 or 0) if both aggregators' magnitudes in a window are equal."""
        threshold = self._log_threshold(4 * self.buckets * self.windows**2)
        log_p = log_tail(self.buckets, self.buckets, same_probability(self.table))
        return float(log_p < threshold)

    def _of_some_peers(self, share: float) -> float:
        """Return the power if both aggregators' noise is the same in a share of the buckets."""
        same = same_probability(self.table)
        threshold = self._log_threshold(4 * self.buckets * self.windows**2)
        missed = float(miss(self.buckets, same, share + (1 - share) * same, threshold))
        return 1 - missed**self.windows

    def _of_order(self) -> float:
        pairs = self.windows * (self.windows - 1) // 2
        if pairs == 0:
            return 0.0
        return order_power(self.table, self.buckets, self._log_threshold(pairs))

    def _of_run(self, length: int, *, is_end: bool = False) -> float:
        """Return the power (1 or 0) if a run of this length is silent in every window."""
        first = self.buckets - length if is_end else 1
        if first < 0 or length > self.buckets:
            return 0.0
        zero = self.table.zero
        log_p = run_log_p(Run(first, length), self.windows, self.buckets, zero)
        return float(log_p < self._log_threshold(SILENCES))

    def _of_silent(self, share: float) -> float:
        zero = self.table.zero**self.windows
        true = share + (1 - share) * zero
        return 1 - float(miss(self.buckets, zero, true, self._log_threshold(SILENCES)))

    @property
    def offset(self) -> int:
        """Twice the deviation, in steps: what is added to single buckets."""
        return max(1, round(2 * self.table.deviation))

    def _biased(self, share: float) -> NoiseTable:
        law = over_windows(self.table, self.windows)
        return _mixed(law, law.shifted(self.windows * self.offset), share)

    def _repeated(self, share: float) -> NoiseTable:
        law = over_windows(self.table, self.windows)
        repeated = np.zeros(2 * self.table.reach * self.windows + 1)
        repeated[:: self.windows] = self.table.probabilities
        return _mixed(law, NoiseTable(repeated), share)

    def _of_common(self, share: float) -> tuple[str, float] | None:
        """Return the check and its power, if a draw can be divided into independent parts.

        A part of the variance corresponds to the same power of the characteristic function. Returns
        None for laws where that may be negative.
        """
        reach, windows = self.table.reach, self.windows
        length = 1 << (4 * windows * reach + 1).bit_length()
        angles = np.arange(length)
        circle = np.zeros(length)
        circle[self.table.values % length] = self.table.probabilities
        function = np.fft.fft(circle).real
        if function.min() <= _ROUNDING**2:
            return None
        common = function[angles * windows % length] ** share
        sums = np.fft.ifft(common * function ** (windows * (1 - share))).real
        weights = np.maximum(np.roll(sums, windows * reach)[: 2 * windows * reach + 1], 0)
        return "columns", self._of_columns(NoiseTable(weights / weights.sum()))

    def _of_columns(self, law: NoiseTable) -> float:
        tested = over_windows(self.table, self.windows)
        events = column_events(self.table, self.windows, self.buckets)
        expected = events.shares(tested.values, tested.probabilities)
        true = events.shares(law.values, law.probabilities)
        threshold = self._log_threshold(2 * len(events))
        return 1 - float(miss(self.buckets, expected, true, threshold).min())

    def _of_zero_totals(self) -> float:
        """Return the power (1 or 0) if all totals are 0, which cannot be seen in steps."""
        if self.table.step > 1:
            return 0.0
        log_p = self.windows * math.log(within(self.table, self.buckets, 0))
        return float(log_p < self._log_threshold(TOTALS))


def _mixed(law: NoiseTable, other: NoiseTable, share: float) -> NoiseTable:
    """Return the law of draws of which a share follows another law."""
    reach = max(law.reach, other.reach)
    both = [np.pad(each.probabilities, reach - each.reach) for each in (law, other)]
    return NoiseTable((1 - share) * both[0] + share * both[1])


def _differ(law: NoiseTable, table: NoiseTable) -> bool:
    """Return whether two laws differ by more than rounding."""
    if law.reach != table.reach:
        return True
    return bool(np.abs(law.probabilities - table.probabilities).max() > _ROUNDING)


def _least(power: Callable[[float], float]) -> float | None:
    """Return the least x in (0, 1] with enough power, which grows with x; None if there is none."""
    if power(1.0) < SURELY:
        return None
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if power(middle) >= SURELY else (middle, high)
    return high
