"""`prio hpke`: an aggregator's HPKE key pairs, to which clients seal input shares.

To change the key: `new`, wait until no client still uses the old one (`hpke_cache_seconds`), then
`retire` it. Reports that were sealed to it can still be opened.
"""

from datetime import UTC, datetime
from typing import Annotated

import typer

from aggregator.cli.options import Config
from aggregator.cli.parties import open_aggregator

app = typer.Typer(no_args_is_help=True, help="Make, list and retire HPKE key pairs.")


@app.command()
def new(config: Config = None) -> None:
    """Make an HPKE key pair, which is advertised before the others, and print its id."""
    with open_aggregator(config) as desk:
        print(desk.new_hpke_key())


@app.command("list")
def list_keys(config: Config = None) -> None:
    """Print the ids of the HPKE key pairs, newest first, and when they were retired."""
    with open_aggregator(config) as desk:
        for key in desk.hpke_keys():
            state = "advertised" if key.retired_at is None else f"retired {_day(key.retired_at)}"
            print(key.config_id, state)


@app.command()
def retire(
    config_id: Annotated[
        int, typer.Argument(help="As `prio hpke list` prints it.", min=0, max=255)
    ],
    config: Config = None,
) -> None:
    """Stop advertising an HPKE key pair; reports that were sealed to it can still be opened."""
    with open_aggregator(config) as desk:
        desk.retire_hpke_key(config_id)


def _day(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%MZ")
