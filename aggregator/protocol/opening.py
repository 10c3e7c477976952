"""An aggregator opens its input shares of a job's reports, and checks what comes with them.

Source: DAP, "Input Share Decryption" and "Input Share Validation".
"""

import dataclasses
from collections.abc import Container, Mapping
from typing import Self

import numpy as np

from aggregator.codec import DecodeError, decode, encode
from aggregator.dap.attribution import LEAST_BUDGET
from aggregator.dap.extensions import unrecognized
from aggregator.dap.hpke import DecryptError, HpkeKeypair, input_share_info, open_
from aggregator.dap.hpke_batch import open_many
from aggregator.dap.hpke_suites import TAG_SIZE
from aggregator.dap.messages import PlaintextInputShare, ReportShare, input_share_aad
from aggregator.dap.messages.byte_rows import Budgets, ByteRows, Places, Times, strings
from aggregator.dap.messages.columns import ShareColumns
from aggregator.dap.profile import REPORT_EXTENSION_PERMIT, Role
from aggregator.dap.report_errors import ReportError
from aggregator.dap.times import Time
from aggregator.protocol.permits import SIZE as PERMIT_SIZE
from aggregator.protocol.permits import extensions_with
from aggregator.protocol.reports import Timely, windows_at
from aggregator.protocol.signed_permits import fault_of as fault_of_signature
from aggregator.protocol.task import Task


@dataclasses.dataclass(frozen=True, slots=True)
class OpenedShares:
    """Input shares that opened, one a row, with what belongs to them.

    `rows` are the places of their reports. Of the others, by their places, `rejected` has the
    errors, and `keyless`, at the leader, the configuration ids of keys that we should have and do
    not. Ids (`nonces`) have shape `(rows, 16)`. `budgets` are those of reports that have some.
    """

    rows: Places
    nonces: ByteRows
    times: Times
    public_shares: ByteRows
    input_shares: ByteRows = dataclasses.field(repr=False)
    rejected: dict[int, ReportError]
    keyless: dict[int, int]
    budgets: Budgets | None = None


def open_shares(
    task: Task,
    role: Role,
    keypairs: Mapping[int, HpkeKeypair],
    shares: ShareColumns,
    timely: Timely,
) -> OpenedShares:
    """Open and check one aggregator's shares of reports, with key pairs by configuration id."""
    rejected = _untimely(task, shares.times, timely)
    if task.attribution is not None:
        poor = np.flatnonzero(shares.budgets < LEAST_BUDGET).tolist()
        rejected |= dict.fromkeys({*poor} - {*rejected}, ReportError.BUDGET_TOO_SMALL)
    keyless = {
        row: config_id
        for row, config_id in enumerate(shares.config_ids)
        if config_id not in keypairs and row not in rejected
    }
    if role is Role.HELPER:
        # Nobody has checked the id: a client may have made it up. A leader has accepted no report
        # whose key it did not have, so there it is the key that is missing, and may come back.
        rejected |= dict.fromkeys(keyless, ReportError.HPKE_UNKNOWN_CONFIG_ID)
        keyless = {}
    wanted = [row for row in range(len(shares)) if row not in rejected and row not in keyless]
    sealed = shares.take(wanted)
    places, plaintexts = _decrypted(task, role, keypairs, sealed)
    opened = [wanted[place] for place in places]
    rejected |= dict.fromkeys({*wanted} - {*opened}, ReportError.HPKE_DECRYPT_ERROR)
    frame = _Frame.of(task, role)
    input_shares, faults = frame.removed_from(plaintexts)
    if frame.permit_size:
        faults |= _other_permits(task, frame, plaintexts, sealed.take(places), faults)
    rejected |= {opened[place]: fault for place, fault in faults.items()}
    kept = [place for place in range(len(opened)) if place not in faults]
    rows = np.array([opened[place] for place in kept], np.intp)
    public = shares.take(rows)
    words = task.profile.at_aggregation
    return OpenedShares(
        rows=rows,
        budgets=None if task.attribution is None else public.budgets,
        nonces=public.nonces,
        times=public.times,
        public_shares=public.public_shares,
        input_shares=input_shares[kept] if faults else input_shares,
        rejected={row: words.get(error, error) for row, error in rejected.items()},
        keyless=keyless,
    )


_AGG_ID = {Role.LEADER: 0, Role.HELPER: 1}
AT_ONCE = 2**20
"""How many bytes of ciphertexts are opened at once. For more, the strings in between would take
memory that the process has to ask the system for each time."""


def _decrypted(
    task: Task, role: Role, keypairs: Mapping[int, HpkeKeypair], sealed: ShareColumns
) -> tuple[list[int], ByteRows]:
    """Return the places of the shares that open, and their plaintexts, one a row."""
    info, prefix = input_share_info(task.profile.tag, role), task.input_share_aad_prefix
    size = sealed.payloads.shape[1]
    step = max(1, AT_ONCE // size)
    rows = np.empty((len(sealed), size - TAG_SIZE), np.uint8)
    opened: list[int] = []
    for start in range(0, len(sealed), step):
        some = sealed.between(start, start + step)
        aads = [prefix + head for head in strings(some.head)]
        payloads = strings(some.payloads)
        found = open_many(keypairs, info, some.config_ids, some.encs, payloads, aads)
        texts = [text for text in found if text is not None]
        before = len(opened)
        opened += [place for place, text in enumerate(found, start) if text is not None]
        joined = np.frombuffer(b"".join(texts), np.uint8)
        rows[before : len(opened)] = joined.reshape(len(texts), rows.shape[1])
    return opened, rows[: len(opened)]


def _untimely(task: Task, times: Times, timely: Timely) -> dict[int, ReportError]:
    """Return the errors of reports that were made too early or too late, by their row."""
    found, of_row = np.unique(times, return_inverse=True)
    errors = [timely.refusal(task, Time(units)) for units in found.tolist()]
    if not any(errors):
        return {}
    return {
        row: error
        for row, each in enumerate(of_row.tolist())
        if (error := errors[each]) is not None
    }


@dataclasses.dataclass(frozen=True, slots=True)
class _Frame:
    """What plaintexts begin with, before the input share: a permit, of a size, may be in it."""

    begins: ByteRows
    permit_size: int

    @classmethod
    def of(cls, task: Task, role: Role) -> Self:
        """Return the frame of an aggregator's shares: only the helper's have a permit."""
        permit = PERMIT_SIZE if role is Role.HELPER and task.permits is not None else 0
        extensions = extensions_with(bytes(permit) if permit else None)
        size = task.prio3.input_share_size(_AGG_ID[role])
        framed = encode(PlaintextInputShare(extensions, bytes(size)))
        return cls(np.frombuffer(framed[:-size], np.uint8), permit)

    def removed_from(self, plaintexts: ByteRows) -> tuple[ByteRows, dict[int, ReportError]]:
        """Return input shares, and the errors of plaintexts that hold none.

        All plaintexts have the size of a share in the frame: sealing adds the same to each.
        """
        is_other = plaintexts[:, : len(self.begins)] != self.begins
        is_other[:, self._permit] = False
        faults = {
            place: _fault_of(plaintexts[place].tobytes(), has_permit=self.permit_size > 0)
            for place in np.flatnonzero(is_other.any(axis=1)).tolist()
        }
        return plaintexts[:, len(self.begins) :], faults

    def openings(self, plaintexts: ByteRows) -> list[bytes]:
        """Return the permits, whatever they are."""
        return strings(plaintexts[:, self._permit])

    @property
    def _permit(self) -> slice:
        start = _PERMIT_START
        return slice(start, start + self.permit_size)


_PERMIT_START = 6
"""Behind the size of the list of extensions, the type of the only one, and its size."""


def _other_permits(
    task: Task,
    frame: _Frame,
    plaintexts: ByteRows,
    shares: ShareColumns,
    faults: Container[int],
) -> dict[int, ReportError]:
    """Return the errors of reports whose permits are not theirs, or not signed, by their places."""
    permits, keys = task.permits, task.issuer_keys
    if permits is None:
        return {}
    id_of, ids = permits.report_id, strings(shares.nonces)
    if keys is None:
        return {
            place: ReportError.PERMIT_UNKNOWN
            for place, (opening, report_id) in enumerate(
                zip(frame.openings(plaintexts), ids, strict=True)
            )
            if id_of(opening) != report_id and place not in faults
        }
    found: dict[int, ReportError] = {}
    each = zip(
        ids,
        frame.openings(plaintexts),
        windows_at(task, shares.times.tolist()),
        shares.signatures,
        strict=True,
    )
    for place, (report_id, opening, window, signature) in enumerate(each):
        if place in faults:
            continue
        fault = fault_of_signature(permits, keys, window, report_id, signature)
        if fault is None and id_of(opening, window) != report_id:
            fault = ReportError.PERMIT_UNKNOWN
        if fault is not None:
            found[place] = fault
    return found


def fault_of_longer(
    task: Task, keypairs: Mapping[int, HpkeKeypair], share: ReportShare
) -> ReportError:
    """Return what is wrong with a helper's share that is longer than all shares of its task."""
    sealed = share.encrypted_input_share
    if sealed.config_id not in keypairs:
        return ReportError.HPKE_UNKNOWN_CONFIG_ID
    info = input_share_info(task.profile.tag, Role.HELPER)
    prefix = task.input_share_aad_prefix
    aad = input_share_aad(prefix, share.report_metadata, share.public_share)
    try:
        plaintext = open_(keypairs[sealed.config_id], info, aad, sealed)
    except DecryptError:
        return ReportError.HPKE_DECRYPT_ERROR
    return _fault_of(plaintext, has_permit=task.permits is not None)


def _fault_of(plaintext: bytes, *, has_permit: bool) -> ReportError:
    """Return what is wrong with a plaintext that is not framed as all shares of its task are."""
    try:
        extensions = decode(PlaintextInputShare, plaintext).private_extensions
    except DecodeError:
        return ReportError.INVALID_MESSAGE
    known = {REPORT_EXTENSION_PERMIT} if has_permit else set()
    if unrecognized(extensions, known):
        return ReportError.UNSUPPORTED_EXTENSION
    if has_permit and not extensions:
        return ReportError.PERMIT_MISSING
    return ReportError.INVALID_MESSAGE
