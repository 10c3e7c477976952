"""The program behind the `prio` command, without any of its commands."""

import sys
from typing import Annotated

import typer

import aggregator
from aggregator.cli import faults
from aggregator.cli.commands import Commands
from aggregator.cli.process import (
    hold_closed_streams,
    interrupt_again_if_swallowed,
    write_every_letter,
)
from aggregator.service.telemetry.lines import set_up_with_first_line


def _print_version(asked: bool) -> None:
    if asked:
        print(f"prio-aggregator {aggregator.__version__}")
        print(f"{aggregator.DAP_DRAFT}, {aggregator.VDAF_DRAFT}")
        raise typer.Exit


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # its frames show local variables, which may be secret
)


@app.callback()
def prio(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Print the version and the drafts that the wire formats follow.",
        ),
    ] = False,
) -> None:
    """Statistics about people, without anybody's data."""


def _set_up_logs() -> None:
    from aggregator.service.telemetry.logs import LogFormat, configure_logs

    configure_logs(LogFormat.CONSOLE, "warning")


def run() -> None:
    """Run the command line."""
    interrupt_again_if_swallowed()
    hold_closed_streams()
    write_every_letter()
    set_up_with_first_line(_set_up_logs)  # a service sets up its own
    with faults.reported():
        try:
            app()
        finally:
            sys.stdout.flush()  # at the exit, a failure to write would go unreported
