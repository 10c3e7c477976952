"""Every message: what is written is read back; nothing else is read; nothing else is raised."""

from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from aggregator.codec import DecodeError, Message, decode, encode
from aggregator.dap.extensions import Extension
from aggregator.dap.hpke import HpkeCiphertext
from aggregator.dap.ids import ReportId, decode_base64url, encode_base64url
from aggregator.dap.messages import (
    AggregationJobContinueReq,
    AggregationJobInitReq,
    AggregationJobResp,
    Report,
    ReportMetadata,
    ReportShare,
    UploadErrors,
    UploadRequest,
    VerifyInit,
)
from aggregator.dap.resources import message_of
from aggregator.dap.times import Time
from tests.support.dap_messages import SAMPLE_NAMES, SAMPLES

KINDS: Sequence[type[Message]] = sorted({type(sample) for sample in SAMPLES}, key=str)
TO_THE_END = (
    UploadRequest,
    UploadErrors,
    AggregationJobInitReq,
    AggregationJobResp,
    AggregationJobContinueReq,
)

U64 = st.integers(0, 2**64 - 1)
EXTENSIONS = st.lists(
    st.builds(Extension, st.integers(0, 2**16 - 1), st.binary(max_size=20)), max_size=4
).map(tuple)
METADATA = st.builds(
    ReportMetadata,
    st.binary(min_size=16, max_size=16).map(ReportId),
    U64.map(Time),
    EXTENSIONS,
)
CIPHERTEXTS = st.builds(
    HpkeCiphertext,
    st.integers(0, 255),
    st.binary(min_size=1, max_size=40),
    st.binary(min_size=1, max_size=200),
)
REPORTS = st.builds(Report, METADATA, st.binary(max_size=80), CIPHERTEXTS, CIPHERTEXTS)
VERIFY_INITS = st.builds(
    VerifyInit,
    st.builds(ReportShare, METADATA, st.binary(max_size=80), CIPHERTEXTS),
    st.binary(min_size=1, max_size=80),
)


@pytest.mark.parametrize("sample", SAMPLES, ids=SAMPLE_NAMES)
def test_every_message_comes_back_as_it_was(sample: Message) -> None:
    assert decode(type(sample), encode(sample)) == sample


@given(st.lists(REPORTS, max_size=4).map(tuple))
@settings(deadline=None)
def test_any_upload_comes_back_as_it_was(reports: tuple[Report, ...]) -> None:
    request = UploadRequest(reports)
    data = encode(request)
    assert decode(UploadRequest, data) == request
    assert b"".join(encode(report) for report in reports) == data


@given(st.integers(0, 255), st.binary(max_size=9), st.lists(VERIFY_INITS, max_size=4).map(tuple))
@settings(deadline=None)
def test_any_aggregation_job_comes_back_as_it_was(
    key_id: int, agg_param: bytes, verify_inits: tuple[VerifyInit, ...]
) -> None:
    request = AggregationJobInitReq(key_id, agg_param, (), verify_inits)
    assert decode(AggregationJobInitReq, encode(request)) == request


@pytest.mark.parametrize("sample", SAMPLES, ids=SAMPLE_NAMES)
def test_a_message_cut_anywhere_is_refused_or_ends_a_list_to_the_end(sample: Message) -> None:
    data = encode(sample)
    for size in range(len(data)):
        try:
            shorter = decode(type(sample), data[:size])
        except DecodeError:
            continue
        # Only a list without a length can end early, and then it is the encoding of what was read.
        assert isinstance(sample, TO_THE_END)
        assert encode(shorter) == data[:size]


@pytest.mark.parametrize("sample", SAMPLES, ids=SAMPLE_NAMES)
def test_an_extra_byte_is_refused(sample: Message) -> None:
    for extra in (b"\0", b"\xff"):
        with pytest.raises(DecodeError):
            decode(type(sample), encode(sample) + extra)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@given(data=st.binary(max_size=200))
@example(data=b"")
@example(data=b"\xff" * 200)
@example(data=bytes(200))
@settings(deadline=None)
def test_junk_is_refused_with_a_decode_error_or_is_an_encoding(
    kind: type[Message], data: bytes
) -> None:
    try:
        value = decode(kind, data)
    except DecodeError:
        return
    assert encode(value) == data


@pytest.mark.parametrize("sample", SAMPLES, ids=SAMPLE_NAMES)
@given(data=st.data())
@settings(deadline=None)
def test_a_message_with_a_byte_changed_is_refused_or_is_another(
    sample: Message, data: st.DataObject
) -> None:
    encoded = bytearray(encode(sample))
    index = data.draw(st.integers(0, len(encoded) - 1))
    encoded[index] ^= data.draw(st.integers(1, 255))
    try:
        changed = decode(type(sample), encoded)
    except DecodeError:
        return
    assert changed != sample
    assert encode(changed) == encoded


@given(st.binary(max_size=70))
def test_base64url_comes_back_as_it_was(data: bytes) -> None:
    assert decode_base64url(encode_base64url(data)) == data


@given(st.text(max_size=20))
def test_text_is_refused_or_is_what_base64url_gives(text: str) -> None:
    try:
        data = decode_base64url(text)
    except DecodeError:
        return
    assert encode_base64url(data) == text


@given(st.text(max_size=30))
def test_any_header_is_read_without_an_error(text: str) -> None:
    assert message_of(text) is None
    assert message_of("application/ppm-dap;" + text) != ""
