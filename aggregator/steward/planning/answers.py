"""The answers of `prio plan` as plain mappings: one function per command, no printing.

The keys are the command's interface: they may be added to, never renamed or removed.
"""

import json
from collections.abc import Sequence

from aggregator.collector.results.partial_knowledge import (
    CAVEATS,
    SuppressionBound,
    Thresholding,
    against_active_attacker,
    level_in,
)
from aggregator.dp import composition
from aggregator.dp.composition import Releases
from aggregator.dp.decimals import integer_in, rational_in
from aggregator.dp.discrete_laplace import PureDpDiscreteLaplace
from aggregator.dp.mechanisms import Mechanism
from aggregator.dp.policy_table import policy_to_mapping
from aggregator.dp.rationals import format_rational
from aggregator.dp.utility import DEFAULT_CONFIDENCE
from aggregator.errors import ParameterError
from aggregator.steward.planning.advice_sentences import plain, shown
from aggregator.steward.planning.advise import EMPTY_BUCKET_CHANCE, Advice
from aggregator.steward.planning.cost_model import CostModel, Optimum
from aggregator.steward.planning.loss_law import LaplaceLaw, LatticeLaw, Move, worst_move
from aggregator.steward.planning.output import PlanAnswer, Value
from aggregator.steward.planning.passive_attacker import PassiveAttacker
from aggregator.steward.planning.privacy_at_risk import LABEL, claimed_confidence
from aggregator.steward.planning.suspicion import BEFORE
from aggregator.steward.planning.two_draw_loss import TwoDrawLaw
from aggregator.steward.planning.vector_loss import VectorTwoDrawLaw
from aggregator.vdaf.circuits import Circuit, Count, Histogram

_MOST_EPSILON0 = 1000

# Support tables with more atoms than this are left out: nobody would read them.
_LONGEST_SUPPORT = 1025


def threshold(
    reports: int,
    probability: str,
    threshold: int,
    known: int = 0,
    *,
    active: bool = False,
    epsilon: str = "0",
) -> tuple[PlanAnswer, ParameterError | None]:
    """Weigh suppression without noise; if the theorem does not apply, say why."""
    release = Thresholding.of(reports, probability, threshold)
    level = level_in(epsilon)
    caveats = list(CAVEATS)
    bound: SuppressionBound | None = None
    problem: ParameterError | None = None
    if active and known:
        try:
            release = against_active_attacker(release, known)
        except ParameterError as error:
            plain = Thresholding(reports - known, release.probability, -1)
            return _no_privacy(plain, epsilon, [*caveats, str(error)]), error
    passive = PassiveAttacker.of(release, 0 if active else known)
    try:
        bound = passive.bound()
    except ParameterError as error:
        problem = error
        caveats.insert(0, str(error))
    limit = release.epsilon_max if passive.known == 0 else None
    if limit is not None and level > limit:
        caveats.insert(
            0,
            "delta is for answers that all have the probability given. Where it is only an upper"
            f" bound for each, delta(epsilon_max) = {release.delta(limit):.10g} is what holds at"
            " this epsilon.",
        )
    at_zero = passive.delta(0)
    answer: PlanAnswer = {
        "applies": bound is not None,
        "r": bound.ratio if bound else release.ratio,
        "bound": _bound(bound) if bound else None,
        "exact": {
            "delta_at_zero": at_zero,
            "delta": passive.delta(level) if level else at_zero,
            "epsilon_max": limit,
            "release_probability": release.release_probability(),
            "suppressed_loss": release.suppressed_loss(),
        },
        "caveats": caveats,
    }
    return answer, problem


def _bound(bound: SuppressionBound) -> PlanAnswer:
    split: PlanAnswer = {} if bound.b_max is None else {"b_max": bound.b_max}
    return {"epsilon": bound.epsilon, "delta": bound.delta, **split}


def _no_privacy(plain: Thresholding, epsilon: str, caveats: list[str]) -> PlanAnswer:
    return {
        "applies": False,
        "r": None,
        "bound": None,
        "exact": {
            "delta_at_zero": plain.delta(0),
            "delta": plain.delta(epsilon),
            "epsilon_max": None,
            "release_probability": plain.release_probability(),
            "suppressed_loss": None,
        },
        "caveats": caveats,
    }


def risk(
    move: Move | None,
    epsilon0: str,
    epsilon: str,
    aggregators: int = 1,
    *,
    published: bool = False,
    k: int = 1,
) -> PlanAnswer:
    """Describe the loss of one release, with one or two honest draws of noise.

    `move` is the furthest that a replaced report moves the aggregate; None for continuous Laplace
    noise. The law is evaluated at `epsilon`. `published` adds the published figure, for `k`
    coordinates, and its label.
    """
    if aggregators not in {1, 2}:
        raise ParameterError(f"aggregators must be 1 or 2, not {aggregators}")
    law: LaplaceLaw | LatticeLaw | TwoDrawLaw | VectorTwoDrawLaw
    support: list[Value] | None = None
    rational_in(epsilon, "epsilon", 0, None)
    if move is None:
        law = LaplaceLaw.of(epsilon0)
    elif aggregators == 1:
        law = LatticeLaw.of(epsilon0, move)
        if move.length < _LONGEST_SUPPORT:
            support = [{"loss": atom.loss, "probability": atom.probability} for atom in law.support]
    elif move.coordinates <= TwoDrawLaw.MOST_COORDINATES:
        law = TwoDrawLaw.of(epsilon0, move)
    else:
        law = VectorTwoDrawLaw.of(epsilon0, move)
    # A law on a grid knows its curve, but not P(|L| <= epsilon).
    known = None if isinstance(law, VectorTwoDrawLaw) else law
    answer: PlanAnswer = {
        "exact": {
            "probability_loss_at_most": known.probability_at_most(epsilon) if known else None,
            "probability_loss_above": known.probability_above(epsilon) if known else None,
            "delta": law.delta(epsilon),
            "expected_loss": law.expected(),
            "support": support,
        }
    }
    if published:
        answer["published"] = {
            "claimed_confidence": claimed_confidence(epsilon, epsilon0, k),
            "label": LABEL,
        }
    return answer


def budget(
    people: int,
    compensation: str,
    epsilon0: str,
    error: str | None = None,
    money: str | None = None,
    circuit: Circuit | None = None,
) -> PlanAnswer:
    """Price an epsilon: return what would be owed after a breach (see `CostModel`).

    `error` is the largest mean absolute error that one coordinate may have, `money` the most that
    may be owed; None for any.
    """
    model = CostModel.of(people, compensation)
    owed = model.budget(epsilon0)
    span = model.epsilon_range(circuit or Count(), error, money)
    return {
        "budget": owed,
        "published_optimum": _optimum(model.published_optimum(epsilon0), "claimed_confidence"),
        "sound": {
            "budget": owed,
            "epsilon_range": {"low": span.low, "high": span.high, "is_empty": span.is_empty},
            "true_confidence_optimum": _optimum(
                model.true_confidence_optimum(epsilon0), "true_confidence"
            ),
            "realised_loss_budget": {
                "laplace": model.realised_loss_budget(epsilon0),
                "count": model.realised_loss_budget(epsilon0, worst_move(Count())),
                "histogram": model.realised_loss_budget(epsilon0, worst_move(Histogram(2, 1))),
            },
        },
    }


def _optimum(optimum: Optimum, confidence: str) -> PlanAnswer:
    return {
        "epsilon": optimum.epsilon,
        confidence: optimum.confidence,
        "budget": optimum.budget,
        "label": optimum.label,
    }


FIXED_LABEL = (
    "zcdp, advanced, optimal, gaussian and pld hold if aggregators enforce that number of releases,"
    " by max_releases or a budget; otherwise only basic and odometer do, for a collector who"
    " decides when to stop after seeing results"
)


_KEYS = {
    composition.NOTHING_TO_PROTECT: "basic",
    "basic": "basic",
    "odometer": "odometer",
    "advanced": "advanced",
    "filter on rho": "zcdp",
    "optimal (KOV)": "optimal",
    "Gaussian": "gaussian",
    "PLD": "pld",
}
"""The theorems' names in an answer. A filter on epsilon states the same as `basic`."""


def compose(mechanism: Mechanism, circuit: Circuit, releases: int, delta: str) -> PlanAnswer:
    """Return what releases cost a person who is in all of them, as their ledger would.

    The bounds are stated at `delta`. Raises `ParameterError` if a number is out of its range.
    """
    chance = rational_in(delta, "delta", 0, 1, open_low=True, open_high=True)
    integer_in(releases, "releases", 1, None)
    if isinstance(mechanism, PureDpDiscreteLaplace):
        rational_in(mechanism.epsilon, "epsilon0", 0, _MOST_EPSILON0, open_low=True)
    made = Releases(mechanism, circuit, releases)
    found = composition.bounds([made], chance, plan=[made], with_pld=True)
    answer = _composed(found)
    if all(bound.epsilon is None for bound in found):
        return {**answer, "notes": [_why_none(made)]}
    return answer


def _why_none(made: Releases) -> str:
    """Return why these releases have no bound."""
    cost, name = made.cost, made.mechanism.name
    if cost is None:
        return f"no bound holds at any delta: the mechanism {name} promises nothing"
    return (
        f"no bound holds at this delta: the deltas of the releases themselves, each of the "
        f"mechanism {name}, add up to {format_rational(cost.delta)}"
    )


def _composed(found: Sequence[composition.Bound]) -> PlanAnswer:
    by_key = {_KEYS[bound.name]: bound for bound in found if bound.name in _KEYS}
    best = composition.smallest_valid([*by_key.values()])
    return {
        **{name: by_key[name].epsilon if name in by_key else None for name in _KEYS.values()},
        "best": None if best is None else _KEYS[best.name],
        "deltas": {
            name: bound.delta for name, bound in by_key.items() if bound.epsilon is not None
        },
        "notes": [FIXED_LABEL],
    }


def advice(found: Advice) -> PlanAnswer:
    """Return the advice as an answer."""
    threshold: PlanAnswer | None = None
    if found.threshold is not None:
        threshold = {
            "needed_for_privacy": False,
            "threshold": found.threshold.threshold,
            "chance_of_an_empty_bucket": EMPTY_BUCKET_CHANCE,
            "truncated_geometric_threshold": found.threshold.truncated_threshold,
            "truncated_geometric_delta": found.threshold.truncated_delta,
        }
    return {
        "circuit": f"Prio3{found.circuit.name}",
        "mechanism": found.policy.mechanism.name,
        "epsilon": shown(found.epsilon),
        "delta": plain(found.delta),
        "error": {
            "confidence": DEFAULT_CONFIDENCE,
            "half_width": found.half_width,
            "joint_half_width": found.joint_half_width,
        },
        "yearly": {
            "epsilon": None if found.yearly_epsilon is None else plain(found.yearly_epsilon),
            "best": {
                "name": found.yearly_bound.name,
                "epsilon": found.yearly_bound.epsilon,
                "delta": found.yearly_bound.delta,
            },
        },
        "neighbour": {
            "sure_before": BEFORE,
            "sure_after_one_release": found.sure_after_one,
            "sure_after_a_year": found.sure_after_a_year,
        },
        "threshold": threshold,
        "sentences": list(found.sentences),
        "warnings": list(found.warnings),
        "privacy": dict(policy_to_mapping(found.policy)),
    }


def privacy_section(found: Advice) -> str:
    """Return the [privacy] table of a task file."""
    lines = ["[privacy]"]
    for name, value in policy_to_mapping(found.policy).items():
        lines.append(f"{name} = {json.dumps(value)}")
    return "\n".join(lines) + "\n"
