"""`prio store`: what is done to a store as a whole."""

import typer

from aggregator.cli.options import Config
from aggregator.config import read_settings
from aggregator.storage.schema import upgrade as upgrade_schema

app = typer.Typer(no_args_is_help=True, help="Upgrade a store.")


@app.callback()
def store() -> None:
    """Upgrade a store."""


@app.command()
def upgrade(config: Config = None) -> None:
    """Bring a store to this program's schema, in one transaction; stop its processes first."""
    settings = read_settings(config)
    found, made = upgrade_schema(settings.database_url)
    print(f"{settings.database_file}: schema {found}" + (f", now {made}" if made != found else ""))
