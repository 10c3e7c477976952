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
Places: TypeAlias = npt.NDArray[np.intp]

U32 = 4
ID = ReportId.size
TIME = slice(ID, ID + 8)
PUBLIC_SHARE_START = TIME.stop + 2 + U32  # behind the sizes of the extensions and of the share
ENC_START = 1 + 2  # behind the configuration's id and the size


def strings(rows: ByteRows) -> list[bytes]:
    """Return the rows of an array, which are not empty, as byte strings."""
    # Items of a void type convert to bytes, all at once.
    found: list[bytes] = np.ascontiguousarray(rows).view(f"V{rows.shape[1]}").ravel().tolist()
    return found


def repeated(content: bytes, rows: int) -> ByteRows:
    """Return so many rows of the same content, without a copy for each."""
    return np.broadcast_to(np.frombuffer(content, np.uint8), (rows, len(content)))


@dataclasses.dataclass(frozen=True, slots=True)
class Layout:
    """Which bytes of an encoding are the same in all reports of a task."""

    width: int
    fixed: Places
    content: ByteRows


@lru_cache(maxsize=1024)
def layout_of(fields: tuple[int | bytes, ...]) -> Layout:
    """Return the layout of an encoding's parts: numbers of any bytes, and fixed bytes."""
    fixed: list[int] = []
    content = bytearray()
    width = 0
    for field in fields:
        if isinstance(field, bytes):
            fixed += range(width, width + len(field))
            content += field
        width += field if isinstance(field, int) else len(field)
    return Layout(width, np.array(fixed, np.intp), np.frombuffer(bytes(content), np.uint8))


def report_fields(sizes: ReportSizes, leader_enc: int, helper_enc: int) -> tuple[int | bytes, ...]:
    """Return the parts of a Report."""
    return (
        *_head_fields(sizes),
        *_sealed_fields(leader_enc, sizes.leader_payload),
        *_sealed_fields(helper_enc, sizes.helper_payload),
    )


def verify_init_fields(sizes: ReportSizes, enc: int) -> tuple[int | bytes, ...]:
    """Return the parts of a VerifyInit."""
    sealed = _sealed_fields(enc, sizes.helper_payload)
    payload = sizes.verify_payload
    return (*_head_fields(sizes), *sealed, payload.to_bytes(U32, "big"), payload)


def _head_fields(sizes: ReportSizes) -> Iterable[int | bytes]:
    no_extensions = bytes(2)
    return (
        TIME.stop,
        no_extensions + sizes.public_share.to_bytes(U32, "big"),
        sizes.public_share,
    )


def _sealed_fields(enc: int, payload: int) -> Iterable[int | bytes]:
    return (1, enc.to_bytes(2, "big"), enc, payload.to_bytes(U32, "big"), payload)


def have_layout(rows: ByteRows, layout: Layout) -> npt.NDArray[np.bool_]:
    """Return which rows have the sizes of the layout."""
    is_right: npt.NDArray[np.bool_] = (rows[:, layout.fixed] == layout.content).all(axis=1)
    return is_right
