"""Samples of every DAP message."""

from aggregator.codec import Message
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
from aggregator.dap.profile import DAP_18, BatchMode
from aggregator.dap.report_errors import ReportError
from aggregator.dap.task import TaskConfiguration, task_extensions
from aggregator.dap.times import Duration, Interval, Time

TASK_ID = TaskId(bytes(range(32)))
BATCH_ID = BatchId(bytes(range(32, 64)))
REPORT_ID = ReportId(bytes(range(16)))
OTHER_REPORT_ID = ReportId(bytes(range(16, 32)))
INTERVAL = Interval.of(1000, 24)

TASK_CONFIGURATION = TaskConfiguration(
    task_info=b"smoking",
    leader_aggregator_endpoint="https://leader.example/dap/",
    helper_aggregator_endpoint="https://helper.example/",
    time_precision=3600,
    min_batch_size=100,
    batch_mode=BatchMode.TIME_INTERVAL,
    vdaf_type=4,
    vdaf_configuration=bytes.fromhex("0000000800000003"),
    extensions=task_extensions(INTERVAL, b"policy"),
)

METADATA = ReportMetadata(REPORT_ID, Time(1010))
EXTENDED_METADATA = ReportMetadata(
    OTHER_REPORT_ID, Time(1011), (Extension(3, b""), Extension(17, b"data"))
)
LEADER_CIPHERTEXT = HpkeCiphertext(10, b"enc1", b"leader share")
HELPER_CIPHERTEXT = HpkeCiphertext(11, b"enc2", b"helper share")
REPORT = Report(METADATA, b"public", LEADER_CIPHERTEXT, HELPER_CIPHERTEXT)
EXTENDED_REPORT = Report(EXTENDED_METADATA, b"", LEADER_CIPHERTEXT, HELPER_CIPHERTEXT)
REPORT_SHARE = ReportShare(METADATA, b"public", HELPER_CIPHERTEXT)
COLLECTION_JOB_REQ = CollectionJobReq(TimeIntervalQuery(INTERVAL))
HPKE_CONFIG = HpkeConfig(7, 0x0020, 0x0001, 0x0001, bytes(range(32)))

SAMPLES: tuple[Message, ...] = (
    TASK_ID,
    REPORT_ID,
    BATCH_ID,
    Time(5),
    Duration(6),
    INTERVAL,
    TASK_CONFIGURATION,
    HPKE_CONFIG,
    HpkeConfigList((HPKE_CONFIG, HpkeConfig(8, 0x0010, 0x0001, 0x0003, b"a P-256 point"))),
    LEADER_CIPHERTEXT,
    METADATA,
    EXTENDED_METADATA,
    REPORT,
    EXTENDED_REPORT,
    UploadRequest((REPORT, EXTENDED_REPORT)),
    PlaintextInputShare((Extension(1, b"secret"),), b"input share"),
    InputShareAad(TASK_ID, TASK_CONFIGURATION, EXTENDED_METADATA, b"public"),
    UploadErrors(
        (
            ReportUploadStatus(REPORT_ID, DAP_18.code(ReportError.REPORT_REPLAYED)),
            ReportUploadStatus(OTHER_REPORT_ID, DAP_18.code(ReportError.OUTDATED_CONFIG)),
        )
    ),
    REPORT_SHARE,
    VerifyInit(REPORT_SHARE, b"initialize"),
    AggregationJobInitReq(
        0, b"", (Extension(1, BATCH_ID.value),), (VerifyInit(REPORT_SHARE, b"initialize"),) * 2
    ),
    AggregationJobResp(
        (
            VerifyRespContinue(REPORT_ID, b"finish"),
            VerifyRespFinish(REPORT_ID),
            VerifyRespReject(OTHER_REPORT_ID, DAP_18.code(ReportError.VDAF_VERIFY_ERROR)),
        )
    ),
    AggregationJobContinueReq(1, (VerifyContinue(REPORT_ID, b"continue"),)),
    COLLECTION_JOB_REQ,
    CollectionJobReq(LeaderSelectedQuery(), b"param", (Extension(5, b"x"),)),
    CollectionJobResp(120, INTERVAL, LEADER_CIPHERTEXT, HELPER_CIPHERTEXT),
    AggregateShareReq(COLLECTION_JOB_REQ, TimeIntervalSelector(INTERVAL), 120, bytes(32)),
    AggregateShareReq(
        CollectionJobReq(LeaderSelectedQuery()), LeaderSelectedSelector(BATCH_ID), 120, bytes(32)
    ),
    AggregateShare(HELPER_CIPHERTEXT),
    AggregateShareAad(TASK_ID, TASK_CONFIGURATION, COLLECTION_JOB_REQ),
)
"""At least one of every message, with every list empty in one and not in another."""

SAMPLE_NAMES = tuple(f"{type(sample).__name__}-{i}" for i, sample in enumerate(SAMPLES))
"""A name for each sample, to name a test case by."""
