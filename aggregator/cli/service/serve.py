"""`prio leader` and `prio helper`: the aggregators' applications and the leader's workers."""

import os
from typing import Annotated

import typer

from aggregator.cli.options import Config

# Services multiply no matrices, for which numpy would begin a thread for each core when it loads; a
# process with threads cannot be copied (`sharing`).
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

Processes = Annotated[
    int | None,
    typer.Option(
        "--processes",
        min=1,
        max=64,
        help="How many processes run at one address; by default one on up to two cores, else one "
        "per core, at most 4, and no more than the memory of a container or a unit holds.",
        show_default=False,
    ),
]

leader = typer.Typer(no_args_is_help=True, help="Run the leader.")
helper = typer.Typer(no_args_is_help=True, help="Run the helper.")


@leader.command("serve")
def leader_serve(
    config: Config = None,
    *,
    work: Annotated[
        bool,
        typer.Option(
            "--work", help="Also drive jobs. Of several processes, every second one does."
        ),
    ] = False,
    processes: Processes = None,
) -> None:
    """Take uploads and collection requests."""
    from aggregator.cli.service.reading import Reading
    from aggregator.cli.service.services import run_leader
    from aggregator.service.config import LeaderSettings

    run_leader(Reading(LeaderSettings, config), work=work, processes=processes)


@leader.command("work")
def leader_work(config: Config = None, *, processes: Processes = None) -> None:
    """Drive aggregation and collection jobs; any number of such processes may run."""
    from aggregator.cli.service.reading import Reading
    from aggregator.cli.service.services import run_leader
    from aggregator.service.config import LeaderSettings

    run_leader(Reading(LeaderSettings, config), serve=False, work=True, processes=processes)


@helper.callback()
def helper_group() -> None:
    """Run the helper."""


@helper.command("serve")
def helper_serve(
    config: Config = None,
    *,
    work: Annotated[
        bool,
        typer.Option(
            "--work", help="Also answer deferred jobs. Of several processes, every second one does."
        ),
    ] = False,
    processes: Processes = None,
) -> None:
    """Answer the leader and hand out HPKE configurations."""
    from aggregator.cli.service.reading import Reading
    from aggregator.cli.service.services import run_helper
    from aggregator.service.config import HelperSettings

    run_helper(Reading(HelperSettings, config), work=work, processes=processes)


@helper.command("work")
def helper_work(config: Config = None, *, processes: Processes = None) -> None:
    """Answer the jobs that a helper with `defer_jobs` has deferred; any number may run."""
    from aggregator.cli.service.reading import Reading
    from aggregator.cli.service.services import run_helper
    from aggregator.service.config import HelperSettings

    run_helper(Reading(HelperSettings, config), serve=False, work=True, processes=processes)
