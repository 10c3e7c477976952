"""`prio hpke`: an aggregator's HPKE key pairs, to which clients seal input shares.

A service replaces its key by age. To replace it now: `new`, then `retire` the old one, which is
accepted for as long as clients may use it, and destroyed by the service once no report can need it.
"""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from aggregator.cli.options import AsJson, Config
from aggregator.errors import ParameterError
from aggregator.written_times import utc_text

if TYPE_CHECKING:
    from aggregator.service.storage.engine.transaction import Transaction
    from aggregator.service.storage.tasks.hpke_keys import StoredConfig

app = typer.Typer(no_args_is_help=True, help="Make, list and retire HPKE key pairs.")


@app.command()
def new(config: Config = None) -> None:
    """Make an HPKE key pair of each suite that is set, and print their ids."""
    from aggregator.cli.service.parties import open_aggregator
    from aggregator.entropy import SystemEntropy
    from aggregator.service.runtime.key_rotation import new_key

    with open_aggregator(config) as party:
        suites, entropy = party.settings.rotation.suites, SystemEntropy()
        made = party.database.run_sync(
            "new hpke keys", lambda tx: [new_key(tx, entropy, suite) for suite in suites]
        )
    for config_id in made:
        print(config_id)


@app.command("list")
def list_keys(
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Print the ids of the HPKE key pairs, newest first, and what they are still needed for."""
    from aggregator.cli.service.parties import open_aggregator
    from aggregator.service.runtime.key_rotation import needed_for
    from aggregator.service.storage.tasks.hpke_keys import list_hpke_configs

    with open_aggregator(config, may_make=False) as party:
        role, rotation = party.role, party.settings.rotation
        found = party.database.read_sync(
            "list hpke keys",
            lambda tx: [
                (key, needed_for(tx, role, rotation, key)) for key in list_hpke_configs(tx)
            ],
        )
    if as_json:
        listed = [
            {
                "config_id": key.config_id,
                "suite": _suite_of(key),
                "created_at": key.created_at,
                "retired_at": key.retired_at,
                "needed_for": need,
            }
            for key, need in found
        ]
        print(json.dumps({"version": 1, "keys": listed}))
        return
    for key, need in found:
        if key.retired_at is None:
            since = utc_text(key.created_at)
            print(f"{key.config_id} advertised since {since}, {_suite_of(key)}")
        else:
            why = f"kept for {need}" if need else "to be destroyed by the service"
            retired = utc_text(key.retired_at)
            print(f"{key.config_id} retired {retired}, {_suite_of(key)}, {why}")


def _suite_of(key: "StoredConfig") -> str:
    from aggregator.codec import decode
    from aggregator.dap.hpke import HpkeConfig, suite_of

    return suite_of(decode(HpkeConfig, key.config)).name


@app.command()
def retire(
    config_id: Annotated[
        int, typer.Argument(help="The key's id, as `prio hpke list` prints it.", min=0, max=255)
    ],
    config: Config = None,
) -> None:
    """Stop advertising an HPKE key pair; the service destroys it when no report can need it."""
    from aggregator.cli.service.parties import open_aggregator
    from aggregator.service.storage.tasks.hpke_keys import list_hpke_configs, retire_hpke_key

    def retire(tx: "Transaction") -> None:
        advertised = [key.config_id for key in list_hpke_configs(tx) if key.retired_at is None]
        if config_id not in advertised:
            raise ParameterError(
                f"HPKE key {config_id}: is not advertised; `prio hpke list` says which are"
            )
        if len(advertised) == 1:
            raise ParameterError(
                f"HPKE key {config_id}: is the only one; make another with `prio hpke new`"
            )
        retire_hpke_key(tx, config_id)

    with open_aggregator(config, may_make=False) as party:
        party.database.run_sync("retire hpke key", retire)
