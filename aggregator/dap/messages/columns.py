"""Reports of one task as arrays: each report is a row, and each field the same columns in all rows.

All reports of a task have the same sizes (`ReportSizes`), so a message with many of them is an
array of bytes between two headers. Where their encapsulated keys differ in size, the columns have
room for the largest. There is no object for each report. Reports of other sizes are left to the
readers in `sized` and `aggregation`, which define what a message means; the arrays are tested
against them.

Source: DAP, "Upload Request" and "Aggregate Initialization".
"""

import dataclasses
from collections.abc import Sequence
from itertools import product

import numpy as np
import numpy.typing as npt

from aggregator.dap.hpke_suites import ENC_SIZES
from aggregator.dap.messages.byte_rows import (
    ENC_START,
    ID,
    PUBLIC_SHARE_START,
    TIME,
    U32,
    Budgets,
    ByteRows,
    Places,
    Times,
    report_layout,
    strings,
)
from aggregator.dap.messages.sized import EXTENSION_START, ReportSizes


@dataclasses.dataclass(frozen=True, slots=True)
class ShareColumns:
    """One aggregator's sealed input shares of reports, with the reports' public parts.

    Attributes:
        head: Shape `(rows, head_size)`: id, time, extensions, and the public share with its size.
            A report begins with these bytes, and its shares' associated data ends with them.
        sealed: Shape `(rows, sealed_size)`: the encoded ciphertexts, each with `enc` bytes for its
            encapsulated key, which may be shorter.
        enc: Bytes of the largest encapsulated key.
        extension: Bytes of the data of a report's public extension, 0 if it has none.
    """

    head: ByteRows = dataclasses.field(repr=False)
    sealed: ByteRows = dataclasses.field(repr=False)
    enc: int
    extension: int = 0

    def __len__(self) -> int:
        """Return how many reports there are."""
        return len(self.head)

    @property
    def nonces(self) -> ByteRows:
        """The reports' ids, shape `(rows, 16)`."""
        return self.head[:, :ID]

    @property
    def ids(self) -> list[bytes]:
        """The reports' ids."""
        return strings(self.nonces)

    @property
    def times(self) -> Times:
        """The reports' times, in units of the task's time precision."""
        return np.ascontiguousarray(self.head[:, TIME]).view(">u8").ravel().astype(np.uint64)

    @property
    def public_shares(self) -> ByteRows:
        """The public shares."""
        start = PUBLIC_SHARE_START
        if self.extension:
            start = EXTENSION_START + self.extension + U32
        return self.head[:, start:]

    @property
    def signatures(self) -> list[bytes]:
        """The signatures of the reports' permits, where they have some."""
        return strings(self._data)

    @property
    def budgets(self) -> Budgets:
        """The reports' privacy budgets, where they have some, in millionths of an epsilon."""
        return np.ascontiguousarray(self._data).view(">u4").ravel().astype(np.uint32)

    @property
    def _data(self) -> ByteRows:
        """The data of the public extension."""
        return self.head[:, EXTENSION_START : EXTENSION_START + self.extension]

    @property
    def config_ids(self) -> list[int]:
        """Which of the recipient's configurations each share was sealed to."""
        ids: list[int] = self.sealed[:, 0].tolist()
        return ids

    @property
    def enc_sizes(self) -> npt.NDArray[np.intp]:
        """How many bytes each encapsulated key has."""
        return self.sealed[:, 1].astype(np.intp) << 8 | self.sealed[:, 2]

    @property
    def encs(self) -> list[bytes]:
        """The encapsulated keys."""
        rows, sizes = strings(self.sealed[:, ENC_START : ENC_START + self.enc]), self.enc_sizes
        if (sizes == self.enc).all():
            return rows
        return [row[:size] for row, size in zip(rows, sizes.tolist(), strict=True)]

    @property
    def encodings(self) -> list[bytes]:
        """The public parts, each with the ciphertext as it was sent, without room for more."""
        heads, sealed = strings(self.head), strings(self.sealed)
        return [
            head + share[: ENC_START + enc] + share[ENC_START + self.enc :]
            for head, share, enc in zip(heads, sealed, self.enc_sizes.tolist(), strict=True)
        ]

    @property
    def payloads(self) -> ByteRows:
        """The ciphertexts with their tags."""
        return self.sealed[:, ENC_START + self.enc + U32 :]

    def between(self, first: int, end: int) -> "ShareColumns":
        """Return the reports of the rows from `first` to before `end`, without a copy."""
        return ShareColumns(self.head[first:end], self.sealed[first:end], self.enc, self.extension)

    def take(self, rows: Sequence[int] | Places) -> "ShareColumns":
        """Return some of the reports; without a copy if these are all, in order."""
        if len(rows) == len(self) and np.array_equal(rows, np.arange(len(self))):
            return self
        return ShareColumns(self.head[rows], self.sealed[rows], self.enc, self.extension)


@dataclasses.dataclass(frozen=True, slots=True)
class ReportColumns:
    """Reports as they were uploaded; those of other sizes are left out."""

    leader_shares: ShareColumns
    helper_shares: ShareColumns

    def __len__(self) -> int:
        """Return how many reports there are."""
        return len(self.leader_shares)

    @classmethod
    def joined(
        cls, body: bytes, width: int, sizes: ReportSizes
    ) -> tuple["ReportColumns", list[int]]:
        """Return encoded reports of one width, which come one after another, as columns.

        Returns:
            The reports, without a copy if their keys have the same sizes, and the places of those
            whose sizes are not the task's.
        """
        rows = np.empty((len(body) // width if width else 0, sizes.head), np.uint8)
        kinds = [encs for encs in product(ENC_SIZES, repeat=2) if sizes.report_of(*encs) == width]
        if kinds:
            rows = np.frombuffer(body, np.uint8).reshape(-1, width)
        which = [report_layout(sizes, *encs).fits(rows) for encs in kinds]
        is_right = np.logical_or.reduce(which) if which else np.zeros(len(rows), np.bool_)
        others = np.flatnonzero(~is_right).tolist()
        if others:
            rows, which = rows[is_right], [each[is_right] for each in which]
        leader, helper = [], []
        for encs, of in zip(kinds, which, strict=True):
            if of.any():
                start = sizes.head
                leader.append((of, start, encs[0]))
                helper.append((of, start + sizes.leader_sealed(encs[0]), encs[1]))
        head = rows[:, : sizes.head]
        shares = (
            _gathered(head, rows, leader, sizes.leader_payload, sizes.extension),
            _gathered(head, rows, helper, sizes.helper_payload, sizes.extension),
        )
        return cls(*shares), others

    @classmethod
    def uploaded(cls, body: bytes, sizes: ReportSizes) -> "ReportColumns | None":
        """Return the reports of an upload request as columns, without a copy.

        Returns:
            The reports; None if there are none, or not all have the task's sizes and the usual
            keys: then `sized.UploadedReport` reads them.
        """
        width = sizes.report_of(ENC_SIZES[0], ENC_SIZES[0])
        if not body or len(body) % width:
            return None
        columns, others = cls.joined(body, width, sizes)
        return None if others else columns

    @property
    def ids(self) -> list[bytes]:
        """The reports' ids."""
        return self.leader_shares.ids

    @property
    def times(self) -> list[int]:
        """The reports' times, in units of the task's time precision."""
        times: list[int] = self.leader_shares.times.tolist()
        return times


def _gathered(
    head: ByteRows,
    rows: ByteRows,
    pieces: Sequence[tuple[npt.NDArray[np.bool_], int, int]],
    payload: int,
    extension: int,
) -> ShareColumns:
    """Return ciphertexts whose places differ between rows.

    Each piece is a layout's: its rows, where ciphertexts begin, the bytes of encapsulated keys.
    """
    enc = max((size for _, _, size in pieces), default=min(ENC_SIZES))
    width = ENC_START + enc + U32 + payload
    if len(pieces) == 1:
        start = pieces[0][1]
        return ShareColumns(head, rows[:, start : start + width], enc, extension)
    sealed = np.zeros((len(rows), width), np.uint8)
    for of, start, size in pieces:
        end = start + ENC_START + size
        sealed[of, : ENC_START + size] = rows[of, start:end]
        sealed[of, ENC_START + enc :] = rows[of, end : end + U32 + payload]
    return ShareColumns(head, sealed, enc, extension)
