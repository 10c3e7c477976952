"""The outcome of an audit of a pair, as JSON and as text."""

import dataclasses
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aggregator.protocol.task import Task
    from aggregator.steward.audit.fault import Fault
    from aggregator.steward.audit.pair_audit import Releases
    from aggregator.steward.audit.split_noise import Audited

_ANSWER_VERSION = 2

_SMALL = math.log(1e-12)


@dataclasses.dataclass(frozen=True, slots=True)
class PairAnswer:
    """The outcome of an audit of a pair, whose releases are the results less the true sums.

    What is found about the noise of each scale is `audited`; the false alarm is the whole audit's.
    """

    task: "Task"
    releases: "Releases"
    audited: "tuple[Audited, ...]"
    false_alarm: float

    @property
    def is_refuted(self) -> bool:
        """Whether any check refused."""
        return any(check.is_refused for each in self.audited for check in each.checks)

    @property
    def faults(self) -> "list[Fault]":
        """The faults of all scales."""
        return [fault for each in self.audited for fault in each.faults]

    @property
    def log_threshold(self) -> float:
        """The logarithm of the p-value below which a check refuses."""
        from aggregator.steward.audit.pair_audit import check_threshold

        return check_threshold(self.false_alarm / len(self.audited))

    @property
    def noise_of(self) -> str:
        """Whose noise the results hold; unknown if a share is not the sum of the reports."""
        from aggregator.steward.audit.fault import FaultKind

        mended = {mistake.party for mistake in self.releases.mistakes}
        if any(f.kind is FaultKind.WRONG_SUM and f.party not in mended for f in self.faults):
            return "unknown"
        silent = {fault.party for fault in self.faults if fault.kind is FaultKind.NO_NOISE}
        match "leader" in silent, "helper" in silent:
            case True, True:
                return "neither"
            case True, False:
                return "helper"
            case False, True:
                return "leader"
            case _:
                return "both"

    def document(self) -> dict[str, object]:
        """Return the answer for JSON; p-values are natural logarithms, null for 0."""
        windows, buckets = self.releases.leader.shape
        mechanism, circuit = self.task.policy.mechanism, self.task.prio3.circuit
        return {
            "version": _ANSWER_VERSION,
            "task_id": str(self.task.task_id),
            "mechanism": mechanism.name,
            "scale": mechanism.describe_scale(circuit),
            "windows": windows,
            "buckets": buckets,
            "draws_of_each_aggregator": windows * buckets,
            "false_alarm": self.false_alarm,
            "log_p_threshold": self.log_threshold,
            "refuted": self.is_refuted,
            "noise_of": self.noise_of,
            "faults": [
                {"sections": each.scale.sections, **dataclasses.asdict(fault)}
                for each in self.audited
                for fault in each.faults
            ],
            "checks": [
                {"sections": each.scale.sections, **dataclasses.asdict(check)}
                | {"log_p": check.log_p if math.isfinite(check.log_p) else None}
                for each in self.audited
                for check in each.checks
            ],
            "scales": [_scale_document(each) for each in self.audited],
        }

    def text(self) -> str:
        """Return the answer as text for a reader."""
        windows, buckets = self.releases.leader.shape
        mechanism, circuit = self.task.policy.mechanism, self.task.prio3.circuit
        lines = [
            f"task {self.task.task_id}: {mechanism.name}, {mechanism.describe_scale(circuit)}",
            f"{windows} windows of {buckets} buckets: {windows * buckets} draws of each aggregator",
            f"right noise is refuted with a probability of at most {self.false_alarm:g}:",
            f"each check refuses at p < {math.exp(self.log_threshold):.2g}",
            "",
        ]
        for each in self.audited:
            lines += _text(each)
        lines += [
            f"{fault.party}: {fault.kind}: {_of(each)}{fault.text}"
            for each in self.audited
            for fault in each.faults
        ]
        lines.append(
            f"REFUTED; whose noise is in the results: {_OF[self.noise_of]}"
            if self.is_refuted
            else "the law holds, as far as such an audit can see: noise of both aggregators, each "
            "its own. An aggregator that knows this task for an audit's may do otherwise elsewhere."
        )
        return "\n".join(lines)


def _scale_document(each: "Audited") -> dict[str, object]:
    from aggregator.steward.audit.pair_power import SURELY

    scale = each.scale
    return {
        "sections": scale.sections,
        "noise": scale.noise,
        "buckets": len(scale.entries),
        "step": scale.laws.single.step,
        "likeliest_draws_in_the_sum": each.draws,
        "power": [dataclasses.asdict(power) for power in each.power.faults()],
        "surely_found": {"power": SURELY, **dataclasses.asdict(each.power.reach())},
    }


def _text(each: "Audited") -> list[str]:
    """Return an audit's checks of the noise of one scale, and its power there."""
    from aggregator.steward.audit.pair_power import SURELY

    scale, reach = each.scale, each.power.reach()
    lines = []
    if scale.name:
        lines += [f"{scale.name}, {len(scale.entries)} buckets: {scale.noise}"]
    if scale.laws.single.step > 1:
        lines += [f"  of each draw the nearest multiple of {scale.laws.single.step} is looked at"]
    lines += [
        f"{'REFUSED' if check.is_refused else 'ok':8}{check.series:7} {check.name:9} "
        f"p {_p_value(check.log_p):12} {check.worst}"
        for check in each.checks
    ]
    lines += ["", "an aggregator that does this is found with a probability of at least:"]
    lines += [
        f"  {_rounded_down(power.probability)}  {power.fault}" for power in each.power.faults()
    ]
    return [
        *lines,
        f"the smallest faults that are found with a probability of {SURELY:g}:",
        f"  the scale times {_factor(reach.scale_below)}",
        f"  the scale times {_factor(reach.scale_above)}",
        f"  noise repeated in {_factor(reach.repeated_share)} of the buckets",
        f"  no noise in {_factor(reach.silent_run)} buckets in a row",
        f"  no noise in {_factor(reach.silent_share)} of the buckets, wherever they are",
        f"  twice the deviation added to {_factor(reach.biased_share)} of the buckets",
        f"  {_factor(reach.common_share)} of the variance common to all windows",
        "",
    ]


def _of(each: "Audited") -> str:
    return f"{each.scale.name}: " if each.scale.name else ""


_OF = {
    "both": "both aggregators'",
    "leader": "the leader's only",
    "helper": "the helper's only",
    "neither": "nobody's",
    "unknown": "cannot be said",
}


def _p_value(log_p: float) -> str:
    if log_p == -math.inf:
        return "= 0"
    if log_p > _SMALL:
        return f"<= {math.exp(log_p):.2g}"
    return f"<= 10^{math.ceil(log_p / math.log(10))}"


def _rounded_down(probability: float) -> str:
    return f"{math.floor(probability * 1e5) / 1e5:.5f}"


def _factor(value: float | None) -> str:
    return "nothing that was looked at" if value is None else f"{value:.3g}"
