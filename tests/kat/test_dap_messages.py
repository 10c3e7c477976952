"""Every message in hexadecimal, field by field, written by hand from the draft's structures.

A mark after `#` names the field; the lengths were counted by hand, not by the code under test.
"""

import pytest

from aggregator.codec import Message, decode, encode
from aggregator.dap.extensions import Extension
from aggregator.dap.hpke import HpkeCiphertext, HpkeConfig, HpkeConfigList
from aggregator.dap.ids import BatchId, ReportId, TaskId
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
from aggregator.dap.profile import DAP_18, PROFILES, BatchMode, Profile
from aggregator.dap.report_errors import ReportError
from aggregator.dap.task import TaskConfiguration, task_extensions
from aggregator.dap.times import Interval, Time

TASK_ID = TaskId(b"T" * 32)
TASK_ID_HEX = "54" * 32
BATCH_ID = BatchId(b"B" * 32)
BATCH_ID_HEX = "42" * 32
REPORT_ID = ReportId(b"R" * 16)
REPORT_ID_HEX = "52" * 16

INTERVAL = Interval.of(54321, 12345)
INTERVAL_HEX = (
    "000000000000d431"  # start
    "0000000000003039"  # duration
)

METADATA = ReportMetadata(REPORT_ID, Time(54321))
METADATA_HEX = (
    "52525252525252525252525252525252"  # report_id
    "000000000000d431"  # time
    "0000"  # public_extensions: length
)

EXTENDED_METADATA = ReportMetadata(
    REPORT_ID, Time(2**64 - 1), (Extension(0, b"0123"), Extension(0x4142, b""))
)
EXTENDED_METADATA_HEX = (
    "52525252525252525252525252525252"  # report_id
    "ffffffffffffffff"  # time
    "000c"  # public_extensions: length
    "0000"  # extension_type
    "0004 30313233"  # extension_data: length, bytes
    "4142"  # extension_type
    "0000"  # extension_data: length
)

CIPHERTEXT = HpkeCiphertext(42, b"0123", b"4567")
CIPHERTEXT_HEX = (
    "2a"  # config_id
    "0004 30313233"  # enc: length, bytes
    "00000004 34353637"  # payload: length, bytes
)

OTHER_CIPHERTEXT = HpkeCiphertext(0, b"a", b"bc")
OTHER_CIPHERTEXT_HEX = (
    "00"  # config_id
    "0001 61"  # enc: length, bytes
    "00000002 6263"  # payload: length, bytes
)

REPORT = Report(METADATA, b"", CIPHERTEXT, OTHER_CIPHERTEXT)
REPORT_HEX = (
    METADATA_HEX  # report_metadata
    + "00000000"  # public_share: length
    + CIPHERTEXT_HEX  # leader_encrypted_input_share
    + OTHER_CIPHERTEXT_HEX  # helper_encrypted_input_share
)

SHARED_REPORT = Report(EXTENDED_METADATA, b"ab", OTHER_CIPHERTEXT, CIPHERTEXT)
SHARED_REPORT_HEX = (
    EXTENDED_METADATA_HEX  # report_metadata
    + "00000002 6162"  # public_share: length, bytes
    + OTHER_CIPHERTEXT_HEX  # leader_encrypted_input_share
    + CIPHERTEXT_HEX  # helper_encrypted_input_share
)

CONFIGURATION = TaskConfiguration(
    task_info=b"info",
    leader_aggregator_endpoint="https://l/",
    helper_aggregator_endpoint="https://h/dap",
    time_precision=3600,
    min_batch_size=10000,
    batch_mode=BatchMode.TIME_INTERVAL,
    vdaf_type=4,
    vdaf_configuration=b"\0\0\0\x08\0\0\0\x03",
    extensions=task_extensions(INTERVAL, b"dp"),
)
CONFIGURATION_HEX = (
    "04 696e666f"  # task_info: length, bytes
    "000a 68747470733a2f2f6c2f"  # leader_aggregator_endpoint: length, bytes
    "000d 68747470733a2f2f682f646170"  # helper_aggregator_endpoint: length, bytes
    "0000000000000e10"  # time_precision
    "0000000000002710"  # min_batch_size
    "01"  # batch_mode: time_interval
    "0000"  # batch_config: length
    "00000004"  # vdaf_type: Prio3Histogram
    "0008"  # vdaf_configuration: length
    "00000008"  # length
    "00000003"  # chunk_length
    "001a"  # extensions: length
    "0001"  # extension_type: task_interval
    "0010 000000000000d4310000000000003039"  # extension_data: length, interval
    "ff50"  # extension_type: our privacy policy
    "0002 6470"  # extension_data: length, bytes
)

BARE_CONFIGURATION = TaskConfiguration(
    task_info=b"i",
    leader_aggregator_endpoint="l",
    helper_aggregator_endpoint="h",
    time_precision=1,
    min_batch_size=2,
    batch_mode=BatchMode.LEADER_SELECTED,
    vdaf_type=1,
    vdaf_configuration=b"",
)
BARE_CONFIGURATION_HEX = (
    "01 69"  # task_info: length, bytes
    "0001 6c"  # leader_aggregator_endpoint: length, bytes
    "0001 68"  # helper_aggregator_endpoint: length, bytes
    "0000000000000001"  # time_precision
    "0000000000000002"  # min_batch_size
    "02"  # batch_mode: leader_selected
    "0000"  # batch_config: length
    "00000001"  # vdaf_type: Prio3Count
    "0000"  # vdaf_configuration: length
    "0000"  # extensions: length
)

REPORT_SHARE = ReportShare(METADATA, b"ab", CIPHERTEXT)
REPORT_SHARE_HEX = (
    METADATA_HEX  # report_metadata
    + "00000002 6162"  # public_share: length, bytes
    + CIPHERTEXT_HEX  # encrypted_input_share
)

VERIFY_INIT = VerifyInit(REPORT_SHARE, b"init")
VERIFY_INIT_HEX = (
    REPORT_SHARE_HEX  # report_share
    + "00000004 696e6974"  # payload: length, bytes
)

COLLECTION_JOB_REQ = CollectionJobReq(TimeIntervalQuery(INTERVAL))
COLLECTION_JOB_REQ_HEX = (
    "01"  # query: batch_mode: time_interval
    "0010 000000000000d4310000000000003039"  # query: config: length, batch_interval
    "00000000"  # agg_param: length
    "0000"  # extensions: length
)

NEXT_BATCH_REQ = CollectionJobReq(LeaderSelectedQuery(), b"pa", (Extension(7, b"x"),))
NEXT_BATCH_REQ_HEX = (
    "02"  # query: batch_mode: leader_selected
    "0000"  # query: config: length
    "00000002 7061"  # agg_param: length, bytes
    "0005"  # extensions: length
    "0007"  # extension_type
    "0001 78"  # extension_data: length, bytes
)

CHECKSUM = bytes(range(32))
CHECKSUM_HEX = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

CASES: dict[str, tuple[Message, str]] = {
    "time": (Time(54321), "000000000000d431"),
    "interval": (INTERVAL, INTERVAL_HEX),
    "hpke ciphertext": (CIPHERTEXT, CIPHERTEXT_HEX),
    "hpke config": (
        HpkeConfig(17, 0x0020, 0x0001, 0x0001, b"key"),
        (
            "11"  # id
            "0020"  # kem_id
            "0001"  # kdf_id
            "0001"  # aead_id
            "0003 6b6579"  # public_key: length, bytes
        ),
    ),
    "hpke config list": (
        HpkeConfigList(
            (
                HpkeConfig(194, 0x0010, 0x0001, 0x0001, b"\1"),
                HpkeConfig(17, 0x0020, 0x0001, 0x0003, b"\4\3"),
            )
        ),
        (
            "0015"  # length
            "c2 0010 0001 0001 0001 01"  # id, kem_id, kdf_id, aead_id, public_key: length, bytes
            "11 0020 0001 0003 0002 0403"  # id, kem_id, kdf_id, aead_id, public_key
        ),
    ),
    "report metadata": (METADATA, METADATA_HEX),
    "report metadata with extensions": (EXTENDED_METADATA, EXTENDED_METADATA_HEX),
    "report": (REPORT, REPORT_HEX),
    "report with a public share": (SHARED_REPORT, SHARED_REPORT_HEX),
    "upload request of nothing": (UploadRequest(()), ""),
    "upload request": (UploadRequest((REPORT, SHARED_REPORT)), REPORT_HEX + SHARED_REPORT_HEX),
    "upload errors": (
        UploadErrors(
            (
                ReportUploadStatus(REPORT_ID, DAP_18.code(ReportError.REPORT_REPLAYED)),
                ReportUploadStatus(ReportId(b"S" * 16), DAP_18.code(ReportError.OUTDATED_CONFIG)),
            )
        ),
        REPORT_ID_HEX  # id
        + "02"  # error
        + "53" * 16  # id
        + "0b",  # error
    ),
    "plaintext input share": (
        PlaintextInputShare((Extension(1, b"s"),), b"0123"),
        (
            "0005"  # private_extensions: length
            "0001"  # extension_type
            "0001 73"  # extension_data: length, bytes
            "00000004 30313233"  # payload: length, bytes
        ),
    ),
    "task configuration": (CONFIGURATION, CONFIGURATION_HEX),
    "task configuration without extensions": (BARE_CONFIGURATION, BARE_CONFIGURATION_HEX),
    "input share aad": (
        InputShareAad(TASK_ID, CONFIGURATION, METADATA, b"ab"),
        TASK_ID_HEX  # task_id
        + CONFIGURATION_HEX  # task_configuration
        + METADATA_HEX  # report_metadata
        + "00000002 6162",  # public_share: length, bytes
    ),
    "report share": (REPORT_SHARE, REPORT_SHARE_HEX),
    "verify init": (VERIFY_INIT, VERIFY_INIT_HEX),
    "aggregation job of a time interval": (
        AggregationJobInitReq(0, b"", (), (VERIFY_INIT, VERIFY_INIT)),
        "00"  # verification_key_id
        "00000000"  # agg_param: length
        "0000" + VERIFY_INIT_HEX + VERIFY_INIT_HEX,  # extensions: length
    ),
    "aggregation job of a leader-selected batch": (
        AggregationJobInitReq(255, b"0123", (Extension(1, BATCH_ID.value),), (VERIFY_INIT,)),
        "ff"  # verification_key_id
        "00000004 30313233"  # agg_param: length, bytes
        "0024"  # extensions: length
        "0001"  # extension_type: leader_selected_batch_id
        "0020"
        + BATCH_ID_HEX  # extension_data: length, batch id
        + VERIFY_INIT_HEX,
    ),
    "aggregation job response": (
        AggregationJobResp(
            (
                VerifyRespContinue(REPORT_ID, b"0123"),
                VerifyRespFinish(REPORT_ID),
                VerifyRespReject(REPORT_ID, DAP_18.code(ReportError.VDAF_VERIFY_ERROR)),
            )
        ),
        REPORT_ID_HEX  # report_id
        + "00"  # verify_resp_type: continue
        + "00000004 30313233"  # payload: length, bytes
        + REPORT_ID_HEX  # report_id
        + "01"  # verify_resp_type: finish
        + REPORT_ID_HEX  # report_id
        + "02"  # verify_resp_type: reject
        + "06",  # report_error: vdaf_verify_error
    ),
    "aggregation job continued": (
        AggregationJobContinueReq(0x0102, (VerifyContinue(REPORT_ID, b"0123"),)),
        "0102"  # step
        + REPORT_ID_HEX  # report_id
        + "00000004 30313233",  # payload: length, bytes
    ),
    "collection job of a time interval": (COLLECTION_JOB_REQ, COLLECTION_JOB_REQ_HEX),
    "collection job of the next batch": (NEXT_BATCH_REQ, NEXT_BATCH_REQ_HEX),
    "collection job response": (
        CollectionJobResp(10001, INTERVAL, CIPHERTEXT, OTHER_CIPHERTEXT),
        "0000000000002711"  # report_count
        + INTERVAL_HEX  # interval
        + CIPHERTEXT_HEX  # leader_encrypted_agg_share
        + OTHER_CIPHERTEXT_HEX,  # helper_encrypted_agg_share
    ),
    "aggregate share of a time interval": (
        AggregateShareReq(COLLECTION_JOB_REQ, TimeIntervalSelector(INTERVAL), 10001, CHECKSUM),
        COLLECTION_JOB_REQ_HEX  # collection_job_req
        + "01"  # batch_selector: batch_mode: time_interval
        + "0010 000000000000d4310000000000003039"  # batch_selector: config: length, interval
        + "0000000000002711"  # report_count
        + CHECKSUM_HEX,  # checksum
    ),
    "aggregate share of a leader-selected batch": (
        AggregateShareReq(NEXT_BATCH_REQ, LeaderSelectedSelector(BATCH_ID), 10001, CHECKSUM),
        NEXT_BATCH_REQ_HEX  # collection_job_req
        + "02"  # batch_selector: batch_mode: leader_selected
        + "0020"
        + BATCH_ID_HEX  # batch_selector: config: length, batch_id
        + "0000000000002711"  # report_count
        + CHECKSUM_HEX,  # checksum
    ),
    "aggregate share": (AggregateShare(CIPHERTEXT), CIPHERTEXT_HEX),
    "aggregate share aad": (
        AggregateShareAad(TASK_ID, BARE_CONFIGURATION, NEXT_BATCH_REQ),
        TASK_ID_HEX  # task_id
        + BARE_CONFIGURATION_HEX  # task_configuration
        + NEXT_BATCH_REQ_HEX,  # collection_job_req
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_message_is_written_as_the_draft_says(name: str) -> None:
    message, expected = CASES[name]
    assert encode(message) == bytes.fromhex(expected)


@pytest.mark.parametrize("name", CASES)
def test_a_message_is_read_as_the_draft_says(name: str) -> None:
    message, encoded = CASES[name]
    assert decode(type(message), bytes.fromhex(encoded)) == message


def test_every_report_error_has_its_drafts_code() -> None:
    # DAP, "Report Errors Registry", by hand, of draft 18 and of draft 19; ours of permits are none
    # of the drafts'.
    drafts = {name: each for name, each in PROFILES.items() if name.startswith("dap-")}
    assert {name: named(profile) for name, profile in drafts.items()} == {
        "dap-18": {
            "batch_collected": 0x01,
            "report_replayed": 0x02,
            "report_dropped": 0x03,
            "hpke_unknown_config_id": 0x04,
            "hpke_decrypt_error": 0x05,
            "vdaf_verify_error": 0x06,
            "task_expired": 0x07,
            "invalid_message": 0x08,
            "report_too_early": 0x09,
            "task_not_started": 0x0A,
            "outdated_config": 0x0B,
        },
        "dap-19": {
            "batch_collected": 0x01,
            "report_replayed": 0x02,
            "report_dropped": 0x03,
            "hpke_unknown_config_id": 0x04,
            "hpke_decrypt_error": 0x05,
            "vdaf_verify_error": 0x06,
            "invalid_message": 0x07,
            "report_too_early": 0x08,
            "unknown_verification_key_id": 0x09,
            "unsupported_extension": 0x0A,
        },
    }


def named(profile: Profile) -> dict[str, int]:
    ours = {error for error in profile.codes if error.name.startswith("PERMIT_")}
    assert sorted(profile.codes[error] for error in ours) == [240, 241, 242, 243]
    return {error.draft_name: code for error, code in profile.codes.items() if error not in ours}


def test_sizes_are_those_the_draft_implies_for_a_prio3_histogram_of_100() -> None:
    # 32-byte encapsulated keys and 16-byte tags; the private extensions' length and the payload's
    # add 6 bytes to each plaintext, the ping-pong message's type and length 5 to a verifier share.
    public_share, leader_share, helper_share, verifier_share = 64, 2480, 32, 416
    leader = HpkeCiphertext(1, bytes(32), bytes(6 + leader_share + 16))
    helper = HpkeCiphertext(1, bytes(32), bytes(6 + helper_share + 16))
    report = Report(METADATA, bytes(public_share), leader, helper)
    assert len(encode(report)) == 2728
    report_share = ReportShare(METADATA, bytes(public_share), helper)
    assert len(encode(VerifyInit(report_share, bytes(5 + verifier_share)))) == 612
