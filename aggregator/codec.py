"""The TLS presentation language: fixed-size integers, length-prefixed vectors, lists.

All integers are big-endian. A message is a class with `write` and `read`; `encode` and `decode`
wrap them. Decoding refuses leftover bytes and raises nothing but `DecodeError`, whatever the bytes
are. Every value has exactly one encoding: encoding what was decoded gives the same bytes.

Source: RFC 8446, "Presentation Language"; DAP, "Presentation Language".
"""

from collections.abc import Callable, Iterable
from struct import Struct
from struct import error as StructError  # noqa: N812 - an exception class, named like one
from typing import Any, Protocol, Self, TypeVar

from typing_extensions import override

from aggregator.errors import Abort, ParameterError

U8_MAX = 2**8 - 1
U16_MAX = 2**16 - 1
U32_MAX = 2**32 - 1
U64_MAX = 2**64 - 1

_U8 = Struct(">B")
_U16 = Struct(">H")
_U32 = Struct(">I")
_U64 = Struct(">Q")

T = TypeVar("T")
M = TypeVar("M", bound="Message")


class DecodeError(Abort):
    """Bytes that do not decode as the expected message.

    Attributes:
        message_name: The message being decoded; empty until `decode` fills it in.
    """

    message_name: str = ""

    @override
    def __str__(self) -> str:
        """Return what was wrong, after the message's name."""
        reason = super().__str__()
        return f"{self.message_name}: {reason}" if self.message_name else reason


class Encodable(Protocol):
    """A value with one encoding."""

    def write(self, writer: "Writer") -> None:
        """Append this value's encoding to `writer`."""


class Message(Encodable, Protocol):
    """A value that can be read back from its encoding."""

    @classmethod
    def read(cls, reader: "Reader") -> Self:
        """Take one value off `reader`, or raise `DecodeError`."""


class Reader:
    """Takes values off the front of a byte string.

    Nested lists are read in place: the reader moves its end to the end of the list meanwhile, so
    nothing is copied but fields. After a `DecodeError` the reader must not be used.
    """

    __slots__ = ("_data", "_end", "_offset")

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        self._data = bytes(data)  # no copy if it is bytes already
        self._offset = 0
        self._end = len(self._data)

    @property
    def offset(self) -> int:
        """How many bytes have been taken."""
        return self._offset

    @property
    def remaining(self) -> int:
        """How many bytes are left, within the innermost list being read, if any."""
        return self._end - self._offset

    def error(self, reason: str) -> DecodeError:
        """Return the error to raise for `reason`, at the current offset."""
        return DecodeError(f"byte {self._offset}: {reason}")

    def u8(self) -> int:
        """Take one byte."""
        start = self._offset
        if start >= self._end:
            raise self._too_short(1)
        self._offset = start + 1
        return self._data[start]

    def u16(self) -> int:
        """Take a two-byte integer."""
        return self.unpack(_U16)[0]  # type: ignore[no-any-return]  # struct formats are not typed

    def u32(self) -> int:
        """Take a four-byte integer."""
        return self.unpack(_U32)[0]  # type: ignore[no-any-return]  # struct formats are not typed

    def u64(self) -> int:
        """Take an eight-byte integer."""
        return self.unpack(_U64)[0]  # type: ignore[no-any-return]  # struct formats are not typed

    def unpack(self, layout: Struct) -> tuple[Any, ...]:
        """Take several fixed-size fields in one step; `layout` must be big-endian (`>`)."""
        start = self._offset
        end = start + layout.size
        if end > self._end:
            raise self._too_short(layout.size)
        self._offset = end
        return layout.unpack_from(self._data, start)

    def look(self, layout: Struct) -> tuple[Any, ...] | None:
        """Return what `unpack` would, without taking it; None if too little is left."""
        if self._offset + layout.size > self._end:
            return None
        return layout.unpack_from(self._data, self._offset)

    def fixed(self, size: int) -> bytes:
        """Take exactly `size` bytes."""
        start = self._offset
        end = start + size
        if end > self._end:
            raise self._too_short(size)
        self._offset = end
        return self._data[start:end]

    def skip(self, size: int) -> None:
        """Take `size` bytes and ignore them."""
        end = self._offset + size
        if end > self._end:
            raise self._too_short(size)
        self._offset = end

    def since(self, offset: int) -> bytes:
        """Return what was taken since `offset`, as it came."""
        return self._data[offset : self._offset]

    def opaque8(self, minimum: int = 0, maximum: int = U8_MAX, name: str = "opaque") -> bytes:
        """Take a byte string behind a one-byte length of `minimum` to `maximum`."""
        return self._opaque(self.u8(), minimum, maximum, name)

    def text8(self, name: str) -> str:
        """Take UTF-8 text behind a one-byte length."""
        try:
            return self.opaque8(name=name).decode()
        except UnicodeDecodeError as error:
            raise self.error("text is not UTF-8") from error

    def opaque16(self, minimum: int = 0, maximum: int = U16_MAX, name: str = "opaque") -> bytes:
        """Take a byte string behind a two-byte length of `minimum` to `maximum`."""
        return self._opaque(self.u16(), minimum, maximum, name)

    def opaque32(self, minimum: int = 0, name: str = "opaque") -> bytes:
        """Take a byte string of at least `minimum` bytes behind a four-byte length."""
        return self._opaque(self.u32(), minimum, U32_MAX, name)

    def list16(self, read: Callable[["Reader"], T], minimum: int = 0) -> tuple[T, ...]:
        """Take a list behind a two-byte length in bytes, at least `minimum`."""
        size = self.u16()
        if size == 0 and minimum == 0:
            return ()
        end = self._offset + size
        if end > self._end:
            raise self._too_short(size)
        if size < minimum:
            raise self.error(f"a list of at least {minimum} bytes expected, {size} given")
        outer_end, self._end = self._end, end
        items = self.rest(read)
        self._end = outer_end
        return items

    def rest(self, read: Callable[["Reader"], T]) -> tuple[T, ...]:
        """Take items until nothing is left; each must take at least one byte."""
        items = []
        while self._offset < self._end:
            items.append(read(self))
        return tuple(items)

    def finish(self) -> None:
        """Refuse bytes that are left over."""
        if self._offset != self._end:
            raise self.error(f"{self._end - self._offset} bytes left over")

    def _opaque(self, size: int, minimum: int, maximum: int, name: str) -> bytes:
        if not minimum <= size <= maximum:
            raise self.error(f"{name} must be {minimum} to {maximum} bytes long, not {size}")
        start = self._offset
        end = start + size
        if end > self._end:
            raise self._too_short(size)
        self._offset = end
        return self._data[start:end]

    def _too_short(self, size: int) -> DecodeError:
        return self.error(f"{size} bytes expected, {self._end - self._offset} left")


class Writer:
    """Gathers the parts of an encoding.

    A value that does not fit its field is our own mistake, not the peer's: `ParameterError`.
    """

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def getvalue(self) -> bytes:
        """Return everything written so far."""
        return b"".join(self._parts)

    def u8(self, value: int, name: str = "uint8") -> None:
        """Append one byte."""
        self._integer(_U8, value, name)

    def u16(self, value: int, name: str = "uint16") -> None:
        """Append a two-byte integer."""
        self._integer(_U16, value, name)

    def u32(self, value: int, name: str = "uint32") -> None:
        """Append a four-byte integer."""
        self._integer(_U32, value, name)

    def u64(self, value: int, name: str = "uint64") -> None:
        """Append an eight-byte integer."""
        self._integer(_U64, value, name)

    def raw(self, data: bytes) -> None:
        """Append bytes that are already encoded."""
        self._parts.append(data)

    def fixed(self, data: bytes, size: int, name: str = "opaque") -> None:
        """Append exactly `size` bytes."""
        if len(data) != size:
            raise ParameterError(f"{name} must be {size} bytes long, not {len(data)}")
        self._parts.append(data)

    def opaque8(
        self, data: bytes, minimum: int = 0, maximum: int = U8_MAX, name: str = "opaque"
    ) -> None:
        """Append a byte string behind a one-byte length of `minimum` to `maximum`."""
        self._opaque(_U8, data, minimum, maximum, name)

    def opaque16(
        self, data: bytes, minimum: int = 0, maximum: int = U16_MAX, name: str = "opaque"
    ) -> None:
        """Append a byte string behind a two-byte length of `minimum` to `maximum`."""
        self._opaque(_U16, data, minimum, maximum, name)

    def opaque32(self, data: bytes, minimum: int = 0, name: str = "opaque") -> None:
        """Append a byte string of at least `minimum` bytes behind a four-byte length."""
        self._opaque(_U32, data, minimum, U32_MAX, name)

    def list16(self, items: Iterable[Encodable], minimum: int = 0, name: str = "list") -> None:
        """Append a list behind its two-byte length in bytes, at least `minimum`."""
        block = Writer()
        block.rest(items)
        self._opaque(_U16, block.getvalue(), minimum, U16_MAX, name)

    def rest(self, items: Iterable[Encodable]) -> None:
        """Append items one after another, with no length before them."""
        for item in items:
            item.write(self)

    def _integer(self, layout: Struct, value: int, name: str) -> None:
        try:
            self._parts.append(layout.pack(value))
        except StructError as error:
            limit = 2 ** (8 * layout.size) - 1
            raise ParameterError(f"{name} must be 0 to {limit}, not {value}") from error

    def _opaque(self, layout: Struct, data: bytes, minimum: int, maximum: int, name: str) -> None:
        if not minimum <= len(data) <= maximum:
            limits = f"{minimum} to {maximum}"
            raise ParameterError(f"{name} must be {limits} bytes long, not {len(data)}")
        self._parts += (layout.pack(len(data)), data)


def encode(message: Encodable) -> bytes:
    """Return the encoding of `message`."""
    writer = Writer()
    message.write(writer)
    return writer.getvalue()


def decode(message: type[M], data: bytes | bytearray | memoryview) -> M:
    """Return the `message` that `data` encodes, all of it.

    Raises:
        DecodeError: `data` is truncated, too long, or holds a value out of range.
    """
    reader = Reader(data)
    try:
        value = message.read(reader)
        reader.finish()
    except DecodeError as error:
        error.message_name = message.__name__
        raise
    return value
