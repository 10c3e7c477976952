"""Audits: neighbouring data sets are collected many times, which bounds epsilon from below."""

import concurrent.futures
import dataclasses
import multiprocessing
import time
from collections import Counter
from fractions import Fraction

from aggregator.dp.rationals import format_rational
from aggregator.entropy import SystemEntropy
from aggregator.steward.audit.refutation import (
    Leans,
    best_finding,
    largest_bound,
    share_of_an_event,
)
from aggregator.steward.audit.runs import Audit, AuditedTask

FALSE_ALARM = 1e-6
"""The probability, at most, that an audit refutes a correct mechanism."""

_RUNS_OF_A_STEP = 4  # two collections of each data set
_LEAST_RUNS_OF_A_PROCESS = 500  # starting a process takes about as long


@dataclasses.dataclass(frozen=True, slots=True)
class AuditReport:
    """The result of an audit; with `--json` it is printed field by field.

    Attributes:
        version: The version of this format.
        type: The type of measurement.
        parameters: Its parameters.
        mechanism: The mechanism that was audited.
        epsilon: The claimed epsilon, an exact rational.
        delta: The claimed delta, an exact rational.
        runs: How many batches were collected, half of them from each data set.
        seconds: How long the collections took.
        confidence: The probability, at least, that the lower bound is valid.
        epsilon_lower_bound: A lower bound on the true epsilon.
        largest_epsilon_in_reach: The largest epsilon that this many runs can refute.
        seen: The vantage from which `event` was seen.
        event: The event that bounds epsilon best.
        hits: How often it happened with the data set for which it is typical, and with the other.
        of: In how many runs of each.
        refuted: Whether the lower bound is above the claim.
    """

    version: int
    type: str
    parameters: dict[str, int | str]
    mechanism: str
    epsilon: str
    delta: str
    runs: int
    seconds: float
    confidence: float
    epsilon_lower_bound: float
    largest_epsilon_in_reach: float
    seen: str
    event: str
    hits: tuple[int, int]
    of: tuple[int, int]
    refuted: bool

    def text(self) -> str:
        """Return the report in words."""
        shape = "".join(f", {name} {value}" for name, value in self.parameters.items())
        lines = (
            f"{self.type}{shape}; {self.mechanism}",
            f"claims epsilon {self.epsilon}, delta {self.delta}",
            f"{self.runs} collections in {self.seconds} s",
            f"epsilon is at least {self.epsilon_lower_bound:.4f}, except in one audit in a million",
            f"seen in the {self.seen}: an outcome {self.event},",
            f"  {self.hits[0]} of {self.of[0]} times with that data set,",
            f"  {self.hits[1]} of {self.of[1]} times with the other",
            f"this many collections refute no epsilon above {self.largest_epsilon_in_reach:.2f}",
            "REFUTED" if self.refuted else "not refuted, which proves nothing",
        )
        return "\n".join(lines)


def run_audit(audited: AuditedTask, runs: int, processes: int) -> AuditReport:
    """Try to refute what the task's mechanism promises, with at least `runs` batches.

    Raises `ParameterError` if the parameters make no task that can be audited.
    """
    epsilon, delta = audited.promise()
    began = time.perf_counter()
    distance, observations = observe(audited, runs, processes)
    finding = best_finding(observations, distance, FALSE_ALARM, float(delta))
    bound = max(0.0, finding.epsilon)
    share = share_of_an_event(FALSE_ALARM, distance, len(observations))
    collected = max(sum(leans.total() for leans in pair) for pair in observations.values())
    return AuditReport(
        version=1,
        type=audited.vdaf_type,
        parameters=dict(audited.parameters),
        mechanism=audited.privacy["mechanism"],
        epsilon=format_rational(epsilon),
        delta=format_rational(delta),
        runs=collected,
        seconds=round(time.perf_counter() - began, 1),
        confidence=1 - FALSE_ALARM,
        epsilon_lower_bound=bound,
        largest_epsilon_in_reach=largest_bound((collected // 2, collected // 2), share),
        seen=finding.vantage,
        event=finding.event,
        hits=finding.hits,
        of=finding.runs,
        refuted=Fraction(bound) > epsilon,
    )


def observe(audited: AuditedTask, runs: int, processes: int) -> tuple[int, dict[str, Leans]]:
    """Collect at least `runs` batches on at most `processes` processes.

    Returns the distance between the neighbouring sums, and what was seen, by vantage. Raises
    `ParameterError` if the parameters make no task that can be audited.
    """
    pairs = -(-runs // _RUNS_OF_A_STEP)
    processes = max(1, min(processes, runs // _LEAST_RUNS_OF_A_PROCESS))
    # This process makes one, too, so that bad parameters are refused before others are started.
    own = Audit(audited, SystemEntropy())
    shares = [pairs // processes + (i < pairs % processes) for i in range(processes)]
    total: dict[str, Leans] = {}
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(max(1, processes - 1), context) as pool:
        others = [pool.submit(_observe_apart, audited, share) for share in shares[1:]]
        parts = [own.observe(shares[0]), *(other.result() for other in others)]
    for part in parts:
        for vantage, leans in part.items():
            sums = total.setdefault(vantage, (Counter(), Counter()))
            for seen, more in zip(sums, leans, strict=True):
                seen.update(more)
    return own.neighbours.distance, total


def _observe_apart(audited: AuditedTask, pairs: int) -> dict[str, Leans]:
    return Audit(audited, SystemEntropy()).observe(pairs)
