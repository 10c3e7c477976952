"""The collection interaction: from the Collector to the Leader, and from the Leader to the Helper.

Source: DAP, "Collecting Results" and "Batch Modes"; draft-thomson-ppm-dap-attribution.
"""

from dataclasses import dataclass
from typing import ClassVar, Self

from aggregator.codec import DecodeError, Reader, Writer, decode, encode
from aggregator.dap.extensions import Extensions, read_collection_extensions, write_extensions
from aggregator.dap.hpke import HpkeCiphertext
from aggregator.dap.ids import BatchId, TaskId
from aggregator.dap.problems import BatchInvalid
from aggregator.dap.profile import BatchMode
from aggregator.dap.task import TaskConfiguration, read_batch_mode
from aggregator.dap.times import Interval, IntervalOverflow

CHECKSUM_SIZE = 32
"""Bytes of the XOR of SHA-256 digests of report ids."""


class InvalidBatchInterval(BatchInvalid, DecodeError):
    """A query or selector whose interval is not well-formed, and so determines no batch."""


@dataclass(frozen=True, slots=True)
class TimeIntervalQuery:
    """Asks for the reports of an interval; `protocol` refuses a duration of zero."""

    batch_mode: ClassVar[BatchMode] = BatchMode.TIME_INTERVAL
    batch_interval: Interval

    def write(self, writer: Writer) -> None:
        """Append mode and interval."""
        writer.u8(self.batch_mode)
        writer.opaque16(encode(self.batch_interval))


@dataclass(frozen=True, slots=True)
class LeaderSelectedQuery:
    """Asks for the next batch that the Leader has."""

    batch_mode: ClassVar[BatchMode] = BatchMode.LEADER_SELECTED

    def write(self, writer: Writer) -> None:
        """Append the mode."""
        writer.u8(self.batch_mode)
        writer.opaque16(b"")


@dataclass(frozen=True, slots=True)
class CollectorSelectedQuery:
    """Asks for the reports that are uploaded below the collection job."""

    batch_mode: ClassVar[BatchMode] = BatchMode.COLLECTOR_SELECTED

    def write(self, writer: Writer) -> None:
        """Append the mode."""
        writer.u8(self.batch_mode)
        writer.opaque16(b"")


Query = TimeIntervalQuery | LeaderSelectedQuery | CollectorSelectedQuery
"""Which batch the Collector asks for."""


def read_query(reader: Reader) -> Query:
    """Take a query, or raise `DecodeError`: `InvalidBatchInterval` if its interval is malformed."""
    match read_batch_mode(reader):
        case BatchMode.TIME_INTERVAL:
            return TimeIntervalQuery(_read_batch_interval(reader))
        case BatchMode.LEADER_SELECTED:
            reader.opaque16(maximum=0, name="Query.config")
            return LeaderSelectedQuery()
        case BatchMode.COLLECTOR_SELECTED:
            reader.opaque16(maximum=0, name="Query.config")
            return CollectorSelectedQuery()


@dataclass(frozen=True, slots=True)
class TimeIntervalSelector:
    """Selects the reports of an interval."""

    batch_mode: ClassVar[BatchMode] = BatchMode.TIME_INTERVAL
    batch_interval: Interval

    def write(self, writer: Writer) -> None:
        """Append mode and interval."""
        writer.u8(self.batch_mode)
        writer.opaque16(encode(self.batch_interval))


@dataclass(frozen=True, slots=True)
class LeaderSelectedSelector:
    """Selects a batch that the Leader made."""

    batch_mode: ClassVar[BatchMode] = BatchMode.LEADER_SELECTED
    batch_id: BatchId

    def write(self, writer: Writer) -> None:
        """Append mode and batch id."""
        writer.u8(self.batch_mode)
        writer.opaque16(self.batch_id.value)


@dataclass(frozen=True, slots=True)
class CollectorSelectedSelector:
    """Selects the batch of a collection job."""

    batch_mode: ClassVar[BatchMode] = BatchMode.COLLECTOR_SELECTED
    batch_id: BatchId

    def write(self, writer: Writer) -> None:
        """Append mode and batch id."""
        writer.u8(self.batch_mode)
        writer.opaque16(self.batch_id.value)


BatchSelector = TimeIntervalSelector | LeaderSelectedSelector | CollectorSelectedSelector
"""The batch of which the Leader asks for the Helper's share."""


def read_batch_selector(reader: Reader) -> BatchSelector:
    """Take a selector; raises what `read_query` raises."""
    match read_batch_mode(reader):
        case BatchMode.TIME_INTERVAL:
            return TimeIntervalSelector(_read_batch_interval(reader))
        case BatchMode.LEADER_SELECTED:
            return LeaderSelectedSelector(_read_batch_id(reader))
        case BatchMode.COLLECTOR_SELECTED:
            return CollectorSelectedSelector(_read_batch_id(reader))


@dataclass(frozen=True, slots=True)
class CollectionJobReq:
    """The Collector's request; `agg_param` is empty for Prio3."""

    message: ClassVar[str] = "collection-job-req"
    query: Query
    agg_param: bytes = b""
    extensions: Extensions = ()

    def write(self, writer: Writer) -> None:
        """Append the request."""
        self.query.write(writer)
        writer.opaque32(self.agg_param, name="agg_param")
        write_extensions(writer, self.extensions)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Take the request."""
        return cls(
            read_query(reader),
            reader.opaque32(name="agg_param"),
            read_collection_extensions(reader),
        )


@dataclass(frozen=True, slots=True)
class CollectionJobResp:
    """Both aggregate shares of a batch, sealed to the Collector.

    How many reports it has, and the smallest interval of their times, are the Leader's word only.
    """

    message: ClassVar[str] = "collection-job-resp"
    report_count: int
    interval: Interval
    leader_encrypted_agg_share: HpkeCiphertext
    helper_encrypted_agg_share: HpkeCiphertext

    def write(self, writer: Writer) -> None:
        """Append the response."""
        writer.u64(self.report_count, "report_count")
        self.interval.write(writer)
        self.leader_encrypted_agg_share.write(writer)
        self.helper_encrypted_agg_share.write(writer)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Take the response."""
        return cls(
            reader.u64(),
            Interval.read(reader),
            HpkeCiphertext.read(reader),
            HpkeCiphertext.read(reader),
        )


@dataclass(frozen=True, slots=True)
class AggregateShareReq:
    """The Leader's request for the Helper's share of a batch.

    The checksum is the XOR of the SHA-256 of the ids of the `report_count` reports that it has.
    """

    message: ClassVar[str] = "aggregate-share-req"
    collection_job_req: CollectionJobReq
    batch_selector: BatchSelector
    report_count: int
    checksum: bytes

    def write(self, writer: Writer) -> None:
        """Append the request."""
        self.collection_job_req.write(writer)
        self.batch_selector.write(writer)
        writer.u64(self.report_count, "report_count")
        writer.fixed(self.checksum, CHECKSUM_SIZE, "checksum")

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Take the request."""
        return cls(
            CollectionJobReq.read(reader),
            read_batch_selector(reader),
            reader.u64(),
            reader.fixed(CHECKSUM_SIZE),
        )


@dataclass(frozen=True, slots=True)
class AggregateShare:
    """The Helper's aggregate share, sealed to the Collector."""

    message: ClassVar[str] = "aggregate-share"
    encrypted_aggregate_share: HpkeCiphertext

    def write(self, writer: Writer) -> None:
        """Append the ciphertext."""
        self.encrypted_aggregate_share.write(writer)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Take the ciphertext."""
        return cls(HpkeCiphertext.read(reader))


@dataclass(frozen=True, slots=True)
class AggregateShareAad:
    """What an aggregate share is bound to: the task and the Collector's request."""

    task_id: TaskId
    task_configuration: TaskConfiguration
    collection_job_req: CollectionJobReq

    def write(self, writer: Writer) -> None:
        """Append the associated data."""
        self.task_id.write(writer)
        self.task_configuration.write(writer)
        self.collection_job_req.write(writer)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Take the associated data."""
        return cls(
            TaskId.read(reader), TaskConfiguration.read(reader), CollectionJobReq.read(reader)
        )


def aggregate_share_aad(task_id: TaskId, configuration: bytes, request: bytes) -> bytes:
    """Return the encoded `AggregateShareAad`, of an encoded configuration and request.

    The request must be byte for byte as the Collector sent it.
    """
    return task_id.value + configuration + request


def _read_batch_id(reader: Reader) -> BatchId:
    return BatchId(reader.opaque16(BatchId.size, BatchId.size, "BatchSelector.config"))


def _read_batch_interval(reader: Reader) -> Interval:
    config = reader.opaque16(16, 16, "config of a time-interval batch")
    try:
        return decode(Interval, config)
    except IntervalOverflow as error:
        raise InvalidBatchInterval(str(error)) from error
