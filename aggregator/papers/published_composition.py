"""Composition bounds as published, for comparison with those of `dp.composition`."""

from fractions import Fraction

from aggregator.dp.accounting import check_releases
from aggregator.dp.certified import Enclosure, exp, ln, round_up_closely, sqrt
from aggregator.dp.rationals import require_positive
from aggregator.dp.zcdp import textbook_epsilon
from aggregator.errors import ParameterError
from aggregator.papers.cost_model import CostModel

THEOREM_9_LABEL = (
    "published bound (Dandekar et al.); valid for Laplace noise, though its proof is not, and"
    " larger than what zcdp and optimal of `prio plan compose` give: prefer those"
)


def zcdp_textbook(epsilon: Fraction, releases: int, delta: Fraction) -> Fraction:
    """Return rho + 2 sqrt(rho ln(1/delta)) with rho = n epsilon^2 / 2.

    [BS16], Propositions 1.3 and 1.4.
    """
    check_releases(epsilon, releases, delta)
    return textbook_epsilon(releases * epsilon**2 / 2, delta)


def privacy_at_risk_theorem_9(
    epsilon: Fraction, risky_epsilon: Fraction, gamma: Fraction, releases: int, delta: Fraction
) -> Fraction:
    """Return the bound of [DBB20], Theorem 9, as published, for comparison only.

    It is epsilon sqrt(2 n ln(1/delta)) + n mu, with mu = gamma risky_epsilon (e^risky_epsilon - 1)
    + (1 - gamma) epsilon (e^epsilon - 1), for the smaller `risky_epsilon` that is claimed with the
    confidence gamma; 0 gives `advanced`.

    Its proof is wrong. For Laplace noise the number is an upper bound all the same, but larger than
    those of `zcdp` and `optimal`, which involve no "risk".
    """
    check_releases(epsilon, releases, delta)
    require_positive(risky_epsilon, "risky_epsilon")
    if not 0 <= gamma <= 1:
        raise ParameterError(f"gamma must be from 0 to 1, not {gamma}")

    def bound(digits: int) -> Enclosure:
        risky = gamma * risky_epsilon * (exp(risky_epsilon, digits) - 1)
        rest = (1 - gamma) * epsilon * (exp(epsilon, digits) - 1)
        spread = epsilon * sqrt(2 * releases * ln(1 / delta, digits), digits)
        return spread + releases * (risky + rest)

    return round_up_closely(bound)


def published_pair(epsilon: Fraction) -> tuple[Fraction, Fraction]:
    """Return the level and the confidence of the published optimum, to thirty digits."""
    optimum = CostModel.of(1, 1).published_optimum(epsilon)
    return Fraction(f"{optimum.epsilon:.30e}"), Fraction(f"{optimum.confidence:.30e}")
