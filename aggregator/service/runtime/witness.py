"""Compares the releases that the other aggregator reports with those that the store knows."""

from collections.abc import Sequence

from aggregator.dap.problems import SetBack
from aggregator.protocol.batches import Batch
from aggregator.protocol.task import Task
from aggregator.protocol.witness import MOST_BATCHES
from aggregator.service.storage.batches.closed import closed_batches
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.jobs.collection_jobs import is_requested
from aggregator.service.storage.ledger.charges import is_charged_for, recently_released
from aggregator.service.telemetry.lines import log


def released(tx: Transaction, task: Task) -> list[Batch]:
    """Return the batches whose shares we released last, newest first."""
    return recently_released(tx, task.task_id.value, MOST_BATCHES)


def check_witness(tx: Transaction, task: Task, witnessed: Sequence[Batch], whose: str) -> None:
    """Refuse to release while the other aggregator knows of a release that we have forgotten.

    A batch whose job failed after we asked the helper is not forgotten: the helper may have
    released it.

    Raises:
        SetBack: We have forgotten a release: this store and its journal were set back together.
    """
    task_id = task.task_id.value
    forgotten = sum(
        not is_charged_for(tx, task_id, each)
        and closed_batches(tx, task_id, each).overall() is None
        and not is_requested(tx, task_id, each)
        for each in witnessed
    )
    if forgotten:
        log.error("this store and its journal were set back", forgotten=forgotten, told_by=whose)
        raise SetBack(
            f"the {whose} has {forgotten} batches of its last {len(witnessed)} whose release this "
            "aggregator has forgotten: its store and its journal were set back together, and "
            "`prio store after-restore --backup-time` says what to do",
            task.task_id,
        )
