"""Whether a batch may be collected, and the aggregate share that is released for it.

`release` is the only function that turns an aggregate share into bytes that leave an aggregator,
and **it is where the noise is added**: no caller can leave that out.

Source: DAP, "Collecting Results", "Obtaining Aggregate Shares" and "Collection Job Finalization".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aggregator.codec import encode
from aggregator.dap.extensions import unrecognized
from aggregator.dap.hpke import HpkeCiphertext, aggregate_share_info, seal
from aggregator.dap.hpke_suites import TAG_SIZE
from aggregator.dap.messages import AggregateShareReq, CollectionJobReq, aggregate_share_aad
from aggregator.dap.problems import (
    BatchInvalid,
    BatchMismatch,
    InvalidBatchSize,
    UnsupportedExtension,
)
from aggregator.dap.profile import CODE_POINTS
from aggregator.dap.times import Time
from aggregator.dp.release import add_noise
from aggregator.protocol.attribution import as_collected, check_budgets, check_noise
from aggregator.vdaf.aggregation_parameter import AggregationParameter

if TYPE_CHECKING:
    from aggregator.dap.profile import Role
    from aggregator.entropy import Entropy
    from aggregator.protocol.batches import Batch, BatchTotals
    from aggregator.protocol.task import Task
    from field import Vector


def check_collection_request(
    task: Task, request: CollectionJobReq, now: int, skew_seconds: int = 0
) -> Batch | None:
    """Return the batch that a collection request asks for; None if the leader selects it.

    Args:
        task: The request's task.
        request: The request.
        now: Seconds since the epoch.
        skew_seconds: How far a collector's clock may be ahead.

    Raises:
        InvalidMessage: The query is of another batch mode.
        BatchInvalid: The query determines no batch, or one that is not exactly one of the task's
            windows.
        BatchNotOver: The batch reaches into the future, which only the current window may.
        InvalidAggregationParameter: The VDAF does not take the aggregation parameter.
        UnsupportedExtension: There is a collection job extension that the task's have not.
        InvalidExtension, TaskRefused: See `attribution.check_noise`.
    """
    _check_what_names_no_batch(task, request)
    last, window = task.time(now + skew_seconds), task.policy.window
    if window is not None:
        task.batching.check_window(request.query, window, task.time_precision)
        # A batch is a whole window: the current one may be asked for, which shuts out later
        # reports.
        end = window.first_unit(task.time(now).units) + window.length
        last = Time(max(last.units, end - 1))
    return task.batching.asked(request.query, last, task.time_precision)


def check_size(task: Task, report_count: int) -> None:
    """Refuse a batch of too few reports, or of so many that its sum might wrap around.

    Raises `InvalidBatchSize` if there are fewer reports than the task's `min_batch_size`;
    `BatchInvalid` if there are more than its `max_reports`.
    """
    if report_count < task.min_batch_size:
        raise InvalidBatchSize(
            task_id=task.task_id,
            detail=f"the batch holds fewer than min_batch_size = {task.min_batch_size} reports",
        )
    if report_count > task.max_reports:
        raise BatchInvalid(
            task_id=task.task_id,
            detail=f"the batch holds more than max_reports = {task.max_reports} reports; "
            "collect shorter intervals",
        )


def check_totals(task: Task, request: CollectionJobReq, totals: BatchTotals) -> None:
    """Refuse a batch that a collection may not have, as `check_size` and `check_budgets` do."""
    check_size(task, totals.report_count)
    check_budgets(task, request, totals)


def aggregate_share_request(
    task: Task, request: CollectionJobReq, batch: Batch, totals: BatchTotals
) -> AggregateShareReq:
    """Return the leader's request to the helper, with the leader's own count and checksum."""
    return AggregateShareReq(
        collection_job_req=request,
        batch_selector=task.batching.selector(batch),
        report_count=totals.report_count,
        checksum=totals.checksum,
    )


def check_aggregate_share_request(task: Task, request: AggregateShareReq) -> Batch:
    """Return the batch that the leader selected, checked against the query.

    Raises:
        InvalidMessage: The query or the selector is of another batch mode.
        BatchInvalid: They determine no batch, or the selector does not fit the query, or the batch
            is not exactly one of the task's windows.
        InvalidAggregationParameter: The VDAF does not take the aggregation parameter.
        UnsupportedExtension: There is a collection job extension that the task's have not.
        InvalidExtension, TaskRefused: See `attribution.check_noise`.
    """
    asked, window = request.collection_job_req, task.policy.window
    batch = task.batching.selected(request.batch_selector, asked.query)
    if window is not None:
        for each in (asked.query, request.batch_selector):
            task.batching.check_window(each, window, task.time_precision)
    _check_what_names_no_batch(task, asked)
    return batch


def sealed_share_size(task: Task) -> int:
    """Return the encoded size of a sealed aggregate share of a task, in bytes."""
    prio3 = task.prio3
    payload = prio3.output_len * prio3.field.encoded_size + TAG_SIZE
    enc = len(task.collector_hpke_config.public_key)
    return len(encode(HpkeCiphertext(0, bytes(enc), bytes(payload))))


def check_agreement(task: Task, request: AggregateShareReq, own: BatchTotals) -> None:
    """Refuse to release a batch on which the aggregators disagree.

    Raises:
        InvalidBatchSize, BatchInvalid: See `check_totals`, for the helper's own.
        BatchMismatch: The leader's count or checksum is not the helper's.
    """
    check_totals(task, request.collection_job_req, own)
    if request.report_count != own.report_count or request.checksum != own.checksum:
        raise BatchMismatch(
            task_id=task.task_id,
            detail=f"the helper aggregated {own.report_count} reports, "
            f"the leader {request.report_count}"
            + ("" if request.report_count != own.report_count else ", and they are not the same"),
        )


def release(
    task: Task, role: Role, agg_share: Vector, request: CollectionJobReq, entropy: Entropy
) -> HpkeCiphertext:
    """Add this aggregator's noise to its aggregate share, and seal the sum to the collector.

    Call it once for each batch, inside the transaction that stores the result, charges the ledger,
    marks the batch collected and destroys `agg_share`.
    """
    mechanism = as_collected(task, request).policy.mechanism
    noised = add_noise(agg_share, mechanism, task.prio3.circuit, entropy)
    return seal(
        task.collector_hpke_config,
        aggregate_share_info(task.profile.tag, role),
        aggregate_share_aad(task.task_id, task.configuration_bytes, encode(request)),
        task.vdaf(AggregationParameter(request.agg_param)).encode_agg_share(noised),
        entropy,
    )


def _check_what_names_no_batch(task: Task, request: CollectionJobReq) -> None:
    task.vdaf(AggregationParameter(request.agg_param))
    unknown = unrecognized(request.extensions, _NONE if task.attribution is None else _KNOWN)
    if unknown:
        raise UnsupportedExtension(
            task_id=task.task_id,
            detail="the task's collections have no such extension",
            unsupported_extensions=unknown,
        )
    check_noise(task, request)


_NONE: Final = frozenset[int]()
_KNOWN: Final = frozenset({CODE_POINTS.min_dp_budget})
"""The extensions of a collection of attribution."""
