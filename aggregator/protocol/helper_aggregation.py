"""One aggregation job at the helper: the reports of a request are opened and verified at once.

Source: DAP, "Aggregate Initialization".
"""

import dataclasses
import hashlib
from collections.abc import Mapping

import numpy as np

from aggregator.dap.hpke import HpkeKeypair
from aggregator.dap.messages.byte_rows import ByteRows, strings
from aggregator.dap.messages.job_columns import JobColumns, write_answers
from aggregator.dap.problems import InvalidMessage
from aggregator.dap.profile import Role
from aggregator.dap.report_errors import ReportError
from aggregator.protocol.aggregation import VerificationKey
from aggregator.protocol.opening import OpenedShares, fault_of_longer, open_shares
from aggregator.protocol.reports import (
    CLOCK_SKEW_SECONDS,
    HELPER_MAX_AGE_SECONDS,
    Timely,
    report_error,
)
from aggregator.protocol.task import Task
from aggregator.protocol.verified import Verified
from aggregator.vdaf import ping_pong
from aggregator.vdaf.aggregation_parameter import AggregationParameter
from aggregator.vdaf.ping_pong import HelperFinished
from aggregator.vdaf.prio3 import OutShares, Prio3
from field import Vector


@dataclasses.dataclass(frozen=True, slots=True)
class HelperInit:
    """The helper's verdict on each report of a request, before commitment.

    `errors` are by the place of the report; `verified` has the reports that were opened.
    """

    ids: list[bytes]
    errors: Mapping[int, ReportError]
    verified: Verified
    _places: list[int]
    _messages: ByteRows = dataclasses.field(repr=False)

    def response(self, refused: Mapping[bytes, ReportError]) -> bytes:
        """Return the encoded answer: a message for each committed report, an error for each other.

        `refused` are reports that the store refused at commitment.
        """
        errors = {**self.errors}
        if refused:
            errors |= {n: refused[each] for n, each in enumerate(self.ids) if each in refused}
        code = self.verified.task.profile.code
        codes = {place: code(error) for place, error in errors.items()}
        return write_answers(self.ids, self._places, self._messages, codes)


def check_job(task: Task, verification_key: VerificationKey, request: JobColumns) -> None:
    """Refuse a request that `helper_init` would refuse as a whole, with the same errors."""
    task.vdaf(AggregationParameter(request.agg_param))
    _check_request(task, verification_key, request)


def helper_init(
    task: Task,
    verification_key: VerificationKey,
    keypairs: Mapping[int, HpkeKeypair],
    request: JobColumns,
    now: int,
    clock_skew_seconds: int = CLOCK_SKEW_SECONDS,
    max_age_seconds: int = HELPER_MAX_AGE_SECONDS,
) -> HelperInit:
    """Open the helper's shares of a request and verify them against the leader's.

    Raises:
        InvalidMessage: A report is named twice, or the verification key id is not the task's and
            its draft has no error for reports of such a job.
        InvalidAggregationParameter: The VDAF does not take the aggregation parameter.
        UnsupportedExtension: There is an aggregation job extension that does not apply.
    """
    agg_param = AggregationParameter(request.agg_param)
    vdaf = task.vdaf(agg_param)
    _check_request(task, verification_key, request)
    if request.verification_key_id != verification_key.id:
        return _with_an_unknown_key(task, agg_param, request)
    errors = _faults_of_sizes(task, keypairs, request)
    timely = Timely(now, clock_skew_seconds, max_age_seconds)
    opened = open_shares(task, Role.HELPER, keypairs, request.shares, timely)
    errors |= {request.places[row]: error for row, error in opened.rejected.items()}
    messages = request.messages
    if opened.rejected:
        messages = messages[opened.rows]
    finished = _helper_finished(task, vdaf, verification_key.key, opened, messages)
    failed = finished.out_shares.rejected
    places = [request.places[row] for row in opened.rows.tolist()]
    errors |= {places[row]: report_error(error) for row, error in failed.items()}
    verified = Verified(
        task,
        agg_param,
        request.extensions,
        [request.ids[place] for place in places],
        opened.times,
        finished.out_shares,
        opened.budgets,
        _digests(task, request, opened),
    )
    return HelperInit(request.ids, errors, verified, places, finished.messages)


def _digests(task: Task, request: JobColumns, opened: OpenedShares) -> list[bytes]:
    """Return a hash of all that a job says of each opened report, where ids are bound to it.

    The leader's message is in it, as it follows from the leader's own share: a client may give the
    leader another share beside the very same helper's.
    """
    if not task.batching.collector_selects:
        return []
    encodings = request.shares.take(opened.rows).encodings
    messages = strings(request.messages[opened.rows])
    return [
        hashlib.sha256(encoding + message).digest()
        for encoding, message in zip(encodings, messages, strict=True)
    ]


def _helper_finished(
    task: Task, vdaf: Prio3, verify_key: bytes, opened: OpenedShares, inbound: ByteRows
) -> HelperFinished:
    if not len(opened.rows):
        nothing = Vector.zeros(vdaf.field, (0, vdaf.output_len))
        size = ping_pong.message_size(vdaf.verifier_message_size)
        return HelperFinished(OutShares(nothing, {}), np.empty((0, size), np.uint8))
    return ping_pong.helper_initialized(
        vdaf,
        verify_key,
        task.ctx,
        opened.nonces,
        opened.public_shares,
        opened.input_shares,
        inbound,
    )


def _faults_of_sizes(
    task: Task, keypairs: Mapping[int, HpkeKeypair], request: JobColumns
) -> dict[int, ReportError]:
    """Return the errors of reports that have other sizes than the task's, by their place."""
    renamed = task.profile.at_aggregation
    others = {*range(len(request.ids))} - {*request.places}
    found = {
        place: ReportError.UNSUPPORTED_EXTENSION
        if place in request.extended
        else ReportError.INVALID_MESSAGE
        for place in others
    }
    if task.attribution is not None:
        found |= dict.fromkeys(request.bare, ReportError.BUDGET_MISSING)
    if ReportError.UNSUPPORTED_EXTENSION in task.profile.codes:
        found |= {
            place: fault_of_longer(task, keypairs, share) for place, share in request.longer.items()
        }
    return {place: renamed.get(error, error) for place, error in found.items()}


def _with_an_unknown_key(
    task: Task, agg_param: AggregationParameter, request: JobColumns
) -> HelperInit:
    """Return the helper's answer to a job under a verification key that it does not have."""
    vdaf = task.vdaf(agg_param)
    nothing = OutShares(Vector.zeros(vdaf.field, (0, vdaf.output_len)), {})
    verified = Verified(task, agg_param, request.extensions, [], np.empty(0, np.uint64), nothing)
    errors = dict.fromkeys(range(len(request.ids)), ReportError.UNKNOWN_VERIFICATION_KEY_ID)
    return HelperInit(request.ids, errors, verified, [], np.empty((0, 0), np.uint8))


def _check_request(task: Task, verification_key: VerificationKey, request: JobColumns) -> None:
    task.batching.check_job(request.extensions)
    if (
        request.verification_key_id != verification_key.id
        and ReportError.UNKNOWN_VERIFICATION_KEY_ID not in task.profile.codes
    ):
        raise InvalidMessage(
            task_id=task.task_id,
            detail=f"verification key {request.verification_key_id} is not known",
        )
    if not request.ids:
        raise InvalidMessage(task_id=task.task_id, detail="the request names no report")
    if len({*request.ids}) != len(request.ids):
        raise InvalidMessage(task_id=task.task_id, detail="a report is named twice")
