"""Turns a measurement into a report, and checks the reports that are uploaded.

Source: DAP, "Uploading Reports", "Input Share Decryption" and "Input Share Validation".
"""

from __future__ import annotations

import dataclasses
from functools import lru_cache
from typing import TYPE_CHECKING

from aggregator.codec import encode
from aggregator.dap.attribution import BUDGET_SIZE, LEAST_BUDGET, privacy_budget
from aggregator.dap.hpke import DecryptError, HpkeCiphertext, HpkeConfig, input_share_info, suite_of
from aggregator.dap.hpke_suites import TAG_SIZE
from aggregator.dap.ids import ReportId
from aggregator.dap.messages import (
    PlaintextInputShare,
    Report,
    ReportMetadata,
    ReportSizes,
    UploadedReport,
    input_share_aad,
)
from aggregator.dap.messages.sized import EXTENSION_START
from aggregator.dap.profile import CODE_POINTS, REPORT_EXTENSION_SIGNATURE, Role
from aggregator.dap.report_errors import AnyReportError, ReportError
from aggregator.dap.times import Time
from aggregator.errors import ParameterError
from aggregator.protocol.permits import SIZE as PERMIT_SIZE
from aggregator.protocol.permits import check_one_each, extensions_signed, extensions_with
from aggregator.protocol.replay import Timing, refusal
from aggregator.protocol.signed_permits import SIGNATURE_SIZE, fault_of
from aggregator.vdaf.prio3 import Prio3, ShareDecodeError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from aggregator.dap.extensions import Extensions
    from aggregator.dap.messages.columns import ReportColumns
    from aggregator.entropy import Entropy
    from aggregator.errors import ReportRejected
    from aggregator.protocol.task import Task
    from aggregator.vdaf.circuits import Measurement

CLOCK_SKEW_SECONDS = 300
"""How far ahead of our clock a report's time may lie."""

MAX_AGE_SECONDS = 366 * 86_400
"""How far behind our clock the time of an uploaded report may lie."""

HELPER_MAX_AGE_SECONDS = 2 * MAX_AGE_SECONDS
"""The limit at a helper: a report may have waited at its leader for as long again."""


@dataclasses.dataclass(frozen=True, slots=True)
class Rejected:
    """A report that is rejected, and why."""

    report_id: ReportId
    error: AnyReportError


@dataclasses.dataclass(frozen=True, slots=True)
class PreparedReport:
    """A sharded measurement, not yet sealed; it may be sealed again under new configurations.

    It reveals the measurement, so it never leaves the client. `opening` is its permit, if its task
    needs one.
    """

    metadata: ReportMetadata
    public_share: bytes
    leader_input_share: bytes = dataclasses.field(repr=False)
    helper_input_share: bytes = dataclasses.field(repr=False)
    opening: bytes | None = dataclasses.field(default=None, repr=False)


def prepare_reports(
    task: Task,
    measurements: Sequence[Measurement],
    time: Time,
    entropy: Entropy,
    openings: Sequence[bytes] | None = None,
    signatures: Sequence[bytes] | None = None,
    budget: int | None = None,
) -> list[PreparedReport]:
    """Shard each measurement into its own report, with a fresh id and fresh randomness.

    If the task has permits, its reports have the ids of `openings`, a permit each; and if permits
    are signed, `signatures` of those ids. If it is one of attribution, each report may cost
    `budget`, in millionths of an epsilon.

    Raises:
        ParameterError: A measurement is out of range; the message names its index and the limit. Or
            there are not as many permits as reports, or no budget where one is needed.
    """
    paid = _extensions_paid(task, budget)
    permits: Sequence[bytes | None] = [None] * len(measurements)
    signed = permits
    if task.permits is None:
        report_ids = [entropy.bytes(task.prio3.nonce_size) for _ in measurements]
    else:
        permits = check_one_each("permits", openings, PERMIT_SIZE, len(measurements))
        window = task.permit_window_at(time)
        report_ids = [task.permits.report_id(each, window) for each in permits]
        if task.permits.is_signed:
            signed = check_one_each("signatures", signatures, SIGNATURE_SIZE, len(measurements))
    rands = [entropy.bytes(task.prio3.rand_size) for _ in measurements]
    shards = task.prio3.shard(task.ctx, measurements, report_ids, rands)
    leader_shares, helper_shares = shards.input_shares
    return [
        PreparedReport(
            ReportMetadata(ReportId(report_id), time, paid or extensions_signed(signature)),
            public_share,
            leader_share,
            helper_share,
            opening,
        )
        for report_id, public_share, leader_share, helper_share, opening, signature in zip(
            report_ids,
            shards.public_shares,
            leader_shares,
            helper_shares,
            permits,
            signed,
            strict=True,
        )
    ]


def _extensions_paid(task: Task, budget: int | None) -> Extensions:
    if task.attribution is None:
        if budget is not None:
            raise ParameterError("privacy_budget: the task is none of attribution, so leave it out")
        return ()
    if budget is None:
        raise ParameterError("privacy_budget: missing; what may a report of attribution cost?")
    return privacy_budget(budget)


def seal_report(
    task: Task,
    prepared: PreparedReport,
    leader_config: HpkeConfig,
    helper_config: HpkeConfig,
    entropy: Entropy,
) -> Report:
    """Seal a prepared report to both aggregators, as `seal_reports` does several."""
    (report,) = seal_reports(task, [prepared], leader_config, helper_config, entropy)
    return report


def seal_reports(
    task: Task,
    prepared: Sequence[PreparedReport],
    leader_config: HpkeConfig,
    helper_config: HpkeConfig,
    entropy: Entropy,
) -> list[Report]:
    """Seal prepared reports to both aggregators; several at once are cheaper.

    On `outdated_config` the same prepared report is sealed again: with a second report of the same
    measurement, a leader that lied about the configuration could count the person twice.
    """
    from aggregator.dap.hpke_batch import seal_many  # as slow to load as what shards

    kems = [suite_of(config).kem for config in (leader_config, helper_config)]
    drawn = [[kem.draw_bytes(entropy) for kem in kems] for _ in prepared]
    prefix = task.input_share_aad_prefix
    aads = [input_share_aad(prefix, each.metadata, each.public_share) for each in prepared]

    def sealed(place: int, role: Role, config: HpkeConfig) -> list[HpkeCiphertext]:
        private_keys = [of_both[place] for of_both in drawn]
        plaintexts = [_plaintext(each, role) for each in prepared]
        info = input_share_info(task.profile.tag, role)
        return seal_many(config, info, private_keys, aads, plaintexts)

    return [
        Report(
            report_metadata=each.metadata,
            public_share=each.public_share,
            leader_encrypted_input_share=for_leader,
            helper_encrypted_input_share=for_helper,
        )
        for each, for_leader, for_helper in zip(
            prepared,
            sealed(0, Role.LEADER, leader_config),
            sealed(1, Role.HELPER, helper_config),
            strict=True,
        )
    ]


def _plaintext(prepared: PreparedReport, role: Role) -> bytes:
    if role is Role.LEADER:
        return encode(PlaintextInputShare((), payload=prepared.leader_input_share))
    # A leader that saw the opening could use it for a report of its own.
    extensions = extensions_with(prepared.opening)
    return encode(PlaintextInputShare(extensions, payload=prepared.helper_input_share))


def report_sizes(task: Task) -> ReportSizes:
    """Return the sizes that all reports of a task have, except for their encapsulated keys.

    A sealed input share is a list of extensions, empty but for the helper's permit if the task has
    any, the share with its length prefix, and the AEAD tag.
    """
    if task.attribution is not None:
        return _sizes_of(task.prio3, 0, BUDGET_SIZE, CODE_POINTS.privacy_budget)
    if task.permits is None:
        return _sizes_of(task.prio3, 0)
    if not task.permits.is_signed:
        return _sizes_of(task.prio3, _PERMIT)
    return _sizes_of(task.prio3, _PERMIT, SIGNATURE_SIZE, REPORT_EXTENSION_SIGNATURE)


_PERMIT = len(encode(extensions_with(bytes(PERMIT_SIZE))[0]))


@lru_cache(maxsize=1024)
def _sizes_of(
    prio3: Prio3, permit: int, extension: int = 0, extension_type: int = 0
) -> ReportSizes:
    from aggregator.vdaf import ping_pong

    added = len(encode(PlaintextInputShare((), b"?"))) - 1 + TAG_SIZE
    return ReportSizes(
        public_share=prio3.public_share_size,
        leader_payload=prio3.input_share_size(0) + added,
        helper_payload=prio3.input_share_size(1) + added + permit,
        verify_payload=ping_pong.message_size(prio3.verifier_share_size),
        permit=permit,
        extension=extension,
        extension_type=extension_type,
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Timely:
    """The limits on a report's time, besides the task's interval: how far ahead or behind of `now`.

    All are seconds; `now` is None if the reports' times were checked before, and `max_age_seconds`
    if their age was. The limit on age is our own rule.
    """

    now: int | None
    clock_skew_seconds: int = CLOCK_SKEW_SECONDS
    max_age_seconds: int | None = MAX_AGE_SECONDS

    def refusal(self, task: Task, time: Time) -> ReportError | None:
        """Return why a report of this time is refused, or None."""
        if self.now is None:
            return refusal(Timing(time, task.interval, None))
        latest = task.time(self.now + self.clock_skew_seconds)
        age = self.max_age_seconds
        earliest = None if age is None else task.time(max(0, self.now - age))
        return refusal(Timing(time, task.interval, latest, earliest))


def check_upload(
    task: Task,
    report: UploadedReport,
    config_ids: Collection[int],
    timely: Timely,
    least_budget: int = LEAST_BUDGET,
) -> ReportError | None:
    """Return why the leader refuses an uploaded report, or None if it may be stored.

    Nothing is opened here: checks that need the private key wait for aggregation. Where reports
    have budgets, `least_budget` is the least that is taken.

    Source: DAP, "Leader Behavior" (of uploads).
    """
    why = _fault_of_upload(task, report, config_ids, timely, least_budget)
    return None if why is None else task.profile.at_upload.get(why, why)


def is_none_refused(
    task: Task,
    reports: ReportColumns,
    config_ids: Collection[int],
    timely: Timely,
    least_budget: int = LEAST_BUDGET,
) -> bool:
    """Return whether `check_upload` refuses none of these reports.

    Source: DAP, "Leader Behavior" (of uploads).
    """
    if not {*reports.leader_shares.config_ids}.issubset(config_ids) or any(
        timely.refusal(task, Time(units)) for units in {*reports.times}
    ):
        return False
    if task.attribution is not None:
        return bool((reports.leader_shares.budgets >= least_budget).all())
    permits, keys = task.permits, task.issuer_keys
    if permits is None or keys is None:
        return True
    signatures = reports.leader_shares.signatures
    each = zip(windows_at(task, reports.times), reports.ids, signatures, strict=True)
    return not any(fault_of(permits, keys, *of_report) for of_report in each)


def _fault_of_upload(
    task: Task,
    report: UploadedReport,
    config_ids: Collection[int],
    timely: Timely,
    least_budget: int,
) -> ReportError | None:
    if report.leader_config_id not in config_ids:
        return ReportError.HPKE_UNKNOWN_CONFIG_ID
    if report.has_extensions:
        return ReportError.UNSUPPORTED_EXTENSION
    if report.encoding is None:
        if not report.lacks_extension:
            return ReportError.INVALID_MESSAGE
        return ReportError.PERMIT_MISSING if task.permits else ReportError.BUDGET_MISSING
    untimely = timely.refusal(task, report.time)
    if untimely is not None:
        return untimely
    return _fault_of_extension(task, report, report.encoding, least_budget)


def _fault_of_extension(
    task: Task, report: UploadedReport, encoding: bytes, least_budget: int
) -> ReportError | None:
    if task.attribution is not None and budget_in(encoding) < least_budget:
        return ReportError.BUDGET_TOO_SMALL
    if task.permits is None or task.issuer_keys is None:
        return None
    signature = encoding[EXTENSION_START : EXTENSION_START + SIGNATURE_SIZE]
    window = task.permit_window_at(report.time)
    return fault_of(task.permits, task.issuer_keys, window, report.report_id.value, signature)


def budget_in(report: bytes) -> int:
    """Return the privacy budget in an encoded report of a task of attribution."""
    return int.from_bytes(report[EXTENSION_START : EXTENSION_START + BUDGET_SIZE], "big")


def windows_at(task: Task, times: Sequence[int]) -> list[int]:
    """Return the number of the window of each time, in the task's units."""
    of_time = {units: task.permit_window_at(Time(units)) for units in {*times}}
    return [of_time[units] for units in times]


def report_error(error: ReportRejected) -> ReportError:
    """Return the draft's error for a rejected report."""
    match error:
        case DecryptError():
            return ReportError.HPKE_DECRYPT_ERROR
        case ShareDecodeError():
            return ReportError.INVALID_MESSAGE
        case _:
            return ReportError.VDAF_VERIFY_ERROR
