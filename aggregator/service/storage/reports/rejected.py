"""Reports that were stored and do not count: what a client that sends one again is told.

The id of a report stays spent whatever became of it: other bytes under a used id would reuse a
nonce. One case is free again: an operator has given the report up, no request to the helper ever
had it, and the very same bytes come again. Clients read `report_replayed` as counted, so what does
not count is called `report_dropped`.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping

from sqlalchemy import Table, bindparam, delete, select

from aggregator.dap.times import DAY
from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.backends import Insert
from aggregator.service.storage.engine.transaction import Transaction

_REJECTED = tables.rejected_reports


def remember_rejected(
    tx: Transaction,
    task: int,
    report_ids: Iterable[bytes],
    sha256: Mapping[bytes, bytes] | None = None,
) -> None:
    """Remember that reports were stored and do not count.

    Args:
        tx: The transaction.
        task: The task's key.
        report_ids: Their ids.
        sha256: The SHA-256 of those whose very bytes are accepted again, by the report's id.
    """
    free = {} if sha256 is None else sha256
    place = {"task": task, "day": tx.now // DAY}
    rows = [{**place, "report_id": each, "sha256": free.get(each)} for each in sorted(report_ids)]
    if rows:
        tx.run(tx.prepared(_remembering), *rows)


def _remembering(insert: Callable[[Table], Insert]) -> Insert:
    statement = insert(_REJECTED)
    names = ("day", "sha256")
    return statement.on_conflict_do_update(
        index_elements=["task", "report_id"],
        set_={name: statement.excluded[name] for name in names},
    )


def rejected_before(
    tx: Transaction, task: int, report_ids: Iterable[bytes]
) -> dict[bytes, bytes | None]:
    """Return which reports with known ids do not count, with the SHA-256 of those that are free.

    Those that count, or wait to be counted, are left out.
    """
    wanted = sorted({*report_ids})
    found: dict[bytes, bytes | None] = {}
    for start in range(0, len(wanted), _IDS_PER_QUERY):
        some = wanted[start : start + _IDS_PER_QUERY]
        for report_id, sha256 in tx.run(_LOOKING, {"task": task, "ids": some}):
            found[bytes(report_id)] = None if sha256 is None else bytes(sha256)
    return found


_IDS_PER_QUERY = 500
_LOOKING = select(_REJECTED.c.report_id, _REJECTED.c.sha256).where(
    _REJECTED.c.task == bindparam("task"),
    _REJECTED.c.report_id.in_(bindparam("ids", expanding=True)),
)


def take_again(tx: Transaction, task: int, report_id: bytes, body: bytes) -> bool:
    """Free an id that an operator has given up, if these are the very bytes; return whether it was.

    Of several transactions with the same report, one frees it.
    """
    place = {"task": task, "report_id": report_id, "sha256": hashlib.sha256(body).digest()}
    return tx.connection.execute(_FREEING, place).rowcount == 1


_FREEING = delete(_REJECTED).where(
    _REJECTED.c.task == bindparam("task"),
    _REJECTED.c.report_id == bindparam("report_id"),
    _REJECTED.c.sha256 == bindparam("sha256"),
)


def forget_rejected(tx: Transaction, task: int, report_id: bytes) -> None:
    """Forget that a report does not count, as it is to count in another batch."""
    tx.run(_FORGETTING, {"task": task, "report_id": report_id})


_FORGETTING = delete(_REJECTED).where(
    _REJECTED.c.task == bindparam("task"), _REJECTED.c.report_id == bindparam("report_id")
)
