"""Identifiers: fixed-size byte strings, in URLs and files as unpadded base64url.

Source: DAP, "HTTP Usage"; DAP, "Basic Type Definitions"; RFC 4648, "Base 64 Encoding with URL and
Filename Safe Alphabet".
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from re import ASCII
from re import compile as compile_pattern
from typing import ClassVar, Self

from typing_extensions import override

from aggregator.codec import DecodeError, Reader, Writer
from aggregator.entropy import Entropy
from aggregator.errors import ParameterError

_ALPHABET = compile_pattern(r"[A-Za-z0-9_-]*", ASCII)


def encode_base64url(data: bytes) -> str:
    """Return `data` in the URL-safe alphabet, without padding."""
    return urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def decode_base64url(text: str) -> bytes:
    """Return the bytes that `text` encodes.

    Raises `DecodeError` if the text has a character outside the URL-safe alphabet, padding, an
    impossible length, or bits set after the last byte, so `encode_base64url` does not give it.
    """
    if not _ALPHABET.fullmatch(text) or len(text) % 4 == 1:
        raise DecodeError(f"not unpadded base64url, in {len(text)} characters")
    data = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if encode_base64url(data) != text:
        raise DecodeError("base64url with bits set behind its last byte")
    return data


@dataclass(frozen=True, slots=True)
class Identifier:
    """A byte string whose size its class fixes; `str` gives its form in a URL.

    Identifiers of different classes are never equal. Raises `ParameterError` if `value` is not
    `size` bytes long.
    """

    size: ClassVar[int] = 0
    value: bytes

    def __post_init__(self) -> None:
        if len(self.value) != self.size:
            wanted = f"{type(self).__name__} must be {self.size} bytes long"
            raise ParameterError(f"{wanted}, not {len(self.value)}")

    @override
    def __str__(self) -> str:
        """Return the identifier in unpadded base64url."""
        return encode_base64url(self.value)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the identifier in a text, unpadded base64url; raises `DecodeError`."""
        value = decode_base64url(text)
        if len(value) != cls.size:
            raise DecodeError(f"{cls.__name__} must be {cls.size} bytes long, not {len(value)}")
        return cls(value)

    @classmethod
    def random(cls, entropy: Entropy) -> Self:
        """Return a fresh identifier."""
        return cls(entropy.bytes(cls.size))

    def write(self, writer: Writer) -> None:
        """Append the bytes."""
        writer.raw(self.value)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Take one identifier."""
        return cls(reader.fixed(cls.size))


@dataclass(frozen=True, slots=True)
class TaskId(Identifier):
    """A task, globally unique."""

    size: ClassVar[int] = 32


@dataclass(frozen=True, slots=True)
class ReportId(Identifier):
    """A report, unique in its task; also the nonce of its VDAF shares."""

    size: ClassVar[int] = 16

    @classmethod
    def of_none(cls) -> Self:
        """Return the id under which a leader says what a report of now would be told."""
        return cls(bytes(cls.size))


@dataclass(frozen=True, slots=True)
class BatchId(Identifier):
    """A batch of a leader-selected task, unique in that task."""

    size: ClassVar[int] = 32


@dataclass(frozen=True, slots=True)
class AggregationJobId(Identifier):
    """An aggregation job of a task, chosen by the Helper."""

    size: ClassVar[int] = 16


@dataclass(frozen=True, slots=True)
class CollectionJobId(Identifier):
    """A collection job of a task, chosen by the Leader."""

    size: ClassVar[int] = 16


@dataclass(frozen=True, slots=True)
class AggregateShareId(Identifier):
    """An aggregate share of a task, chosen by the Helper."""

    size: ClassVar[int] = 16
