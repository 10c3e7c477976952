"""What independent mechanisms cost together: bounds on epsilon for a chosen delta.

Both theorems hold for mechanisms and a number of releases that are fixed beforehand: they promise
nothing if a collector chooses when to stop. `optimal` is exact for n mechanisms of which nothing is
known except that each is epsilon-DP. Every result is rounded up.
"""

import dataclasses
import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

from aggregator.dp.certified import exp, ln, round_up_closely, sqrt
from aggregator.dp.decimals import to_decimal, working
from aggregator.dp.rationals import require_positive, require_probability
from aggregator.errors import ParameterError

MAX_RELEASES = 100_000
"""The most releases that `optimal` composes: it sums a term for each."""

_DECIMALS = 12
_GUARD_DIGITS = 60
_LARGEST_EPSILON = 10**6
_LARGEST_ADVANCED = 1000


@dataclasses.dataclass(frozen=True, slots=True)
class Pieces:
    """Independent mechanisms, each (`epsilon`, `delta`)-differentially private."""

    count: int
    epsilon: Fraction
    delta: Fraction = Fraction(0)


def advanced(pieces: Sequence[Pieces], delta: Fraction) -> Fraction | None:
    """Return sqrt(2 ln(1/delta) sum of epsilon^2) + sum of epsilon (e^epsilon - 1).

    The loss of one mechanism lies in [-epsilon, epsilon] and is at most epsilon (e^epsilon - 1) on
    average. So by Azuma's inequality the total exceeds the sum of these means by t with a
    probability of at most e^(-t^2 / (2 sum of epsilon^2)).

    Returns:
        None if a mechanism has a delta: its loss has no bound. None also for an epsilon above 1000:
        the bound is then above e^1000 and has too many digits to compute.

    Source: [DR14], Theorem 3.20, whose proof does not need equal epsilons.
    """
    for each in pieces:
        check_releases(each.epsilon, each.count, delta)
    if any(each.delta or each.epsilon > _LARGEST_ADVANCED for each in pieces):
        return None
    squares = sum((each.count * each.epsilon**2 for each in pieces), Fraction(0))
    return round_up_closely(
        lambda digits: sum(
            (each.count * each.epsilon * (exp(each.epsilon, digits) - 1) for each in pieces),
            start=sqrt(2 * squares * ln(1 / delta, digits), digits),
        )
    )


def optimal(
    epsilon: Fraction, releases: int, delta: Fraction, release_delta: Fraction = Fraction(0)
) -> Fraction | None:
    """Return the least epsilon' that any n (epsilon, release_delta)-DP mechanisms together have.

    The worst n mechanisms are n randomised responses. i of them lie with probability
    P_i = C(n, i) p^(n - i) (1 - p)^i, p = e^epsilon / (1 + e^epsilon), and the loss is then
    (n - 2i) epsilon, so that Q_i = P_(n - i) is the probability of the same under the neighbour:

        delta(epsilon') = sum of P_i - e^epsilon' Q_i over the i with (n - 2i) epsilon > epsilon'

    Between two losses that is A - e^epsilon' B with constants A and B, and is solved for epsilon'.

    Args:
        epsilon: Of one release.
        releases: n, fixed beforehand, at most `MAX_RELEASES`.
        delta: Of all releases together, fixed beforehand.
        release_delta: Of one release. The delta of all of them is
            1 - (1 - release_delta)^n (1 - d), where d is what is left for their losses.

    Returns:
        None if the deltas of the releases leave nothing of `delta`.

    Source: [KOV17], Theorem 3.3.
    """
    check_releases(epsilon, releases, delta)
    if releases > MAX_RELEASES:
        raise ParameterError(f"releases must be at most {MAX_RELEASES}, not {releases}")
    # 1 - (1 - release_delta)^n is at most n release_delta, and close to it.
    spent = releases * release_delta
    if spent >= delta:
        return None
    left = (delta - spent) / (1 - spent)
    if epsilon > _LARGEST_EPSILON:
        return releases * epsilon  # but for about -ln(1 - left) the optimum, which overflows
    return min(releases * epsilon, _randomised_responses(epsilon, releases, left))


def _randomised_responses(epsilon: Fraction, releases: int, delta: Fraction) -> Fraction:
    """Return the least epsilon' of n randomised responses at `delta`, rounded up.

    All terms are positive, and each operation is right to `_GUARD_DIGITS` more digits than 1/delta
    and 1/epsilon have. So the error is at most a few times n units of the last place, far below the
    final rounding.
    """
    small = len(str(delta.denominator)) - len(str(delta.numerator)) + 1
    decimals = _DECIMALS + (len(str(math.floor(1 / epsilon))) if epsilon < 1 else 0)
    with working(_GUARD_DIGITS + max(0, small) + decimals - _DECIMALS):
        step, target = to_decimal(epsilon), to_decimal(delta)
        odds = step.exp()
        first = _first_that_counts(releases, float(step), math.log(10) * (target.adjusted() - 60))
        # The terms before it add up to less than 10^-59 of delta, which we count as spent.
        target *= 1 - Decimal("1e-59")
        # P_i and Q_i, then C(n, i + 1) = C(n, i) (n - i) / (i + 1).
        ways = math.comb(releases, first)
        true, false = odds / (1 + odds), 1 / (1 + odds)
        truth = ways * true ** (releases - first) * false**first
        lie = ways * true**first * false ** (releases - first)
        total, neighbour_total = Decimal(0), Decimal(0)
        for i in range(first, releases + 1):
            loss = (releases - 2 * i) * step
            if loss < 0 or total - loss.exp() * neighbour_total > target:
                break
            total += truth
            neighbour_total += lie
            ratio = Decimal(releases - i) / (i + 1)
            truth = truth * ratio / odds
            lie = lie * ratio * odds
        if total <= target:
            return Fraction(0)
        root = ((total - target) / neighbour_total).ln()
        return Fraction(max(0, math.ceil(root * 10**decimals + Decimal("1e-9"))), 10**decimals)


def _first_that_counts(releases: int, epsilon: float, log_small: float) -> int:
    """Return the first i of n randomised responses before which all P_i add up to next to nothing.

    Up to their mode the P_i grow, so i of them add up to less than i times the last. Doubles do:
    their logarithms err by less than 10^-6, and a factor of ten is left.
    """
    lie = math.exp(-epsilon) / (1 + math.exp(-epsilon))
    log_lie, log_true = -epsilon - math.log1p(math.exp(-epsilon)), -math.log1p(math.exp(-epsilon))
    everything = math.lgamma(releases + 1)

    def is_small(i: int) -> bool:
        ways = everything - math.lgamma(i + 1) - math.lgamma(releases - i + 1)
        each = ways + (releases - i) * log_true + i * log_lie
        return each + math.log(releases + 1) < log_small

    low, high = 0, math.floor(releases * lie)
    while low < high:
        middle = (low + high + 1) // 2
        if is_small(middle):
            low = middle
        else:
            high = middle - 1
    return low


def check_releases(epsilon: Fraction, releases: int, delta: Fraction) -> None:
    """Refuse an epsilon, a number of releases or a delta that is out of range."""
    require_positive(epsilon, "epsilon")
    if releases < 1:
        raise ParameterError(f"releases must be at least 1, not {releases}")
    require_probability(delta, "delta")
