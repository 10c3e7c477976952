"""The collector's part: makes a result with error bars from two sealed aggregate shares.

The sums of a batch exist here only during a call, and `open_result` returns only what the task's
policy lets a collector show. In a task with thresholds the whole noised vector has the guarantee;
values are withheld to promise that no bucket is shown that nobody chose. In a task that suppresses
exact counts, withholding keeps small counts out of every store, log and document, but the holder of
the collector's key can still open the shares and read them all.

Source: DAP, "Collection Job Finalization"; VDAF, "Unsharding".
"""

from __future__ import annotations

import dataclasses
import hashlib
from typing import TYPE_CHECKING

from aggregator.codec import encode
from aggregator.collector.results.disclosure import Disclosure, disclose
from aggregator.dap.attribution import BUDGET_NAME, min_dp_budget
from aggregator.dap.hpke import (
    DecryptError,
    HpkeCiphertext,
    HpkeKeypair,
    aggregate_share_info,
    open_,
)
from aggregator.dap.messages import CollectionJobReq, CollectionJobResp, aggregate_share_aad
from aggregator.dap.problems import BatchInvalid
from aggregator.dap.profile import Role
from aggregator.dp.sensitivity import max_entry
from aggregator.dp.utility import DEFAULT_CONFIDENCE
from aggregator.errors import ParameterError, PeerError
from aggregator.protocol.attribution import as_collected, least_budget
from aggregator.protocol.collection import sealed_share_size
from aggregator.vdaf.aggregation_parameter import AggregationParameter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from fractions import Fraction

    from aggregator.dap.times import Interval
    from aggregator.dp.mechanisms import Guarantee
    from aggregator.protocol.task import Task
    from field import Vector


class UnusableResult(PeerError):
    """An aggregate share does not open or decode: there is no result for the batch."""


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    """The result of a collection.

    Attributes:
        values: The noised sums, one for each coordinate, signed if there is noise; None where the
            policy withholds one.
        report_count: How many reports there are, as the leader says: no ciphertext covers it.
        interval: The smallest interval that holds them, as the leader says.
        release: Names the draw of noise: the SHA-256 of both sealed shares, in hexadecimal.
        guarantee: What one release promises, and who must be honest for it.
        confidence: The probability that the intervals state.
        half_width: With that probability, a value is at most this far from its true sum.
        joint_half_width: The half width for all values at once. Both widths hold before selection:
            for all sums, not for those that were shown because they are large.
        disclosure: The rule by which values are shown, and what it promises.
        min_dp_budget: What each report pays for it, in millionths of an epsilon, in a task of
            attribution: its noise is of that epsilon.
    """

    values: tuple[int | None, ...]
    report_count: int
    interval: Interval
    release: str
    mechanism: str
    guarantee: Guarantee
    confidence: Fraction
    half_width: int
    joint_half_width: int
    scale: str
    disclosure: Disclosure
    min_dp_budget: int | None = None


def collection_request(task: Task, named: Mapping[str, int]) -> CollectionJobReq:
    """Return the request for a batch; equal names give equal bytes.

    `named` is what names the batch in the task's mode: `start` and `end` of an interval, in seconds
    since the epoch. In a task of attribution it also has `min_dp_budget`, what each report pays, in
    millionths of an epsilon. Raises `BatchInvalid`, which says what is wrong, and what
    `as_collected` does.
    """
    rest = {**named}
    budget = None if task.attribution is None else rest.pop(BUDGET_NAME, None)
    query = task.batching.query(rest, task.time_precision)
    try:
        extensions = () if budget is None else min_dp_budget(budget)
    except ParameterError as error:
        raise BatchInvalid(str(error), task.task_id) from None
    request = CollectionJobReq(query, extensions=extensions)
    as_collected(task, request)
    return request


def largest_result(task: Task) -> int:
    """Return the encoded size of a collection's result, in bytes."""
    counts = 3 * 8  # the report count, and the two numbers of an interval
    return counts + 2 * sealed_share_size(task)


def open_result(
    task: Task, keypair: HpkeKeypair, request: CollectionJobReq, response: CollectionJobResp
) -> Result:
    """Open both aggregate shares, add them and say how far the sums may be from the truth.

    Raises `UnusableResult` if a share does not open under our view of the task, or does not decode,
    or the leader's count or interval is impossible, or exact sums exceed what its count allows.
    """
    shares = open_agg_shares(task, keypair, request, response)
    _check_claims(task, request, response)
    task = as_collected(task, request)
    mechanism, circuit = task.policy.mechanism, task.prio3.circuit
    # Noise may make a sum negative, so noised sums are read centred, exact ones in [0, p).
    vdaf = task.vdaf(AggregationParameter(request.agg_param))
    unshard = vdaf.unshard_signed if mechanism.is_noisy else vdaf.unshard
    decoded = unshard(shares, response.report_count)
    sums = [decoded] if isinstance(decoded, int) else decoded
    if not mechanism.is_noisy:
        _check_exact(sums, response.report_count * max_entry(circuit))
    disclosure = disclose(task.policy, circuit, sums, response.report_count)
    sealed = (response.leader_encrypted_agg_share, response.helper_encrypted_agg_share)
    return Result(
        values=disclosure.values,
        report_count=response.report_count,
        interval=response.interval,
        release=hashlib.sha256(b"".join(map(encode, sealed))).hexdigest(),
        mechanism=mechanism.name,
        guarantee=mechanism.guarantee(circuit),
        confidence=DEFAULT_CONFIDENCE,
        half_width=mechanism.half_width(circuit, DEFAULT_CONFIDENCE),
        joint_half_width=mechanism.joint_half_width(circuit, DEFAULT_CONFIDENCE),
        scale=mechanism.describe_scale(circuit),
        disclosure=disclosure,
        min_dp_budget=least_budget(task, request),
    )


def open_agg_shares(
    task: Task, keypair: HpkeKeypair, request: CollectionJobReq, response: CollectionJobResp
) -> tuple[Vector, Vector]:
    """Return the leader's and the helper's noised aggregate share, each of shape `(output_len,)`.

    Raises `UnusableResult` if a share does not open under our view of the task, or does not decode.
    """
    leader, helper = response.leader_encrypted_agg_share, response.helper_encrypted_agg_share
    return (
        _open_share(task, keypair, request, Role.LEADER, leader),
        _open_share(task, keypair, request, Role.HELPER, helper),
    )


def _check_claims(task: Task, request: CollectionJobReq, response: CollectionJobResp) -> None:
    """Refuse, as `UnusableResult`, a count or interval that no batch of the task has."""
    count, least, most = response.report_count, task.min_batch_size, task.max_reports
    if not least <= count <= most:
        raise UnusableResult(
            f"the leader says that the batch holds {count} reports; a batch of the task may hold "
            f"from {least} to {most}"
        )
    if not task.batching.may_span(request.query, response.interval):
        raise UnusableResult("the leader says that the batch reaches beyond what was asked for")


def _check_exact(sums: Sequence[int], most: int) -> None:
    """Refuse, as `UnusableResult`, sums without noise that the reports of a batch cannot add up to.

    If the two shares are of different reports, they add up to arbitrary residues of the field.
    """
    if max(sums) > most:
        raise UnusableResult(
            f"a sum is larger than the {most} that its reports can add up to: the aggregators "
            "have not added the same reports"
        )


def _open_share(
    task: Task,
    keypair: HpkeKeypair,
    request: CollectionJobReq,
    role: Role,
    ciphertext: HpkeCiphertext,
) -> Vector:
    aad = aggregate_share_aad(task.task_id, task.configuration_bytes, encode(request))
    try:
        plaintext = open_(keypair, aggregate_share_info(task.profile.tag, role), aad, ciphertext)
        return task.vdaf(AggregationParameter(request.agg_param)).decode_agg_share(plaintext)
    except DecryptError as error:
        raise UnusableResult(
            f"the {role.name.lower()}'s aggregate share does not open: compare the task's "
            f"fingerprint ({task.fingerprint}) with the aggregators'"
        ) from error
    except ParameterError as error:
        raise UnusableResult(
            f"the {role.name.lower()}'s aggregate share does not decode"
        ) from error
