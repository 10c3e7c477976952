"""Types of measurement on the command line: names and parameters, as in the table."""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from aggregator.errors import ParameterError
from aggregator.vdaf.instances import TYPES, VdafType

CIRCUITS = ", ".join(row.short_name for row in TYPES.values())

Circuit = Annotated[str, typer.Option(help=f"Type of measurement: {CIRCUITS}.")]

Parameters = Mapping[str, int]
"""Those of a type's parameters that were given, by name."""


def type_of(circuit: str) -> VdafType:
    """Return the type that an option names; case and hyphens do not matter.

    Raises:
        ParameterError: No type has that name.
    """
    names = {row.short_name: row for row in TYPES.values()}
    row = names.get(circuit.lower().replace("-", ""))
    if row is None:
        raise ParameterError(f"circuit must be one of {', '.join(names)}, not {circuit!r}")
    return row


def takes_parameters(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with an option for each parameter of any type.

    Args:
        command: Gets those that were set as its argument `parameters`.
    """
    options = {
        parameter.name: inspect.Parameter(
            parameter.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[int | None, typer.Option(help=_help(parameter.name))],
        )
        for row in TYPES.values()
        for parameter in row.parameters
    }

    @functools.wraps(command)
    def with_parameters(**arguments: Any) -> None:  # noqa: ANN401  whatever the command takes
        given = {name: arguments.pop(name) for name in options}
        set_ones = {name: value for name, value in given.items() if value is not None}
        command(**arguments, parameters=set_ones)

    signature = inspect.signature(command)
    others = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for name, parameter in signature.parameters.items()
        if name != "parameters"
    ]
    described = signature.replace(parameters=[*others, *options.values()])
    vars(with_parameters)["__signature__"] = described
    return with_parameters


def _help(name: str) -> str:
    """Return what a parameter means, and which types have it."""
    rows = {
        row.short_name: parameter.help
        for row in TYPES.values()
        for parameter in row.parameters
        if parameter.name == name
    }
    return f"{next(iter(rows.values()))}: {', '.join(rows)}."
