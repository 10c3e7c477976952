"""One aggregation job, step by step, at the leader; `helper_aggregation` is the helper's part.

Prio3 takes one round: the leader sends its verifier shares, the helper answers with the verifier
messages and is done, and the leader is done when it has read them. Both then add the out shares of
the accepted reports to their buckets (`Verified.bucket_shares`), in one transaction.

Source: DAP, "Aggregate Initialization" and "Batch Buckets"; VDAF, "The Ping-Pong Topology
(Only Two Aggregators)".
"""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from aggregator.codec import decode, encode
from aggregator.dap.extensions import Extensions
from aggregator.dap.hpke import HpkeKeypair
from aggregator.dap.ids import ReportId
from aggregator.dap.messages import AggregationJobResp, VerifyRespContinue, VerifyRespReject
from aggregator.dap.messages.byte_rows import Budgets, ByteRows, Times, strings
from aggregator.dap.messages.columns import ReportColumns
from aggregator.dap.messages.job_columns import read_answers, read_job, write_job
from aggregator.dap.profile import Role
from aggregator.errors import LocalError, PeerError, ReportRejected
from aggregator.protocol.opening import OpenedShares, open_shares
from aggregator.protocol.reports import (
    CLOCK_SKEW_SECONDS,
    Rejected,
    Timely,
    report_error,
    report_sizes,
)
from aggregator.protocol.task import Task
from aggregator.protocol.verified import Verified
from aggregator.vdaf import ping_pong
from aggregator.vdaf.aggregation_parameter import NO_PARAMETER, AggregationParameter
from aggregator.vdaf.ping_pong import LeaderContinued

if TYPE_CHECKING:
    from aggregator.dap.report_errors import AnyReportError


@dataclasses.dataclass(frozen=True, slots=True)
class VerificationKey:
    """A task's only verification key: no report is ever verified under a second one.

    The id is 0 to 255. Both aggregators hold the key, 32 bytes, and no client does.
    """

    id: int
    key: bytes = dataclasses.field(repr=False)


class IncompatibleResponse(PeerError):
    """The helper's answer does not fit the request, so no report's outcome can be read from it."""


class ReportsLost(LocalError):
    """The helper counted reports that we can no longer read: without them our sums differ."""


class KeysMissing(LocalError):
    """Reports are sealed to keys that we had when they were uploaded, and do not have now."""

    def __init__(self, keyless: Mapping[ReportId, int]) -> None:
        """Name the keys; `keyless` is that of a `LeaderInit`."""
        keys = ", ".join(str(each) for each in sorted({*keyless.values()}))
        super().__init__(
            f"{len(keyless)} of the job's reports are sealed to HPKE keys that are not in this "
            f"store any more (configuration ids: {keys}); they wait for these to come back"
        )


@dataclasses.dataclass(frozen=True, slots=True)
class LeaderState:
    """What the leader keeps between its request and the helper's answer, in memory only.

    If the process dies in between, it is recomputed from the stored reports and the stored request
    (`leader_resume`). Ids, times and budgets are of the reports whose verification began, and the
    helper is asked about those that `continued` without an error. `lost` are the ids of reports
    that the helper was asked about and we can no longer read, by their places in the request.
    """

    agg_param: AggregationParameter
    extensions: Extensions
    ids: list[bytes]
    times: Times
    continued: LeaderContinued = dataclasses.field(repr=False)
    lost: Mapping[int, bytes] = dataclasses.field(default_factory=dict)
    budgets: Budgets | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class LeaderInit:
    """The encoded request for the helper, or None if no report is left, and what was rejected.

    `keyless` are reports that we cannot open for want of a key of our own, with the configuration
    id of that key. They are neither rejected nor in the request: the key may come back.
    """

    request: bytes | None = dataclasses.field(repr=False)
    state: LeaderState | None = dataclasses.field(repr=False)
    rejected: list[Rejected]
    keyless: dict[ReportId, int]


def leader_init(
    task: Task,
    verification_key: VerificationKey,
    keypairs: Mapping[int, HpkeKeypair],
    reports: ReportColumns,
    now: int,
    clock_skew_seconds: int = CLOCK_SKEW_SECONDS,
    agg_param: AggregationParameter = NO_PARAMETER,
    extensions: Extensions = (),
) -> LeaderInit:
    """Open the leader's shares, start verification and make the request for the helper.

    The reports have distinct identifiers; the job's extensions come from its batch mode.
    """
    # Age is not asked about again: it was checked at upload, where the id was stored, and only the
    # ids of uploads recognise a replay at a leader. So what has waited for long does no harm, while
    # a clock that is ahead for one job would reject for good what was accepted. The helper, which
    # is sent any reports, has its own limit.
    timely = Timely(now, clock_skew_seconds, max_age_seconds=None)
    opened = open_shares(task, Role.LEADER, keypairs, reports.leader_shares, timely)
    ids = reports.ids
    rejected = [
        Rejected(ReportId(ids[row]), error) for row, error in sorted(opened.rejected.items())
    ]
    keyless = {ReportId(ids[row]): config_id for row, config_id in opened.keyless.items()}
    if not len(opened.rows):
        return LeaderInit(None, None, rejected, keyless)
    state = _leader_state(task, agg_param, extensions, verification_key.key, opened)
    failed = state.continued.state.rejected
    rejected += [
        Rejected(ReportId(state.ids[row]), report_error(error))
        for row, error in sorted(failed.items())
    ]
    kept = [row for row in range(len(state.ids)) if row not in failed]
    if not kept:
        return LeaderInit(None, None, rejected, keyless)
    request = write_job(
        verification_key.id,
        agg_param.encoded,
        extensions,
        reports.helper_shares.take(opened.rows[kept]),
        state.continued.messages[kept] if failed else state.continued.messages,
    )
    return LeaderInit(request, state, rejected, keyless)


def leader_resume(
    task: Task,
    verification_key: VerificationKey,
    keypairs: Mapping[int, HpkeKeypair],
    request: bytes,
    reports: ReportColumns,
) -> LeaderState:
    """Recompute the state for a stored request, which is possible as verification is deterministic.

    A report that the request names, and that is not among `reports` or no longer opens, is lost.
    """
    job = read_job(request, report_sizes(task))
    rows = {report_id: row for row, report_id in enumerate(reports.ids)}
    places = [place for place, report_id in enumerate(job.ids) if report_id in rows]
    asked = np.array([rows[job.ids[place]] for place in places], np.intp)
    shares = reports.leader_shares.take(asked)
    # A sealed share is bound to the id and all else: a report that opens is the one that was sent.
    opened = open_shares(task, Role.LEADER, keypairs, shares, Timely(None, 0, 0))
    left = {places[row] for row in opened.rows.tolist()}
    lost = {place: each for place, each in enumerate(job.ids) if place not in left}
    agg_param = AggregationParameter(job.agg_param)
    state = _leader_state(task, agg_param, job.extensions, verification_key.key, opened)
    return dataclasses.replace(state, lost=lost)


def leader_finish(
    task: Task, state: LeaderState, response: bytes
) -> tuple[Verified, list[Rejected]]:
    """Read the helper's answer and finish verification.

    Args:
        task: The reports' task.
        state: From `leader_init` or `leader_resume`.
        response: The helper's answer, encoded.

    Returns:
        The leader's out shares, and the reports that either aggregator rejected, those that are
        lost here last.

    Raises:
        DecodeError: The answer is no AggregationJobResp.
        IncompatibleResponse: The answer names other reports, or in another order, or finishes where
            Prio3 has to continue. Or we reject what the helper accepted: it has counted that
            report, so its message was changed on the way. With a helper that checks a report as
            ours does, no client can bring it about.
        ReportsLost: The helper accepted a report that is lost here.
    """
    vdaf = task.vdaf(state.agg_param)
    # Reports that failed on our side were never sent; the helper answers for the others, in order.
    unasked = state.continued.state.rejected
    asked = [row for row in range(len(state.ids)) if row not in unasked]
    named = [state.ids[row] for row in asked]
    for place, report_id in sorted(state.lost.items()):
        named.insert(place, report_id)
    size = ping_pong.message_size(vdaf.verifier_message_size)
    messages, codes = _read_response(response, named, size)
    gone: list[Rejected] = []
    if state.lost:
        named_codes = codes
        messages, codes = _without(state.lost, messages, codes)
        gone = [
            Rejected(ReportId(report_id), task.profile.report_error(named_codes[place]))
            for place, report_id in sorted(state.lost.items())
        ]
    refused: dict[int, AnyReportError] = {
        asked[place]: task.profile.report_error(code) for place, code in codes.items()
    }
    if unasked:
        among_all = np.zeros((len(state.ids), messages.shape[1]), np.uint8)
        among_all[asked] = messages
        messages = among_all
    rejections = {row: _RefusedByHelper("rejected by the helper") for row in refused}
    out_shares = ping_pong.leader_continued(vdaf, state.continued, messages, rejections)
    verified = Verified(
        task,
        state.agg_param,
        state.extensions,
        state.ids,
        state.times,
        out_shares,
        state.budgets,
    )
    rejected = [
        Rejected(ReportId(state.ids[row]), refused[row] if row in refused else report_error(error))
        for row, error in sorted(out_shares.rejected.items())
        if row not in unasked
    ]
    if len(rejected) > len(refused):
        raise IncompatibleResponse("a report that the helper accepted fails here")
    return verified, [*rejected, *gone]


def largest_response(task: Task, request: bytes) -> int:
    """Return the most bytes that the helper's answer to our aggregation request may have.

    Args:
        task: The request's task.
        request: The encoded `AggregationJobInitReq`.
    """
    message = encode(VerifyRespContinue(ReportId(bytes(ReportId.size)), b"?"))
    payload = ping_pong.message_size(task.prio3.verifier_message_size)
    return report_sizes(task).most_reports_in(request) * (len(message) - 1 + payload)


class _RefusedByHelper(ReportRejected):
    """Takes the place of a verifier message that the helper did not send."""


def _leader_state(
    task: Task,
    agg_param: AggregationParameter,
    extensions: Extensions,
    verify_key: bytes,
    opened: OpenedShares,
) -> LeaderState:
    continued = ping_pong.leader_initialized(
        task.vdaf(agg_param),
        verify_key,
        task.ctx,
        opened.nonces,
        opened.public_shares,
        opened.input_shares,
    )
    ids = strings(opened.nonces)
    return LeaderState(agg_param, extensions, ids, opened.times, continued, budgets=opened.budgets)


def _without(
    lost: Collection[int], messages: ByteRows, codes: Mapping[int, int]
) -> tuple[ByteRows, dict[int, int]]:
    """Leave lost reports out of an answer; raise if it accepts one of them."""
    counted = [place for place in lost if place not in codes]
    if counted:
        raise ReportsLost(
            f"{len(counted)} of the job's reports can no longer be read in this store, where they "
            "were given up or their HPKE key is gone, and the helper has counted them"
        )
    left = [place for place in range(len(messages)) if place not in lost]
    rejected = {row: codes[place] for row, place in enumerate(left) if place in codes}
    return messages[left], rejected


def _read_response(
    response: bytes, asked: Sequence[bytes], size: int
) -> tuple[ByteRows, dict[int, int]]:
    """Return the helper's messages, one a row, and its errors' numbers by their reports' places.

    A message of another size than it must have is a row of zeros, which no message is.
    """
    messages = read_answers(response, asked, size)
    if messages is not None:
        return messages, {}
    resps = decode(AggregationJobResp, response).verify_resps
    if [resp.report_id.value for resp in resps] != [*asked]:
        raise IncompatibleResponse("the helper answered for other reports than it was asked about")
    rows: list[bytes] = []
    refused: dict[int, int] = {}
    for place, resp in enumerate(resps):
        match resp:
            case VerifyRespContinue():
                rows.append(resp.payload if len(resp.payload) == size else bytes(size))
            case VerifyRespReject():
                refused[place] = resp.report_error
                rows.append(bytes(size))
            case _:
                raise IncompatibleResponse("the helper finished where Prio3 has to continue")
    return np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), size), refused
