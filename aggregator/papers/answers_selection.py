"""The answers of `prio plan selection` and `prio plan keep` about private buckets."""

from collections.abc import Mapping
from fractions import Fraction
from itertools import islice

from aggregator.entropy import Entropy
from aggregator.papers.selection_draws import draw_kept
from aggregator.papers.selection_plan import (
    MIDPOINTS,
    SelectionPlan,
    TwoThresholds,
    optimal_selection,
)
from aggregator.papers.selection_rivals import TruncatedGeometricRelease
from aggregator.steward.planning.output import PlanAnswer

# The recursion takes a step per person; for counts above this its check is left out.
_LONGEST_RECURSION = 200_000

_SHOWN_WITH = (*MIDPOINTS, Fraction(99, 100))


def selection(
    epsilon: str,
    delta: str,
    count: int,
    kappa: int = 1,
    neighbours: str = "add-remove",
    public_threshold: int | None = None,
) -> PlanAnswer:
    """Compare every selection rule at one count of persons in a bucket.

    epsilon and delta are of the whole selection, for people in up to `kappa` buckets and neighbours
    by "add-remove" or "replacement". Buckets of a public list may have another threshold.
    """
    plan = SelectionPlan.of(epsilon, delta, kappa, neighbours)
    keep = plan.optimal.keep_probability(count)
    release, laplace, gaussian = plan.truncated_geometric, plan.laplace, plan.gaussian
    recursion = None
    if count <= _LONGEST_RECURSION:
        recursion = next(islice(plan.optimal.recursion(), count, None))
    return {
        "n1": plan.optimal.n1,
        "n2": plan.optimal.n2,
        "keep_probability": keep,
        "drop_probability": plan.optimal.drop_probability(count),
        "recursion": recursion,
        "truncated_geometric": (
            {"k": release.k, "edge_mass": release.edge_mass} if release else None
        ),
        "two_thresholds": _two_thresholds(release, public_threshold, count),
        "laplace": (
            {"threshold": laplace.threshold, "keep_probability": laplace.keep_probability(count)}
            if laplace
            else None
        ),
        "gaussian": (
            {
                "sigma": gaussian.sigma,
                "threshold": gaussian.threshold,
                "keep_probability": gaussian.keep_probability(count),
            }
            if gaussian
            else None
        ),
        "midpoints": _midpoints(plan),
        "recommended": plan.recommended,
    }


def _two_thresholds(
    release: TruncatedGeometricRelease | None, public_threshold: int | None, count: int
) -> PlanAnswer | None:
    if release is None or public_threshold is None:
        return None
    rule = TwoThresholds(release, public_threshold)
    return {
        name: {
            "threshold": rule.threshold(is_public=is_public),
            "keep_probability": rule.keep_probability(count, is_public=is_public),
        }
        for name, is_public in (("private", False), ("public", True))
    }


def keep(
    buckets: Mapping[str, int],
    epsilon: str,
    delta: str,
    kappa: int,
    neighbours: str,
    entropy: Entropy,
) -> PlanAnswer:
    """Draw by the optimal rule which private buckets are shown; see `selection`.

    The dropped buckets, and how many there are, are as private as the counts: neither is in the
    answer, and names are in alphabetical order, not in order of counts.
    """
    selection = optimal_selection(epsilon, delta, kappa, neighbours)
    drawn = draw_kept(selection, list(buckets.values()), entropy)
    return {"shown": sorted(name for name, shown in zip(buckets, drawn, strict=True) if shown)}


def _midpoints(plan: SelectionPlan) -> PlanAnswer:
    real = plan.midpoints
    answer: PlanAnswer = {}
    for rule in ("optimal", "laplace", "gaussian"):
        answer[rule] = {
            "real": real.get(rule),
            **{f"{int(p * 100)}%": plan.smallest_count(rule, p) for p in _SHOWN_WITH},
        }
    answer["truncated_geometric"] = {
        f"{int(p * 100)}%": plan.smallest_count_released(p) for p in _SHOWN_WITH
    }
    return answer
