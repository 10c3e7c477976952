"""What each party gets when a task is made: the public task file and that party's secrets.

A party's file is the task file followed by a `[secrets]` table with only what that party needs:

    leader      verify_key, leader_token (to show to the Helper), collector_token (to recognise)
    helper      verify_key, leader_token (to recognise)
    collector   collector_token (to show to the Leader)

None of them holds an HPKE key: each party makes its own pair and keeps the private key to itself.
"""

import dataclasses
import tomllib

from aggregator.codec import DecodeError
from aggregator.dap.auth import new_token
from aggregator.dap.ids import decode_base64url, encode_base64url
from aggregator.dap.profile import Role
from aggregator.entropy import Entropy
from aggregator.errors import ParameterError
from aggregator.protocol.task import NOT_TOML, Task, task_from_toml, task_to_toml

_TABLE = "\n[secrets]\n"
_PARTIES = {
    Role.LEADER: ("verify_key", "leader_token", "collector_token"),
    Role.HELPER: ("verify_key", "leader_token"),
    Role.COLLECTOR: ("collector_token",),
}
PARTIES = tuple(_PARTIES)
"""The roles that get secrets; a client needs only the task file."""


@dataclasses.dataclass(frozen=True, slots=True)
class TaskSecrets:
    """The secrets of a task that one party holds; None for one that it does not need.

    Attributes:
        verify_key: The VDAF verification key, held by both aggregators and never by a client.
        leader_token: The Leader's bearer token at the Helper.
        collector_token: The Collector's bearer token at the Leader.
    """

    verify_key: bytes | None = dataclasses.field(default=None, repr=False)
    leader_token: str | None = dataclasses.field(default=None, repr=False)
    collector_token: str | None = dataclasses.field(default=None, repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Provision:
    """The contents of a party's file: the task, its text without secrets, and the secrets."""

    task: Task
    definition: str
    secrets: TaskSecrets


def provision(task: Task, entropy: Entropy) -> dict[Role, str]:
    """Draw a task's secrets and return each party's file."""
    values = {
        "verify_key": encode_base64url(entropy.bytes(task.prio3.verify_key_size)),
        "leader_token": new_token(entropy),
        "collector_token": new_token(entropy),
    }
    definition = task_to_toml(task)
    return {
        role: definition + _TABLE + "".join(f'{name} = "{values[name]}"\n' for name in names)
        for role, names in _PARTIES.items()
    }


def read_provision(text: str, role: Role) -> Provision:
    """Read one party's file.

    Args:
        text: The file.
        role: Which party we are: LEADER, HELPER or COLLECTOR.

    Raises:
        ParameterError: The file is not that party's, or the task is invalid; the message names the
            setting and never shows a secret.
    """
    definition, table, secrets_text = text.partition(_TABLE)
    task = task_from_toml(definition)
    if not table:
        raise ParameterError(
            f"[secrets]: missing; the {role.name.lower()} needs its own file, not the public one"
        )
    try:
        values = tomllib.loads(secrets_text)
    except NOT_TOML:
        # `from None`: the cause would carry text of the secrets.
        raise ParameterError("[secrets]: not TOML") from None
    if set(values) != set(_PARTIES[role]) or not all(isinstance(v, str) for v in values.values()):
        owner = next((each for each, names in _PARTIES.items() if set(names) == set(values)), None)
        found = ", ".join(sorted(values)) or "nothing"
        whose = f"has {found}" if owner is None else f"is the {owner.name.lower()}'s"
        raise ParameterError(
            f"[secrets]: a {role.name.lower()}'s file has {', '.join(_PARTIES[role])}, "
            f"this one {whose}"
        )
    key = values.pop("verify_key", None)
    return Provision(
        task,
        definition,
        TaskSecrets(
            verify_key=None if key is None else _verify_key(task, key),
            leader_token=values.get("leader_token"),
            collector_token=values.get("collector_token"),
        ),
    )


def _verify_key(task: Task, text: str) -> bytes:
    size = task.prio3.verify_key_size
    try:
        key = decode_base64url(text)
    except DecodeError:
        raise ParameterError("secrets.verify_key: not unpadded base64url") from None
    if len(key) != size:
        raise ParameterError(f"secrets.verify_key: must be {size} bytes, not {len(key)}")
    return key
