"""What verification and its transactions do for one aggregation job at the leader.

`job_driver` says when, and what follows from the helper's answers.
"""

import dataclasses
import hashlib
from collections.abc import Collection, Mapping

from aggregator.dap.hpke import HpkeKeypair
from aggregator.dap.ids import ReportId, TaskId
from aggregator.dap.messages.columns import ReportColumns
from aggregator.dap.report_errors import ReportError
from aggregator.protocol.aggregation import (
    KeysMissing,
    LeaderInit,
    LeaderState,
    leader_finish,
    leader_init,
    leader_resume,
)
from aggregator.protocol.reports import Rejected, report_sizes
from aggregator.protocol.verified import Verified
from aggregator.service.leader.rejects import Rejects
from aggregator.service.runtime import Runtime, ServedTask, aggregate_verified
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.jobs.aggregation_jobs import (
    AggregationJob,
    finish_aggregation_job,
    store_request,
)
from aggregator.service.storage.jobs.leases import Lease
from aggregator.service.storage.reports.claims import JobReports, reports_of_job
from aggregator.service.storage.reports.counters import counted_reason


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """A stored request, its task, and its state of verification: None if it must be recomputed."""

    served: ServedTask
    body: bytes = dataclasses.field(repr=False)
    state: LeaderState | None


@dataclasses.dataclass(frozen=True, slots=True)
class Begun:
    """A job whose verification has begun; `rejected` are all reports that are not in its request.

    But for those without a key of ours, which `init` has.
    """

    served: ServedTask
    init: LeaderInit
    rejected: list[Rejected]

    @property
    def later(self) -> list[bytes]:
        """The ids of reports that wait for another job."""
        # They wait like reports that are too early, so that the others do not wait for a key.
        keyless = (each.value for each in self.init.keyless)
        return [*Rejects.of(self.rejected).too_early, *keyless]


@dataclasses.dataclass(frozen=True, slots=True)
class Finished:
    """A job whose verification has ended; `lost` are ids of reports that were given up."""

    verified: Verified
    rejected: list[Rejected]
    lost: list[bytes]


@dataclasses.dataclass(frozen=True, slots=True)
class Ended:
    """A job that has ended: how many reports were aggregated, and why others were not."""

    aggregated: int
    rejected: list[Rejected]
    left_out: list[str]


def read_job(
    runtime: Runtime, tx: Transaction, job: AggregationJob
) -> tuple[ServedTask, JobReports]:
    """Return a job's task and its reports.

    Raises:
        UnreadableBodies: Some cannot be read now.
    """
    return runtime.task_in(tx, TaskId(job.task_id)), reports_of_job(tx, job.key)


def begin_job(
    served: ServedTask,
    keypairs: Mapping[int, HpkeKeypair],
    stored: JobReports,
    now: int,
    clock_skew_seconds: int,
) -> Begun:
    """Begin to verify the reports of a job.

    Raises:
        KeysMissing: All reports that are left wait for a key.
    """
    reports, others = ReportColumns.joined(stored.body, stored.width, report_sizes(served.task))
    init = leader_init(
        served.task,
        served.verification_key,
        keypairs,
        reports,
        now,
        clock_skew_seconds,
        extensions=served.task.batching.job_extensions(stored.bucket),
    )
    if init.keyless and init.request is None:
        raise KeysMissing(init.keyless)  # so that the job says why it waits
    # A body damaged on the disk, or stored by another program, must not stop other reports.
    ids = stored.ids if others else []
    damaged = [Rejected(ReportId(ids[place]), ReportError.INVALID_MESSAGE) for place in others]
    return Begun(served, init, [*init.rejected, *damaged])


def store_begun(tx: Transaction, lease: Lease, begun: Begun) -> Begun:
    """Store the request of a job; end the job if no report is left to ask about."""
    request, reasons = begun.init.request, Rejects.of(begun.rejected).reasons
    if request is None:
        finish_aggregation_job(tx, lease, [], reasons, begun.later)
    else:
        store_request(tx, lease, request, reasons, begun.later)
    return begun


def resume_job(
    served: ServedTask, keypairs: Mapping[int, HpkeKeypair], stored: JobReports, request: bytes
) -> LeaderState:
    """Recompute the state of a stored request."""
    reports, _ = ReportColumns.joined(stored.body, stored.width, report_sizes(served.task))
    return leader_resume(served.task, served.verification_key, keypairs, request, reports)


def finish_job(
    served: ServedTask, state: LeaderState, answer: bytes, there: Collection[bytes] = ()
) -> Finished:
    """Finish the verification of a job, given the ids of the reports that it still has, if read.

    Raises:
        ReportsLost, IncompatibleResponse, DecodeError: See `leader_finish`.
    """
    answered = served.task.profile.framing.read_answer(answer)
    verified, rejected = leader_finish(served.task, state, answered)
    # The others of what is lost lack a key, and may wait for it as they may for their time.
    given_up = {*state.lost.values()} - {*there}
    others = [each for each in rejected if each.report_id.value not in given_up]
    return Finished(verified, others, [*given_up])


def commit_job(tx: Transaction, lease: Lease, request: bytes, finished: Finished) -> Ended:
    """Commit what was verified, and end the job."""
    verified = finished.verified
    refused = aggregate_verified(tx, verified, hashlib.sha256(request).digest())
    aggregated = [each for each, _ in verified.accepted() if each not in refused]
    rejects = Rejects.of(finished.rejected)
    left_out = {each: counted_reason(error) for each, error in refused.items()}
    finish_aggregation_job(
        tx,
        lease,
        aggregated,
        rejects.reasons | left_out,
        rejects.too_early,
        lost=finished.lost,
    )
    return Ended(len(aggregated), finished.rejected, [*left_out.values()])
