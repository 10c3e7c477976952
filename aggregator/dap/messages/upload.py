"""The upload interaction: reports from Clients to the Leader.

Source: DAP, "Upload Request".
"""

import dataclasses
from dataclasses import dataclass
from struct import Struct
from typing import ClassVar, Self

from aggregator.codec import Reader, Writer, encode
from aggregator.dap.extensions import Extensions, read_any_order, write_extensions
from aggregator.dap.hpke import HpkeCiphertext
from aggregator.dap.ids import ReportId, TaskId
from aggregator.dap.task import TaskConfiguration
from aggregator.dap.times import Time

_ID_AND_TIME = Struct(">16sQ")
_U32 = Struct(">I")


@dataclass(frozen=True, slots=True)
class ReportMetadata:
    """The public metadata of a report.

    The id is unique in the task, the time in units of its precision, and extensions as they came.
    """

    report_id: ReportId
    time: Time
    public_extensions: Extensions = ()

    def write(self, writer: Writer) -> None:
        """Append the metadata."""
        writer.raw(self.report_id.value)
        writer.u64(self.time.units, "time")
        write_extensions(writer, self.public_extensions)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Take the metadata."""
        report_id, time = reader.unpack(_ID_AND_TIME)
        return cls(ReportId(report_id), Time(time), read_any_order(reader))


@dataclass(frozen=True, slots=True)
class Report:
    """One Client's report, an input share sealed to each aggregator."""

    report_metadata: ReportMetadata
    public_share: bytes
    leader_encrypted_input_share: HpkeCiphertext
    helper_encrypted_input_share: HpkeCiphertext

    def write(self, writer: Writer) -> None:
        """Append the report."""
        self.report_metadata.write(writer)
        writer.opaque32(self.public_share, name="public_share")
        self.leader_encrypted_input_share.write(writer)
        self.helper_encrypted_input_share.write(writer)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Take one report."""
        return cls(
            ReportMetadata.read(reader),
            reader.opaque32(name="public_share"),
            HpkeCiphertext.read(reader),
            HpkeCiphertext.read(reader),
        )


@dataclass(frozen=True, slots=True)
class UploadRequest:
    """Reports one after another, to the end of the body."""

    message: ClassVar[str] = "upload-req"
    reports: tuple[Report, ...]

    def write(self, writer: Writer) -> None:
        """Append the reports."""
        writer.rest(self.reports)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Take reports until nothing is left."""
        return cls(reader.rest(Report.read))


@dataclass(frozen=True, slots=True)
class PlaintextInputShare:
    """What a Client seals to one aggregator; secret. The payload is the VDAF's input share."""

    private_extensions: Extensions = dataclasses.field(repr=False)
    payload: bytes = dataclasses.field(repr=False)

    def write(self, writer: Writer) -> None:
        """Append the share."""
        write_extensions(writer, self.private_extensions)
        writer.opaque32(self.payload, 1, name="payload")

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Take the share."""
        return cls(read_any_order(reader), reader.opaque32(1, name="payload"))


@dataclass(frozen=True, slots=True)
class InputShareAad:
    """What an input share is bound to: the task and everything public in the report.

    For many reports use `input_share_aad`, which gives the same bytes.
    """

    task_id: TaskId
    task_configuration: TaskConfiguration
    report_metadata: ReportMetadata
    public_share: bytes

    def write(self, writer: Writer) -> None:
        """Append the associated data."""
        self.task_id.write(writer)
        self.task_configuration.write(writer)
        self.report_metadata.write(writer)
        writer.opaque32(self.public_share, name="public_share")

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Take the associated data."""
        return cls(
            TaskId.read(reader),
            TaskConfiguration.read(reader),
            ReportMetadata.read(reader),
            reader.opaque32(name="public_share"),
        )


def input_share_aad_prefix(task_id: TaskId, configuration: bytes) -> bytes:
    """Return the part of the associated data that all reports of a task share."""
    return task_id.value + configuration


def input_share_aad(prefix: bytes, metadata: ReportMetadata, public_share: bytes) -> bytes:
    """Return the encoded `InputShareAad` of one report.

    Args:
        prefix: From `input_share_aad_prefix`.
        metadata: The report's.
        public_share: The report's.
    """
    size = _U32.pack(len(public_share))
    return b"".join((prefix, encode(metadata), size, public_share))


@dataclass(frozen=True, slots=True)
class ReportUploadStatus:
    """Why one report was not accepted; the task's profile says which error the number is."""

    id: ReportId
    error: int

    def write(self, writer: Writer) -> None:
        """Append the status."""
        self.id.write(writer)
        writer.u8(self.error, "error")

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Take one status."""
        return cls(ReportId.read(reader), read_report_error(reader))


@dataclass(frozen=True, slots=True)
class UploadErrors:
    """The reports of an upload that were not accepted, in the request's order."""

    message: ClassVar[str] = "upload-errors"
    status: tuple[ReportUploadStatus, ...]

    def write(self, writer: Writer) -> None:
        """Append the statuses."""
        writer.rest(self.status)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Take statuses until nothing is left."""
        return cls(reader.rest(ReportUploadStatus.read))


def read_report_error(reader: Reader) -> int:
    """Take a report error's number.

    A later draft may have numbers that we do not know: that report counts as refused, and the rest
    of the message still holds.
    """
    code = reader.u8()
    if code == 0:
        raise reader.error("0 is not a report error")
    return code
