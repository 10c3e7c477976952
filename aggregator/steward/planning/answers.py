"""The answers of `prio plan` as plain mappings: one function per command, no printing.

The keys are the command's interface: they may be added to, never renamed or removed.
"""

import json
from collections.abc import Sequence

from aggregator.dp import composition
from aggregator.dp.composition import Releases
from aggregator.dp.decimals import integer_in, rational_in
from aggregator.dp.discrete_laplace import PureDpDiscreteLaplace
from aggregator.dp.mechanisms import Mechanism
from aggregator.dp.policy_table import policy_to_mapping
from aggregator.dp.rationals import format_rational
from aggregator.dp.utility import DEFAULT_CONFIDENCE
from aggregator.steward.planning.advice_sentences import plain, shown
from aggregator.steward.planning.advise import EMPTY_BUCKET_CHANCE, Advice
from aggregator.steward.planning.output import PlanAnswer
from aggregator.steward.planning.suspicion import BEFORE
from aggregator.vdaf.circuits import Circuit

_MOST_EPSILON0 = 1000

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
