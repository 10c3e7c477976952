"""`prio keys`: the key that encrypts the secrets of a store."""

import typer

from aggregator.cli.options import Config
from aggregator.entropy import SystemEntropy

app = typer.Typer(no_args_is_help=True, help="Change the key that encrypts the secrets of a store.")


@app.command()
def new() -> None:
    """Print a new store key: hand it to nobody else."""
    from aggregator.service.storage.secrets.crypter import new_store_key

    print(new_store_key(SystemEntropy()))


@app.command()
def rewrap(config: Config = None) -> None:
    """Encrypt all secrets of the store anew under the first of its keys; the others can then go."""
    from aggregator.cli.service.parties import open_party
    from aggregator.service.storage.operator.reencryption import rewrap as rewrap_all

    with open_party(config, may_make=False) as party:
        done = rewrap_all(party.database)
    print(f"{done:,} secrets are under the first key now, and none is under another")
