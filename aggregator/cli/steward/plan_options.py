"""Options that several commands of `prio plan` have, and how all of them print."""

from typing import TYPE_CHECKING, Annotated

import typer

from aggregator.cli.types import Parameters, type_of
from aggregator.vdaf.instances import COUNT, SECTIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aggregator.steward.planning.output import Value
    from aggregator.vdaf.circuits import Circuit

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
MaxReportsPerPerson = Annotated[
    int, typer.Option(help="The most reports of one person in one release.")
]


def print_answer(answer: "Mapping[str, Value]", *, json: bool) -> None:
    """Print what was computed, as text for a reader or as JSON for a program."""
    from aggregator.steward.planning.output import to_json, to_text

    print(to_json({"version": 1, **answer}) if json else to_text(answer))


def of_least_size(name: str, parameters: Parameters) -> "Circuit":
    """Return a type's circuit, with the least value for missing parameters.

    Sections say of which type they are, so only another type than the usual one has to be named.
    """
    row = SECTIONS if "sections" in parameters and name == COUNT.short_name else type_of(name)
    return row.prio3({**row.least(), **parameters}).circuit
