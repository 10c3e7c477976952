"""Quantiles of what was reported, from the noised counts of a histogram's bins.

The p-quantile lies in the first bin up to which at least p of all reports lie. Bin J is ruled out
if the counts up to J are too small for that, or if the counts up to J - 1 are too large: by more
than their noise exceeds with a probability of half the miss. If the quantile is in J, that happens
with at most the miss. So the bins that are not ruled out need no correction for their number.
"""

import dataclasses
import itertools
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from typing_extensions import override

from aggregator.collector.results.intervals import Bound, ConfidenceInterval
from aggregator.collector.results.sums import SumLaw, check_confidence
from aggregator.collector.results.values import Exact, Noised, Quantity, Source, check_noised
from aggregator.dp.decimals import integer_in
from aggregator.dp.utility import DEFAULT_CONFIDENCE
from aggregator.errors import ParameterError

if TYPE_CHECKING:
    from aggregator.dp.laws import NoiseLaw

_MOST_WIDTHS = 12
"""How many exact widths are computed at each end before a bin is kept without one."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Quantile(Quantity):
    """The value below which a part of the reports lie.

    Attributes:
        bins: The noised counts, in the order of the edges.
        edges: One more than there are bins, in ascending order, measured in `unit`; a bin holds
            what lies between two.
        part: p, above 0 and at most 1: 1/2 is the median.
        report_count: How many reports there are in all bins, if that is public.
    """

    bins: Sequence[Noised]
    edges: Sequence[Exact]
    part: Fraction
    report_count: int | None = None

    def __post_init__(self) -> None:
        check_noised(*self.bins)
        if not self.bins or len(self.edges) != len(self.bins) + 1:
            raise ParameterError(
                f"edges must be one more than the bins, not {len(self.edges)} of {len(self.bins)}"
            )
        if any(low >= high for low, high in itertools.pairwise(self.edges)):
            raise ParameterError("edges must be in ascending order")
        _check_part(self.part)
        if sum(len(bin_.terms) for bin_ in self.bins) != len(self.sources()):
            raise ParameterError("bins must have no noise in common")
        if self.report_count is not None:
            integer_in(self.report_count, "report_count", 1, None)

    @property
    @override
    def estimate(self) -> Fraction:
        """The quantile as if reports were spread evenly in the bin that it is seen in."""
        excess = self.excesses()
        last = next((j for j, value in enumerate(excess) if value >= 0), len(excess) - 1)
        before = excess[last - 1] if last else -self._wanted()
        low, high = Fraction(self.edges[last]), Fraction(self.edges[last + 1])
        if excess[last] <= before:
            return high
        inside = -before / (excess[last] - before)
        return low + (high - low) * min(max(inside, Fraction(0)), Fraction(1))

    @override
    def sources(self) -> frozenset[Source]:
        return frozenset[Source]().union(*(bin_.sources() for bin_ in self.bins))

    @property
    @override
    def limits(self) -> tuple[Bound, Bound]:
        return Fraction(self.edges[0]), Fraction(self.edges[-1])

    @override
    def interval(self, confidence: Fraction = DEFAULT_CONFIDENCE) -> ConfidenceInterval:
        low, high = self.kept(confidence)
        return ConfidenceInterval(
            Fraction(self.edges[low]),
            Fraction(self.edges[high + 1]),
            confidence,
            "whole bins, each ruled out by the exact law or not",
        )

    def kept(self, confidence: Fraction) -> tuple[int, int]:
        """Return the first and the last bin that the quantile may be in."""
        check_confidence(confidence)
        excess, noise = self.excesses(), BinNoise(self.bins)
        last = len(excess) - 1

        def rules_out(beyond: Fraction, up_to: int, *, at_border: bool) -> bool:
            law = SumLaw.counted(noise.counts(up_to, self.taken(up_to)))
            width = law.chernoff_width(confidence)
            if beyond <= width and noise.asked < _MOST_WIDTHS:
                noise.asked += 1
                width = min(width, law.width(confidence).size)
            return beyond > width or (at_border and beyond == width)

        low = 0
        while low < last and excess[low] < 0 and rules_out(-excess[low], low, at_border=False):
            low += 1
        noise.asked = 0
        high = last
        # Bin 0 is never too high, as no bin is below it.
        while (
            high and excess[high - 1] >= 0 and rules_out(excess[high - 1], high - 1, at_border=True)
        ):
            high -= 1
        return min(low, high), max(low, high)

    def excesses(self) -> list[Fraction]:
        """Return, for each bin, how many more reports are seen up to it than p of all.

        Where the number of reports is public, bin J takes the share (J + 1) / bins of what all
        counts are off by: that is what least squares would do.
        """
        seen = self._seen()
        off = Fraction(0) if self.report_count is None else seen - self.report_count
        wanted = self._wanted()
        up_to = itertools.accumulate(bin_.value for bin_ in self.bins)
        return [
            value - off * Fraction(j + 1, len(self.bins)) - wanted for j, value in enumerate(up_to)
        ]

    def taken(self, last: int) -> Fraction:
        """Return the part of all counts that is subtracted from those up to a bin."""
        return self.part if self.report_count is None else Fraction(last + 1, len(self.bins))

    def _wanted(self) -> Fraction:
        """Return how many reports lie at or below the quantile."""
        return self.part * (self._seen() if self.report_count is None else self.report_count)

    def _seen(self) -> Fraction:
        return sum((bin_.value for bin_ in self.bins), Fraction(0))


def _check_part(part: object) -> None:
    if not isinstance(part, int | Fraction) or not 0 < part <= 1:
        raise ParameterError(f"part must be a Fraction above 0 and at most 1, not {part!r}")


class BinNoise:
    """The laws of the noise of excesses, from how often each law and weight is in each bin.

    Attributes:
        asked: How many exact widths were computed.
    """

    def __init__(self, bins: Sequence[Noised]) -> None:
        import numpy as np

        laws = [bin_.law for bin_ in bins]
        kinds = sorted({(part.law, part.weight) for law in laws for part in law.parts}, key=repr)
        place = {kind: index for index, kind in enumerate(kinds)}
        counts = np.zeros((len(bins), len(kinds)), np.int64)
        for row, law in zip(counts, laws, strict=True):
            for part in law.parts:
                row[place[part.law, part.weight]] = part.count
        self._kinds, self._up_to = kinds, counts.cumsum(axis=0)
        self.asked = 0

    def counts(self, last: int, taken: Fraction) -> "Counter[tuple[NoiseLaw, Fraction]]":
        """Return how often each law and weight is in the noise up to a bin, minus a part of all."""
        counts: Counter[tuple[NoiseLaw, Fraction]] = Counter()
        below, all_ = self._up_to[last], self._up_to[-1]
        for (law, weight), left, every in zip(self._kinds, below, all_, strict=True):
            counts[law, weight * (1 - taken)] += int(left)
            counts[law, weight * taken] += int(every - left)
        return counts


def median(
    bins: Sequence[Noised],
    edges: Sequence[Exact],
    report_count: int | None = None,
    *,
    label: str = "",
    unit: str = "",
) -> Quantile:
    """Return the median of what was counted in bins."""
    return Quantile(bins, edges, Fraction(1, 2), report_count, label=label, unit=unit)
