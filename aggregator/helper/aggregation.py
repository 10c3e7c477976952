"""Answers an aggregation job, the same answer to the same request.

Out shares, report ids and the answer's very bytes are stored in one transaction before the leader
hears of it. A request that was answered before, or that another copy of answered in the meantime,
gets those bytes.

Source: DAP, "Helper Initialization" and "Batch Buckets".
"""

import hashlib
from collections import Counter

from aggregator.codec import encode
from aggregator.dap.ids import ReportId
from aggregator.dap.messages import read_job
from aggregator.dap.report_errors import ReportError
from aggregator.party import Party, ServedTask, accumulate_shares
from aggregator.protocol.aggregation import HelperInit, helper_init
from aggregator.protocol.reports import report_sizes
from aggregator.storage.batches import closed_intervals
from aggregator.storage.counters import AGGREGATED, Stage, count_reports
from aggregator.storage.database import Transaction
from aggregator.storage.helper_requests import (
    HelperRequest,
    RequestKind,
    find_request,
    put_request,
)
from aggregator.storage.report_ids import record_aggregated


class AggregationJobs:
    """The helper's side of aggregation jobs."""

    def __init__(self, party: Party) -> None:
        """Answer for `party`."""
        self._party = party

    async def answer(self, served: ServedTask, body: bytes) -> HelperRequest:
        """Return the stored answer to a request, verifying its reports if it is new.

        Raises:
            Abort: The request as a whole is refused; nothing is stored.
        """
        task_id = served.task.task_id.value
        digest = hashlib.sha256(body).digest()
        found = await self._party.database.read(
            "find aggregation job",
            lambda tx: find_request(tx, task_id, RequestKind.AGGREGATION_JOB, digest),
        )
        if found is not None:
            return found
        keypairs = await self._party.keypairs()
        now = self._party.clock.now()
        init = await self._party.verify(
            served.task,
            lambda: helper_init(
                served.task,
                served.verification_key,
                keypairs,
                read_job(body, report_sizes(served.task)),
                now,
                self._party.clock_skew_seconds,
            ),
        )
        return await self._party.database.run(
            "commit aggregation job", lambda tx: _commit(tx, served, digest, init)
        )


def _commit(tx: Transaction, served: ServedTask, digest: bytes, init: HelperInit) -> HelperRequest:
    task_id = served.task.task_id.value
    found = find_request(tx, task_id, RequestKind.AGGREGATION_JOB, digest)
    if found is not None:
        return found
    refused = _refused_at_commitment(tx, task_id, init)
    shares = init.verified.bucket_shares(refused)
    accumulate_shares(tx, served.task, shares)
    count_reports(tx, task_id, Stage.AGGREGATION, _counts(init, refused))
    return put_request(
        tx,
        task_id,
        RequestKind.AGGREGATION_JOB,
        digest,
        verify_key_id=served.verification_key.id,
        response=encode(init.response(refused)),
    )


def _refused_at_commitment(
    tx: Transaction, task_id: bytes, init: HelperInit
) -> dict[ReportId, ReportError]:
    """Return the verified reports that come too late or again; remember the others."""
    accepted = init.verified.accepted
    if not accepted:
        return {}
    times = [metadata.time.units for metadata in accepted]
    closed = closed_intervals(tx, task_id, min(times), max(times) + 1)
    refused = {
        metadata.report_id: ReportError.BATCH_COLLECTED
        for metadata in accepted
        if metadata.time.units in closed
    }
    open_ids = [m.report_id.value for m in accepted if m.report_id not in refused]
    for replayed in record_aggregated(tx, task_id, open_ids):
        refused[ReportId(replayed)] = ReportError.REPORT_REPLAYED
    return refused


def _counts(init: HelperInit, refused: dict[ReportId, ReportError]) -> Counter[str]:
    outcomes = {**init.outcomes, **refused}
    return Counter(
        outcome.draft_name if isinstance(outcome, ReportError) else AGGREGATED
        for outcome in outcomes.values()
    )
