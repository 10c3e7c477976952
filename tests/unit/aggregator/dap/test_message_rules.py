"""What single messages refuse, and how they keep secrets."""

import pytest

from aggregator.codec import DecodeError, decode, encode
from aggregator.dap.extensions import Extension
from aggregator.dap.messages import (
    AggregateShareAad,
    AggregateShareReq,
    AggregationJobContinueReq,
    AggregationJobResp,
    CollectionJobReq,
    InputShareAad,
    InvalidBatchInterval,
    PlaintextInputShare,
    Report,
    ReportMetadata,
    ReportUploadStatus,
    TimeIntervalSelector,
    UploadErrors,
    UploadRequest,
    VerifyRespReject,
    aggregate_share_aad,
    input_share_aad,
    input_share_aad_prefix,
)
from aggregator.dap.problems import BatchInvalid, as_problem
from aggregator.errors import ParameterError
from tests.support.dap_messages import (
    COLLECTION_JOB_REQ,
    EXTENDED_METADATA,
    INTERVAL,
    METADATA,
    REPORT,
    REPORT_ID,
    TASK_CONFIGURATION,
    TASK_ID,
)


@pytest.mark.parametrize("metadata", [METADATA, EXTENDED_METADATA])
@pytest.mark.parametrize("public_share", [b"", b"public"])
def test_the_fast_associated_data_of_a_report_equals_the_structs(
    metadata: ReportMetadata, public_share: bytes
) -> None:
    prefix = input_share_aad_prefix(TASK_ID, encode(TASK_CONFIGURATION))
    slow = encode(InputShareAad(TASK_ID, TASK_CONFIGURATION, metadata, public_share))
    assert input_share_aad(prefix, metadata, public_share) == slow


def test_the_fast_associated_data_of_an_aggregate_share_equals_the_structs() -> None:
    slow = encode(AggregateShareAad(TASK_ID, TASK_CONFIGURATION, COLLECTION_JOB_REQ))
    request = encode(COLLECTION_JOB_REQ)
    assert aggregate_share_aad(TASK_ID, encode(TASK_CONFIGURATION), request) == slow


def test_an_empty_upload_is_an_upload_of_no_reports() -> None:
    assert decode(UploadRequest, b"").reports == ()


def test_a_secret_share_is_not_in_the_repr() -> None:
    share = PlaintextInputShare((Extension(1, b"client secret"),), b"the input share")
    assert repr(share) == "PlaintextInputShare()"


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (b"\0\4enc1", b"\0\0", "enc must not be empty"),
        (b"\0\0\0\x0chelper share", b"\0\0\0\0", "payload must be 1 to 4294967295"),
        (b"\0\0\0\6public", b"\xff\xff\xff\xffpublic", "4294967295 bytes expected"),
    ],
)
def test_a_report_with_an_impossible_length_is_refused(old: bytes, new: bytes, reason: str) -> None:
    encoded = encode(REPORT)
    assert encoded.count(old) == 1
    with pytest.raises(DecodeError, match=reason):
        decode(Report, encoded.replace(old, new))


@pytest.mark.parametrize("code", [12, 255])
def test_an_answer_with_a_later_drafts_report_error_is_read(code: int) -> None:
    """One report is refused for a reason that we do not know; what is said of others holds."""
    status = REPORT_ID.value + bytes([code])
    (refused,) = decode(UploadErrors, status).status
    assert refused == ReportUploadStatus(REPORT_ID, code)
    answer = REPORT_ID.value + bytes([2, code])
    (only,) = decode(AggregationJobResp, answer).verify_resps
    assert only == VerifyRespReject(REPORT_ID, code)
    assert (encode(refused), encode(only)) == (status, answer)


def test_no_report_error_has_the_reserved_number() -> None:
    for message, head in ((UploadErrors, b""), (AggregationJobResp, b"\x02")):
        with pytest.raises(DecodeError, match="0 is not a report error"):
            decode(message, REPORT_ID.value + head + b"\0")


def test_an_answer_of_no_known_type_is_refused() -> None:
    with pytest.raises(DecodeError, match="3 is not a type of verification response"):
        decode(AggregationJobResp, REPORT_ID.value + b"\3")


def test_a_job_is_not_continued_to_step_zero() -> None:
    with pytest.raises(DecodeError, match="step must be 1 to 65535, not 0"):
        decode(AggregationJobContinueReq, b"\0\0")


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("000000", "0 is not a batch mode"),
        ("01000f" + "00" * 15, "config of a time-interval batch must be 16 to 16"),
        ("02000100", "Query.config must be 0 to 0 bytes long, not 1"),
    ],
)
def test_a_malformed_query_is_refused(query: str, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason):
        decode(CollectionJobReq, bytes.fromhex(query + "000000000000"))


def test_a_query_that_ends_after_the_last_time_determines_no_batch() -> None:
    data = bytes.fromhex("010010" + "ff" * 16 + "000000000000")
    with pytest.raises(InvalidBatchInterval) as raised:
        decode(CollectionJobReq, data)
    assert as_problem(raised.value).type_uri == BatchInvalid.type_uri


def test_a_selector_of_a_batch_id_of_another_size_is_refused() -> None:
    data = encode(COLLECTION_JOB_REQ) + bytes.fromhex("02001f") + bytes(31 + 8 + 32)
    with pytest.raises(DecodeError, match=r"BatchSelector\.config must be 32 to 32 .* not 31"):
        decode(AggregateShareReq, data)


def test_a_checksum_of_another_size_is_not_sent() -> None:
    request = AggregateShareReq(COLLECTION_JOB_REQ, TimeIntervalSelector(INTERVAL), 1, bytes(31))
    with pytest.raises(ParameterError, match="checksum must be 32 bytes long, not 31"):
        encode(request)
