"""The bearer tokens that callers of our protected resources may show, several for each task.

Only hashes are kept. The Leader calls the Helper, the Collector calls the Leader. To replace a
token without a pause, a task has two for a while: a new one is made, the caller starts to use it,
and then the old one gets an end.
"""

import dataclasses

from sqlalchemy import bindparam, insert, or_, select, update

from aggregator.dap.ids import encode_base64url
from aggregator.service.storage.engine import locks, tables
from aggregator.service.storage.engine.backends import Conflict
from aggregator.service.storage.engine.transaction import Transaction

_NAME_SIZE = 4


@dataclasses.dataclass(frozen=True, slots=True)
class CallerToken:
    """A token that a caller may show until `expires_at`, in seconds; None if it has no end."""

    token_hash: bytes
    created_at: int
    expires_at: int | None

    @property
    def name(self) -> str:
        """Its name for operators: the first eight hexadecimal digits of its hash."""
        return self.token_hash[:_NAME_SIZE].hex()

    def is_valid(self, now: int) -> bool:
        """Return whether it is accepted at `now`."""
        return self.expires_at is None or now < self.expires_at


def put_caller_token(tx: Transaction, task_id: bytes, token_hash: bytes) -> None:
    """Store the token that came with a task, unless the task has or had that token.

    Raises:
        Conflict: The task has other tokens.
    """
    locks.change_tokens(tx, task_id)
    known = list_caller_tokens(tx, task_id)
    if not known:
        add_caller_token(tx, task_id, token_hash)
    elif token_hash not in {token.token_hash for token in known}:
        raise tx.refuse(
            Conflict(
                f"task {encode_base64url(task_id)} is stored with another caller's token; "
                "`prio task token new` makes a further one"
            )
        )


def add_caller_token(tx: Transaction, task_id: bytes, token_hash: bytes) -> None:
    """Store a further token, without an end.

    Raises:
        UnknownTask: There is no such task.
    """
    tx.connection.execute(
        insert(tables.caller_tokens).values(
            task=tx.task_key(task_id), token_hash=token_hash, created_at=tx.now
        )
    )


def list_caller_tokens(tx: Transaction, task_id: bytes) -> list[CallerToken]:
    """Return all tokens of a task, oldest first, including those that have ended.

    Raises:
        UnknownTask: There is no such task.
    """
    token = tables.caller_tokens.c
    query = (
        select(token.token_hash, token.created_at, token.expires_at)
        .where(token.task == tx.task_key(task_id))
        .order_by(token.created_at, token.token_hash)
    )
    return [CallerToken(*row) for row in tx.connection.execute(query)]


def valid_token_hashes(tx: Transaction, task_id: bytes, role: str) -> list[bytes]:
    """Return the hashes of the tokens that a caller may show now; none if there is no such task.

    Nothing is decrypted, so the lookup takes the same time whether or not the task exists.

    Args:
        tx: The transaction.
        task_id: The task.
        role: Our role in it: the Leader calls the `helper`, the Collector calls the `leader`.
    """
    rows = tx.run(_VALID, {"task_id": task_id, "role": role, "now": tx.now})
    return [token_hash for (token_hash,) in rows]


_TOKEN = tables.caller_tokens.c
_VALID = (
    select(_TOKEN.token_hash)
    .join(tables.tasks, tables.tasks.c.id == _TOKEN.task)
    .where(
        tables.tasks.c.task_id == bindparam("task_id"),
        tables.tasks.c.role == bindparam("role"),
        or_(_TOKEN.expires_at.is_(None), _TOKEN.expires_at > bindparam("now")),
    )
)


def end_caller_token(tx: Transaction, task_id: bytes, token_hash: bytes, seconds: int) -> None:
    """Give a token an end in `seconds`, unless it ends earlier already.

    Raises:
        Conflict: All other tokens of the task have an end: its caller would be locked out.
    """
    locks.change_tokens(tx, task_id)
    others = [
        token
        for token in list_caller_tokens(tx, task_id)
        if token.token_hash != token_hash and token.expires_at is None
    ]
    if not others:
        raise tx.refuse(
            Conflict(
                "no other token of the task would be left: make one with `prio task token new`"
            )
        )
    token, end = tables.caller_tokens.c, tx.now + seconds
    tx.connection.execute(
        update(tables.caller_tokens)
        .where(
            token.task == tx.task_key(task_id),
            token.token_hash == token_hash,
            or_(token.expires_at.is_(None), token.expires_at > end),
        )
        .values(expires_at=end)
    )
