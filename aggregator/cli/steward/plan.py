"""`prio plan`: choose an epsilon and defend it, without touching a task or a report.

Each command prints text for a reader, or with `--json` the same figures for a program. A parameter
out of range is named on standard error and ends the command with status 2.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aggregator.cli.faults import reported
from aggregator.cli.files import read_task
from aggregator.cli.options import WhichTask
from aggregator.cli.steward.plan_advise import advise
from aggregator.cli.steward.plan_options import Epsilon0, Json, MaxReportsPerPerson, print_answer
from aggregator.cli.steward.plan_sections import sections
from aggregator.cli.steward.plan_selection import keep, selection
from aggregator.cli.steward.plan_serve import serve
from aggregator.cli.steward.plan_text import text
from aggregator.cli.types import (
    CIRCUITS,
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

if TYPE_CHECKING:
    from aggregator.steward.planning.output import Value
    from aggregator.vdaf import circuits

app = typer.Typer(
    no_args_is_help=True,
    help="Plan what a release may cost: selection, thresholds, risks, budgets, errors.",
)

LAPLACE = "laplace"
"""Instead of a type of measurement, continuous Laplace noise."""

CircuitOrLaplace = Annotated[
    str, typer.Option(help=f"Type of measurement: {CIRCUITS}; or {LAPLACE}, without a type.")
]


app.command()(selection)
app.command()(keep)


@app.command()
def threshold(
    reports: Annotated[int, typer.Option(help="Number of reports, from 1 to 10^10.")],
    probability: Annotated[str, typer.Option(help="Upper bound on each answer's chance of 'yes'.")],
    threshold: Annotated[int, typer.Option(help="The largest count that is suppressed.")],
    known: Annotated[
        int, typer.Option(help="How many answers the attacker knows or has chosen.")
    ] = 0,
    active: Annotated[bool, typer.Option(help="The attacker chose the known answers.")] = False,
    epsilon: Annotated[
        str, typer.Option(help="The epsilon at which the exact curve is read off.")
    ] = "0",
    json: Json = False,
) -> None:
    """What suppressing small counts without noise protects, and what it does not.

    If the theorem says nothing, the figures are printed and the status is 2.
    """
    from aggregator.cli.spinner import spinning
    from aggregator.steward.planning import answers

    with reported():
        # With billions of answers around the threshold this may take half a minute.
        with spinning("averaging over what the attacker may know"):
            answer, problem = answers.threshold(
                reports, probability, threshold, known, active=active, epsilon=epsilon
            )
        print_answer(answer, json=json)
        if problem is not None:
            raise problem


@app.command()
@takes_parameters
def risk(
    epsilon0: Epsilon0,
    epsilon: Annotated[
        str, typer.Option(help="The epsilon at which the law of the loss is read off.")
    ],
    parameters: Parameters,
    circuit: CircuitOrLaplace = COUNT.short_name,
    aggregators: Annotated[
        int, typer.Option(help="How many aggregators are assumed to be honest.")
    ] = 1,
    published: Annotated[bool, typer.Option(help="Add the published figure, labelled.")] = False,
    k: Annotated[int, typer.Option(help="Number of coordinates, for the published figure.")] = 1,
    json: Json = False,
) -> None:
    """The exact law of the privacy loss of one release."""
    from aggregator.cli.spinner import spinning
    from aggregator.steward.planning import answers
    from aggregator.steward.planning.loss_law import worst_move

    with reported():
        summed = _circuit(circuit, parameters)
        move = None if summed is None else worst_move(summed, honest_draws=aggregators)
        with spinning("adding up losses"):
            answer = answers.risk(move, epsilon0, epsilon, aggregators, published=published, k=k)
        print_answer(answer, json=json)


@app.command()
def claims(
    epsilon0: Epsilon0,
    epsilon: Annotated[str, typer.Option(help="The smaller level that is claimed.")],
    confidence: Annotated[
        str, typer.Option(help="The probability with which it is claimed, from 0 to 1.")
    ],
    k: Annotated[int, typer.Option(help="Number of coordinates of the query.")] = 1,
    coverage: Annotated[
        str, typer.Option(help="The part of all pairs that an estimate covers.")
    ] = "0.99",
    accuracy: Annotated[
        str | None,
        typer.Option(help="Accuracy of an estimated sensitivity; adds what is claimed of it."),
    ] = None,
    samples: Annotated[
        int | None, typer.Option(help="Number of sampled pairs of data sets.")
    ] = None,
    sensitivities: Annotated[
        Path | None, typer.Option(help="A file of sampled sensitivities, one per line.")
    ] = None,
    releases: Annotated[
        int | None,
        typer.Option(help="Number of releases; adds what is claimed of them together."),
    ] = None,
    delta: Annotated[
        str, typer.Option(help="The chance at which the bounds of these are stated.")
    ] = "1e-5",
    json: Json = False,
) -> None:
    """What "privacy at risk" claims, recomputed and labelled, beside what is sound."""
    from aggregator.service.config import read_text
    from aggregator.steward.planning import answers_claims

    with reported():
        sampled = [] if sensitivities is None else read_text(sensitivities).split()
        if accuracy is not None and samples is None and not sampled:
            raise ParameterError("samples: missing; the claim of an estimate depends on it")
        if accuracy is None and (samples is not None or sampled):
            raise ParameterError("accuracy: missing; the claim of an estimate depends on it")
        found = answers_claims.claims(
            epsilon0,
            epsilon,
            confidence,
            k,
            coverage,
            accuracy,
            samples,
            sampled,
            releases,
            delta,
        )
        print_answer(found, json=json)


@app.command()
@takes_parameters
def budget(
    people: Annotated[int, typer.Option(help="Number of people in the data.")],
    compensation: Annotated[
        str, typer.Option(help="What is owed to each person without protection.")
    ],
    epsilon0: Epsilon0,
    parameters: Parameters,
    circuit: Annotated[
        str, typer.Option(help="What is summed, for the sound range; as in `prio plan error`.")
    ] = COUNT.short_name,
    error: Annotated[
        str | None,
        typer.Option(help="Largest mean absolute error of one sum, both aggregators adding noise."),
    ] = None,
    money: Annotated[
        str | None, typer.Option("--budget", help="The most that may be owed, for the sound range.")
    ] = None,
    json: Json = False,
) -> None:
    """What would be owed after a breach, in the model of Dandekar, Basu and Bressan."""
    from aggregator.steward.planning import answers

    with reported():
        summed = type_of(circuit).prio3(parameters).circuit
        answer = answers.budget(people, compensation, epsilon0, error, money, summed)
        print_answer(answer, json=json)


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
            summed = _of_least_size(circuit, parameters)
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


@app.command()
def figures(
    out: Annotated[Path, typer.Option(help="Directory to write SVG and PNG files to.")],
    json: Json = False,
) -> None:
    """Draw the papers' figures, with what was published apart from what is sound."""
    from aggregator.cli.spinner import spinning
    from aggregator.steward.planning import figures_risk, figures_selection
    from aggregator.steward.planning.figures import draw_all

    with reported():
        pictures = {**figures_selection.PICTURES, **figures_risk.PICTURES}
        written: list[Value] = []
        with spinning("drawing", len(pictures)) as advance:
            for name, make in pictures.items():
                advance(f"drawing {name}")
                written += [str(path) for path in draw_all({name: make}, out)]
        print_answer({"files": written}, json=json)


def _circuit(name: str, parameters: Parameters) -> "circuits.Circuit | None":
    """Return a type's circuit as `_of_least_size` does; None for Laplace."""
    if name == LAPLACE:
        if parameters:
            raise ParameterError(f"{LAPLACE} has no parameter {min(parameters)}")
        return None
    return _of_least_size(name, parameters)


def _of_least_size(name: str, parameters: Parameters) -> "circuits.Circuit":
    """Return a type's circuit, with the least value for missing parameters."""
    row = type_of(name)
    return row.prio3({**row.least(), **parameters}).circuit
