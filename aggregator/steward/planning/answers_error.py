"""The answer of `prio plan error`: how far a result may lie from the truth, for any mechanism.

The noise does not depend on the number of reports. So its size relative to a result falls as the
batch grows, and every relative error has a smallest batch that reaches it.
"""

import math
from fractions import Fraction

from aggregator.dp.certified import to_float
from aggregator.dp.decimals import integer_in, rational_in
from aggregator.dp.mechanisms import Mechanism
from aggregator.dp.sensitivity import l1_sensitivity, max_entry, nothing_changes
from aggregator.errors import ParameterError
from aggregator.steward.planning.output import PlanAnswer
from aggregator.vdaf.circuits import Circuit

_WIDEST = 2**256
"""No field has room for noise of a larger scale, and its intervals would take seconds."""


def error(
    mechanism: Mechanism,
    circuit: Circuit,
    confidence: str,
    reports: int | None = None,
    wanted: str | None = None,
) -> PlanAnswer:
    """Return how far a result may lie from the truth, in intervals of a confidence.

    Errors relative to a batch of `reports`, and the smallest batch that reaches a `wanted` relative
    error such as "5%", are given if asked for. Raises `ParameterError` if a value is out of range,
    no measurement changes the sums, or the noise is wider than any field.
    """
    sure = rational_in(confidence, "confidence", 0, 1, open_low=True, open_high=True)
    part = None if wanted is None else _relative_error(wanted)
    if reports is not None:
        integer_in(reports, "reports", 1, None)
    sensitivity = l1_sensitivity(circuit, mechanism.max_reports_per_person)
    if sensitivity == 0:
        raise nothing_changes(circuit)
    scale = mechanism.scale(circuit)
    _check_width(scale)
    answer: PlanAnswer = {
        "noise": mechanism.describe_scale(circuit),
        "sensitivity": sensitivity,
        "scale": scale,
    }
    for aggregators, name in ((1, "one_aggregator"), (2, "two_aggregators")):
        answer[name] = _spread(mechanism, circuit, aggregators, sure, reports)
    if part is not None:
        answer["smallest_batch"] = {
            "one_value": _smallest_batch(mechanism.half_width(circuit, sure), circuit, part),
            "jointly": _smallest_batch(mechanism.joint_half_width(circuit, sure), circuit, part),
        }
    return answer


def _relative_error(text: str) -> Fraction:
    """Return a relative error such as "5%" or "0.05"."""
    number = rational_in(text.removesuffix("%").strip(), "relative error", 0, None, open_low=True)
    return number / 100 if text.endswith("%") else number


def _check_width(scale: Fraction) -> None:
    if scale > _WIDEST:
        raise ParameterError(
            f"scale: noise of scale {float(scale):.3g} is wider than any field; a larger epsilon or"
            " rho makes it narrower"
        )


def _spread(
    mechanism: Mechanism,
    circuit: Circuit,
    aggregators: int,
    confidence: Fraction,
    reports: int | None,
) -> PlanAnswer:
    """Return how far values lie from the truth; if sections differ, the least precise one."""
    laws = [law for _, law in mechanism.laws(circuit, aggregators) if law is not None]
    half_width = mechanism.half_width(circuit, confidence, aggregators)
    joint = mechanism.joint_half_width(circuit, confidence, aggregators)
    spread: PlanAnswer = {
        "variance": max((to_float(law.variance()) for law in laws), default=0),
        "mean_absolute_error": max((to_float(law.mean_magnitude()) for law in laws), default=0),
        "half_width": half_width,
        "joint_half_width": joint,
    }
    if reports is not None:
        most = reports * max_entry(circuit)
        spread["relative_half_width"] = Fraction(half_width, most)
        spread["relative_joint_half_width"] = Fraction(joint, most)
    return spread


def _smallest_batch(half_width: int, circuit: Circuit, part: Fraction) -> int:
    """Return the fewest reports for which a half-width is at most this part of the largest sum."""
    return max(1, math.ceil(half_width / (part * max_entry(circuit))))
