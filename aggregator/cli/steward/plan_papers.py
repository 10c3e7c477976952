"""The commands of `prio plan` that recompute what was published, beside what is sound."""

import csv
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aggregator.cli.faults import reported
from aggregator.cli.steward.plan_options import Json, of_least_size, print_answer
from aggregator.cli.types import CIRCUITS, Parameters, takes_parameters, type_of
from aggregator.entropy import SystemEntropy
from aggregator.errors import ParameterError
from aggregator.vdaf.instances import COUNT

if TYPE_CHECKING:
    from aggregator.steward.planning.output import Value
    from aggregator.vdaf.circuits import Circuit

Epsilon = Annotated[str, typer.Option(help="Privacy loss, such as 1, 0.1 or 1/10.")]
Epsilon0 = Annotated[str, typer.Option(help="The epsilon that the noise is calibrated to.")]
Delta = Annotated[str, typer.Option(help="Chance of a failure, from 0 to 1.")]
Kappa = Annotated[int, typer.Option(help="The most buckets that one person is in.")]


class NeighbourChoice(StrEnum):
    """Which data sets a guarantee compares."""

    ADD_REMOVE = "add-remove"
    REPLACEMENT = "replacement"


Neighbours = Annotated[NeighbourChoice, typer.Option(help="add-remove or replacement.")]

LAPLACE = "laplace"
"""Instead of a type of measurement, continuous Laplace noise."""

CircuitOrLaplace = Annotated[
    str, typer.Option(help=f"Type of measurement: {CIRCUITS}; or {LAPLACE}, without a type.")
]

_COLUMNS = 2
"""Fields per line of a file of bucket counts: the name and the number of persons."""


def selection(
    epsilon: Epsilon,
    delta: Delta,
    count: Annotated[int, typer.Option(help="How many people are in the bucket in question.")],
    kappa: Kappa = 1,
    neighbours: Neighbours = NeighbourChoice.ADD_REMOVE,
    public_threshold: Annotated[
        int | None,
        typer.Option(help="The threshold for buckets of a public list, over the same noise."),
    ] = None,
    json: Json = False,
) -> None:
    """Which private buckets may be shown: the optimal rule, its rivals, and the one to take."""
    from aggregator.papers import answers_selection

    with reported():
        found = answers_selection.selection(
            epsilon, delta, count, kappa, neighbours, public_threshold
        )
        print_answer(found, json=json)


def keep(
    epsilon: Epsilon,
    delta: Delta,
    counts: Annotated[
        Path, typer.Option(help="A CSV file with one bucket and its number of people per line.")
    ],
    kappa: Kappa = 1,
    neighbours: Neighbours = NeighbourChoice.ADD_REMOVE,
    json: Json = False,
) -> None:
    """Draw which private buckets are shown, by the optimal rule.

    Draw only once: showing the names of two draws spends epsilon and delta twice. Publish nothing
    but the names, neither the counts nor how many buckets were left out.
    """
    from aggregator.papers import answers_selection
    from aggregator.service.config import read_text

    with reported():
        buckets = _bucket_counts(read_text(counts))
        found = answers_selection.keep(buckets, epsilon, delta, kappa, neighbours, SystemEntropy())
        print_answer(found, json=json)


def threshold(
    reports: Annotated[int, typer.Option(help="Number of reports, from 1 to 10^10.")],
    probability: Annotated[
        str,
        typer.Option(
            help="The most that each answer's chance of 'yes' can be; above 1/2, the least, and "
            "the question is turned round."
        ),
    ],
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
    from aggregator.papers import answers_risk

    with reported():
        # With billions of answers around the threshold this may take half a minute.
        with spinning("averaging over what the attacker may know"):
            answer, problem = answers_risk.threshold(
                reports, probability, threshold, known, active=active, epsilon=epsilon
            )
        print_answer(answer, json=json)
        if problem is not None:
            raise problem


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
    from aggregator.papers import answers_risk
    from aggregator.papers.loss_law import worst_move

    with reported():
        summed = _circuit(circuit, parameters)
        move = None if summed is None else worst_move(summed, honest_draws=aggregators)
        with spinning("adding up losses"):
            answer = answers_risk.risk(
                move, epsilon0, epsilon, aggregators, published=published, k=k
            )
        print_answer(answer, json=json)


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
    from aggregator.papers import answers_claims
    from aggregator.service.config import read_text

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
    from aggregator.papers import answers_risk

    with reported():
        summed = type_of(circuit).prio3(parameters).circuit
        answer = answers_risk.budget(people, compensation, epsilon0, error, money, summed)
        print_answer(answer, json=json)


def figures(
    out: Annotated[Path, typer.Option(help="Directory to write SVG and PNG files to.")],
    json: Json = False,
) -> None:
    """Draw the papers' figures, with what was published apart from what is sound."""
    from aggregator.cli.spinner import spinning
    from aggregator.papers import figures_risk, figures_selection
    from aggregator.papers.figures import draw

    with reported():
        pictures = {**figures_selection.PICTURES, **figures_risk.PICTURES}
        written: list[Value] = []
        with spinning("drawing", len(pictures)) as advance:
            for name, make in pictures.items():
                advance(f"drawing {name}")
                written += [str(path) for path in draw(make(), out)]
        print_answer({"files": written}, json=json)


def _bucket_counts(text: str) -> dict[str, int]:
    """Return the persons in each bucket; error messages name lines, not their contents."""
    buckets: dict[str, int] = {}
    for number, row in enumerate(csv.reader(text.splitlines()), start=1):
        if len(row) != _COLUMNS or not row[1].strip().isdecimal() or not row[1].isascii():
            raise ParameterError(f"counts: line {number} is not a name, a comma and a whole number")
        if row[0] in buckets:
            raise ParameterError(f"counts: line {number} has a name that stood there before")
        buckets[row[0]] = int(row[1])
    return buckets


def _circuit(name: str, parameters: Parameters) -> "Circuit | None":
    """Return a type's circuit as `of_least_size` does; None for Laplace."""
    if name == LAPLACE:
        if parameters:
            raise ParameterError(f"{LAPLACE} has no parameter {min(parameters)}")
        return None
    return of_least_size(name, parameters)
