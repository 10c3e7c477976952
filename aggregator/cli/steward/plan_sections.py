"""`prio plan sections`: one epsilon for everything that a report holds, split over its sections."""

from typing import Annotated

import typer

from aggregator.cli.faults import reported
from aggregator.cli.steward.plan_options import Json, MaxReportsPerPerson, print_answer
from aggregator.vdaf.instances import SECTIONS


def sections(
    sections: Annotated[
        str, typer.Option(help="What a report holds, such as 'onehot:5 number:100'.")
    ],
    epsilon: Annotated[
        str, typer.Option(help="The epsilon of one release, for all sections together.")
    ],
    delta: Annotated[str, typer.Option(help="The delta of Gaussian noise.")] = "1e-9",
    units: Annotated[
        str | None,
        typer.Option(
            help="The unit of each section, separated by spaces: errors of one unit are "
            "equally bad. If not given, the largest value of an entry, which is 1 for counts."
        ),
    ] = None,
    max_reports_per_person: MaxReportsPerPerson = 1,
    confidence: Annotated[
        str, typer.Option(help="Confidence of the intervals, such as 0.95.")
    ] = "0.95",
    json: Json = False,
) -> None:
    """One epsilon for everything that a report holds, split over its sections.

    Prints, for Laplace and for Gaussian noise, every section's share, the error of its values, and
    the smallest difference between two releases that can be told; then the privacy table to use.
    """
    from aggregator.steward.planning import answers_sections

    with reported():
        circuit = SECTIONS.prio3({"sections": sections}).circuit
        given = (units or "").split()
        answer = answers_sections.sections(
            circuit, epsilon, delta, given, confidence, max_reports_per_person
        )
        print_answer(answer, json=json)
