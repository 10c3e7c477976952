"""The aggregation interaction: report shares from the Leader to the Helper, verified by both.

Source: DAP, "Aggregate Initialization", "Aggregate Continuation" and "Aggregation Job Extensions".
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, Self

from aggregator.codec import Reader, Writer
from aggregator.dap.extensions import Extensions, read_increasing, write_extensions
from aggregator.dap.hpke import HpkeCiphertext
from aggregator.dap.ids import ReportId
from aggregator.dap.messages.upload import ReportMetadata, read_report_error


@dataclass(frozen=True, slots=True)
class ReportShare:
    """The part of a report that the Helper gets."""

    report_metadata: ReportMetadata
    public_share: bytes
    encrypted_input_share: HpkeCiphertext

    def write(self, writer: Writer) -> None:
        """Append the report share."""
        self.report_metadata.write(writer)
        writer.opaque32(self.public_share, name="public_share")
        self.encrypted_input_share.write(writer)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Take one report share."""
        return cls(
            ReportMetadata.read(reader),
            reader.opaque32(name="public_share"),
            HpkeCiphertext.read(reader),
        )


@dataclass(frozen=True, slots=True)
class VerifyInit:
    """A report share and the Leader's first ping-pong message about it."""

    report_share: ReportShare
    payload: bytes

    def write(self, writer: Writer) -> None:
        """Append both."""
        self.report_share.write(writer)
        writer.opaque32(self.payload, 1, name="payload")

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Take both."""
        return cls(ReportShare.read(reader), reader.opaque32(1, name="payload"))


@dataclass(frozen=True, slots=True)
class AggregationJobInitReq:
    """The reports of one aggregation job, to the end of the body.

    The `verification_key_id` is one of the prearranged keys. `agg_param` is empty for Prio3.
    """

    message: ClassVar[str] = "aggregation-job-init-req"
    verification_key_id: int
    agg_param: bytes
    extensions: Extensions
    verify_inits: tuple[VerifyInit, ...]

    def write(self, writer: Writer) -> None:
        """Append the request."""
        writer.u8(self.verification_key_id, "verification_key_id")
        writer.opaque32(self.agg_param, name="agg_param")
        write_extensions(writer, self.extensions)
        writer.rest(self.verify_inits)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Take the request."""
        return cls(
            reader.u8(),
            reader.opaque32(name="agg_param"),
            read_increasing(reader),
            reader.rest(VerifyInit.read),
        )


class VerifyRespType(IntEnum):
    """Which of the three answers follows."""

    CONTINUE = 0
    FINISH = 1
    REJECT = 2


@dataclass(frozen=True, slots=True)
class VerifyRespContinue:
    """The report verifies so far; the payload is the Helper's ping-pong message.

    With Prio3 this answers every report that verifies, though the ping-pong message inside says
    that the Helper has finished.
    """

    report_id: ReportId
    payload: bytes

    def write(self, writer: Writer) -> None:
        """Append the answer."""
        self.report_id.write(writer)
        writer.u8(VerifyRespType.CONTINUE)
        writer.opaque32(self.payload, 1, name="payload")


@dataclass(frozen=True, slots=True)
class VerifyRespFinish:
    """The report verifies and the Helper has nothing to send; never used with Prio3."""

    report_id: ReportId

    def write(self, writer: Writer) -> None:
        """Append the answer."""
        self.report_id.write(writer)
        writer.u8(VerifyRespType.FINISH)


@dataclass(frozen=True, slots=True)
class VerifyRespReject:
    """The Helper rejects the report; the task's profile says which error the number is."""

    report_id: ReportId
    report_error: int

    def write(self, writer: Writer) -> None:
        """Append the answer."""
        self.report_id.write(writer)
        writer.u8(VerifyRespType.REJECT)
        writer.u8(self.report_error, "report_error")


VerifyResp = VerifyRespContinue | VerifyRespFinish | VerifyRespReject
"""The Helper's answer about one report."""


def read_verify_resp(reader: Reader) -> VerifyResp:
    """Take one answer."""
    report_id = ReportId.read(reader)
    kind = reader.u8()
    if kind == VerifyRespType.CONTINUE:
        return VerifyRespContinue(report_id, reader.opaque32(1, name="payload"))
    if kind == VerifyRespType.FINISH:
        return VerifyRespFinish(report_id)
    if kind == VerifyRespType.REJECT:
        return VerifyRespReject(report_id, read_report_error(reader))
    raise reader.error(f"{kind} is not a type of verification response")


@dataclass(frozen=True, slots=True)
class AggregationJobResp:
    """The Helper's answers, in the request's order, to the end of the body."""

    message: ClassVar[str] = "aggregation-job-resp"
    verify_resps: tuple[VerifyResp, ...]

    def write(self, writer: Writer) -> None:
        """Append the answers."""
        writer.rest(self.verify_resps)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Take answers until nothing is left."""
        return cls(reader.rest(read_verify_resp))


@dataclass(frozen=True, slots=True)
class VerifyContinue:
    """The Leader's next ping-pong message about one report."""

    report_id: ReportId
    payload: bytes

    def write(self, writer: Writer) -> None:
        """Append the message."""
        self.report_id.write(writer)
        writer.opaque32(self.payload, 1, name="payload")

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Take one message."""
        return cls(ReportId.read(reader), reader.opaque32(1, name="payload"))


@dataclass(frozen=True, slots=True)
class AggregationJobContinueReq:
    """The Leader's messages of one more step, to the end of the body; Prio3 has none."""

    message: ClassVar[str] = "aggregation-job-continue-req"
    step: int
    verify_continues: tuple[VerifyContinue, ...]

    def write(self, writer: Writer) -> None:
        """Append the request."""
        writer.u16(self.step, "step")
        writer.rest(self.verify_continues)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Take the request."""
        step = reader.u16()
        if step == 0:
            raise reader.error("step must be 1 to 65535, not 0")
        return cls(step, reader.rest(VerifyContinue.read))
