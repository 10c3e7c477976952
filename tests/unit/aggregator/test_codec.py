from dataclasses import dataclass
from struct import Struct
from typing import Self

import pytest

from aggregator.codec import DecodeError, Reader, Writer, decode, encode
from aggregator.errors import ParameterError


@dataclass(frozen=True, slots=True)
class Pair:
    first: int
    second: bytes

    def write(self, writer: Writer) -> None:
        writer.u16(self.first, "first")
        writer.opaque8(self.second, 1, 4, "second")

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(reader.u16(), reader.opaque8(1, 4, "second"))


def test_integers_are_big_endian() -> None:
    writer = Writer()
    writer.u8(1)
    writer.u16(2)
    writer.u32(3)
    writer.u64(2**64 - 1)
    data = writer.getvalue()
    assert data.hex() == "01000200000003ffffffffffffffff"
    reader = Reader(data)
    assert (reader.u8(), reader.u16(), reader.u32(), reader.u64()) == (1, 2, 3, 2**64 - 1)
    reader.finish()


def test_opaque_vectors_carry_their_length_before_them() -> None:
    writer = Writer()
    writer.opaque8(b"a")
    writer.opaque16(b"bc")
    writer.opaque32(b"")
    writer.fixed(b"def", 3)
    data = writer.getvalue()
    assert data.hex() == "01610002626300000000646566"
    reader = Reader(data)
    assert (reader.opaque8(), reader.opaque16(), reader.opaque32()) == (b"a", b"bc", b"")
    assert reader.fixed(3) == b"def"
    reader.finish()


def test_a_list_is_read_in_place_and_what_follows_it_after_it() -> None:
    writer = Writer()
    writer.list16((Pair(1, b"a"), Pair(2, b"bc")))
    writer.u8(9)
    reader = Reader(writer.getvalue())
    assert reader.list16(Pair.read) == (Pair(1, b"a"), Pair(2, b"bc"))
    assert reader.remaining == 1
    assert reader.u8() == 9


def test_an_item_may_not_reach_beyond_its_list() -> None:
    # The list is said to be 4 bytes long; its one item wants 5, and they are there.
    reader = Reader(bytes.fromhex("00040001026162ff"))
    with pytest.raises(DecodeError, match="2 bytes expected, 1 left"):
        reader.list16(Pair.read)


def test_a_list_shorter_than_its_minimum_is_refused() -> None:
    with pytest.raises(DecodeError, match="at least 10 bytes expected, 0 given"):
        Reader(b"\0\0").list16(Pair.read, 10)
    with pytest.raises(ParameterError, match="table must be 10 to 65535 bytes long, not 0"):
        Writer().list16((), 10, "table")


def test_a_list_longer_than_its_length_can_say_is_refused() -> None:
    with pytest.raises(ParameterError, match="list must be 0 to 65535 bytes long, not 68000"):
        Writer().list16([Pair(1, b"a")] * 17_000)


def test_several_fields_are_taken_in_one_step() -> None:
    reader = Reader(bytes.fromhex("01000203"))
    assert reader.unpack(Struct(">BH")) == (1, 2)
    assert reader.offset == 3
    with pytest.raises(DecodeError, match="byte 3: 3 bytes expected, 1 left"):
        reader.unpack(Struct(">BH"))


@pytest.mark.parametrize("size", [0, 5])
def test_a_byte_string_outside_its_limits_is_refused_by_name(size: int) -> None:
    data = bytes.fromhex("0001") + bytes([size]) + bytes(size)
    with pytest.raises(DecodeError, match=f"second must be 1 to 4 bytes long, not {size}"):
        decode(Pair, data)
    with pytest.raises(ParameterError, match=f"second must be 1 to 4 bytes long, not {size}"):
        encode(Pair(1, bytes(size)))


def test_bytes_left_over_are_refused_with_the_message_and_the_offset() -> None:
    with pytest.raises(DecodeError) as raised:
        decode(Pair, bytes.fromhex("00010161ffff"))
    assert str(raised.value) == "Pair: byte 4: 2 bytes left over"


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_bytes_like_object_decodes_to_bytes(kind: type) -> None:
    pair = decode(Pair, kind(bytes.fromhex("00010161")))
    assert pair == Pair(1, b"a")
    assert type(pair.second) is bytes


@pytest.mark.parametrize("value", [-1, 2**16])
def test_an_integer_that_does_not_fit_is_our_own_error(value: int) -> None:
    with pytest.raises(ParameterError, match=f"first must be 0 to 65535, not {value}"):
        encode(Pair(value, b"a"))


def test_fixed_bytes_of_another_size_are_our_own_error() -> None:
    with pytest.raises(ParameterError, match="checksum must be 32 bytes long, not 31"):
        Writer().fixed(bytes(31), 32, "checksum")
