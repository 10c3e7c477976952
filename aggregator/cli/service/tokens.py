"""`prio task token`: the bearer tokens of a task, replaced without a pause.

The leader shows its token to the helper, the collector shows its own to the leader. The called
party makes a new token (`new`), the caller starts to use it (`use`), then the called party sets an
end to the old one (`retire`). Running services need not be told.
"""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aggregator.cli.options import AsJson, Config, TaskArgument, TaskCommand
from aggregator.entropy import SystemEntropy
from aggregator.errors import ParameterError
from aggregator.written_times import utc_text

if TYPE_CHECKING:
    from aggregator.cli.service.parties import AggregatorParty, CollectorParty
    from aggregator.dap.ids import TaskId
    from aggregator.service.storage.engine.transaction import Transaction
    from aggregator.service.storage.tasks.caller_tokens import CallerToken

app = typer.Typer(no_args_is_help=True, help="Replace the tokens by which parties know each other.")

GRACE_SECONDS = 300
"""How long a retired token is still accepted, for requests under way."""


@app.command(cls=TaskCommand)
def new(task_id: TaskArgument, config: Config = None) -> None:
    """Make a further token for the caller of this party, and print it: hand it to nobody else."""
    from aggregator.cli.service.parties import open_aggregator, task_id_of
    from aggregator.dap.auth import hash_token, new_token
    from aggregator.dap.profile import Role
    from aggregator.service.storage.tasks.caller_tokens import add_caller_token

    known = task_id_of(task_id)
    token = new_token(SystemEntropy())
    with open_aggregator(config, may_make=False) as party:
        party.database.run_sync(
            "new token", lambda tx: add_caller_token(tx, known.value, hash_token(token))
        )
        caller = "collector" if party.role is Role.LEADER else "leader"
    print(token)
    print(f"the {caller} takes it up with `prio task token use {known}`", file=sys.stderr)


@app.command("list", cls=TaskCommand)
def list_(
    task_id: TaskArgument,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Print the names of the tokens that this party's caller may use, and until when."""
    from aggregator.cli.service.parties import open_aggregator, task_id_of
    from aggregator.service.storage.engine.transaction import Transaction
    from aggregator.service.storage.tasks.caller_tokens import CallerToken, list_caller_tokens

    known = task_id_of(task_id)
    with open_aggregator(config, may_make=False) as party:

        def read(tx: Transaction) -> tuple[list[CallerToken], int]:
            return list_caller_tokens(tx, known.value), tx.now

        tokens, now = party.database.read_sync("list tokens", read)
    if as_json:
        listed = [
            {
                "name": token.name,
                "created_at": token.created_at,
                "expires_at": token.expires_at,
                "valid": token.is_valid(now),
            }
            for token in tokens
        ]
        print(json.dumps({"version": 1, "tokens": listed}))
        return
    for token in tokens:
        print(f"{token.name}  made {utc_text(token.created_at)}  {_state(token, now)}")


@app.command(cls=TaskCommand)
def retire(
    task_id: TaskArgument,
    name: Annotated[
        str, typer.Argument(help="The token's name, as `prio task token list` prints it.")
    ],
    config: Config = None,
    after: Annotated[
        int,
        typer.Option(
            min=0, help="For how many seconds the token is still accepted; 0 for a stolen one."
        ),
    ] = GRACE_SECONDS,
) -> None:
    """Refuse a token from soon on; the task must have another one."""
    from aggregator.cli.service.parties import open_aggregator, task_id_of
    from aggregator.service.storage.engine.transaction import Transaction
    from aggregator.service.storage.tasks.caller_tokens import end_caller_token, list_caller_tokens

    known = task_id_of(task_id)

    def end(tx: Transaction) -> None:
        tokens = [each for each in list_caller_tokens(tx, known.value) if each.name == name]
        if len(tokens) != 1:
            raise ParameterError(
                f"name: the task has no token {name!r}; `prio task token list` prints those it has"
            )
        end_caller_token(tx, known.value, tokens[0].token_hash, after)

    with open_aggregator(config, may_make=False) as party:
        party.database.run_sync("retire token", end)


@app.command(cls=TaskCommand)
def use(
    task_id: TaskArgument,
    file: Annotated[
        Path, typer.Argument(help="The file with the new token; - for standard input.")
    ] = Path("-"),
    config: Config = None,
) -> None:
    """Use another token from now on: the leader at the helper, the collector at the leader."""
    from aggregator.cli.service.parties import open_party, task_id_of
    from aggregator.dap.auth import bearer_header, bearer_token
    from aggregator.service.config import read_text

    known = task_id_of(task_id)
    token = read_text(file).strip()
    if bearer_token(bearer_header(token)) != token:
        raise ParameterError(f"{file}: holds no token, such as `prio task token new` prints")
    with open_party(config, may_make=False) as party:
        party.database.run_sync("use token", lambda tx: _replace(tx, party, known, token))


def _replace(
    tx: "Transaction", party: "AggregatorParty | CollectorParty", task_id: "TaskId", token: str
) -> None:
    from aggregator.cli.service.parties import CollectorParty
    from aggregator.collector.store import replace_token
    from aggregator.dap.profile import Role
    from aggregator.service.storage.tasks.tasks import replace_peer_token

    if isinstance(party, CollectorParty):
        replace_token(tx, task_id.value, token)
    elif party.role is Role.LEADER:
        replace_peer_token(tx, task_id.value, token)
    else:
        raise ParameterError(
            "config: a helper calls nobody, so it shows no token; give the leader's or the "
            "collector's"
        )


def _state(token: "CallerToken", now: int) -> str:
    if token.expires_at is None:
        return "accepted"
    verb = "accepted until" if token.is_valid(now) else "refused since"
    return f"{verb} {utc_text(token.expires_at)}"
