"""`prio audit`: tests of the release path that is installed here, and of a running pair.

The self-test takes no configuration, store or key, and reads none: task, parties and keys are made
up for the occasion, so it can neither spend a real budget nor look at a real share.
"""

import concurrent.futures
import dataclasses
import json as jsonlib
import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from fractions import Fraction
from typing import Annotated

import typer

from aggregator.cli.audit_pair import pair
from aggregator.cli.audit_runs import Audit, AuditedTask
from aggregator.cli.faults import reported
from aggregator.dp.budget import format_rational, parse_probability, parse_rational
from aggregator.dp.refutation import Leans, best_finding, largest_bound
from aggregator.entropy import SystemEntropy

FALSE_ALARM = 1e-6
"""How often a self-test of a right mechanism ends with status 1, at most."""

app = typer.Typer(no_args_is_help=True, help="Test the noise of releases.")
app.command("pair")(pair)

_REFUTED = 1
_RUNS_OF_A_STEP = 4  # a pair of collections of each data set
_LEAST_RUNS = 100
_LEAST_RUNS_OF_A_PROCESS = 500  # starting a process takes about as long


class AuditedCircuit(StrEnum):
    """The types of measurement that can be audited."""

    COUNT = "count"
    SUM = "sum"
    SUM_VEC = "sum-vec"
    HISTOGRAM = "histogram"
    MULTIHOT = "multihot"


_TYPES: Mapping[AuditedCircuit, tuple[str, tuple[str, ...]]] = {
    AuditedCircuit.COUNT: ("Prio3Count", ()),
    AuditedCircuit.SUM: ("Prio3Sum", ("max_measurement",)),
    AuditedCircuit.SUM_VEC: ("Prio3SumVec", ("length", "max_measurement")),
    AuditedCircuit.HISTOGRAM: ("Prio3Histogram", ("length",)),
    AuditedCircuit.MULTIHOT: ("Prio3MultihotCountVec", ("length", "max_weight")),
}


@app.command("self-test")
def self_test(
    circuit: Annotated[AuditedCircuit, typer.Option(help="Type of measurement.")],
    epsilon: Annotated[str, typer.Option(help="The epsilon to refute, such as 1 or 1/2.")],
    delta: Annotated[
        str | None,
        typer.Option(help="With it, truncated geometric noise is audited; histograms only."),
    ] = None,
    length: Annotated[int, typer.Option(help="Buckets, or entries of a vector.", min=1)] = 2,
    max_measurement: Annotated[int, typer.Option(help="Largest value of one entry.", min=1)] = 1,
    max_weight: Annotated[int, typer.Option(help="Most ones in one multihot vector.", min=1)] = 1,
    runs: Annotated[
        int, typer.Option(help="How many batches to collect.", min=_LEAST_RUNS)
    ] = 10_000,
    processes: Annotated[
        int | None, typer.Option(help="How many at once; one a processor by default.", min=1)
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Try to refute a claimed epsilon by releasing neighbouring made-up data sets many times here.

    Calls the release path of this installation in its own process; of a running aggregator it says
    nothing. Ends with status 1 if epsilon is refuted, which happens to a right mechanism at most
    once in a million self-tests; with 0 if it is not, which proves nothing; with 2 for bad input.
    """
    with reported():
        given = {"length": length, "max_measurement": max_measurement, "max_weight": max_weight}
        vdaf_type, names = _TYPES[circuit]
        claimed = parse_rational(epsilon, "epsilon")
        claimed_delta = Fraction(0) if delta is None else parse_probability(delta, "delta")
        privacy = {"mechanism": "PureDpDiscreteLaplace", "epsilon": format_rational(claimed)}
        if delta is not None:
            privacy |= {"mechanism": "TruncatedGeometric", "delta": format_rational(claimed_delta)}
        audited = AuditedTask(vdaf_type, {name: given[name] for name in names}, privacy)
        answer = _run(audited, claimed, claimed_delta, runs, processes or os.cpu_count() or 1)
    print(jsonlib.dumps(dataclasses.asdict(answer)) if json else answer.text())
    if answer.refuted:
        raise typer.Exit(_REFUTED)


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """What a self-test comes to; with `--json` it is printed field by field.

    Attributes:
        version: Of this format.
        type: The type of measurement.
        parameters: Its parameters.
        mechanism: The mechanism that was audited.
        epsilon: What it claims, an exact rational.
        delta: What it claims, an exact rational.
        runs: How many batches were collected, half of them of each data set.
        seconds: How long that took.
        confidence: The probability that the lower bound is one, at least.
        epsilon_lower_bound: Below the true epsilon.
        largest_epsilon_in_reach: No larger one can be refuted with so many runs.
        seen: From where the event was seen that bounds epsilon best.
        event: That event.
        hits: How often it happened with the data set that it is typical of, and with the other.
        of: In how many runs.
        refuted: Whether the lower bound is above the claim.
    """

    version: int
    type: str
    parameters: dict[str, int]
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
        """Return the same for a reader."""
        shape = "".join(f", {name} {value}" for name, value in self.parameters.items())
        lines = (
            f"{self.type}{shape}; {self.mechanism}",
            f"claims epsilon {self.epsilon}, delta {self.delta}",
            f"{self.runs} collections in {self.seconds} s",
            f"epsilon is at least {self.epsilon_lower_bound:.4f}, but for one in a million",
            f"seen in the {self.seen}: an outcome {self.event},",
            f"  {self.hits[0]} of {self.of[0]} times with that data set,",
            f"  {self.hits[1]} of {self.of[1]} times with the other",
            f"so many collections refute no epsilon above {self.largest_epsilon_in_reach:.2f}",
            "REFUTED" if self.refuted else "not refuted, which proves nothing",
        )
        return "\n".join(lines)


def _run(
    audited: AuditedTask, epsilon: Fraction, delta: Fraction, runs: int, processes: int
) -> Answer:
    began = time.perf_counter()
    distance, observations = observe(audited, runs, processes)
    finding = best_finding(observations, distance, FALSE_ALARM, float(delta))
    bound = max(0.0, finding.epsilon)
    collected = max(sum(leans.total() for leans in pair) for pair in observations.values())
    return Answer(
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
        largest_epsilon_in_reach=largest_bound((collected // 2, collected // 2), FALSE_ALARM),
        seen=finding.vantage,
        event=finding.event,
        hits=finding.hits,
        of=finding.runs,
        refuted=Fraction(bound) > epsilon,
    )


def observe(audited: AuditedTask, runs: int, processes: int) -> tuple[int, dict[str, Leans]]:
    """Collect at least `runs` batches, on at most so many processes.

    Returns:
        How far the neighbouring sums are from each other, and what was seen, by vantage.

    Raises:
        ParameterError: The parameters make no task that can be audited.
    """
    pairs = -(-runs // _RUNS_OF_A_STEP)
    processes = max(1, min(processes, runs // _LEAST_RUNS_OF_A_PROCESS))
    # In this process as well, so that bad parameters are refused before others are started.
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
