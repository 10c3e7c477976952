"""Options that several commands of `prio plan` have, and how all of them print."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aggregator.steward.planning.values import Value

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Delta = Annotated[str, typer.Option(help="Chance of a failure, from 0 to 1.")]
Kappa = Annotated[int, typer.Option(help="The most buckets that one person is in.")]
Epsilon = Annotated[str, typer.Option(help="Privacy loss, such as 1, 0.1 or 1/10.")]
MaxReportsPerPerson = Annotated[
    int, typer.Option(help="The most reports of one person in one release.")
]
Epsilon0 = Annotated[str, typer.Option(help="The epsilon that the noise is calibrated to.")]


class NeighbourChoice(StrEnum):
    """Which data sets a guarantee compares."""

    ADD_REMOVE = "add-remove"
    REPLACEMENT = "replacement"


Neighbours = Annotated[NeighbourChoice, typer.Option(help="add-remove or replacement.")]


def print_answer(answer: "Mapping[str, Value]", *, json: bool) -> None:
    """Print what was computed, as text for a reader or as JSON for a program."""
    from aggregator.steward.planning.output import to_json, to_text

    print(to_json({"version": 1, **answer}) if json else to_text(answer))
