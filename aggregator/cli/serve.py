"""`prio leader` and `prio helper`: the aggregators' applications and the leader's workers."""

from pathlib import Path
from typing import Annotated

import typer

from aggregator.cli.services import serve_helper, serve_leader, work_leader
from aggregator.config import HelperSettings, LeaderSettings, read_settings_of

leader = typer.Typer(no_args_is_help=True, help="Run the leader.")
helper = typer.Typer(no_args_is_help=True, help="Run the helper.")

LeaderConfig = Annotated[Path, typer.Option("--config", help="The leader's service file.")]
HelperConfig = Annotated[Path, typer.Option("--config", help="The helper's service file.")]


@leader.command("serve")
def leader_serve(
    config: LeaderConfig,
    *,
    work: Annotated[
        bool, typer.Option("--work", help="Also drive jobs, in the same process.")
    ] = False,
) -> None:
    """Take uploads and collection requests."""
    serve_leader(read_settings_of(LeaderSettings, config), work=work)


@leader.command("work")
def leader_work(config: LeaderConfig) -> None:
    """Drive aggregation and collection jobs; any number of such processes may run."""
    work_leader(read_settings_of(LeaderSettings, config))


@helper.callback()
def helper_group() -> None:
    """Run the helper."""


@helper.command("serve")
def helper_serve(config: HelperConfig) -> None:
    """Answer the leader and hand out HPKE configurations."""
    serve_helper(read_settings_of(HelperSettings, config))
