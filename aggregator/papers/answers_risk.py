"""The answers of `prio plan threshold`, `risk` and `budget`: published bounds and exact laws."""

from aggregator.collector.results.partial_knowledge import (
    CAVEATS,
    SuppressionBound,
    Thresholding,
    level_in,
    rare_answer,
)
from aggregator.dp.decimals import rational_in
from aggregator.errors import ParameterError
from aggregator.papers.cost_model import CostModel, Optimum
from aggregator.papers.known_answers import PassiveAttacker, against_active_attacker
from aggregator.papers.loss_law import LaplaceLaw, LatticeLaw, Move, worst_move
from aggregator.papers.privacy_at_risk import LABEL, claimed_confidence
from aggregator.papers.two_draw_loss import TwoDrawLaw
from aggregator.papers.vector_loss import VectorTwoDrawLaw
from aggregator.steward.planning.output import PlanAnswer, Value
from aggregator.vdaf.circuits import Circuit, Count, Histogram

# Support tables with more atoms than this are left out: nobody would read them.
_LONGEST_SUPPORT = 1025

_NEVER_SHOWN = (
    "Of fewer than 2 T + 2 reports nothing is ever shown, as the count or what it lacks of all "
    "reports is at most T; a task refuses such batches."
)


def threshold(
    reports: int,
    probability: str,
    threshold: int,
    known: int = 0,
    *,
    active: bool = False,
    epsilon: str = "0",
) -> tuple[PlanAnswer, ParameterError | None]:
    """Weigh suppression without noise; if the theorem does not apply, say why.

    Where "yes" is the usual answer, the question is turned round: it is about "no" then.
    """
    given = rational_in(probability, "probability", 0, 1, open_low=True, open_high=True)
    rare, chance = rare_answer(given)
    release = Thresholding.of(reports, chance, threshold)
    level = level_in(epsilon)
    caveats = list(CAVEATS)
    if reports < 2 * threshold + 2:
        caveats.insert(0, _NEVER_SHOWN)
    bound: SuppressionBound | None = None
    problem: ParameterError | None = None
    if active and known:
        try:
            release = against_active_attacker(release, known)
        except ParameterError as error:
            plain = Thresholding(reports - known, release.probability, -1)
            return _no_privacy(plain, rare, epsilon, [*caveats, str(error)]), error
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
        "rare_answer": rare,
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


def _no_privacy(plain: Thresholding, rare: str, epsilon: str, caveats: list[str]) -> PlanAnswer:
    return {
        "applies": False,
        "rare_answer": rare,
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
