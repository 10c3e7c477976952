"""`prio plan`: choose an epsilon and defend it, without touching a task or a report.

Each command prints text for a reader, or with `--json` the same figures for a program. A parameter
out of range is named on standard error and ends the command with status 2.
"""

from pathlib import Path
from typing import Annotated, Final

import typer

from aggregator.cli.faults import reported
from aggregator.cli.files import read_task
from aggregator.cli.options import WhichTask
from aggregator.cli.steward.plan_advise import advise
from aggregator.cli.steward.plan_options import (
    Json,
    MaxReportsPerPerson,
    of_least_size,
    print_answer,
)
from aggregator.cli.steward.plan_papers import (
    budget,
    claims,
    figures,
    keep,
    risk,
    selection,
    threshold,
)
from aggregator.cli.steward.plan_sections import sections
from aggregator.cli.steward.plan_serve import serve
from aggregator.cli.steward.plan_text import text
from aggregator.cli.types import (
    Circuit,
    Mechanism,
    MechanismDelta,
    MechanismEpsilon,
    MechanismRho,
    Parameters,
    mechanism_of,
    takes_parameters,
    type_of,
)
from aggregator.dp.discrete_laplace import PureDpDiscreteLaplace
from aggregator.errors import ParameterError
from aggregator.vdaf.instances import COUNT

PAPERS: Final = "Recompute the papers"
"""The heading of commands that no decision needs."""

app = typer.Typer(
    no_args_is_help=True,
    help="Plan what a release may cost: errors, years, sections, free answers; check the papers.",
)


@app.command()
@takes_parameters
def compose(
    releases: Annotated[int, typer.Option(help="How many releases a person is in.")],
    delta: Annotated[str, typer.Option(help="The chance at which the bounds are stated.")],
    parameters: Parameters,
    mechanism: Mechanism = PureDpDiscreteLaplace.name,
    epsilon0: Annotated[
        str | None, typer.Option(help="The mechanism's epsilon of one release, if it has one.")
    ] = None,
    release_delta: Annotated[
        str | None, typer.Option(help="The mechanism's delta of one release, if it has one.")
    ] = None,
    rho: MechanismRho = None,
    max_reports_per_person: MaxReportsPerPerson = 1,
    circuit: Circuit = COUNT.short_name,
    task: Annotated[
        Path | None,
        typer.Option(
            help="Instead of all these: a task file, whose mechanism and measurement are taken."
        ),
    ] = None,
    which: WhichTask = None,
    json: Json = False,
) -> None:
    """What several releases cost together, by every theorem at hand."""
    from aggregator.steward.planning import answers

    with reported():
        if (task is None) == (epsilon0 is None and rho is None):
            raise ParameterError("give either epsilon0, or rho, or a task file")
        if task is None and which is not None:
            raise ParameterError("which: goes with --task")
        if task is not None:
            planned = read_task(task, which)
            noise, summed = planned.policy.mechanism, planned.prio3.circuit
        else:
            noise = mechanism_of(mechanism, epsilon0, release_delta, rho, max_reports_per_person)
            summed = of_least_size(circuit, parameters)
        print_answer(answers.compose(noise, summed, releases, delta), json=json)


app.command()(advise)


@app.command()
@takes_parameters
def error(
    circuit: Circuit,
    parameters: Parameters,
    mechanism: Mechanism = PureDpDiscreteLaplace.name,
    epsilon: MechanismEpsilon = None,
    delta: MechanismDelta = None,
    rho: MechanismRho = None,
    max_reports_per_person: MaxReportsPerPerson = 1,
    confidence: Annotated[
        str, typer.Option(help="Confidence of the interval, such as 0.95.")
    ] = "0.95",
    reports: Annotated[
        int | None,
        typer.Option(help="How many reports a batch has, for the error relative to their sum."),
    ] = None,
    relative_error: Annotated[
        str | None,
        typer.Option(
            help="A wanted relative error, such as 5%: prints the smallest batch that has it."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """How far a result lies from the truth under a mechanism's noise.

    Every parameter of the type must be given: a default would make the error look smaller than it
    is. Sections all have the same error in units of the largest value that each can hold, as in a
    survey, and the error printed is that of the largest section.
    """
    from aggregator.dp.by_section import with_equal_errors
    from aggregator.steward.planning import answers_error

    with reported():
        summed = type_of(circuit).prio3(parameters).circuit
        given = mechanism_of(mechanism, epsilon, delta, rho, max_reports_per_person)
        noise = with_equal_errors(given, summed)
        answer = answers_error.error(noise, summed, confidence, reports, relative_error)
        if not json:
            print(f"confidence: {confidence}")
        print_answer(answer, json=json)


app.command(
    epilog="Example: prio plan sections --sections 'onehot:5 onehot:3 number:100' --epsilon 1"
)(sections)


app.command(epilog="Example: prio plan text --epsilon 1 --reports 1000000")(text)


app.command(epilog="Example: prio plan serve")(serve)


for recomputed in (selection, keep, threshold, risk, claims, budget, figures):
    app.command(rich_help_panel=PAPERS)(recomputed)
