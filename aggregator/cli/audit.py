"""`prio audit`: tries to refute, from outside, the epsilon that releases claim.

It takes no configuration, store or key, and reads none: task, parties and keys are made up for the
occasion, so an audit can neither spend a real budget nor look at a real share.
"""

import dataclasses
import json as jsonlib
import os
from collections.abc import Mapping
from enum import StrEnum
from fractions import Fraction
from typing import Annotated

import typer

from aggregator.cli.faults import reported
from aggregator.dp.rationals import format_rational, parse_probability, parse_rational
from aggregator.planning.audit_report import run_audit
from aggregator.planning.audit_runs import AuditedTask

_REFUTED = 1
_LEAST_RUNS = 100


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


def audit(
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
        int | None, typer.Option(help="How many at once; one per processor by default.", min=1)
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Try to refute a claimed epsilon by collecting neighbouring made-up data sets many times.

    Ends with status 1 if it is refuted, which happens to a right mechanism at most once in a
    million audits; with 0 if it is not, which proves nothing; with 2 for bad input.
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
        report = run_audit(audited, claimed, claimed_delta, runs, processes or os.cpu_count() or 1)
    print(jsonlib.dumps(dataclasses.asdict(report)) if json else report.text())
    if report.refuted:
        raise typer.Exit(_REFUTED)
