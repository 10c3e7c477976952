"""`prio plan`: choose an epsilon and defend it; nothing here touches a task or a report.

Each command prints text for a reader, or with `--json` the same figures for a program. A parameter
out of range is named on standard error and ends the command with status 2.
"""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from aggregator.cli import figures_risk, figures_selection, plan_answers
from aggregator.cli.faults import reported
from aggregator.cli.figures import draw_all
from aggregator.cli.plan_output import Value, to_json, to_text
from aggregator.cli.types import CIRCUITS, Circuit, Parameters, takes_parameters, type_of
from aggregator.dp.advise import Question
from aggregator.dp.advise import advise as advice_for
from aggregator.dp.loss_law import worst_move
from aggregator.errors import ParameterError
from aggregator.vdaf import circuits
from aggregator.vdaf.instances import COUNT

app = typer.Typer(
    no_args_is_help=True,
    help="Plan what a release may cost: selection, thresholds, risks, budgets, errors.",
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Epsilon = Annotated[str, typer.Option(help="Privacy loss, such as 1, 0.1 or 1/10.")]
Epsilon0 = Annotated[str, typer.Option(help="The epsilon that the noise is calibrated to.")]


class NeighbourChoice(StrEnum):
    """Which data sets a guarantee compares."""

    ADD_REMOVE = "add-remove"
    REPLACEMENT = "replacement"


LAPLACE = "laplace"
"""In place of a type of measurement: continuous Laplace noise."""

CircuitOrLaplace = Annotated[
    str, typer.Option(help=f"Type of measurement: {CIRCUITS}; or {LAPLACE}, without a type.")
]


@app.command()
def selection(
    epsilon: Epsilon,
    delta: Annotated[str, typer.Option(help="Chance of a failure, 0 to 1.")],
    count: Annotated[int, typer.Option(help="Persons in the bucket asked about.")],
    kappa: Annotated[int, typer.Option(help="Most buckets one person is in.")] = 1,
    neighbours: Annotated[
        NeighbourChoice, typer.Option(help="add-remove or replacement.")
    ] = NeighbourChoice.ADD_REMOVE,
    json: Json = False,
) -> None:
    """Which private buckets may be shown: the optimal rule, its rivals, and the one to take."""
    with reported():
        _print(plan_answers.selection(epsilon, delta, count, kappa, neighbours), json=json)


@app.command()
def threshold(
    reports: Annotated[int, typer.Option(help="Number of reports, 1 to 10^10.")],
    probability: Annotated[str, typer.Option(help="Bound on each answer's chance of 'yes'.")],
    threshold: Annotated[int, typer.Option(help="The largest count that is suppressed.")],
    known: Annotated[int, typer.Option(help="Answers the attacker knows or has chosen.")] = 0,
    active: Annotated[bool, typer.Option(help="The attacker chose the known answers.")] = False,
    epsilon: Annotated[str, typer.Option(help="Where the exact curve is read off.")] = "0",
    json: Json = False,
) -> None:
    """What suppressing small counts without noise protects, and what it does not.

    Where the theorem says nothing the figures are printed and the status is 2.
    """
    with reported():
        answer, problem = plan_answers.threshold(
            reports, probability, threshold, known, active=active, epsilon=epsilon
        )
        _print(answer, json=json)
        if problem is not None:
            raise problem


@app.command()
@takes_parameters
def risk(
    epsilon0: Epsilon0,
    epsilon: Annotated[str, typer.Option(help="Where the law of the loss is read off.")],
    parameters: Parameters,
    circuit: CircuitOrLaplace = COUNT.short_name,
    aggregators: Annotated[int, typer.Option(help="Honest aggregators counted on.")] = 1,
    published: Annotated[bool, typer.Option(help="Add the published figure, labelled.")] = False,
    k: Annotated[int, typer.Option(help="Coordinates, for the published figure.")] = 1,
    json: Json = False,
) -> None:
    """The exact law of the privacy loss of one release."""
    with reported():
        summed = _circuit(circuit, parameters)
        move = None if summed is None else worst_move(summed, honest_draws=aggregators)
        answer = plan_answers.risk(move, epsilon0, epsilon, aggregators, published=published, k=k)
        _print(answer, json=json)


@app.command()
def budget(
    people: Annotated[int, typer.Option(help="Number of people in the data.")],
    compensation: Annotated[str, typer.Option(help="Owed to each without protection.")],
    epsilon0: Epsilon0,
    error: Annotated[
        str | None, typer.Option(help="Largest mean absolute error, for the sound range.")
    ] = None,
    money: Annotated[
        str | None, typer.Option("--budget", help="Most that may be owed, for the sound range.")
    ] = None,
    json: Json = False,
) -> None:
    """What would be owed after a breach, in the model of Dandekar, Basu and Bressan."""
    with reported():
        _print(plan_answers.budget(people, compensation, epsilon0, error, money), json=json)


@app.command()
@takes_parameters
def compose(
    epsilon0: Annotated[str, typer.Option(help="Of one release.")],
    releases: Annotated[int, typer.Option(help="How many releases a person is in.")],
    delta: Annotated[str, typer.Option(help="Chance at which the bounds are stated.")],
    parameters: Parameters,
    circuit: CircuitOrLaplace = COUNT.short_name,
    json: Json = False,
) -> None:
    """What several releases cost together, by every theorem at hand."""
    with reported():
        summed = _circuit(circuit, parameters)
        _print(plan_answers.compose(summed, epsilon0, releases, delta), json=json)


@app.command()
def advise(
    reports: Annotated[int, typer.Option(help="Reports in one release.")],
    buckets: Annotated[int, typer.Option(help="Answers to choose from; 1 or 2 is a count.")],
    error: Annotated[
        str | None, typer.Option(help="Wanted 95 % half-width: reports, or a part such as 5%.")
    ] = None,
    epsilon: Annotated[str | None, typer.Option(help="Wanted epsilon of one release.")] = None,
    releases: Annotated[int, typer.Option(help="Releases a year.")] = 12,
    max_reports_per_person: Annotated[int, typer.Option(help="In one release.")] = 1,
    delta: Annotated[str, typer.Option(help="For the smaller yearly total.")] = "1e-6",
    population: Annotated[str, typer.Option(help="Name of the people asked.")] = "",
    with_threshold: Annotated[
        bool, typer.Option("--with-threshold", help="Hide buckets at or below the threshold.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="File for the task's privacy section.")] = None,
    json: Json = False,
) -> None:
    """From a question to a privacy section, with three sentences for a board."""
    with reported():
        question = Question.of(
            reports,
            buckets,
            error=error,
            epsilon=epsilon,
            releases=releases,
            max_reports_per_person=max_reports_per_person,
            delta=delta,
        )
        found = advice_for(question, population, with_threshold=with_threshold)
        section = plan_answers.privacy_section(found)
        if out is not None:
            out.write_text(section, encoding="utf-8")
        answer = plan_answers.advice(found)
        if json:
            _print(answer, json=True)
        else:
            del answer["privacy"]
            _print(answer, json=False)
            print(f"\n{section}", end="")


@app.command()
@takes_parameters
def error(
    epsilon: Epsilon,
    circuit: Circuit,
    parameters: Parameters,
    confidence: Annotated[str, typer.Option(help="Of the interval, such as 0.95.")] = "0.95",
    json: Json = False,
) -> None:
    """How far a result lies from the truth under discrete Laplace noise.

    Every parameter of the type must be given: a default would make the error look smaller than it
    is.
    """
    with reported():
        summed = type_of(circuit).prio3(parameters).circuit
        answer = plan_answers.error(summed, epsilon, confidence)
        if not json:
            print(f"confidence: {confidence}")
        _print(answer, json=json)


@app.command()
def figures(
    out: Annotated[Path, typer.Option(help="Directory to write SVG and PNG files to.")],
    json: Json = False,
) -> None:
    """Draw the papers' figures, what was published and what is sound apart."""
    with reported():
        pictures = {**figures_selection.PICTURES, **figures_risk.PICTURES}
        written: list[Value] = [str(path) for path in draw_all(pictures, out)]
        _print({"files": written}, json=json)


def _circuit(name: str, parameters: Parameters) -> circuits.Circuit | None:
    """Return the circuit of a type, with the least parameters for those not given; None if none."""
    if name == LAPLACE:
        if parameters:
            raise ParameterError(f"{LAPLACE} has no parameter {min(parameters)}")
        return None
    row = type_of(name)
    return row.prio3({**row.least(), **parameters}).circuit


def _print(answer: Mapping[str, Value], *, json: bool) -> None:
    print(to_json({"version": 1, **answer}) if json else to_text(answer))
