"""`prio population`: a budget over all tasks that ask the same people."""

from typing import Annotated

import typer

from aggregator.cli.options import Config
from aggregator.errors import ParameterError
from aggregator.untrusted_text import is_unsafe


def population(
    name: Annotated[str, typer.Argument(help="The population's name, as tasks declare it.")],
    config: Config = None,
    epsilon: Annotated[
        str | None,
        typer.Option(
            help="The most that the epsilons of all releases may add up to. Noise "
            "without an epsilon is then refused."
        ),
    ] = None,
    rho: Annotated[
        str | None,
        typer.Option(
            help="The most that the rhos of all releases may add up to, for every kind of noise."
        ),
    ] = None,
    delta: Annotated[
        str,
        typer.Option(
            help="The most that the deltas of all releases may add up to; with "
            "0, no release may have one."
        ),
    ] = "0",
    closed: Annotated[
        bool, typer.Option("--closed", help="Take no task after the first release.")
    ] = False,
) -> None:
    """Fix what all tasks that ask the same people may cost together.

    Fix it before their first release: limits chosen after results promise less than they say. This
    aggregator then refuses a release that would exceed a limit, before anything is drawn, and a
    task of which not one release is allowed. A closed population whose tasks all have a budget or
    max_releases has a plan, so that theorems for fixed plans hold for it.
    """
    from aggregator.cli.service.parties import open_aggregator
    from aggregator.dp.filters import Filter
    from aggregator.dp.rationals import parse_rational
    from aggregator.protocol.requirements import parse_max_delta
    from aggregator.service.runtime.spending import fix_population
    from aggregator.service.storage.ledger.populations import Population

    limits = None
    if epsilon is not None or rho is not None:
        limits = Filter(
            None if epsilon is None else parse_rational(epsilon, "epsilon"),
            None if rho is None else parse_rational(rho, "rho"),
            parse_max_delta(delta, "delta"),
        )
    elif delta != "0" or not closed:
        raise ParameterError("population: give --epsilon, --rho or --closed")
    if not name:
        raise ParameterError("name: must not be empty; tasks without a population have none")
    if is_unsafe(name):
        raise ParameterError("name: must be one line, without control characters, as a task's is")
    with open_aggregator(config) as party:
        population = Population(limits, closed)
        party.database.run_sync("fix population", lambda tx: fix_population(tx, name, population))
