"""Counts of reports by stage and outcome: an operator's view of what was lost.

A report is counted under one of the reasons below, or under its error's name in the drafts. A
counter is the sum of its shards; a single shard may be negative (`locks.own_shard`).
"""

from collections.abc import Callable, Mapping
from enum import StrEnum

from sqlalchemy import Table, func, select

from aggregator.dap.report_errors import ReportError
from aggregator.service.storage.engine import locks, tables
from aggregator.service.storage.engine.backends import Insert
from aggregator.service.storage.engine.transaction import Transaction

STORED = "stored"
"""It waits to be aggregated."""

AGGREGATED = "aggregated"
"""It is in a batch."""

BATCH_FULL = "batch_full"
"""It would be one more than `max_reports` in its batch; the drafts have no error for that."""

PAST_UNITS = "past_units"
"""It would open one more unit of the past."""

BEING_COLLECTED = "being_collected"
"""Its batch is being collected; if that fails, the same report is taken."""

RELEASES_USED_UP = "releases_used_up"
"""Its task has made all the releases that it may."""

DROPPED = "dropped_by_operator"
"""An operator has given it up, by itself or with its job."""


class Stage(StrEnum):
    """Where the outcome of a report was decided."""

    UPLOAD = "upload"
    AGGREGATION = "aggregation"


def counted_reason(error: ReportError) -> str:
    """Return the reason under which a report that the store refuses is counted."""
    return BATCH_FULL if error is ReportError.REPORT_DROPPED else error.draft_name


def count_reports(
    tx: Transaction, task_id: bytes, stage: Stage, reasons: Mapping[str, int]
) -> None:
    """Add the numbers of reports in `reasons`, by reason, to the counters of `stage`."""
    if not reasons:
        return
    task = tx.task_key(task_id)
    place = {"task": task, "stage": stage, "shard": locks.own_shard(tx, task)}
    counts = [{**place, "reason": reason, "reports": more} for reason, more in reasons.items()]
    tx.run(tx.prepared(_adding), *counts)


def _adding(insert: Callable[[Table], Insert]) -> Insert:
    counter = tables.report_counters
    statement = insert(counter)
    return statement.on_conflict_do_update(
        index_elements=["task", "stage", "reason", "shard"],
        set_={"reports": counter.c.reports + statement.excluded.reports},
    )


def report_counts(tx: Transaction, task_id: bytes, stage: Stage) -> dict[str, int]:
    """Return the counters of `stage`, by reason, sorted."""
    counter = tables.report_counters.c
    query = (
        select(counter.reason, func.sum(counter.reports))
        .where(counter.task == tx.task_key(task_id), counter.stage == stage)
        .group_by(counter.reason)
        .order_by(counter.reason)
    )
    return {reason: int(reports) for reason, reports in tx.connection.execute(query)}
