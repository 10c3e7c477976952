"""How surely an audit of a pair finds a fault: lower bounds on its power, known beforehand.

Each bound is for one check alone, so the audit as a whole does no worse.
"""

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from aggregator.steward.audit.noise_table import NoiseTable
from aggregator.steward.audit.other_laws import FAMILIES, of_deviation
from aggregator.steward.audit.pair_audit import Events, check_threshold, same_probability
from aggregator.steward.audit.tail_bounds import log_tail, log_tail_above, miss

SURELY = 0.999
"""The power at which the smallest faults are stated."""

_BISECTIONS = 20
_ROUNDING = 1e-9
_WIDEST_FACTOR = 2.0
"""The largest factor of the scale that is tried."""


@dataclasses.dataclass(frozen=True, slots=True)
class Power:
    """A fault of one aggregator, and how surely it is found.

    Attributes:
        fault: In words.
        check: Which check finds it.
        probability: A lower bound on the probability of finding it.
    """

    fault: str
    check: str
    probability: float


@dataclasses.dataclass(frozen=True, slots=True)
class Reach:
    """The smallest faults that are found with a probability of at least `SURELY`.

    Attributes:
        scale_below: The factor of a scale that is too small; None if no such fault is surely found.
        scale_above: The same for a scale that is too large.
        repeated_share: The share of the buckets in which a later window repeats an earlier one.
    """

    scale_below: float | None
    scale_above: float | None
    repeated_share: float | None


@dataclasses.dataclass(frozen=True, slots=True)
class PowerOfAudit:
    """The power of an audit.

    Attributes:
        table: The law of one aggregator's draw.
        windows: How many windows are collected.
        buckets: How many buckets each has.
        false_alarm: Of the whole audit.
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
            ("adds 1 to every bucket", table.shifted(1)),
        ]
        laws += [
            (f"adds {name} of the same deviation", of_deviation(weights, table.deviation, reach))
            for name, weights in FAMILIES.items()
        ]
        return [
            *(Power(f, "law", self._of_law(law)) for f, law in laws if _differ(law, table)),
            Power("repeats its noise in another window", "windows", self._of_repeats(1.0)),
            Power("draws once for two neighbouring buckets", "buckets", self._of_neighbours()),
            Power("adds the other aggregator's noise", "peers", self._of_peers()),
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
        )

    def _log_threshold(self, events: int) -> float:
        return check_threshold(self.false_alarm) - math.log(max(1, events))

    def _of_law(self, law: NoiseTable) -> float:
        draws = self.windows * self.buckets
        events = Events.of(self.table, draws)
        expected = events.shares(self.table.values, self.table.probabilities)
        true = events.shares(law.values, law.probabilities)
        return 1 - float(miss(draws, expected, true, self._log_threshold(len(events))).min())

    def _of_repeats(self, share: float) -> float:
        pairs = self.windows * (self.windows - 1) // 2
        if pairs == 0:
            return 0.0
        same = same_probability(self.table)
        true = share + (1 - share) * same
        threshold = self._log_threshold(2 * self.buckets * pairs)
        return 1 - float(miss(self.buckets, same, true, threshold))

    def _of_neighbours(self) -> float:
        """Return 1 or 0: at least every other pair of neighbours has equal magnitudes."""
        pairs = self.windows * (self.buckets - 1)
        equal = self.windows * (self.buckets // 2)
        likeliest = float(self.table.magnitudes().max())
        threshold = self._log_threshold(2 * (self.buckets - 1))
        return float(log_tail_above(equal, pairs, likeliest) < threshold)

    def _of_peers(self) -> float:
        """Return 1 or 0: every bucket of a window has equal magnitudes at both."""
        threshold = self._log_threshold(2 * self.buckets * self.windows**2)
        log_p = log_tail(self.buckets, self.buckets, same_probability(self.table))
        return float(log_p < threshold)


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
