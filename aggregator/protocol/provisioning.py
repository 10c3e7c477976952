"""What each party gets when a task is made: the public task file and that party's secrets.

A party's file is the task file, where each task has a table `secrets` with what the party needs:

    leader      verify_key, leader_token (to show to the Helper), collector_token (to recognise)
    helper      verify_key, leader_token (to recognise)
    collector   collector_token (to show to the Leader)

An aggregator's table also has `verify_key_id` if that is not 0. No file holds an HPKE key: each
party makes its own pair and keeps the private key to itself.
"""

import dataclasses
from collections.abc import Mapping, Sequence

from aggregator.codec import U8_MAX, DecodeError
from aggregator.dap.auth import check_token, new_token
from aggregator.dap.ids import decode_base64url, encode_base64url
from aggregator.dap.profile import Role
from aggregator.entropy import Entropy
from aggregator.errors import ParameterError
from aggregator.protocol.task import Task
from aggregator.protocol.task_documents import Table, read_tables, table_to_toml, tables_to_toml
from aggregator.protocol.task_file import (
    check_ids,
    of_several,
    task_from_table,
    task_to_table,
    task_to_toml,
)

_TABLE = "secrets"
_PARTIES = {
    Role.LEADER: ("verify_key", "leader_token", "collector_token"),
    Role.HELPER: ("verify_key", "leader_token"),
    Role.COLLECTOR: ("collector_token",),
}
PARTIES = tuple(_PARTIES)
"""The roles that get secrets; a client needs only the task file."""


@dataclasses.dataclass(frozen=True, slots=True)
class TaskSecrets:
    """The secrets of a task that one party holds; None for those that it does not need.

    Tokens are named after who shows them. `verify_key_id` may be other than 0 for
    tasks made elsewhere.
    """

    verify_key: bytes | None = dataclasses.field(default=None, repr=False)
    leader_token: str | None = dataclasses.field(default=None, repr=False)
    collector_token: str | None = dataclasses.field(default=None, repr=False)
    verify_key_id: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Provision:
    """The contents of a party's file: the task, its text without secrets, and the secrets."""

    task: Task
    definition: str
    secrets: TaskSecrets


def provision(task: Task, entropy: Entropy) -> dict[Role, str]:
    """Draw a task's secrets and return each party's file."""
    tables = _provisioned(task, entropy)
    return {role: table_to_toml(table) for role, table in tables.items()}


def provision_all(tasks: Sequence[Task], entropy: Entropy) -> dict[Role, str]:
    """Draw the secrets of several tasks and return each party's file, a document of them all."""
    tables = [_provisioned(task, entropy) for task in tasks]
    return {role: tables_to_toml([each[role] for each in tables]) for role in PARTIES}


def _provisioned(task: Task, entropy: Entropy) -> dict[Role, Table]:
    values = {
        "verify_key": encode_base64url(entropy.bytes(task.prio3.verify_key_size)),
        "leader_token": new_token(entropy),
        "collector_token": new_token(entropy),
    }
    return {
        role: {**task_to_table(task), _TABLE: {name: values[name] for name in names}}
        for role, names in _PARTIES.items()
    }


def provision_text(
    task: Task, role: Role, secrets: Mapping[str, str | None], verify_key_id: int = 0
) -> str:
    """Return one party's file of a task whose secrets are given by their names in the file.

    Those of other parties are ignored; a missing one is a ParameterError.
    """
    needed: dict[str, object] = {}
    for name in _PARTIES[role]:
        if secrets[name] is None:
            raise ParameterError(f"{name}: missing; the {role.name.lower()} needs it")
        needed[name] = secrets[name]
    if role is not Role.COLLECTOR and verify_key_id:
        needed["verify_key_id"] = verify_key_id
    return table_to_toml({**task_to_table(task), _TABLE: needed})


def read_provision(text: str, role: Role) -> Provision:
    """Read one party's file of one task; raises like `read_provisions`, or if there are several."""
    provisions = read_provisions(text, role)
    if len(provisions) > 1:
        raise ParameterError(f"task file: holds {len(provisions)} tasks where one is needed")
    return provisions[0]


def read_provisions(text: str, role: Role) -> list[Provision]:
    """Read one party's file, of one task or of several.

    Raises `ParameterError` if the file is not that party's, or a task is invalid; the message names
    the setting and never shows a secret.
    """
    tables = read_tables(text, is_secret=True)
    provisions = []
    for place, table in enumerate(tables, 1):
        with of_several(table, place, len(tables)):
            provisions.append(_read(table, role))
    check_ids([each.task for each in provisions])
    return provisions


def _read(table: Table, role: Role) -> Provision:
    values = table.pop(_TABLE, None)
    task = task_from_table(table)
    if values is None:
        raise ParameterError(
            f"[secrets]: missing; the {role.name.lower()} needs its own file, not the public one"
        )
    key_id = values.pop("verify_key_id", 0) if isinstance(values, dict) else 0
    names = set(values) if isinstance(values, dict) else set()
    if (
        not isinstance(values, dict)
        or names != set(_PARTIES[role])
        or not all(isinstance(value, str) for value in values.values())
    ):
        owner = next((each for each, needs in _PARTIES.items() if set(needs) == names), None)
        found = ", ".join(sorted(names)) or "nothing"
        whose = f"has {found}" if owner is None else f"is the {owner.name.lower()}'s"
        raise ParameterError(
            f"[secrets]: a {role.name.lower()}'s file has {', '.join(_PARTIES[role])}, "
            f"this one {whose}"
        )
    if isinstance(key_id, bool) or not isinstance(key_id, int) or not 0 <= key_id <= U8_MAX:
        raise ParameterError(f"secrets.verify_key_id: must be 0 to {U8_MAX}")
    key = values.get("verify_key")
    return Provision(
        task,
        task_to_toml(task),
        TaskSecrets(
            verify_key=None if key is None else _verify_key(task, key),
            leader_token=_token(values, "leader_token"),
            collector_token=_token(values, "collector_token"),
            verify_key_id=key_id,
        ),
    )


def _token(values: Mapping[str, str], name: str) -> str | None:
    token = values.get(name)
    if token is not None:
        check_token(token, f"secrets.{name}")
    return token


def _verify_key(task: Task, text: str) -> bytes:
    size = task.prio3.verify_key_size
    try:
        key = decode_base64url(text)
    except DecodeError:
        raise ParameterError("secrets.verify_key: not unpadded base64url") from None
    if len(key) != size:
        raise ParameterError(f"secrets.verify_key: must be {size} bytes, not {len(key)}")
    return key
