"""Options that several commands of `prio plan` have, and how all of them print."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aggregator.steward.planning.output import Value

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Epsilon = Annotated[str, typer.Option(help="Privacy loss, such as 1, 0.1 or 1/10.")]
MaxReportsPerPerson = Annotated[
    int, typer.Option(help="The most reports of one person in one release.")
]
Epsilon0 = Annotated[str, typer.Option(help="The epsilon that the noise is calibrated to.")]


def print_answer(answer: "Mapping[str, Value]", *, json: bool) -> None:
    """Print what was computed, as text for a reader or as JSON for a program."""
    from aggregator.steward.planning.output import to_json, to_text

    print(to_json({"version": 1, **answer}) if json else to_text(answer))
