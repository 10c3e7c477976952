"""An aggregator opens its input shares of a job's reports, and checks what is around them.

Source: DAP, "Input Share Decryption" and "Input Share Validation".
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from aggregator.codec import encode
from aggregator.dap.hpke import HpkeKeypair, input_share_info
from aggregator.dap.hpke_batch import open_many
from aggregator.dap.messages import PlaintextInputShare
from aggregator.dap.messages.columns import ByteRows, Places, ShareColumns, Times, strings
from aggregator.dap.profile import Role
from aggregator.dap.report_errors import ReportError
from aggregator.dap.times import Time
from aggregator.protocol.replay import Timing, refusal
from aggregator.protocol.task import Task


@dataclasses.dataclass(frozen=True, slots=True)
class Timely:
    """Between which moments the time of a report must lie, besides the task's interval.

    Attributes:
        now: Seconds since the epoch; None if the reports' times were checked before.
        clock_skew_seconds: How far ahead of `now` a report's time may lie.
        max_age_seconds: How far behind.
    """

    now: int | None
    clock_skew_seconds: int
    max_age_seconds: int

    def refusal(self, task: Task, units: int) -> ReportError | None:
        """Return why a report of this time is refused, or None."""
        time = Time(units)
        if self.now is None:
            return refusal(Timing(time, task.interval, None))
        latest = task.time(self.now + self.clock_skew_seconds)
        earliest = task.time(max(0, self.now - self.max_age_seconds))
        return refusal(Timing(time, task.interval, latest, earliest))


@dataclasses.dataclass(frozen=True, slots=True)
class OpenedShares:
    """Input shares that opened, one a row, with what belongs to them.

    Attributes:
        rows: Which of the reports they are of.
        nonces: The reports' ids, shape `(rows, 16)`.
        times: The reports' times.
        public_shares: As they came.
        input_shares: One aggregator's, not yet decoded.
        rejected: The errors of all other reports, by their row.
    """

    rows: Places
    nonces: ByteRows
    times: Times
    public_shares: ByteRows
    input_shares: ByteRows = dataclasses.field(repr=False)
    rejected: dict[int, ReportError]


def open_shares(
    task: Task,
    role: Role,
    keypairs: Mapping[int, HpkeKeypair],
    shares: ShareColumns,
    timely: Timely,
) -> OpenedShares:
    """Open and check one aggregator's shares of reports.

    Args:
        task: The reports' task.
        role: Whose shares these are, LEADER or HELPER.
        keypairs: Our HPKE key pairs by configuration id, retired ones among them.
        shares: The sealed shares.
        timely: When the reports may have been made.
    """
    rejected = _untimely(task, shares.times, timely)
    wanted = [row for row in range(len(shares)) if row not in rejected]
    sealed = shares.take(wanted)
    prefix = task.input_share_aad_prefix
    plaintexts = open_many(
        keypairs,
        input_share_info(role),
        sealed.config_ids,
        strings(sealed.encs),
        strings(sealed.payloads),
        [prefix + head for head in strings(sealed.head)],
    )
    framed, rows = [], []
    for row, plaintext in zip(wanted, plaintexts, strict=True):
        if plaintext is None:
            rejected[row] = ReportError.HPKE_DECRYPT_ERROR
        else:
            framed.append(plaintext)
            rows.append(row)
    input_shares, malformed = _unframed(framed, task.prio3.input_share_size(_AGG_ID[role]))
    rejected.update((rows[place], ReportError.INVALID_MESSAGE) for place in malformed)
    kept = [place for place in range(len(rows)) if place not in malformed]
    places = np.array([rows[place] for place in kept], np.intp)
    opened = shares.take(places)
    return OpenedShares(
        rows=places,
        nonces=opened.nonces,
        times=opened.times,
        public_shares=opened.public_shares,
        input_shares=input_shares if len(kept) == len(rows) else input_shares[kept],
        rejected=rejected,
    )


_AGG_ID = {Role.LEADER: 0, Role.HELPER: 1}


def _untimely(task: Task, times: Times, timely: Timely) -> dict[int, ReportError]:
    """Return the errors of reports that were made too early or too late, by their row."""
    found, of_row = np.unique(times, return_inverse=True)
    errors = [timely.refusal(task, units) for units in found.tolist()]
    if not any(errors):
        return {}
    return {
        row: error
        for row, each in enumerate(of_row.tolist())
        if (error := errors[each]) is not None
    }


def _unframed(plaintexts: Sequence[bytes], size: int) -> tuple[ByteRows, set[int]]:
    """Return input shares of `size` bytes, and which plaintexts hold something else.

    All have the size of a share without extensions: sealing adds the same to each. We know no
    report extension, so a plaintext that is framed in another way is no input share.
    """
    frame = encode(PlaintextInputShare((), bytes(size)))[:-size]
    joined = np.frombuffer(b"".join(plaintexts), np.uint8)
    rows = joined.reshape(len(plaintexts), len(frame) + size)
    wanted = np.frombuffer(frame, np.uint8)
    is_other = (rows[:, : len(frame)] != wanted).any(axis=1)
    return rows[:, len(frame) :], {*np.flatnonzero(is_other).tolist()}
