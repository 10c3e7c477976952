"""A choice among the selection rules, for several buckets per person and either relation.

For `kappa` buckets per person, the optimal, Laplace and truncated geometric rules spend a kappa-th
of epsilon and of delta on each bucket; the Gaussian rule keeps both whole and lets its
sensitivity grow as sqrt(kappa). That is why it overtakes the others near kappa = 3.

Under the replacement relation a person leaves one set of buckets and enters another. Buckets are
decided independently, so the two moves compose: every rule runs at (epsilon/2, delta/2).

A number that is out of its range raises `ParameterError`.
"""

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Literal

from aggregator.dp.decimals import Number, integer_in, rational_in
from aggregator.dp.search import least
from aggregator.errors import ParameterError
from aggregator.papers.partition_selection import OptimalSelection
from aggregator.papers.selection_rivals import (
    GaussianSelection,
    LaplaceSelection,
    TruncatedGeometricRelease,
)

SelectionRule = Literal["optimal", "laplace", "gaussian"]
MIDPOINTS = (Fraction(1, 20), Fraction(1, 2), Fraction(19, 20))


def optimal_selection(
    epsilon: Number, delta: Number, kappa: int = 1, neighbours: str = "add-remove"
) -> OptimalSelection:
    """Set up the optimal rule alone; see `SelectionPlan.of`, which takes its time."""
    whole, chance = _of_a_move(epsilon, delta, kappa, neighbours)
    return OptimalSelection(whole / kappa, chance / kappa)


def _of_a_move(
    epsilon: Number, delta: Number, kappa: int, neighbours: str
) -> tuple[Fraction, Fraction]:
    if neighbours not in ("add-remove", "replacement"):
        raise ParameterError(
            f"neighbours must be 'add-remove' or 'replacement', not {neighbours!r}"
        )
    moves = 2 if neighbours == "replacement" else 1
    integer_in(kappa, "kappa", 1, 10**6)
    whole, chance = rational_in(epsilon, "epsilon", 0, 1000), rational_in(delta, "delta", 0, 1)
    return whole / moves, chance / moves


@dataclass(frozen=True, slots=True)
class SelectionPlan:
    """Every selection rule at one (epsilon, delta), ready to be compared.

    Attributes:
        optimal: The optimal primitive for one bucket.
        truncated_geometric: The rule that may publish its noisy count; None if delta is 0.
        laplace: None if delta is 0 or 1 or epsilon is 0.
        gaussian: None if delta is 0, 1 or exactly 1 - 2^-kappa.
    """

    optimal: OptimalSelection
    truncated_geometric: TruncatedGeometricRelease | None
    laplace: LaplaceSelection | None
    gaussian: GaussianSelection | None

    @classmethod
    def of(
        cls, epsilon: Number, delta: Number, kappa: int = 1, neighbours: str = "add-remove"
    ) -> "SelectionPlan":
        """Set up every rule that exists: epsilon from 0 to 1000, delta from 0 to 1.

        A person is in up to `kappa` buckets; neighbours are by "add-remove" or "replacement".
        """
        whole, chance = _of_a_move(epsilon, delta, kappa, neighbours)
        each, each_chance = whole / kappa, chance / kappa
        possible = 0 < chance < 1
        return cls(
            OptimalSelection(each, each_chance),
            TruncatedGeometricRelease.of(each, each_chance) if chance else None,
            LaplaceSelection.of(each, each_chance) if possible and each else None,
            GaussianSelection.of(whole, chance, kappa)
            if possible and chance != 1 - Fraction(1, 2**kappa)
            else None,
        )

    @property
    def midpoints(self) -> dict[SelectionRule, Decimal]:
        """The count each rule keeps half of the time, as a real number."""
        found: dict[SelectionRule, Decimal | None] = {
            "optimal": self.optimal.count_kept_with(MIDPOINTS[1]),
            "laplace": self.laplace.threshold if self.laplace else None,
            "gaussian": self.gaussian.threshold if self.gaussian else None,
        }
        return {rule: midpoint for rule, midpoint in found.items() if midpoint is not None}

    @property
    def recommended(self) -> SelectionRule | None:
        """The rule with the smallest midpoint; None if delta is 0 and nothing may be shown."""
        midpoints = self.midpoints
        # Every bucket that exists has a count of at least 1: a midpoint below that gains nothing.
        return min(midpoints, key=lambda rule: max(midpoints[rule], Decimal(1)), default=None)

    def smallest_count(self, rule: SelectionRule, probability: Fraction) -> int | None:
        """Return the least count that `rule` shows with at least `probability`, in (0, 1)."""
        if rule == "optimal":
            return self.optimal.smallest_count(probability)
        rival = self.laplace if rule == "laplace" else self.gaussian
        if rival is None:
            return None
        return max(1, int(rival.count_kept_with(probability).to_integral_value("ROUND_CEILING")))

    def smallest_count_released(self, probability: Fraction) -> int | None:
        """Return the least count the truncated geometric release shows with `probability`."""
        release = self.truncated_geometric
        if release is None:
            return None
        goal = Decimal(probability.numerator) / Decimal(probability.denominator)
        return least(lambda count: release.keep_probability(count) >= goal, 1, 2 * release.k + 1)


@dataclass(frozen=True, slots=True)
class TwoThresholds:
    """One truncated geometric release over a public and a private list of buckets.

    Both lists get the same noise. A private bucket, known only from the data, is shown above k, so
    that no empty bucket appears. A bucket of the public list may have any threshold t: 0 shows
    every public bucket that survives its noise and many empty ones, k shows no empty one.

    Source: [DVGM22], "Discussion".
    """

    release: TruncatedGeometricRelease
    public_threshold: int

    def threshold(self, *, is_public: bool) -> int:
        """Return the threshold a noisy count must exceed."""
        return self.public_threshold if is_public else self.release.k

    def keep_probability(self, count: int, *, is_public: bool) -> Decimal:
        """Return the probability that a bucket of `count` persons is shown."""
        if not is_public and count == 0:
            return Decimal(0)
        return self.release.keep_probability(count, self.threshold(is_public=is_public))
