"""The task configuration: what clients, aggregators and the collector must agree on.

Its encoding is part of the associated data of every HPKE ciphertext, so parties that disagree on
any byte of it cannot open each other's shares.

Source: DAP, "Task Configuration", "Task Extensions" and "Task Interval Task Extension".
"""

from dataclasses import dataclass
from typing import Self

from aggregator.codec import U32_MAX, U64_MAX, DecodeError, Reader, Writer, decode, encode
from aggregator.dap.attribution import Attribution
from aggregator.dap.extensions import (
    Extension,
    Extensions,
    find,
    is_increasing,
    read_increasing,
    write_extensions,
)
from aggregator.dap.profile import (
    TASK_EXTENSION_INTERVAL,
    TASK_EXTENSION_PERMITS,
    TASK_EXTENSION_PRIVACY,
    BatchMode,
)
from aggregator.dap.times import Interval
from aggregator.errors import ParameterError


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskConfiguration:
    """A task's public parameters, fixed for its life.

    Attributes:
        task_info: At most 255 bytes that distinguish tasks otherwise alike; some drafts want one.
        leader_aggregator_endpoint: The Leader's base URL, ASCII; never altered, as one more slash
            makes another task.
        helper_aggregator_endpoint: The Helper's base URL, under the same rule.
        time_precision: Seconds per unit of time, at least 1.
        min_batch_size: The fewest reports that a batch must hold to be collected.
        extensions: Task extensions; types strictly increase. `task_extensions` makes them.

    Raises:
        ParameterError: A field is out of its range.
    """

    task_info: bytes
    leader_aggregator_endpoint: str
    helper_aggregator_endpoint: str
    time_precision: int
    min_batch_size: int
    batch_mode: BatchMode
    vdaf_type: int
    vdaf_configuration: bytes
    extensions: Extensions = ()

    def __post_init__(self) -> None:
        _check("time_precision", self.time_precision, 1, U64_MAX)
        _check("min_batch_size", self.min_batch_size, 0, U64_MAX)
        _check("vdaf_type", self.vdaf_type, 0, U32_MAX)
        if not is_increasing(self.extensions):
            types = [extension.extension_type for extension in self.extensions]
            raise ParameterError(f"task extension types must strictly increase, not be {types}")
        encode(self)  # checks the other limits
        try:
            _ = self.task_interval
        except DecodeError as error:
            raise ParameterError(f"task_interval is not an interval: {error}") from error

    @property
    def task_interval(self) -> Interval | None:
        """When reports of this task may be generated, or None for always."""
        data = find(self.extensions, TASK_EXTENSION_INTERVAL)
        return None if data is None else decode(Interval, data)

    @property
    def privacy(self) -> bytes | None:
        """The encoded privacy policy bound to this task, if any."""
        return find(self.extensions, TASK_EXTENSION_PRIVACY)

    @property
    def permits(self) -> bytes | None:
        """What is encoded of the permits that reports of this task need, if they need any."""
        return find(self.extensions, TASK_EXTENSION_PERMITS)

    def write(self, writer: Writer) -> None:
        """Append the configuration."""
        writer.opaque8(self.task_info, name="task_info")
        _write_url(writer, self.leader_aggregator_endpoint, "leader_aggregator_endpoint")
        _write_url(writer, self.helper_aggregator_endpoint, "helper_aggregator_endpoint")
        writer.u64(self.time_precision, "time_precision")
        writer.u64(self.min_batch_size, "min_batch_size")
        writer.u8(self.batch_mode, "batch_mode")
        writer.opaque16(b"", name="batch_config")  # empty in both batch modes
        writer.u32(self.vdaf_type, "vdaf_type")
        writer.opaque16(self.vdaf_configuration, name="vdaf_configuration")
        write_extensions(writer, self.extensions)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Take one configuration."""
        task_info = reader.opaque8(name="task_info")
        leader_aggregator_endpoint = _read_url(reader, "leader_aggregator_endpoint")
        helper_aggregator_endpoint = _read_url(reader, "helper_aggregator_endpoint")
        time_precision = reader.u64()
        min_batch_size = reader.u64()
        batch_mode = read_batch_mode(reader)
        reader.opaque16(maximum=0, name="batch_config")
        vdaf_type = reader.u32()
        vdaf_configuration = reader.opaque16(name="vdaf_configuration")
        extensions = read_increasing(reader)
        try:
            return cls(
                task_info=task_info,
                leader_aggregator_endpoint=leader_aggregator_endpoint,
                helper_aggregator_endpoint=helper_aggregator_endpoint,
                time_precision=time_precision,
                min_batch_size=min_batch_size,
                batch_mode=batch_mode,
                vdaf_type=vdaf_type,
                vdaf_configuration=vdaf_configuration,
                extensions=extensions,
            )
        except ParameterError as error:
            raise DecodeError(str(error)) from error


def task_extensions(
    task_interval: Interval | None = None,
    privacy: bytes | None = None,
    permits: bytes | None = None,
    attribution: Attribution | None = None,
) -> Extensions:
    """Return the given task extensions, in order."""
    extensions = []
    if task_interval is not None:
        extensions.append(Extension(TASK_EXTENSION_INTERVAL, encode(task_interval)))
    if privacy is not None:
        extensions.append(Extension(TASK_EXTENSION_PRIVACY, privacy))
    if permits is not None:
        extensions.append(Extension(TASK_EXTENSION_PERMITS, permits))
    if attribution is not None:
        extensions += attribution.extensions
    return tuple(extensions)


def read_batch_mode(reader: Reader) -> BatchMode:
    """Take a batch mode that we know."""
    value = reader.u8()
    try:
        return BatchMode(value)
    except ValueError as error:
        raise reader.error(f"{value} is not a batch mode") from error


def _check(name: str, value: int, minimum: int, maximum: int) -> None:
    if not minimum <= value <= maximum:
        raise ParameterError(f"{name} must be {minimum} to {maximum}, not {value}")


def _write_url(writer: Writer, url: str, name: str) -> None:
    try:
        data = url.encode("ascii")
    except UnicodeEncodeError as error:
        raise ParameterError(f"{name} must be ASCII, not {url!r}") from error
    writer.opaque16(data, 1, name=name)


def _read_url(reader: Reader, name: str) -> str:
    data = reader.opaque16(1, name=name)
    try:
        return data.decode("ascii")
    except UnicodeDecodeError as error:
        raise reader.error(f"{name} must be ASCII") from error
