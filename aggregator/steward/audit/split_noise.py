"""An audit of noise that is split by section: entries of one law together, each law by itself.

A section of five answers shows little alone, but the noise of all sections with one scale has one
law, so their entries form one long row. Every check of a row is made for each scale; each scale has
an equal part of the false alarm probability.
"""

import dataclasses

import numpy as np

from aggregator.dp.laws import NoiseLaw
from aggregator.dp.mechanisms import Mechanism
from aggregator.errors import ParameterError
from aggregator.steward.audit.fault import Fault, FaultKind
from aggregator.steward.audit.noise_table import Integers, NoiseTable
from aggregator.steward.audit.pair_audit import Laws, Releases, audit
from aggregator.steward.audit.pair_check import Check
from aggregator.steward.audit.pair_faults import draws_in_the_sum, name_faults
from aggregator.steward.audit.pair_power import PowerOfAudit
from aggregator.vdaf.circuits import Summed


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Scale:
    """The entries of a result, in order, whose noise has one law; the noise is told in words.

    No sections are named if all entries of a task have one law.
    """

    sections: tuple[int, ...]
    noise: str
    entries: Integers
    laws: Laws

    @property
    def name(self) -> str:
        """The sections in words, for a reader; empty if they are all."""
        if not self.sections:
            return ""
        many = "s" if len(self.sections) > 1 else ""
        return f"section{many} {', '.join(_runs(self.sections))}"

    def part(self, releases: Releases, *, with_reports: bool) -> Releases:
        """Return the releases of these entries, with the report counts if asked for."""
        leader, helper, total = (rows[:, self.entries] for _, rows in releases.series())
        uploaded = releases.uploaded
        counted = releases.counted if with_reports else uploaded
        mistakes = releases.mistakes if with_reports else ()
        return Releases(leader, helper, total, counted, uploaded, mistakes)


@dataclasses.dataclass(frozen=True, slots=True)
class Audited:
    """What an audit finds in the entries of one scale.

    `draws` is how many aggregators' draws the sum most likely holds.
    """

    scale: Scale
    checks: list[Check]
    faults: list[Fault]
    draws: int
    power: PowerOfAudit


def scales_of(mechanism: Mechanism, circuit: Summed) -> list[Scale]:
    """Return the scales of a mechanism's noise, in the order of their first entries.

    Raises `ParameterError` if there is no noise to audit, or the noise is too wide.
    """
    places: dict[NoiseLaw, list[int]] = {}
    sections: dict[NoiseLaw, list[int]] = {}
    noise: dict[NoiseLaw, tuple[str, NoiseLaw | None]] = {}
    first = 0
    parts = mechanism.by_part(circuit)
    for number, (each, part) in enumerate(parts):
        law = each.law(part, aggregators=1)
        if law is not None:
            places.setdefault(law, []).extend(range(first, first + part.output_len))
            sections.setdefault(law, []).append(number)
            noise[law] = each.describe_scale(part), each.law(part, aggregators=2)
        first += part.output_len
    if not places:
        raise ParameterError("mechanism: the task's noise is none: there is nothing to audit")
    return [
        Scale(
            tuple(sections[law]) if len(parts) > 1 else (),
            noise[law][0],
            np.array(entries),
            _laws(law, noise[law][1]),
        )
        for law, entries in places.items()
    ]


def audit_by_scale(releases: Releases, scales: list[Scale], false_alarm: float) -> list[Audited]:
    """Make every check for each scale, with one false alarm probability for all together.

    Raises `ParameterError` if the probability is not between 0 and 1.
    """
    found = []
    for index, scale in enumerate(scales):
        part, own = scale.part(releases, with_reports=not index), false_alarm / len(scales)
        checks = audit(part, scale.laws, own)
        windows, entries = part.leader.shape
        found.append(
            Audited(
                scale,
                # Reports are checked once, with the first scale.
                [each for each in checks if not index or each.name != "reports"],
                name_faults(part, scale.laws, checks),
                draws_in_the_sum(part.total, scale.laws),
                PowerOfAudit(scale.laws.single, windows, entries, own),
            )
        )
    return _each_share_once(found)


def _each_share_once(found: list[Audited]) -> list[Audited]:
    """Keep once the fault that a share is not the sum of the reports: every scale shows it."""
    said: set[str] = set()
    for each in found:
        wrong = [fault for fault in each.faults if fault.kind is FaultKind.WRONG_SUM]
        for fault in wrong:
            if fault.party in said:
                each.faults.remove(fault)
        said |= {fault.party for fault in wrong}
    return found


def _laws(single: NoiseLaw, both: NoiseLaw | None) -> Laws:
    table = NoiseTable.of(single)
    if table.step == 1 or both is None:
        return Laws.of(table)
    return Laws(table, NoiseTable.of(both))


def _runs(numbers: tuple[int, ...]) -> list[str]:
    """Return numbers in words: "0", "2 to 5"."""
    edges = np.flatnonzero(np.diff(numbers) > 1)
    parts = np.split(np.array(numbers), edges + 1)
    return [str(part[0]) if len(part) == 1 else f"{part[0]} to {part[-1]}" for part in parts]
