"""Options by which a client refuses tasks that protect people too little."""

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from aggregator.cli.options import with_options
from aggregator.dp.rationals import format_rational
from aggregator.protocol.requirements import DEFAULT_MAX_DELTA, DEFAULT_MAX_EPSILON, DEFAULT_MAX_RHO

if TYPE_CHECKING:
    from aggregator.protocol.requirements import Requirements


def takes_requirements(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with the options of requirements instead of its argument `requirements`."""
    return with_options(
        command, "requirements", inspect.signature(_requirements).parameters, _requirements
    )


def _requirements(
    max_epsilon: Annotated[
        str | None,
        typer.Option(
            help='Refuse tasks with a larger epsilon per release, or with none; exact: "1/2". If '
            f"not given, only those with one above {DEFAULT_MAX_EPSILON}.",
            show_default=False,
        ),
    ] = None,
    max_delta: Annotated[
        str, typer.Option(help="Refuse tasks with a larger delta per release.")
    ] = format_rational(DEFAULT_MAX_DELTA),
    max_rho: Annotated[
        str | None,
        typer.Option(
            help="Refuse tasks with a larger rho per release, or with none. If not given, only "
            f"those with Gaussian noise of a rho above {DEFAULT_MAX_RHO}.",
            show_default=False,
        ),
    ] = None,
    min_batch_size: Annotated[
        int, typer.Option(min=1, help="Refuse tasks with a smaller min_batch_size.")
    ] = 1,
    limit_required: Annotated[
        bool,
        typer.Option(
            "--limit-required", help="Refuse tasks with neither a budget nor max_releases."
        ),
    ] = False,
    exact_results: Annotated[
        bool | None,
        typer.Option(
            help="Take part in tasks without noise, or refuse them. If neither is given, "
            "they are refused only with --max-epsilon or --max-rho.",
            show_default=False,
        ),
    ] = None,
    population_required: Annotated[
        str,
        typer.Option(
            help="Refuse tasks that name none of these populations, joined by commas.",
            show_default=False,
        ),
    ] = "",
) -> "Requirements":
    """Return the protection that these options require of a task."""
    from aggregator.dp.rationals import parse_rational
    from aggregator.protocol.requirements import Requirements, parse_max_delta, parse_populations

    return Requirements(
        min_batch_size=min_batch_size,
        max_epsilon=None if max_epsilon is None else parse_rational(max_epsilon, "max-epsilon"),
        max_delta=parse_max_delta(max_delta, "max-delta"),
        max_rho=None if max_rho is None else parse_rational(max_rho, "max-rho"),
        limit_required=limit_required,
        exact_results=exact_results,
        populations=parse_populations(population_required, "population-required"),
    )
