"""The answers of `prio plan claims`: published figures with their labels, and what is sound."""

from collections.abc import Sequence
from fractions import Fraction

from aggregator.dp import pld
from aggregator.dp.decimals import rational_in
from aggregator.papers.loss_law import LaplaceLaw
from aggregator.papers.privacy_at_risk import (
    LABEL,
    NOT_DP,
    claimed_confidence,
    claimed_coupled_confidence,
    claimed_epsilon,
    claimed_noise,
    claimed_sampled_confidence,
    exchangeable_coverage,
    gap_probability,
    sampled_coverage,
    sampled_sensitivity,
    samples_needed,
    sampling_tolerance,
)
from aggregator.papers.published_composition import (
    THEOREM_9_LABEL,
    privacy_at_risk_theorem_9,
    published_pair,
)
from aggregator.steward.planning.output import PlanAnswer


def claims(
    epsilon0: str,
    epsilon: str,
    confidence: str,
    k: int = 1,
    coverage: str = "0.99",
    accuracy: str | None = None,
    samples: int | None = None,
    sensitivities: Sequence[str] = (),
    releases: int | None = None,
    delta: str = "1e-5",
) -> PlanAnswer:
    """Recompute what "privacy at risk" claims, and what is sound.

    It claims the smaller level `epsilon` with a confidence. `coverage` (gamma2) and `accuracy`
    (rho) are of a sensitivity estimated from `samples` random pairs, by default one for each of the
    `sensitivities`. What is claimed of several `releases` together is stated at `delta`.
    """
    law = LaplaceLaw.of(epsilon0)
    sampled: PlanAnswer | None = None
    if accuracy is not None:
        values = [rational_in(value, "sensitivity", 0, None) for value in sensitivities]
        sampled = _sampled(epsilon, epsilon0, confidence, k, coverage, accuracy, samples, values)
    reachable = rational_in(confidence, "confidence", 0, 1) > Fraction(gap_probability(epsilon, k))
    return {
        "claimed_confidence": claimed_confidence(epsilon, epsilon0, k),
        "claimed_epsilon": claimed_epsilon(confidence, epsilon0, k),
        "claimed_noise": claimed_noise(epsilon, confidence, k) if reachable else None,
        "label": LABEL,
        "sampled": sampled,
        "composed": None if releases is None else _composed(law.epsilon0, releases, delta),
        "sound": {
            "epsilon": rational_in(epsilon, "epsilon", 0, None),
            "delta": law.delta(epsilon),
            "epsilon_without_delta": law.epsilon0,
            "probability_loss_at_most": law.probability_at_most(epsilon),
        },
    }


def _composed(epsilon: Fraction, releases: int, delta: str) -> PlanAnswer:
    """Return Theorem 9 at the published optimum, beside the PLD of continuous Laplace noise."""
    chance = rational_in(delta, "delta", 0, 1, open_low=True, open_high=True)
    bound = privacy_at_risk_theorem_9(epsilon, *published_pair(epsilon), releases, chance)
    found = pld.epsilon_of_laplace(epsilon, releases, chance) if pld.is_available() else None
    return {"theorem9": bound, "label": THEOREM_9_LABEL, "pld_of_laplace_noise": found}


def _sampled(
    epsilon: str,
    epsilon0: str,
    confidence: str,
    k: int,
    coverage: str,
    accuracy: str,
    samples: int | None,
    sensitivities: Sequence[Fraction],
) -> PlanAnswer:
    count = len(sensitivities) if samples is None else samples
    wanted = rational_in(confidence, "confidence", 0, 1)
    part = rational_in(coverage, "coverage", 0, 1)
    return {
        "samples": count,
        "samples_needed": samples_needed(confidence, coverage, accuracy) if wanted < part else None,
        "sensitivity": sampled_sensitivity(sensitivities, coverage) if sensitivities else None,
        "claimed_confidence": claimed_sampled_confidence(coverage, count, accuracy),
        "claimed_coupled_confidence": claimed_coupled_confidence(epsilon, epsilon0, coverage, k=k),
        "covered": sampled_coverage(coverage, accuracy),
        "confidence_of_covered": sampling_tolerance(count, accuracy),
        "covered_on_average": exchangeable_coverage(coverage, count),
        "label": NOT_DP,
    }
