"""Reads reports by the sizes that their task fixes.

A task fixes the size of every field of its reports, and which public report extension they have: a
permit's signature, a privacy budget, or none. Only the size of an encapsulated key depends on the
key encapsulation, and the Leader does not know which ones the Helper offers. A report of other
sizes is refused alone and its fields are not parsed, so that a stranger's report takes no more
memory than it has bytes.

Source: DAP, "Upload Request" and "Aggregate Initialization".
"""

from collections.abc import Container
from functools import lru_cache
from struct import Struct
from typing import NamedTuple, Self

from aggregator.codec import DecodeError, Reader
from aggregator.dap.extensions import Extension, Extensions
from aggregator.dap.hpke import HpkeCiphertext
from aggregator.dap.hpke_suites import ENC_SIZES
from aggregator.dap.ids import BatchId, ReportId
from aggregator.dap.messages.aggregation import ReportShare, VerifyInit
from aggregator.dap.messages.upload import ReportMetadata
from aggregator.dap.times import Time

LARGEST_JOB = 100_000
"""The most reports in one aggregation job."""

_HEAD = Struct(">16sQH")  # report id, time, bytes of extensions
_CIPHERTEXT_HEAD = Struct(">BH")  # configuration id, bytes of the encapsulated key
_U32 = Struct(">I")
_EXTENSION = Struct(">HHH")  # bytes of the list, the type of the only extension, bytes of its data
EXTENSION_START = 24 + _EXTENSION.size
"""Where the data of a report's public extension is: behind the id, the time and these sizes."""
_JOB_HEAD_SIZE = 7  # verification key id, no aggregation parameter, no extensions
_JOB_EXTENSIONS_SIZE = 4 + BatchId.size
"""The most bytes of a job's extensions, less than any report has: a batch id with its header."""
_LEAST_ENC, _MOST_ENC = min(ENC_SIZES), max(ENC_SIZES)
_LONGER = 1024
"""How much longer than the task's a sealed share may be and still be kept, for its extensions."""


class ReportSizes(NamedTuple):
    """The sizes of a task's reports, in bytes; an aggregator's payload is its sealed input share.

    `verify_payload` is the Leader's first ping-pong message about a report. `permit` is what one
    adds to the helper's payload, 0 if the task has no permits. `extension` is the data of the only
    public extension, whose type is `extension_type`; 0 if reports have none.
    """

    public_share: int
    leader_payload: int
    helper_payload: int
    verify_payload: int
    permit: int = 0
    extension: int = 0
    extension_type: int = 0

    @property
    def report(self) -> int:
        """The most bytes of an encoded report."""
        return self.report_of(_MOST_ENC, _MOST_ENC)

    def report_of(self, leader_enc: int, helper_enc: int) -> int:
        """Return the bytes of an encoded report with encapsulated keys of these sizes."""
        return self.head + self.leader_sealed(leader_enc) + self.helper_sealed(helper_enc)

    def verify_init(self, enc: int) -> int:
        """Return the bytes of an encoded report in an aggregation job."""
        return self.head + self.helper_sealed(enc) + _U32.size + self.verify_payload

    @property
    def job(self) -> int:
        """The most bytes of an encoded aggregation job of `LARGEST_JOB` reports."""
        return self.job_of(LARGEST_JOB)

    def job_of(self, reports: int, enc: int = _MOST_ENC) -> int:
        """Return the most bytes of an encoded aggregation job of `reports` reports."""
        return _JOB_HEAD_SIZE + _JOB_EXTENSIONS_SIZE + reports * self.verify_init(enc)

    def most_reports_in(self, job: bytes) -> int:
        """Return the most reports that an encoded aggregation job of our own may have."""
        return (len(job) - _JOB_HEAD_SIZE) // self.verify_init(_LEAST_ENC)

    def reports_within(self, size: int) -> int:
        """Return the most reports that an aggregation job of `size` bytes has room for.

        Fewer reports fit if their keys are larger; a job of too many is split.
        """
        return (size - self.job_of(0)) // self.verify_init(_LEAST_ENC)

    @property
    def head(self) -> int:
        """Bytes of the public part: id, time, extensions, and the public share with its size."""
        return _HEAD.size + self.extensions + _U32.size + self.public_share

    @property
    def extensions(self) -> int:
        """Bytes of the list of public extensions, behind its size."""
        return _EXTENSION.size - 2 + self.extension if self.extension else 0

    @property
    def extensions_head(self) -> bytes:
        """What a report has between its time and its extension's data, or its public share if none.

        That is the size of the list, and what tells the only extension in it.
        """
        if not self.extension:
            return bytes(2)
        return _EXTENSION.pack(self.extensions, self.extension_type, self.extension)

    def leader_sealed(self, enc: int) -> int:
        """Return the bytes of the Leader's ciphertext, encoded."""
        return _CIPHERTEXT_HEAD.size + enc + _U32.size + self.leader_payload

    def helper_sealed(self, enc: int) -> int:
        """Return the bytes of the Helper's ciphertext, encoded."""
        return _CIPHERTEXT_HEAD.size + enc + _U32.size + self.helper_payload


@lru_cache(maxsize=1024)
def _usual(sizes: ReportSizes) -> tuple[Struct, tuple[bytes | int, ...]]:
    """Return the layout of a task's usual report, and what it has in all fields that are sizes.

    Read by it are the id, the time, what tells the extensions, a size, the Leader's configuration
    id, and four sizes.
    """
    enc, extensions = ENC_SIZES[0], sizes.extensions_head
    layout = Struct(
        f">16sQ{len(extensions)}s{sizes.extension}xI{sizes.public_share}x"
        f"BH{enc}xI{sizes.leader_payload}x"
        f"xH{enc}xI{sizes.helper_payload}x"
    )
    ciphertexts = (enc, sizes.leader_payload, enc, sizes.helper_payload)
    return layout, (extensions, sizes.public_share, *ciphertexts)


class UploadedReport(NamedTuple):
    """The part of an uploaded report that the Leader looks at; the rest stays encoded.

    Attributes:
        report_id: The report's.
        time: The report's.
        leader_config_id: Which of the Leader's configurations its share was sealed to.
        has_extensions: Whether it has other public report extensions than the task's reports have.
        encoding: The whole report; None if its sizes are not the task's.
        lacks_extension: Whether its sizes would be the task's if that had no permits or budgets.
    """

    report_id: ReportId
    time: Time
    leader_config_id: int
    has_extensions: bool
    encoding: bytes | None
    lacks_extension: bool = False

    @classmethod
    def read(cls, reader: Reader, sizes: ReportSizes) -> Self:
        """Take one report; raises `DecodeError` for what is not a report of any sizes."""
        start = reader.offset
        layout, usual = _usual(sizes)
        fields = reader.look(layout)
        if fields is not None:
            report_id, time, extensions, public_share, leader_config_id, *ciphertexts = fields
            if (extensions, public_share, *ciphertexts) == usual:  # nearly always
                encoding = reader.fixed(layout.size)
                return cls(ReportId(report_id), Time(time), leader_config_id, False, encoding)  # noqa: FBT003  a field
        report_id, time, extensions = reader.unpack(_HEAD)
        reader.skip(extensions)
        begins = reader.since(start)[24 : 24 + len(sizes.extensions_head)]
        is_wanted = extensions == sizes.extensions and begins == sizes.extensions_head
        found = [_skip_opaque(reader)]
        leader_config_id = _skip_ciphertext(reader, found)
        _skip_ciphertext(reader, found)
        public_share, leader_enc, leader_payload, helper_enc, helper_payload = found
        fits_otherwise = (
            (is_wanted or extensions == 0)
            and public_share == sizes.public_share
            and leader_enc in ENC_SIZES
            and leader_payload == sizes.leader_payload
            and helper_enc in ENC_SIZES
        )
        with_permit = sizes.helper_payload
        fits = fits_otherwise and is_wanted and helper_payload == with_permit
        lacks = (
            fits_otherwise
            and not fits
            and extensions == 0
            and helper_payload in (with_permit - sizes.permit, with_permit)
        )
        body = reader.since(start) if fits else None
        has_extensions = extensions > 0 and not is_wanted
        return cls(ReportId(report_id), Time(time), leader_config_id, has_extensions, body, lacks)


def read_usual(body: bytes, sizes: ReportSizes) -> tuple[bytes, int, int] | None:
    """Return the id, the time in units and the Leader's configuration id of one usual report.

    Returns None if the body is anything else: then `UploadedReport` says what it is.
    """
    layout, usual = _usual(sizes)
    if len(body) != layout.size:
        return None
    report_id, time, extensions, public_share, config_id, *ciphertexts = layout.unpack(body)
    if (extensions, public_share, *ciphertexts) != usual:
        return None
    return report_id, time, config_id


def read_verify_init(reader: Reader, sizes: ReportSizes) -> VerifyInit:
    """Take one report of an aggregation job.

    If its sizes are not the task's, its fields are empty, as no real report's are, and the first of
    its extensions is kept if they are not the task's. A ping-pong message of the wrong size is
    empty too. A share that is only somewhat longer, as one with private extensions is, is kept.
    """
    report_id, time, extensions = reader.unpack(_HEAD)
    first = _first_extension(reader, extensions)
    metadata = ReportMetadata(ReportId(report_id), Time(time), first)
    wanted = [(sizes.extension_type, sizes.extension)] if sizes.extension else []
    is_wanted = extensions == sizes.extensions and wanted == [
        (each.extension_type, len(each.extension_data)) for each in first
    ]
    public_share = _sized(reader, reader.u32(), (sizes.public_share,))
    config_id, enc_size = reader.unpack(_CIPHERTEXT_HEAD)
    enc = _sized(reader, enc_size, ENC_SIZES)
    least = sizes.helper_payload
    sealed = _sized(reader, reader.u32(), range(least, least + _LONGER + 1))
    payload = _sized(reader, reader.u32(), (sizes.verify_payload,)) or b""
    if not is_wanted or public_share is None or enc is None or sealed is None:
        if is_wanted:
            metadata = ReportMetadata(metadata.report_id, metadata.time)
        return VerifyInit(ReportShare(metadata, b"", HpkeCiphertext(config_id, b"", b"")), b"")
    return VerifyInit(
        ReportShare(metadata, public_share, HpkeCiphertext(config_id, enc, sealed)), payload
    )


def is_bare(reader: Reader, sizes: ReportSizes) -> bool:
    """Return whether the next report has no public extension, where the task's reports have one."""
    head = reader.look(_HEAD)
    return sizes.extension > 0 and head is not None and head[-1] == 0


def _first_extension(reader: Reader, size: int) -> Extensions:
    """Take a report's extensions; read only the first, as a stranger could put thousands there."""
    listed = Reader(reader.fixed(size))
    try:
        return (Extension.read(listed),) if size else ()
    except DecodeError:
        return ()  # the report is refused all the same, for its sizes


def _sized(reader: Reader, size: int, wanted: Container[int]) -> bytes | None:
    """Take a field of `size` bytes; return it if that is one of the wanted sizes."""
    if size in wanted:
        return reader.fixed(size)
    reader.skip(size)
    return None


def _skip_opaque(reader: Reader) -> int:
    size = reader.u32()
    reader.skip(size)
    return size


def _skip_ciphertext(reader: Reader, found: list[int]) -> int:
    """Take a ciphertext, note its two sizes, and return its configuration id."""
    config_id, enc = reader.unpack(_CIPHERTEXT_HEAD)
    reader.skip(enc)
    found += (enc, _skip_opaque(reader))
    return int(config_id)
