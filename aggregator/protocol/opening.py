"""An aggregator opens its input shares of a job's reports, and checks what comes with them.

Source: DAP, "Input Share Decryption" and "Input Share Validation".
"""

import dataclasses
from collections.abc import Mapping

import numpy as np

from aggregator.codec import DecodeError, decode, encode
from aggregator.dap.hpke import HpkeKeypair, input_share_info
from aggregator.dap.hpke_batch import open_many
from aggregator.dap.hpke_suites import TAG_SIZE
from aggregator.dap.messages import PlaintextInputShare
from aggregator.dap.messages.byte_rows import ByteRows, Places, Times, strings
from aggregator.dap.messages.columns import ShareColumns
from aggregator.dap.profile import Role
from aggregator.dap.report_errors import ReportError
from aggregator.dap.times import Time
from aggregator.protocol.reports import Timely
from aggregator.protocol.task import Task


@dataclasses.dataclass(frozen=True, slots=True)
class OpenedShares:
    """Input shares that opened, one a row, with what belongs to them.

    `rows` are the places of their reports. Of the others, by their places, `rejected` has the
    errors, and `keyless`, at the leader, the configuration ids of keys that we should have and do
    not. Ids (`nonces`) have shape `(rows, 16)`.
    """

    rows: Places
    nonces: ByteRows
    times: Times
    public_shares: ByteRows
    input_shares: ByteRows = dataclasses.field(repr=False)
    rejected: dict[int, ReportError]
    keyless: dict[int, int]


def open_shares(
    task: Task,
    role: Role,
    keypairs: Mapping[int, HpkeKeypair],
    shares: ShareColumns,
    timely: Timely,
) -> OpenedShares:
    """Open and check one aggregator's shares of reports, with key pairs by configuration id."""
    rejected = _untimely(task, shares.times, timely)
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
    input_shares, faults = _unframed(plaintexts, task.prio3.input_share_size(_AGG_ID[role]))
    rejected |= {opened[place]: fault for place, fault in faults.items()}
    kept = [place for place in range(len(opened)) if place not in faults]
    rows = np.array([opened[place] for place in kept], np.intp)
    public = shares.take(rows)
    words = task.profile.at_aggregation
    return OpenedShares(
        rows=rows,
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


def _unframed(plaintexts: ByteRows, size: int) -> tuple[ByteRows, dict[int, ReportError]]:
    """Return input shares of `size` bytes, and the errors of plaintexts that hold none.

    All plaintexts have the size of a share without extensions: sealing adds the same to each.
    """
    frame = np.frombuffer(encode(PlaintextInputShare((), bytes(size)))[:-size], np.uint8)
    is_other = (plaintexts[:, : len(frame)] != frame).any(axis=1)
    faults = {
        place: _fault_of(plaintexts[place].tobytes()) for place in np.flatnonzero(is_other).tolist()
    }
    return plaintexts[:, len(frame) :], faults


def _fault_of(plaintext: bytes) -> ReportError:
    """Return what is wrong with a plaintext that is not framed as a share without extensions."""
    try:
        extensions = decode(PlaintextInputShare, plaintext).private_extensions
    except DecodeError:
        return ReportError.INVALID_MESSAGE
    # No report extension is registered, so we know none.
    return ReportError.UNSUPPORTED_EXTENSION if extensions else ReportError.INVALID_MESSAGE
