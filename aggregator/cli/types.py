"""Types of measurement and noise on the command line: names and parameters from their tables."""

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated

import typer

from aggregator.cli.options import with_options
from aggregator.dp import mechanisms
from aggregator.dp.policy import MECHANISMS
from aggregator.dp.policy_table import policy_from_mapping
from aggregator.errors import ParameterError
from aggregator.vdaf.instances import TYPES, Value, VdafType

CIRCUITS = ", ".join(row.short_name for row in TYPES.values())

Circuit = Annotated[str, typer.Option(help=f"Type of measurement: {CIRCUITS}.")]

NOISE = ", ".join(kind.name for kind in MECHANISMS.values() if kind.is_noisy)

Mechanism = Annotated[str, typer.Option(help=f"The noise: {NOISE}.")]
MechanismEpsilon = Annotated[
    str | None, typer.Option(help="The mechanism's epsilon, if it has one, such as 1 or 1/2.")
]
MechanismDelta = Annotated[str | None, typer.Option(help="The mechanism's delta, if it has one.")]
MechanismRho = Annotated[str | None, typer.Option(help="The mechanism's rho, if it has one.")]

Parameters = Mapping[str, Value]
"""The parameters of a type that were given, by name."""


def type_of(name: str, option: str = "circuit") -> VdafType:
    """Return the type that an option names, short or in full, such as `sumvec` or `Prio3SumVec`.

    Case and hyphens do not matter. Raises `ParameterError` if no type has that name.
    """
    plain = name.lower().replace("-", "")
    for row in TYPES.values():
        if plain in (row.short_name, row.name.lower()):
            return row
    raise ParameterError(f"{option} must be one of {CIRCUITS}, not {name!r}")


def mechanism_of(
    name: str, epsilon: str | None, delta: str | None, rho: str | None, max_reports_per_person: int
) -> mechanisms.Mechanism:
    """Return the mechanism that the options name, or raise `ParameterError`."""
    given = {"mechanism": name, "epsilon": epsilon, "delta": delta, "rho": rho}
    table: dict[str, object] = {key: text for key, text in given.items() if text is not None}
    table["max_reports_per_person"] = max_reports_per_person
    return policy_from_mapping(table).mechanism


def takes_parameters(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with an option for each parameter of any type.

    Args:
        command: Gets the parameters that were set as its argument `parameters`.
    """
    options = {
        parameter.name: inspect.Parameter(
            parameter.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[parameter.kind | None, typer.Option(help=_help(parameter.name))],
        )
        for row in TYPES.values()
        for parameter in row.parameters
    }

    def given(**arguments: Value | None) -> Parameters:
        return {name: value for name, value in arguments.items() if value is not None}

    return with_options(command, "parameters", options, given)


def _help(name: str) -> str:
    """Return the meaning of a parameter, and the types that have it."""
    rows = {
        row.short_name: parameter.help
        for row in TYPES.values()
        for parameter in row.parameters
        if parameter.name == name
    }
    return f"{next(iter(rows.values()))}: {', '.join(rows)}."
