"""An aggregation job and its answer as arrays, a report in each row.

Reports of other sizes than the task's are left to the readers in `sized` and `aggregation`.

Source: DAP, "Aggregate Initialization".
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from aggregator.codec import DecodeError, Reader, encode
from aggregator.dap.extensions import Extensions, read_increasing
from aggregator.dap.hpke_suites import ENC_SIZES
from aggregator.dap.messages.aggregation import (
    AggregationJobInitReq,
    ReportShare,
    VerifyInit,
    VerifyRespType,
)
from aggregator.dap.messages.byte_rows import (
    ENC_START,
    ID,
    U32,
    ByteRows,
    init_layout,
    repeated,
    strings,
)
from aggregator.dap.messages.columns import ShareColumns
from aggregator.dap.messages.sized import LARGEST_JOB, ReportSizes, is_bare, read_verify_init
from aggregator.dap.problems import MessageTooLarge


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
        extended: The places of those others that have public report extensions.
        bare: The places of those others that lack the public extension of the task's reports.
        longer: Of those others, by their places, the Helper's shares that are only longer.
        shares: The Helper's shares.
        messages: The Leader's ping-pong messages, one a row; zero where one has another size.
    """

    verification_key_id: int
    agg_param: bytes
    extensions: Extensions
    ids: list[bytes] = dataclasses.field(repr=False)
    places: list[int] = dataclasses.field(repr=False)
    extended: frozenset[int]
    bare: frozenset[int]
    longer: Mapping[int, ReportShare]
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
    reader, none = Reader(body), frozenset[int]()
    try:
        head = reader.u8(), reader.opaque32(name="agg_param"), read_increasing(reader)
        for enc in ENC_SIZES:
            rows = _equal_rows(body, reader.offset, sizes, enc)
            if rows is not None:
                ids = strings(rows[:, :ID])
                parts = _parted(rows, sizes, enc)
                return JobColumns(*head, ids, [*range(len(ids))], none, none, {}, *parts)
        inits, bare = _read_one_by_one(reader, sizes)
    except DecodeError as error:
        error.message_name = AggregationJobInitReq.__name__
        raise
    ids = [init.report_share.report_metadata.report_id.value for init in inits]
    fits = [
        len(init.report_share.encrypted_input_share.payload) == sizes.helper_payload
        for init in inits
    ]
    places = [place for place, is_fitting in enumerate(fits) if is_fitting]
    enc = max((_enc_of(inits[place]) for place in places), default=min(ENC_SIZES))
    blank = bytes(sizes.verify_payload)
    fitting = [_padded(inits[place], enc, blank) for place in places]
    rows = np.frombuffer(b"".join(fitting), np.uint8).reshape(-1, sizes.verify_init(enc))
    extended = frozenset(
        place
        for place, init in enumerate(inits)
        if init.report_share.report_metadata.public_extensions and not _enc_of(init)
    )
    longer = {
        place: init.report_share
        for place, init in enumerate(inits)
        if _enc_of(init) and not fits[place]
    }
    return JobColumns(*head, ids, places, extended, bare, longer, *_parted(rows, sizes, enc))


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
    head = repeated(_continue_head(messages.shape[1]), rows)
    nonces = np.frombuffer(b"".join([ids[place] for place in places]), np.uint8)
    answers = np.concatenate((nonces.reshape(rows, ID), head, messages), axis=1)
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
    width = ID + len(head) + size
    if not ids or len(body) != len(ids) * width:
        return None
    rows = np.frombuffer(body, np.uint8).reshape(len(ids), width)
    asked = np.frombuffer(b"".join(ids), np.uint8).reshape(len(ids), ID)
    wanted = np.concatenate((asked, repeated(head, len(ids))), axis=1)
    is_wanted = np.array_equal(rows[:, : wanted.shape[1]], wanted)
    return rows[:, wanted.shape[1] :] if is_wanted else None


def _inits(shares: ShareColumns, messages: ByteRows, enc: int) -> ByteRows:
    """Return the encoded reports of a job, whose encapsulated keys all have `enc` bytes."""
    sealed = [shares.sealed]
    if enc < shares.enc:
        sealed = [shares.sealed[:, : ENC_START + enc], shares.sealed[:, ENC_START + shares.enc :]]
    size = repeated(messages.shape[1].to_bytes(U32, "big"), len(shares))
    return np.concatenate((shares.head, *sealed, size, messages), axis=1)


def _equal_rows(body: bytes, start: int, sizes: ReportSizes, enc: int) -> ByteRows | None:
    """Return the rest of a body as rows, if all reports have the task's sizes and `enc`."""
    width = sizes.verify_init(enc)
    rows, rest = divmod(len(body) - start, width)
    if rest or rows > LARGEST_JOB:
        return None
    found = np.frombuffer(body, np.uint8, offset=start) if rows else np.empty(0, np.uint8)
    found = found.reshape(rows, width)
    return found if init_layout(sizes, enc).fits(found).all() else None


def _parted(rows: ByteRows, sizes: ReportSizes, enc: int) -> tuple[ShareColumns, ByteRows]:
    end = sizes.head + sizes.helper_sealed(enc)
    head, sealed = rows[:, : sizes.head], rows[:, sizes.head : end]
    shares = ShareColumns(head, sealed, enc, sizes.extension)
    return shares, rows[:, end + U32 :]


def _read_one_by_one(reader: Reader, sizes: ReportSizes) -> tuple[list[VerifyInit], frozenset[int]]:
    """Return a job's reports, and the places of those that lack the public extension."""
    inits: list[VerifyInit] = []
    bare: set[int] = set()
    while reader.remaining:
        if len(inits) == LARGEST_JOB:
            raise MessageTooLarge(f"an aggregation job may have {LARGEST_JOB} reports")
        if is_bare(reader, sizes):
            bare.add(len(inits))
        inits.append(read_verify_init(reader, sizes))
    return inits, frozenset(bare)


def _enc_of(init: VerifyInit) -> int:
    """Return the bytes of a report's encapsulated key, 0 if the report has other sizes."""
    return len(init.report_share.encrypted_input_share.enc)


def _padded(init: VerifyInit, enc: int, blank: bytes) -> bytes:
    """Return a report of a job with room for an encapsulated key of `enc` bytes."""
    share = init.report_share
    enc_start = len(encode(share.report_metadata)) + U32 + len(share.public_share) + ENC_START
    end = enc_start + _enc_of(init)
    encoded = encode(dataclasses.replace(init, payload=init.payload or blank))
    return encoded[:end] + bytes(enc - _enc_of(init)) + encoded[end:]


def _continue_head(size: int) -> bytes:
    return bytes((VerifyRespType.CONTINUE,)) + size.to_bytes(U32, "big")
