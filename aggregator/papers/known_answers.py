"""Thresholding without noise, against an attacker who knows some of the other answers.

An active attacker chose them. A passive one knows some people's answers but chose none of them:
there the published theorem loses a factor of 10^3 to 10^6, since for equally likely answers knowing
some costs almost nothing.

A number that is out of its range raises `ParameterError`.

Source: [Des20], Theorem 4, second form; Definition 58.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from aggregator.collector.results.binomial import DIGITS, Binomial
from aggregator.collector.results.partial_knowledge import (
    SuppressionBound,
    Thresholding,
    epsilon_of,
    level_in,
)
from aggregator.dp.decimals import Number, integer_in, to_decimal, working
from aggregator.dp.search import least
from aggregator.errors import ParameterError

_FIRST_DELTAS = 256


def against_active_attacker(release: Thresholding, known: int) -> Thresholding:
    """Return a release that is as private without known answers as `release` is with them.

    The attacker chose `known` answers, at worst all "yes", which lowers the threshold by as many;
    above the threshold it reads every count ([Des20], Proposition 28).
    """
    integer_in(known, "known", 0, release.reports - 1)
    if known > release.threshold:
        raise ParameterError(
            f"known must be at most the threshold {release.threshold} for an active attacker, not"
            f" {known}: who can cast that many 'yes' answers sees every count"
        )
    return Thresholding(release.reports - known, release.probability, release.threshold - known)


@dataclass(frozen=True, slots=True)
class PassiveAttacker:
    """An attacker who knows `known` of the other answers, drawn like all others, but chose none."""

    release: Thresholding
    known: int

    @classmethod
    def of(cls, release: Thresholding, known: int) -> "PassiveAttacker":
        """Make it; `known` is from 0 to one less than the number of reports."""
        return cls(release, integer_in(known, "known", 0, release.reports - 1))

    def bound(self) -> SuppressionBound:
        """Return the published bound with the b_max that makes its delta smallest.

        Raises `ParameterError` if no b_max satisfies the theorem, or the bound is above 1.
        """
        if self.known == 0:
            return self.release.bound()
        span = self._splits()
        if not span:
            raise ParameterError(
                "no b_max in 1 to T-1 has p|B|/((1-p)b_max) < 1 and p(n-|B|-1)/((1-p)(T-b_max)) < 1"
                " for this threshold, probability and known: the theorem says nothing"
            )
        with working():
            b_max, known, other = min(self._parts(span), key=lambda parts: parts[1] + parts[2])
            delta = known + other
            if delta >= 1:
                raise ParameterError(
                    f"the theorem's delta is {delta:.6g}, above 1: it says nothing"
                )
            ratio = to_decimal(self._odds * self._others / (self.release.threshold - b_max))
            return SuppressionBound(epsilon_of(other), delta, ratio, b_max)

    def delta(self, epsilon: Number = 0) -> Decimal:
        """Return the exact delta at `epsilon`, 0 to 1000, averaged over what the attacker may know.

        It is sum_b f(b, |B|, p) delta(n-|B|, T-b) over the number b of "yes" among the known.
        """
        level_in(epsilon)
        known = Binomial(self.known, self.release.probability)
        mode = min(self.known, int((self.known + 1) * self.release.probability))
        with working(DIGITS):
            odds = to_decimal(known.success / (1 - known.success))
            total, weight = Decimal(0), known.mass(mode)
            at_mode = weight
            # Above the mode, delta may grow to 1 while its weight falls: stop once the remaining
            # weights, at most a geometric series, cannot matter. Below it, both fall.
            for b, delta in self._deltas_given(range(mode, self.known + 1), epsilon):
                total += weight * delta
                ratio = odds * (self.known - b) / (b + 1)
                if ratio < 1 and weight * ratio < total * Decimal("1e-30") * (1 - ratio):
                    break
                weight *= ratio
            weight = at_mode
            for b, delta in self._deltas_given(range(mode - 1, -1, -1), epsilon):
                weight *= (b + 1) / (odds * (self.known - b))
                part = weight * delta
                total += part
                if weight * mode < total * Decimal("1e-30") or part * mode < total * Decimal(
                    "1e-35"
                ):
                    break
            return total

    def _deltas_given(self, known: range, epsilon: Number) -> Iterator[tuple[int, Decimal]]:
        """Yield each number of "yes" among the known, and the delta that is left.

        Neighbouring values share sums of masses, so they are computed together, each time twice as
        many.
        """
        unknown = Thresholding(self.release.reports - self.known, self.release.probability, -1)
        start, size = 0, _FIRST_DELTAS
        while some := known[start : start + size]:
            low, high = min(some[0], some[-1]), max(some[0], some[-1])
            # A threshold below zero shows every count, as -1 does.
            thresholds = range(self._left(high), self._left(low) + 1)
            deltas = unknown.deltas(thresholds, epsilon)
            for b in some:
                yield b, deltas[self._left(b) - thresholds.start]
            start, size = start + size, 2 * size

    def _left(self, b: int) -> int:
        """Return the threshold that is left for the unknown answers, after `b` known "yes"."""
        unknown = self.release.reports - self.known
        return min(max(self.release.threshold - b, -1), unknown)

    def _splits(self) -> range:
        """Return a range that holds the b_max with the smallest delta; empty if none is allowed.

        The known people's term falls with b_max and the others' term grows. The smallest sum is at
        most the sum where they meet, so it cannot lie where either term alone exceeds that.
        """
        release = self.release
        low = int(self._odds * self.known) + 1
        # T - b_max > odds * others.
        beyond = min(release.threshold, -int(-(release.threshold - self._odds * self._others) // 1))
        if beyond <= low:
            return range(0)

        def parts(b_max: int) -> tuple[Decimal, Decimal]:
            ((_, known, other),) = self._parts(range(b_max, b_max + 1))
            return known, other

        with working():
            meeting = least(lambda b: parts(b)[0] <= parts(b)[1], low, beyond - 1)
            best = sum(parts(meeting))
            first = least(lambda b: parts(b)[0] <= best, low, meeting)
            return range(first, least(lambda b: parts(b)[1] > best, meeting, beyond))

    def _parts(self, span: range) -> list[tuple[int, Decimal, Decimal]]:
        """Return each b_max with the two terms of the theorem's delta, for known and others."""
        threshold, probability = self.release.threshold, self.release.probability
        known = Binomial(self.known, probability).masses(span)
        rest = range(threshold - span[-1], threshold - span[0] + 1)
        others = reversed(Binomial(self._others, probability).masses(rest))
        with working():
            odds_known = to_decimal(self._odds * self.known)
            odds_others = to_decimal(self._odds * self._others)
            return [
                (b, mass / (1 - odds_known / b), other / (1 - odds_others / (threshold - b)))
                for b, mass, other in zip(span, known, others, strict=True)
            ]

    @property
    def _odds(self) -> Fraction:
        return self.release.probability / (1 - self.release.probability)

    @property
    def _others(self) -> int:
        """How many answers are neither known nor the person's own."""
        return self.release.reports - self.known - 1
