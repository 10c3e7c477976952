"""Filters: limits on the sum of costs that hold whatever a collector chooses.

The collector decides after each release whether to go on, and may choose the next mechanism and its
cost after seeing what was released. Then only epsilons, deltas and rhos may simply be added up. A
filter is a limit on these sums, fixed before the first release and enforced: a release that would
exceed it is refused. What all releases promise together follows from the *limit*; the same theorem
applied to the running sum promises nothing, since the collector chooses when to look (`dp.odometer`
is for that).
"""

import dataclasses
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache

from aggregator.dp.certified import exp, round_up_closely
from aggregator.dp.rationals import format_rational, require_positive
from aggregator.dp.zcdp import implied_epsilon
from aggregator.errors import ParameterError

DELTA_LIMIT = Fraction(1, 100)
"""Deltas at or above this are refused: each person may be exposed with that probability."""


@dataclasses.dataclass(frozen=True, slots=True)
class Cost:
    """What releases cost a person who is in all of them.

    Attributes:
        epsilon: The sum of their epsilons; None if one of them has none, such as Gaussian noise.
        rho: The sum of their rhos. If delta is not 0, the rhos are those of mechanisms that equal
            the releases except in events with these probabilities.
        delta: The sum of their deltas.
    """

    epsilon: Fraction | None = Fraction(0)
    rho: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)

    def __add__(self, other: "Cost") -> "Cost":
        epsilon = None
        if self.epsilon is not None and other.epsilon is not None:
            epsilon = self.epsilon + other.epsilon
        return Cost(epsilon, self.rho + other.rho, self.delta + other.delta)

    def times(self, count: int) -> "Cost":
        """Return the cost of `count` releases of this cost, in constant time."""
        epsilon = None if self.epsilon is None else count * self.epsilon
        return Cost(epsilon, count * self.rho, count * self.delta)


def cost_of_dp(epsilon: Fraction, delta: Fraction = Fraction(0), count: int = 1) -> Cost:
    """Return the cost of `count` independent (epsilon, delta)-DP mechanisms.

    Args:
        epsilon: Of one of them, at least 0.
        delta: Of one of them, from 0 to below 1/100.
        count: How many, at least 0; the time taken does not depend on it.

    Raises:
        ParameterError: An argument is out of range.
    """
    _check_not_negative(epsilon, "epsilon")
    _check_not_negative(delta, "delta")
    _check_below_limit(delta)
    _check_count(count)
    return Cost(count * epsilon, count * rho_of_pure(epsilon), count * delta)


def cost_of_zcdp(rho: Fraction, count: int = 1) -> Cost:
    """Return the cost of `count` independent rho-zCDP mechanisms, or raise `ParameterError`."""
    _check_not_negative(rho, "rho")
    _check_count(count)
    total = count * rho
    # Neighbours at rho = 0 have the same law: there is no loss at all.
    return Cost(None if total else Fraction(0), total)


def total(costs: Iterable[Cost]) -> Cost:
    """Return the sum of costs; many equal ones are faster as one cost, made with a `count`."""
    return sum(costs, start=Cost())


@lru_cache(maxsize=256)
def rho_of_pure(epsilon: Fraction) -> Fraction:
    """Return the least rho such that every epsilon-DP mechanism is rho-zCDP, rounded up.

    rho = epsilon tanh(epsilon / 2). Every epsilon-DP pair of laws is post-processing of randomised
    response [KOV17], for which, with k = alpha - 1 > 0,

        ln E[e^(k L)] = ln cosh((k + 1/2) epsilon) - ln cosh(epsilon / 2)

    As a function of y^2 the slope of ln cosh(y) is tanh(y) / 2y, which falls, so the difference is
    at most ((k + 1/2)^2 - 1/4) epsilon^2 tanh(epsilon/2) / epsilon = k (k + 1) rho. No smaller rho
    will do: randomised response has E[L] = rho. It lies below the usual epsilon^2 / 2.

    Raises:
        ParameterError: epsilon is negative.
    """
    _check_not_negative(epsilon, "epsilon")
    if epsilon == 0:
        return Fraction(0)
    return round_up_closely(lambda digits: epsilon * (2 / (1 + exp(-epsilon, digits)) - 1))


@dataclasses.dataclass(frozen=True, slots=True)
class Filter:
    """Limits on what all releases cost together, fixed before the first one and enforced.

    Attributes:
        epsilon: Limit on the sum of epsilons; None for no limit.
        rho: Limit on the sum of rhos; None for no limit.
        delta: Limit on the sum of deltas, below 1/100; with the usual 0 no release may have a
            delta.

    Raises:
        ParameterError: There is no limit on epsilon or rho, or one of them is out of range.
    """

    epsilon: Fraction | None = None
    rho: Fraction | None = None
    delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        if self.epsilon is None and self.rho is None:
            raise ParameterError("a filter needs a limit on epsilon or on rho")
        if self.epsilon is not None:
            require_positive(self.epsilon, "epsilon")
        if self.rho is not None:
            require_positive(self.rho, "rho")
        _check_not_negative(self.delta, "delta")
        _check_below_limit(self.delta)

    def allows(self, cost: Cost) -> bool:
        """Return whether all releases, including the one asked for, may cost this much.

        Gaussian noise has no epsilon, so a limit on epsilon allows none.
        """
        if self.epsilon is not None and (cost.epsilon is None or cost.epsilon > self.epsilon):
            return False
        if self.rho is not None and cost.rho > self.rho:
            return False
        return cost.delta <= self.delta

    def epsilon_of_all(self, delta: Fraction) -> Fraction:
        """Return the epsilon of everything that the filter ever allows, together.

        All releases are (this, self.delta + delta)-DP, however the mechanisms, their costs and the
        moment to stop are chosen. As the limits are constants, that holds for each delta by itself,
        and the smaller of two bounds is also a bound.

        *Proof.* Let L_n be the loss after n releases of costs rho_1, ..., rho_n, each known before
        its release is made. For every k > 0, exp(k L_n - k (k + 1) (rho_1 + ... + rho_n)) is a
        supermartingale: whatever came before, a release multiplies it by at most 1 on average. So
        at the end, whenever that is, its mean is at most 1 and the sum at most rho, hence
        E[exp(k L)] <= exp(k (k + 1) rho): the whole is rho-zCDP, and `implied_epsilon` follows. A
        limit on epsilon bounds the loss itself. A mechanism with (epsilon_i, delta_i) is
        epsilon_i-DP except for an event of probability delta_i [KOV17], and these probabilities add
        up to at most self.delta.

        With rho = epsilon^2 / 2 and the conversion rho + 2 sqrt(rho ln(1/delta)) the middle part is
        the filter of [WRRW23], which has the constants of advanced composition; both the rho and
        the conversion used here are smaller.

        Args:
            delta: For the step from rho to epsilon, below 1/100.

        Raises:
            ParameterError: delta is out of range.

        Source: [RRUV16] for epsilon; [FZ21] for rho; [WRRW23] for both with deltas; [CKS20],
        Corollary 13, for the conversion.
        """
        check_delta(delta)
        bounds = [] if self.epsilon is None else [self.epsilon]
        if self.rho is not None:
            bounds.append(implied_epsilon(self.rho, delta))
        return min(bounds)


def check_delta(delta: Fraction) -> None:
    """Refuse a delta that does not lie strictly between 0 and 1/100."""
    require_positive(delta, "delta")
    _check_below_limit(delta)


def _check_below_limit(delta: Fraction) -> None:
    if delta >= DELTA_LIMIT:
        raise ParameterError(
            f"delta must be below {format_rational(DELTA_LIMIT)}, not {format_rational(delta)}"
        )


def _check_not_negative(value: Fraction, name: str) -> None:
    if value < 0:
        raise ParameterError(f"{name} must be at least 0, not {format_rational(value)}")


def _check_count(count: int) -> None:
    if count < 0:
        raise ParameterError(f"count must be at least 0, not {count}")
