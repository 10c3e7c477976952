"""Reports of one task as arrays: each report is a row, and each field the same columns in all rows.

All reports of a task have the same sizes (`ReportSizes`), so a message with many of them is an
array of bytes between two headers. Where their encapsulated keys differ in size, the columns have
room for the largest. This module converts messages to arrays and back without an object for each
report. Reports of other sizes are left to the readers in `sized` and `aggregation`, which define
what a message means; the arrays are tested against them.

Source: DAP, "Upload Request" and "Aggregate Initialization".
"""

import dataclasses
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import product
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from aggregator.codec import DecodeError, Reader, encode
from aggregator.dap.extensions import Extensions, read_increasing
from aggregator.dap.hpke_suites import ENC_SIZES
from aggregator.dap.ids import ReportId
from aggregator.dap.messages.aggregation import AggregationJobInitReq, VerifyInit, VerifyRespType
from aggregator.dap.messages.sized import LARGEST_JOB, ReportSizes, read_verify_init
from aggregator.dap.problems import MessageTooLarge

ByteRows: TypeAlias = npt.NDArray[np.uint8]
Times: TypeAlias = npt.NDArray[np.uint64]
Places: TypeAlias = npt.NDArray[np.intp]

_ID = ReportId.size
_TIME = slice(_ID, _ID + 8)
_PUBLIC_SHARE = _TIME.stop + 2 + 4  # behind the sizes of the extensions and of the share
_ENC = 1 + 2  # behind the configuration's id and the size
_U32 = 4

_Fields: TypeAlias = Iterable[int | bytes]
"""An encoding's parts in order: a number of arbitrary bytes, or the bytes that must be there."""


@dataclasses.dataclass(frozen=True, slots=True)
class ShareColumns:
    """One aggregator's sealed input shares of reports, with the reports' public parts.

    Attributes:
        head: Shape `(rows, head_size)`: id, time, no extensions, and the public share with its
            size. A report begins with these bytes, and its shares' associated data ends with them.
        sealed: Shape `(rows, sealed_size)`: the encoded ciphertexts, each with `enc` bytes for its
            encapsulated key, which may be shorter.
        enc: Bytes of the largest encapsulated key.
    """

    head: ByteRows = dataclasses.field(repr=False)
    sealed: ByteRows = dataclasses.field(repr=False)
    enc: int

    def __len__(self) -> int:
        """Return how many reports there are."""
        return len(self.head)

    @property
    def nonces(self) -> ByteRows:
        """The reports' ids, shape `(rows, 16)`."""
        return self.head[:, :_ID]

    @property
    def ids(self) -> list[bytes]:
        """The reports' ids."""
        return strings(self.nonces)

    @property
    def times(self) -> Times:
        """The reports' times, in units of the task's time precision."""
        return np.ascontiguousarray(self.head[:, _TIME]).view(">u8").ravel().astype(np.uint64)

    @property
    def public_shares(self) -> ByteRows:
        """The public shares."""
        return self.head[:, _PUBLIC_SHARE:]

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
        rows, sizes = strings(self.sealed[:, _ENC : _ENC + self.enc]), self.enc_sizes
        if (sizes == self.enc).all():
            return rows
        return [row[:size] for row, size in zip(rows, sizes.tolist(), strict=True)]

    @property
    def payloads(self) -> ByteRows:
        """The ciphertexts with their tags."""
        return self.sealed[:, _ENC + self.enc + _U32 :]

    def between(self, first: int, end: int) -> "ShareColumns":
        """Return the reports of the rows from `first` to before `end`, without a copy."""
        return ShareColumns(self.head[first:end], self.sealed[first:end], self.enc)

    def take(self, rows: Sequence[int] | Places) -> "ShareColumns":
        """Return some of the reports; without a copy if these are all, in order."""
        if len(rows) == len(self) and np.array_equal(rows, np.arange(len(self))):
            return self
        return ShareColumns(self.head[rows], self.sealed[rows], self.enc)


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
        which = [_is_right(rows, _layout(_report_fields(sizes, *encs))) for encs in kinds]
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
            _gathered(head, rows, leader, sizes.leader_payload),
            _gathered(head, rows, helper, sizes.helper_payload),
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


@dataclasses.dataclass(frozen=True, slots=True)
class JobColumns:
    """An aggregation job, with its reports as columns.

    Attributes:
        verification_key_id: Which of the prearranged keys to verify with.
        agg_param: The VDAF's aggregation parameter, encoded.
        extensions: The job's.
        ids: The ids of all its reports, in order.
        places: The places of the reports in `shares` and `messages`; the other reports do not have
            the task's sizes.
        extended: The places of those others that have report extensions.
        shares: The Helper's shares.
        messages: The Leader's ping-pong messages, one a row; zero where one has another size.
    """

    verification_key_id: int
    agg_param: bytes
    extensions: Extensions
    ids: list[bytes] = dataclasses.field(repr=False)
    places: list[int] = dataclasses.field(repr=False)
    extended: frozenset[int]
    shares: ShareColumns
    messages: ByteRows = dataclasses.field(repr=False)


def write_job(
    verification_key_id: int,
    agg_param: bytes,
    extensions: Extensions,
    shares: ShareColumns,
    messages: ByteRows,
) -> bytes:
    """Return an encoded AggregationJobInitReq, with the Leader's ping-pong messages one a row.

    `shares` are the Helper's.
    """
    head = encode(AggregationJobInitReq(verification_key_id, agg_param, extensions, ()))
    sizes = shares.enc_sizes
    found = np.unique(sizes).tolist()
    if len(found) == 1:
        return head + _inits(shares, messages, found[0]).tobytes()
    inits = [b""] * len(shares)
    for enc in found:
        places = np.flatnonzero(sizes == enc)
        rows = strings(_inits(shares.take(places), messages[places], enc))
        for place, row in zip(places.tolist(), rows, strict=True):
            inits[place] = row
    return head + b"".join(inits)


def read_job(body: bytes, sizes: ReportSizes) -> JobColumns:
    """Return the aggregation job in a request, or raise `DecodeError`.

    One of more than `LARGEST_JOB` reports is `MessageTooLarge`.
    """
    reader = Reader(body)
    try:
        head = reader.u8(), reader.opaque32(name="agg_param"), read_increasing(reader)
        for enc in ENC_SIZES:
            rows = _equal_rows(body, reader.offset, sizes, enc)
            if rows is not None:
                ids = strings(rows[:, :_ID])
                parts = _parted(rows, sizes, enc)
                return JobColumns(*head, ids, [*range(len(ids))], frozenset(), *parts)
        inits = _read_one_by_one(reader, sizes)
    except DecodeError as error:
        error.message_name = AggregationJobInitReq.__name__
        raise
    ids = [init.report_share.report_metadata.report_id.value for init in inits]
    places = [place for place, init in enumerate(inits) if _enc_of(init)]
    enc = max((_enc_of(inits[place]) for place in places), default=min(ENC_SIZES))
    blank = bytes(sizes.verify_payload)
    fitting = [_padded(inits[place], enc, blank) for place in places]
    rows = np.frombuffer(b"".join(fitting), np.uint8).reshape(-1, sizes.verify_init(enc))
    metadata = [init.report_share.report_metadata for init in inits]
    extended = frozenset(place for place, each in enumerate(metadata) if each.public_extensions)
    return JobColumns(*head, ids, places, extended, *_parted(rows, sizes, enc))


def write_answers(
    ids: Sequence[bytes], places: Sequence[int], messages: ByteRows, errors: dict[int, int]
) -> bytes:
    """Return an encoded AggregationJobResp.

    Args:
        ids: The ids of the request's reports, in order.
        places: The places of the reports that `messages` answer, in order.
        messages: The Helper's ping-pong messages, one a row.
        errors: The report errors of all others, by their place. A report with both an error and a
            message is refused.
    """
    rows = len(messages)
    head = _repeated(_continue_head(messages.shape[1]), rows)
    nonces = np.frombuffer(b"".join([ids[place] for place in places]), np.uint8)
    answers = np.concatenate((nonces.reshape(rows, _ID), head, messages), axis=1)
    if not errors:
        return answers.tobytes()
    found = dict(zip(places, strings(answers), strict=True))
    for place, error in errors.items():
        found[place] = ids[place] + bytes((VerifyRespType.REJECT, error))
    return b"".join(found[place] for place in range(len(ids)))


def read_answers(body: bytes, ids: Sequence[bytes], size: int) -> ByteRows | None:
    """Return the Helper's ping-pong messages, of `size` bytes each, if it rejects no report.

    Args:
        body: An AggregationJobResp, perhaps.
        ids: The ids of the reports that it must answer for, in order.
        size: Bytes of a message.

    Returns:
        Shape `(reports, size)`; None if the body is anything else, which may still be valid.
    """
    head = _continue_head(size)
    width = _ID + len(head) + size
    if not ids or len(body) != len(ids) * width:
        return None
    rows = np.frombuffer(body, np.uint8).reshape(len(ids), width)
    asked = np.frombuffer(b"".join(ids), np.uint8).reshape(len(ids), _ID)
    wanted = np.concatenate((asked, _repeated(head, len(ids))), axis=1)
    is_wanted = np.array_equal(rows[:, : wanted.shape[1]], wanted)
    return rows[:, wanted.shape[1] :] if is_wanted else None


def strings(rows: ByteRows) -> list[bytes]:
    """Return the rows of an array, which are not empty, as byte strings."""
    # Items of a void type convert to bytes, all at once.
    found: list[bytes] = np.ascontiguousarray(rows).view(f"V{rows.shape[1]}").ravel().tolist()
    return found


@dataclasses.dataclass(frozen=True, slots=True)
class _Layout:
    """Which bytes of an encoding are the same in all reports of a task."""

    width: int
    fixed: Places
    content: ByteRows


@lru_cache(maxsize=1024)
def _layout(fields: tuple[int | bytes, ...]) -> _Layout:
    fixed: list[int] = []
    content = bytearray()
    width = 0
    for field in fields:
        if isinstance(field, bytes):
            fixed += range(width, width + len(field))
            content += field
        width += field if isinstance(field, int) else len(field)
    return _Layout(width, np.array(fixed, np.intp), np.frombuffer(bytes(content), np.uint8))


def _report_fields(sizes: ReportSizes, leader_enc: int, helper_enc: int) -> tuple[int | bytes, ...]:
    return (
        *_head_fields(sizes),
        *_sealed_fields(leader_enc, sizes.leader_payload),
        *_sealed_fields(helper_enc, sizes.helper_payload),
    )


def _verify_init_fields(sizes: ReportSizes, enc: int) -> tuple[int | bytes, ...]:
    sealed = _sealed_fields(enc, sizes.helper_payload)
    payload = sizes.verify_payload
    return (*_head_fields(sizes), *sealed, payload.to_bytes(_U32, "big"), payload)


def _head_fields(sizes: ReportSizes) -> _Fields:
    no_extensions = bytes(2)
    return (
        _TIME.stop,
        no_extensions + sizes.public_share.to_bytes(_U32, "big"),
        sizes.public_share,
    )


def _sealed_fields(enc: int, payload: int) -> _Fields:
    return (1, enc.to_bytes(2, "big"), enc, payload.to_bytes(_U32, "big"), payload)


def _is_right(rows: ByteRows, layout: _Layout) -> npt.NDArray[np.bool_]:
    """Return which rows have the sizes of the layout."""
    is_right: npt.NDArray[np.bool_] = (rows[:, layout.fixed] == layout.content).all(axis=1)
    return is_right


def _gathered(
    head: ByteRows,
    rows: ByteRows,
    pieces: Sequence[tuple[npt.NDArray[np.bool_], int, int]],
    payload: int,
) -> ShareColumns:
    """Return ciphertexts whose places differ between rows.

    Each piece is a layout's: its rows, where ciphertexts begin, the bytes of encapsulated keys.
    """
    enc = max((size for _, _, size in pieces), default=min(ENC_SIZES))
    width = _ENC + enc + _U32 + payload
    if len(pieces) == 1:
        start = pieces[0][1]
        return ShareColumns(head, rows[:, start : start + width], enc)
    sealed = np.zeros((len(rows), width), np.uint8)
    for of, start, size in pieces:
        end = start + _ENC + size
        sealed[of, : _ENC + size] = rows[of, start:end]
        sealed[of, _ENC + enc :] = rows[of, end : end + _U32 + payload]
    return ShareColumns(head, sealed, enc)


def _inits(shares: ShareColumns, messages: ByteRows, enc: int) -> ByteRows:
    """Return the encoded reports of a job, whose encapsulated keys all have `enc` bytes."""
    sealed = [shares.sealed]
    if enc < shares.enc:
        sealed = [shares.sealed[:, : _ENC + enc], shares.sealed[:, _ENC + shares.enc :]]
    size = _repeated(messages.shape[1].to_bytes(_U32, "big"), len(shares))
    return np.concatenate((shares.head, *sealed, size, messages), axis=1)


def _equal_rows(body: bytes, start: int, sizes: ReportSizes, enc: int) -> ByteRows | None:
    """Return the rest of a body as rows, if all reports have the task's sizes and `enc`."""
    width = sizes.verify_init(enc)
    rows, rest = divmod(len(body) - start, width)
    if rest or rows > LARGEST_JOB:
        return None
    found = np.frombuffer(body, np.uint8, offset=start) if rows else np.empty(0, np.uint8)
    found = found.reshape(rows, width)
    return found if _is_right(found, _layout(_verify_init_fields(sizes, enc))).all() else None


def _parted(rows: ByteRows, sizes: ReportSizes, enc: int) -> tuple[ShareColumns, ByteRows]:
    end = sizes.head + sizes.helper_sealed(enc)
    shares = ShareColumns(rows[:, : sizes.head], rows[:, sizes.head : end], enc)
    return shares, rows[:, end + _U32 :]


def _read_one_by_one(reader: Reader, sizes: ReportSizes) -> list[VerifyInit]:
    inits: list[VerifyInit] = []
    while reader.remaining:
        if len(inits) == LARGEST_JOB:
            raise MessageTooLarge(f"an aggregation job may have {LARGEST_JOB} reports")
        inits.append(read_verify_init(reader, sizes))
    return inits


def _enc_of(init: VerifyInit) -> int:
    """Return the bytes of a report's encapsulated key, 0 if the report has other sizes."""
    return len(init.report_share.encrypted_input_share.enc)


def _padded(init: VerifyInit, enc: int, blank: bytes) -> bytes:
    """Return a report of a job with room for an encapsulated key of `enc` bytes."""
    share = init.report_share
    end = len(encode(share.report_metadata)) + _U32 + len(share.public_share) + _ENC + _enc_of(init)
    encoded = encode(dataclasses.replace(init, payload=init.payload or blank))
    return encoded[:end] + bytes(enc - _enc_of(init)) + encoded[end:]


def _continue_head(size: int) -> bytes:
    return bytes((VerifyRespType.CONTINUE,)) + size.to_bytes(_U32, "big")


def _repeated(content: bytes, rows: int) -> ByteRows:
    return np.broadcast_to(np.frombuffer(content, np.uint8), (rows, len(content)))
