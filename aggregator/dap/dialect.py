"""How some peers' messages differ from the draft although they claim to follow it.

Janus has resources whose ids their creator chooses (PUT), and before 25 August 2026 it had two
messages of aggregation jobs in an older form. Nothing that is sealed, shared or verified differs.
We always store the draft's form; a dialect applies only where a message leaves or arrives.

Source: the exchanges in `tests/interop`; DAP, "Verifying and Aggregating Reports".
"""

from collections.abc import Callable
from dataclasses import dataclass

from aggregator.codec import DecodeError, Reader, Writer

# Numbers that `profile` has too; it imports this module.
_TIME_INTERVAL = 1
_LEADER_SELECTED = 2
_BATCH_ID = 0x0001

_LARGEST_SELECTOR = 1 + 2 + 32
_LENGTH = 4


@dataclass(frozen=True, slots=True)
class Framing:
    """How the two messages of an aggregation job's first step are written.

    Attributes:
        request: Converts the draft's `AggregationJobInitReq` to the peer's.
        read_request: Converts it back; raises `DecodeError`.
        answer: Converts the draft's `AggregationJobResp` to the peer's.
        read_answer: Converts it back; raises `DecodeError`.
        more: By how many bytes the peer's form may be longer.
    """

    request: Callable[[bytes], bytes]
    read_request: Callable[[bytes], bytes]
    answer: Callable[[bytes], bytes]
    read_answer: Callable[[bytes], bytes]
    more: int


def _request(drafted: bytes) -> bytes:
    reader, writer = Reader(drafted), Writer()
    writer.u8(reader.u8())
    writer.opaque32(reader.opaque32())
    extensions = Reader(reader.opaque16())
    if extensions.remaining:
        writer.u8(_LEADER_SELECTED)
        extensions.u16()  # there is only one type
        writer.opaque16(extensions.opaque16())
    else:
        writer.u8(_TIME_INTERVAL)
        writer.opaque16(b"")
    writer.opaque32(reader.fixed(reader.remaining))
    return writer.getvalue()


def _read_request(received: bytes) -> bytes:
    reader, writer = Reader(received), Writer()
    writer.u8(reader.u8())
    writer.opaque32(reader.opaque32())
    mode, batch_id = reader.u8(), reader.opaque16(name="batch id")
    extension = Writer()
    if mode == _LEADER_SELECTED:
        extension.u16(_BATCH_ID)
        extension.opaque16(batch_id)
    elif mode != _TIME_INTERVAL or batch_id:
        raise DecodeError(f"batch mode {mode} with {len(batch_id)} bytes of a batch id")
    writer.opaque16(extension.getvalue())
    writer.raw(reader.opaque32(name="verify_inits"))
    reader.finish()
    return writer.getvalue()


def _answer(drafted: bytes) -> bytes:
    writer = Writer()
    writer.opaque32(drafted)
    return writer.getvalue()


def _read_answer(received: bytes) -> bytes:
    reader = Reader(received)
    drafted = reader.opaque32(name="verify_resps")
    reader.finish()
    return drafted


def _as_it_is(message: bytes) -> bytes:
    return message


AS_DRAFTED = Framing(_as_it_is, _as_it_is, _as_it_is, _as_it_is, more=0)
"""The draft's own."""

WITH_LENGTHS = Framing(
    _request, _read_request, _answer, _read_answer, more=_LARGEST_SELECTOR + _LENGTH
)
"""A `PartialBatchSelector` in place of extensions, and lengths before lists of reports."""
