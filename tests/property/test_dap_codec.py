"""Every message: what is written is read back; nothing else is read; nothing else is raised."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from aggregator.codec import DecodeError, Message, decode, encode
from aggregator.dap.extensions import Extension
from aggregator.dap.hpke import HpkeCiphertext, HpkeConfig, HpkeConfigList
from aggregator.dap.ids import BatchId, ReportId, TaskId, decode_base64url, encode_base64url
from aggregator.dap.messages import (
    AggregateShare,
    AggregateShareAad,
    AggregateShareReq,
    AggregationJobContinueReq,
    AggregationJobInitReq,
    AggregationJobResp,
    CollectionJobReq,
    CollectionJobResp,
    InputShareAad,
    LeaderSelectedQuery,
    LeaderSelectedSelector,
    PlaintextInputShare,
    Report,
    ReportMetadata,
    ReportShare,
    ReportUploadStatus,
    TimeIntervalQuery,
    TimeIntervalSelector,
    UploadErrors,
    UploadRequest,
    VerifyContinue,
    VerifyInit,
    VerifyRespContinue,
    VerifyRespFinish,
    VerifyRespReject,
)
from aggregator.dap.profile import DAP_18, BatchMode
from aggregator.dap.resources import message_of
from aggregator.dap.task import TaskConfiguration, task_extensions
from aggregator.dap.times import Interval, Time
from tests.support.dap_messages import SAMPLE_NAMES, SAMPLES

T = TypeVar("T")
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


INTERVALS = (
    st.tuples(U64, U64).filter(lambda pair: sum(pair) < 2**64).map(lambda p: Interval.of(*p))
)
INCREASING = st.dictionaries(st.integers(0, 2**16 - 1), st.binary(max_size=20), max_size=4).map(
    lambda data: tuple(Extension(kind, data[kind]) for kind in sorted(data))
)
CONFIGS = st.builds(
    HpkeConfig,
    st.integers(0, 255),
    *[st.integers(0, 2**16 - 1)] * 3,
    st.binary(min_size=1, max_size=40),
)
URLS = st.from_regex(r"https://[a-z.]{1,9}/", fullmatch=True)
TASK_CONFIGURATIONS = st.builds(
    TaskConfiguration,
    task_info=st.binary(min_size=1, max_size=255),
    leader_aggregator_endpoint=URLS,
    helper_aggregator_endpoint=URLS,
    time_precision=st.integers(1, 2**64 - 1),
    min_batch_size=U64,
    batch_mode=st.sampled_from(BatchMode),
    vdaf_type=st.integers(0, 2**32 - 1),
    vdaf_configuration=st.binary(max_size=40),
    extensions=st.builds(
        task_extensions, st.none() | INTERVALS, st.none() | st.binary(max_size=40)
    ),
)
COLLECTION_JOB_REQS = st.builds(
    CollectionJobReq,
    st.builds(TimeIntervalQuery, INTERVALS) | st.just(LeaderSelectedQuery()),
    st.binary(max_size=9),
    INCREASING,
)
REPORT_IDS = st.binary(min_size=16, max_size=16).map(ReportId)
TASK_IDS = st.binary(min_size=32, max_size=32).map(TaskId)
PAYLOADS = st.binary(min_size=1, max_size=80)
ERRORS = st.sampled_from(sorted(DAP_18.codes.values()))
VERIFY_RESPS = st.one_of(
    st.builds(VerifyRespContinue, REPORT_IDS, PAYLOADS),
    st.builds(VerifyRespFinish, REPORT_IDS),
    st.builds(VerifyRespReject, REPORT_IDS, ERRORS),
)


def some(items: st.SearchStrategy[T]) -> st.SearchStrategy[tuple[T, ...]]:
    return st.lists(items, max_size=4).map(tuple)


MESSAGES: Mapping[type[Message], st.SearchStrategy[Message]] = {
    TaskConfiguration: TASK_CONFIGURATIONS,
    HpkeConfigList: st.builds(
        HpkeConfigList,
        st.lists(CONFIGS, min_size=1, max_size=4, unique_by=lambda each: each.id).map(tuple),
    ),
    UploadRequest: st.builds(UploadRequest, some(REPORTS)),
    UploadErrors: st.builds(UploadErrors, some(st.builds(ReportUploadStatus, REPORT_IDS, ERRORS))),
    PlaintextInputShare: st.builds(PlaintextInputShare, EXTENSIONS, PAYLOADS),
    InputShareAad: st.builds(
        InputShareAad, TASK_IDS, TASK_CONFIGURATIONS, METADATA, st.binary(max_size=80)
    ),
    AggregationJobInitReq: st.builds(
        AggregationJobInitReq,
        st.integers(0, 255),
        st.binary(max_size=9),
        INCREASING,
        some(VERIFY_INITS),
    ),
    AggregationJobResp: st.builds(AggregationJobResp, some(VERIFY_RESPS)),
    AggregationJobContinueReq: st.builds(
        AggregationJobContinueReq,
        st.integers(1, 2**16 - 1),
        some(st.builds(VerifyContinue, REPORT_IDS, PAYLOADS)),
    ),
    CollectionJobReq: COLLECTION_JOB_REQS,
    CollectionJobResp: st.builds(CollectionJobResp, U64, INTERVALS, CIPHERTEXTS, CIPHERTEXTS),
    AggregateShareReq: st.builds(
        AggregateShareReq,
        COLLECTION_JOB_REQS,
        st.builds(TimeIntervalSelector, INTERVALS)
        | st.builds(LeaderSelectedSelector, st.binary(min_size=32, max_size=32).map(BatchId)),
        U64,
        st.binary(min_size=32, max_size=32),
    ),
    AggregateShare: st.builds(AggregateShare, CIPHERTEXTS),
    AggregateShareAad: st.builds(
        AggregateShareAad, TASK_IDS, TASK_CONFIGURATIONS, COLLECTION_JOB_REQS
    ),
}
"""Any value of each message that is a whole body, a plaintext or associated data."""


@pytest.mark.parametrize("sample", SAMPLES, ids=SAMPLE_NAMES)
def test_every_message_comes_back_as_it_was(sample: Message) -> None:
    assert decode(type(sample), encode(sample)) == sample


def test_every_message_with_a_media_type_is_among_them() -> None:
    assert {kind for kind in KINDS if hasattr(kind, "message")} <= MESSAGES.keys()


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
@given(data=st.data())
@settings(deadline=None)
def test_any_message_comes_back_as_it_was(kind: type[Message], data: st.DataObject) -> None:
    value = data.draw(MESSAGES[kind])
    assert decode(kind, encode(value)) == value


@given(some(REPORTS))
@settings(deadline=None)
def test_an_upload_is_its_reports_one_after_another(reports: tuple[Report, ...]) -> None:
    assert encode(UploadRequest(reports)) == b"".join(encode(report) for report in reports)


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
