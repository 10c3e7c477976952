"""Which reports are shut out if a batch is collected early, as far as earlier results tell."""

import json

from aggregator.codec import decode
from aggregator.collector import store
from aggregator.collector.store import StoredCollection
from aggregator.dap.messages import CollectionJobReq
from aggregator.protocol.task import Task
from aggregator.service.storage.engine.states import CollectionState
from aggregator.service.storage.engine.transaction import Transaction

_RESULTS = 8
"""How many of the newest results are used to estimate how many reports to expect."""

_SPANS = ((86400, "days"), (3600, "hours"), (60, "minutes"), (1, "seconds"))


def loss_in_words(tx: Transaction, task: Task, start: int, end: int, spread: int = 1) -> str:
    """Return in words what collecting an interval now would shut out.

    Nobody knows how many reports will come; earlier results say how many came in a like time. The
    interval is in seconds since the Unix epoch, and ends in the future. People are spread evenly
    over so many tasks.
    """
    left = end - max(tx.now, start)
    said = f"{in_words(left)} of it are still to come"
    finished = store.newest_collections(tx, task.task_id.value, _RESULTS, CollectionState.FINISHED)
    spans = [_reports_and_seconds(task, each) for each in finished]
    seconds = sum(length for _, length in spans)
    if not seconds:
        return f"{said}; with how many reports, no earlier result tells"
    expected = spread * left * sum(reports for reports, _ in spans) / seconds
    results = "result" if len(spans) == 1 else f"{len(spans)} results"
    as_before = f"if they come as in the last {results}"
    return f"{said}, with some {expected:,.0f} reports {as_before}"


def in_words(seconds: int) -> str:
    """Return a length of time for a reader."""
    size, name = next(each for each in _SPANS if seconds >= each[0] or each[0] == 1)
    return f"{seconds / size:,.1f} {name}" if size > 1 else f"{seconds:,} {name}"


def _reports_and_seconds(task: Task, finished: StoredCollection) -> tuple[int, int]:
    query = decode(CollectionJobReq, finished.request).query
    named = task.batching.named(query, task.time_precision)
    result = json.loads(finished.result or "{}")
    return result.get("report_count", 0), named.get("end", 0) - named.get("start", 0)
