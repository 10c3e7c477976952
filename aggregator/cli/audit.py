"""`prio audit`: tries to refute, from outside, the epsilon that releases claim.

It takes no configuration, store or key, and reads none: task, parties and keys are made up for the
occasion, so an audit can neither spend a real budget nor look at a real share.
"""

import dataclasses
import json as jsonlib
import os
from fractions import Fraction
from typing import Annotated

import typer

from aggregator.cli.faults import reported
from aggregator.cli.types import Circuit, Parameters, takes_parameters, type_of
from aggregator.dp.rationals import format_rational, parse_probability, parse_rational
from aggregator.planning.audit_report import run_audit
from aggregator.planning.audit_runs import AuditedTask

_REFUTED = 1
_LEAST_RUNS = 100


@takes_parameters
def audit(
    circuit: Circuit,
    parameters: Parameters,
    epsilon: Annotated[str, typer.Option(help="The epsilon to refute, such as 1 or 1/2.")],
    delta: Annotated[
        str | None,
        typer.Option(help="With it, truncated geometric noise is audited; histograms only."),
    ] = None,
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
        row = type_of(circuit)
        claimed = parse_rational(epsilon, "epsilon")
        claimed_delta = Fraction(0) if delta is None else parse_probability(delta, "delta")
        privacy = {"mechanism": "PureDpDiscreteLaplace", "epsilon": format_rational(claimed)}
        if delta is not None:
            privacy |= {"mechanism": "TruncatedGeometric", "delta": format_rational(claimed_delta)}
        audited = AuditedTask(row.name, {**row.least(), **parameters}, privacy)
        report = run_audit(audited, claimed, claimed_delta, runs, processes or os.cpu_count() or 1)
    print(jsonlib.dumps(dataclasses.asdict(report)) if json else report.text())
    if report.refuted:
        raise typer.Exit(_REFUTED)
