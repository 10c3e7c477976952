"""`prio audit`: tests of the release path installed here, and of a running pair.

The self-test takes no configuration, store or key: it makes up its own task, parties and keys, so
it can neither spend a real budget nor see a real share.
"""

import dataclasses
import json as jsonlib
import os
from typing import Annotated

import typer

from aggregator.cli.faults import reported
from aggregator.cli.steward.audit_pair import pair
from aggregator.cli.steward.plan_options import Json
from aggregator.cli.types import (
    Circuit,
    Mechanism,
    MechanismDelta,
    MechanismEpsilon,
    MechanismRho,
    Parameters,
    takes_parameters,
    type_of,
)
from aggregator.dp.discrete_laplace import PureDpDiscreteLaplace

app = typer.Typer(no_args_is_help=True, help="Test the noise of releases.")
app.command("pair")(pair)

_REFUTED = 1
_LEAST_RUNS = 100


@app.command("self-test")
@takes_parameters
def self_test(
    circuit: Circuit,
    parameters: Parameters,
    mechanism: Mechanism = PureDpDiscreteLaplace.name,
    epsilon: MechanismEpsilon = None,
    delta: MechanismDelta = None,
    rho: MechanismRho = None,
    runs: Annotated[
        int, typer.Option(help="How many batches to collect.", min=_LEAST_RUNS)
    ] = 10_000,
    processes: Annotated[
        int | None,
        typer.Option(help="How many processes run at once; one per processor by default.", min=1),
    ] = None,
    json: Json = False,
) -> None:
    """Try to refute what a mechanism promises by releasing made-up neighbours many times here.

    Calls the release path of this installation in its own process, and says nothing about a running
    aggregator. Ends with status 1 if epsilon is refuted, which happens to a correct mechanism at
    most once in a million self-tests; with 0 if it is not, which proves nothing; with 2 for bad
    input.
    """
    from aggregator.cli.spinner import spinning
    from aggregator.steward.audit.report import run_audit
    from aggregator.steward.audit.runs import AuditedTask

    with reported():
        row = type_of(circuit)
        given = {"mechanism": mechanism, "epsilon": epsilon, "delta": delta, "rho": rho}
        privacy = {name: text for name, text in given.items() if text is not None}
        audited = AuditedTask(row.name, {**row.least(), **parameters}, privacy)
        with spinning(f"collecting {runs:,} batches of made-up neighbours"):
            report = run_audit(audited, runs, processes or os.cpu_count() or 1)
    print(jsonlib.dumps(dataclasses.asdict(report)) if json else report.text())
    if report.refuted:
        raise typer.Exit(_REFUTED)
