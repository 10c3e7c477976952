"""The layout of one task's reports in messages, as rows of bytes.

All reports of a task have the same sizes (`ReportSizes`), so the same columns of each row hold the
same field, and the bytes that say sizes are the same in all rows.

Source: DAP, "Upload Request" and "Aggregate Initialization".
"""

import dataclasses
from collections.abc import Iterable
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from aggregator.dap.ids import ReportId
from aggregator.dap.messages.sized import ReportSizes

ByteRows: TypeAlias = npt.NDArray[np.uint8]
Times: TypeAlias = npt.NDArray[np.uint64]
Budgets: TypeAlias = npt.NDArray[np.uint32]
Places: TypeAlias = npt.NDArray[np.intp]

U32 = 4
ID = ReportId.size
TIME = slice(ID, ID + 8)
PUBLIC_SHARE_START = TIME.stop + 2 + U32
"""Behind the sizes of the extensions and of the share, where there are no extensions."""
ENC_START = 1 + 2  # behind the configuration's id and the size


def strings(rows: ByteRows) -> list[bytes]:
    """Return the rows of an array of shape `(rows, width)`, `width` above 0, as byte strings."""
    # Items of a void type convert to bytes, all at once.
    found: list[bytes] = np.ascontiguousarray(rows).view(f"V{rows.shape[1]}").ravel().tolist()
    return found


def repeated(content: bytes, rows: int) -> ByteRows:
    """Return an array of shape `(rows, len(content))`, with `content` in each row, uncopied."""
    return np.broadcast_to(np.frombuffer(content, np.uint8), (rows, len(content)))


@dataclasses.dataclass(frozen=True, slots=True)
class Layout:
    """What is the same in all reports of a task, which says their sizes.

    Attributes:
        fixed: The columns, shape `(n,)`.
        content: What stands there, shape `(n,)`.
    """

    fixed: Places
    content: ByteRows

    @classmethod
    def of(cls, fields: Iterable[int | bytes]) -> "Layout":
        """Return the layout of these fields in order: numbers of any bytes, and fixed ones."""
        fixed: list[int] = []
        content = bytearray()
        end = 0
        for field in fields:
            start, end = end, end + (field if isinstance(field, int) else len(field))
            if isinstance(field, bytes):
                fixed += range(start, end)
                content += field
        return cls(np.array(fixed, np.intp), np.frombuffer(bytes(content), np.uint8))

    def fits(self, rows: ByteRows) -> npt.NDArray[np.bool_]:
        """Return which rows have the layout's sizes, shape `(rows,)`.

        `rows` are as wide as the layout, shape `(rows, width)`.
        """
        found: npt.NDArray[np.bool_] = (rows[:, self.fixed] == self.content).all(axis=1)
        return found


@lru_cache(maxsize=1024)
def report_layout(sizes: ReportSizes, leader_enc: int, helper_enc: int) -> Layout:
    """Return the layout of a Report, given the size of each aggregator's encapsulated key."""
    leader_share = _sealed(leader_enc, sizes.leader_payload)
    return Layout.of((*_head(sizes), *leader_share, *_sealed(helper_enc, sizes.helper_payload)))


@lru_cache(maxsize=1024)
def init_layout(sizes: ReportSizes, enc: int) -> Layout:
    """Return the layout of a VerifyInit, given the size of its encapsulated key."""
    payload = sizes.verify_payload
    sealed = _sealed(enc, sizes.helper_payload)
    return Layout.of((*_head(sizes), *sealed, payload.to_bytes(U32, "big"), payload))


def _head(sizes: ReportSizes) -> tuple[int | bytes, ...]:
    size = sizes.public_share
    share = size.to_bytes(U32, "big"), size
    return TIME.stop, sizes.extensions_head, sizes.extension, *share


def _sealed(enc: int, payload: int) -> tuple[int | bytes, ...]:
    return 1, enc.to_bytes(2, "big"), enc, payload.to_bytes(U32, "big"), payload
