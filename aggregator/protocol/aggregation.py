"""One aggregation job, step by step, for the leader and for the helper.

Prio3 takes one round: the leader sends its verifier shares, the helper answers with the verifier
messages and is done, and the leader is done when it has read them. Both then add the out shares of
the accepted reports to their buckets (`Verified.bucket_shares`), in one transaction.

Source: DAP, "Aggregate Initialization" and "Batch Buckets"; VDAF, "The Ping-Pong Topology
(Only Two Aggregators)".
"""

import dataclasses
from collections.abc import Mapping, Sequence

from aggregator.codec import encode
from aggregator.dap.extensions import Extensions
from aggregator.dap.hpke import HpkeKeypair
from aggregator.dap.ids import ReportId
from aggregator.dap.messages import (
    AggregationJobInitReq,
    AggregationJobResp,
    Report,
    ReportMetadata,
    ReportShare,
    VerifyInit,
    VerifyRespContinue,
    VerifyRespFinish,
    VerifyRespReject,
)
from aggregator.dap.problems import InvalidMessage
from aggregator.dap.profile import Role
from aggregator.dap.report_errors import ReportError, UnknownReportError
from aggregator.errors import LocalError, PeerError, ReportRejected
from aggregator.protocol.reports import (
    CLOCK_SKEW_SECONDS,
    HELPER_MAX_AGE_SECONDS,
    OpenedShare,
    Rejected,
    open_reports,
    report_error,
    report_sizes,
)
from aggregator.protocol.task import Task
from aggregator.protocol.verified import Verified
from aggregator.vdaf import ping_pong
from aggregator.vdaf.aggregation_parameter import NO_PARAMETER, AggregationParameter
from aggregator.vdaf.ping_pong import HelperFinished, LeaderContinued
from aggregator.vdaf.prio3 import OutShares, Prio3
from field import Vector

Outcome = bytes | ReportError | UnknownReportError
"""What becomes of one report at the helper: its message for the leader, or why it is rejected."""


@dataclasses.dataclass(frozen=True, slots=True)
class VerificationKey:
    """A task's only verification key: no report is ever verified under a second one.

    Attributes:
        id: Its name on the wire, 0 to 255.
        key: 32 bytes that both aggregators hold and no client does.
    """

    id: int
    key: bytes = dataclasses.field(repr=False)


class IncompatibleResponse(PeerError):
    """The helper's answer does not fit the request: no report's fate can be read from it."""


@dataclasses.dataclass(frozen=True, slots=True)
class LeaderState:
    """What the leader keeps between its request and the helper's answer, in memory only.

    If the process dies in between, it is recomputed from the stored reports and the stored request
    (`leader_resume`): none of it is stored.
    """

    agg_param: AggregationParameter
    extensions: Extensions
    metadata: tuple[ReportMetadata, ...]
    continued: LeaderContinued = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class LeaderInit:
    """The request for the helper, or None if no report is left, and the rejected reports."""

    request: AggregationJobInitReq | None
    state: LeaderState | None = dataclasses.field(repr=False)
    rejected: list[Rejected]


@dataclasses.dataclass(frozen=True, slots=True)
class HelperInit:
    """The helper's verdict on each report of a request, before commitment."""

    order: tuple[ReportId, ...]
    outcomes: Mapping[ReportId, Outcome] = dataclasses.field(repr=False)
    verified: Verified

    def response(self, refused: Mapping[ReportId, ReportError]) -> AggregationJobResp:
        """Return the answer: a message for each committed report, an error for each other one.

        Args:
            refused: Reports that the store refused at commitment, and why.
        """
        return AggregationJobResp(
            verify_resps=tuple(
                _verify_resp(report_id, refused.get(report_id, self.outcomes[report_id]))
                for report_id in self.order
            )
        )


def leader_init(
    task: Task,
    verification_key: VerificationKey,
    keypairs: Mapping[int, HpkeKeypair],
    reports: Sequence[Report],
    now: int,
    clock_skew_seconds: int = CLOCK_SKEW_SECONDS,
    agg_param: AggregationParameter = NO_PARAMETER,
    extensions: Extensions = (),
) -> LeaderInit:
    """Open the leader's shares, start verification and make the request for the helper.

    Args:
        task: The reports' task.
        verification_key: The task's verification key.
        keypairs: The leader's HPKE key pairs by configuration id.
        reports: The reports as they were uploaded, with distinct identifiers.
        now: Seconds since the epoch.
        clock_skew_seconds: How far ahead of `now` a report's time may lie.
        agg_param: What the reports are aggregated for.
        extensions: The job's, from its batch mode.
    """
    opened, rejected = _open_leader_shares(task, keypairs, reports, now, clock_skew_seconds)
    if not opened:
        return LeaderInit(None, None, rejected)
    continued = _leader_initialized(task, agg_param, verification_key.key, opened)
    kept: list[int] = []
    for row, error in enumerate(continued.errors):
        if error is None:
            kept.append(row)
        else:
            rejected.append(Rejected(opened[row].metadata.report_id, report_error(error)))
    by_id = {report.report_metadata.report_id: report for report in reports}
    verify_inits = tuple(
        VerifyInit(
            report_share=_helper_report_share(by_id[opened[row].metadata.report_id]),
            payload=continued.outbound[row],
        )
        for row in kept
    )
    if not verify_inits:
        return LeaderInit(None, None, rejected)
    request = AggregationJobInitReq(
        verification_key_id=verification_key.id,
        agg_param=agg_param.encoded,
        extensions=extensions,
        verify_inits=verify_inits,
    )
    state = LeaderState(
        agg_param, request.extensions, tuple(share.metadata for share in opened), continued
    )
    return LeaderInit(request, state, rejected)


def leader_resume(
    task: Task,
    verification_key: VerificationKey,
    keypairs: Mapping[int, HpkeKeypair],
    request: AggregationJobInitReq,
    reports: Sequence[Report],
) -> LeaderState:
    """Recompute the state of a stored request; verification is deterministic.

    Raises:
        LocalError: A report of the request can no longer be opened as it was before.
    """
    by_id = {report.report_metadata.report_id: report for report in reports}
    try:
        asked = [
            by_id[init.report_share.report_metadata.report_id] for init in request.verify_inits
        ]
    except KeyError as error:
        raise LocalError("a report of a stored aggregation request is gone") from error
    opened, rejected = _open_leader_shares(task, keypairs, asked, None, 0)
    if rejected:
        raise LocalError("a report of a stored aggregation request no longer opens")
    agg_param = AggregationParameter(request.agg_param)
    return LeaderState(
        agg_param,
        request.extensions,
        tuple(share.metadata for share in opened),
        _leader_initialized(task, agg_param, verification_key.key, opened),
    )


def leader_finish(
    task: Task, state: LeaderState, response: AggregationJobResp, *, is_final: bool = True
) -> tuple[Verified, list[Rejected]]:
    """Read the helper's answer and finish verification.

    Args:
        task: The reports' task.
        state: From `leader_init` or `leader_resume`.
        response: The helper's answer.
        is_final: Whether a report that only we reject is rejected. The helper has counted it, so
            perhaps its message was changed on the way, and the same request brings it unchanged.

    Returns:
        The leader's out shares, and the reports that either aggregator rejected.

    Raises:
        IncompatibleResponse: The answer names other reports, or in another order, or finishes where
            Prio3 has to continue, or it is not final and we reject what the helper accepted.
    """
    answered = {resp.report_id: resp for resp in response.verify_resps}
    # Reports that failed on our side were never sent; the helper answers for the others, in order.
    asked = [
        metadata.report_id
        for metadata, error in zip(state.metadata, state.continued.errors, strict=True)
        if error is None
    ]
    if [resp.report_id for resp in response.verify_resps] != asked:
        raise IncompatibleResponse("the helper answered for other reports than it was asked about")
    inbound: list[bytes | ReportRejected] = []
    refused: dict[ReportId, ReportError | UnknownReportError] = {}
    for metadata in state.metadata:
        resp = answered.get(metadata.report_id)
        if resp is None:
            inbound.append(_RefusedByHelper("rejected before it was sent"))
            continue
        match resp:
            case VerifyRespContinue():
                inbound.append(resp.payload)
            case VerifyRespReject():
                refused[metadata.report_id] = resp.report_error
                inbound.append(_RefusedByHelper("rejected by the helper"))
            case VerifyRespFinish():
                raise IncompatibleResponse("the helper finished where Prio3 has to continue")
    out_shares = ping_pong.leader_continued(task.vdaf(state.agg_param), state.continued, inbound)
    verified = Verified(task, state.agg_param, state.extensions, state.metadata, out_shares)
    rejected = [
        Rejected(failed.report_id, refused.get(failed.report_id, failed.error))
        for failed in verified.rejected
        if failed.report_id in answered
    ]
    if not is_final and len(rejected) > len(refused):
        raise IncompatibleResponse("a report that the helper accepted fails here")
    return verified, rejected


def helper_init(
    task: Task,
    verification_key: VerificationKey,
    keypairs: Mapping[int, HpkeKeypair],
    request: AggregationJobInitReq,
    now: int,
    clock_skew_seconds: int = CLOCK_SKEW_SECONDS,
    max_age_seconds: int = HELPER_MAX_AGE_SECONDS,
) -> HelperInit:
    """Open the helper's shares of a request and verify them against the leader's.

    Args:
        task: The request's task.
        verification_key: The task's verification key.
        keypairs: The helper's HPKE key pairs by configuration id.
        request: The leader's request.
        now: Seconds since the epoch.
        clock_skew_seconds: How far ahead of `now` a report's time may lie.
        max_age_seconds: How far behind.

    Raises:
        InvalidMessage: A report is named twice, or the verification key id is not the task's.
        InvalidAggregationParameter: The VDAF does not take the aggregation parameter.
        UnsupportedExtension: There is an aggregation job extension that does not apply.
    """
    agg_param = AggregationParameter(request.agg_param)
    vdaf = task.vdaf(agg_param)
    _check_request(task, verification_key, request)
    report_shares = [init.report_share for init in request.verify_inits]
    opened = open_reports(
        task, Role.HELPER, keypairs, report_shares, now, clock_skew_seconds, max_age_seconds
    )
    outcomes: dict[ReportId, Outcome] = {}
    shares: list[OpenedShare] = []
    inbound: list[bytes] = []
    for share, init in zip(opened, request.verify_inits, strict=True):
        if isinstance(share, Rejected):
            outcomes[share.report_id] = share.error
        else:
            shares.append(share)
            inbound.append(init.payload)
    finished = _helper_finished(task, vdaf, verification_key.key, shares, inbound)
    verified = Verified(
        task,
        agg_param,
        request.extensions,
        tuple(share.metadata for share in shares),
        finished.out_shares,
    )
    for share, error, outbound in zip(
        shares, finished.out_shares.errors, finished.outbound, strict=True
    ):
        outcomes[share.metadata.report_id] = outbound if error is None else report_error(error)
    order = tuple(share.report_metadata.report_id for share in report_shares)
    return HelperInit(order, outcomes, verified)


def largest_response(task: Task, request: bytes) -> int:
    """Return the most bytes that the helper's answer to our aggregation request may have.

    Args:
        task: The request's task.
        request: The encoded `AggregationJobInitReq`.
    """
    message = encode(VerifyRespContinue(ReportId(bytes(ReportId.size)), b"?"))
    payload = ping_pong.message_size(task.prio3.verifier_message_size)
    return report_sizes(task).reports_in(request) * (len(message) - 1 + payload)


class _RefusedByHelper(ReportRejected):
    """Stands in a batch for a verifier message that the helper did not send."""


def _open_leader_shares(
    task: Task,
    keypairs: Mapping[int, HpkeKeypair],
    reports: Sequence[Report],
    now: int | None,
    clock_skew_seconds: int,
) -> tuple[list[OpenedShare], list[Rejected]]:
    report_shares = [
        ReportShare(
            report_metadata=report.report_metadata,
            public_share=report.public_share,
            encrypted_input_share=report.leader_encrypted_input_share,
        )
        for report in reports
    ]
    outcomes = open_reports(task, Role.LEADER, keypairs, report_shares, now, clock_skew_seconds)
    opened = [outcome for outcome in outcomes if isinstance(outcome, OpenedShare)]
    return opened, [outcome for outcome in outcomes if isinstance(outcome, Rejected)]


def _leader_initialized(
    task: Task,
    agg_param: AggregationParameter,
    verify_key: bytes,
    opened: Sequence[OpenedShare],
) -> LeaderContinued:
    return ping_pong.leader_initialized(
        task.vdaf(agg_param),
        verify_key,
        task.ctx,
        [share.metadata.report_id.value for share in opened],
        [share.public_share for share in opened],
        [share.input_share for share in opened],
    )


def _helper_finished(
    task: Task,
    vdaf: Prio3,
    verify_key: bytes,
    opened: Sequence[OpenedShare],
    inbound: Sequence[bytes],
) -> HelperFinished:
    if not opened:
        nothing = Vector.zeros(vdaf.field, (0, vdaf.output_len))
        return HelperFinished(OutShares(nothing, {}), [])
    return ping_pong.helper_initialized(
        vdaf,
        verify_key,
        task.ctx,
        [share.metadata.report_id.value for share in opened],
        [share.public_share for share in opened],
        [share.input_share for share in opened],
        inbound,
    )


def _helper_report_share(report: Report) -> ReportShare:
    return ReportShare(
        report_metadata=report.report_metadata,
        public_share=report.public_share,
        encrypted_input_share=report.helper_encrypted_input_share,
    )


def _check_request(
    task: Task, verification_key: VerificationKey, request: AggregationJobInitReq
) -> None:
    task.batching.check_job(request.extensions)
    if request.verification_key_id != verification_key.id:
        raise InvalidMessage(
            task_id=task.task_id,
            detail=f"verification key {request.verification_key_id} is not known",
        )
    if not request.verify_inits:
        raise InvalidMessage(task_id=task.task_id, detail="the request names no report")
    report_ids = {init.report_share.report_metadata.report_id for init in request.verify_inits}
    if len(report_ids) != len(request.verify_inits):
        raise InvalidMessage(task_id=task.task_id, detail="a report is named twice")


def _verify_resp(report_id: ReportId, outcome: Outcome) -> VerifyRespContinue | VerifyRespReject:
    if isinstance(outcome, bytes):
        # The helper has finished, but the leader has not: so the answer's type is `continue`.
        return VerifyRespContinue(report_id, outcome)
    return VerifyRespReject(report_id, outcome)
