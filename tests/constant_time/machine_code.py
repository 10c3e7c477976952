"""The registers from which an x86-64 instruction makes an address, divides, or decides a jump.

An instruction's ModRM and SIB bytes, which come after prefixes and the opcode, say that it accesses
memory at `base + scale * index + displacement`. Nothing else is decoded here, not even the length.

Source:
    Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, "Instruction Format".
"""

from typing import NamedTuple

RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI = range(8)

FLAGS = 16
"""The number after the last general register's, for the flags of the last comparison."""

MAX_SIZE = 15
"""Bytes of the longest instruction."""

_PREFIXES = bytes.fromhex("f0 f2 f3 2e 36 3e 26 64 65 66 67")
_TWO_BYTE_VEX, _THREE_BYTE_VEX, _EVEX = 0xC5, 0xC4, 0x62

_ONE_BYTE, _0F, _0F38, _0F3A = range(4)
"""The maps of opcodes, as VEX and EVEX number them."""

_GATHERS_AND_SCATTERS = bytes.fromhex("90 91 92 93 a0 a1 a2 a3 c6 c7")
_VECTOR_TESTS = {
    _0F: bytes.fromhex("50 d7"),  # movmskps, pmovmskb
    _0F38: bytes.fromhex("0e 0f 17"),  # vtestps, vtestpd, ptest
}
_MASK_TESTS = bytes.fromhex("93 98 99")
"""kmov, kortest and ktest; without VEX these are other instructions."""

_JUMPS = ((_ONE_BYTE, 0x70), (_0F, 0x80))
_LEA = 0x8D
_DIVISIONS = bytes.fromhex("f6 f7")
_TABLE_LOOKUP = 0xD7
_LOOPS = bytes.fromhex("e0 e1 e2 e3")
_ELSEWHERE = bytes.fromhex("c2 c3 ca cb cc cd cf e8 e9 eb f4")
"""Returns, traps, the call and the jumps to a fixed place, and the halt."""
_CALLS_AND_JUMPS = 0xFF
_SYSTEM_CALLS = bytes.fromhex("05 07 0b 34 35")
_STRINGS = {
    **dict.fromkeys(bytes.fromhex("a4 a5 a6 a7"), (RCX, RSI, RDI)),
    **dict.fromkeys(bytes.fromhex("aa ab ae af"), (RCX, RDI)),
    **dict.fromkeys(bytes.fromhex("ac ad"), (RCX, RSI)),
}


class _Opcode(NamedTuple):
    """An opcode, and what comes before and after it.

    Attributes:
        map: One of the maps of opcodes.
        number: The opcode's last byte.
        base_bit: 8 if the base is one of the registers 8 to 15, else 0.
        index_bit: The same for the index.
        rest: What follows: the ModRM byte, if there is one.
        is_vector: Whether the prefix is VEX's or EVEX's.
    """

    map: int
    number: int
    base_bit: int
    index_bit: int
    rest: bytes
    is_vector: bool = False


def watched_registers(code: bytes) -> tuple[int, ...]:
    """Return the numbers of the registers on which the time of an instruction depends.

    They are those that make up the address of its operand in memory, other than a pop's or a
    push's, those that an integer division takes, and those that decide whether a jump is taken.

    Args:
        code: The instruction, and any bytes after it.

    Raises:
        ValueError: The instruction gathers, scatters or looks a byte up: the addresses are not in
            general registers, or only in part of one. Or it turns the result of comparing vectors
            into one number or flag, which a jump could use.
    """
    opcode = _opcode(code)
    if opcode.is_vector and opcode.map == _0F38 and opcode.number in _GATHERS_AND_SCATTERS:
        raise ValueError(f"a gather or scatter: {code.hex(' ')}")
    is_mask_test = opcode.is_vector and opcode.map == _0F and opcode.number in _MASK_TESTS
    if is_mask_test or opcode.number in _VECTOR_TESTS.get(opcode.map, b""):
        raise ValueError(f"vectors are compared for a jump: {code.hex(' ')}")
    if opcode.map == _ONE_BYTE and opcode.number == _TABLE_LOOKUP:
        raise ValueError("xlat looks a byte up in a table")
    if opcode.map == _ONE_BYTE and opcode.number in _STRINGS:
        return _STRINGS[opcode.number]
    if opcode.map == _ONE_BYTE and opcode.number in _LOOPS:
        return RCX, FLAGS
    if not opcode.is_vector and (opcode.map, opcode.number & 0xF0) in _JUMPS:
        return (FLAGS,)
    if not _has_modrm(opcode):
        return ()
    modrm = opcode.rest[0]
    registers = _address(opcode)
    if opcode.map == _ONE_BYTE and opcode.number in _DIVISIONS and modrm >> 3 & 7 >= 6:
        divisor = (modrm & 7 | opcode.base_bit,) if modrm >> 6 == 3 else ()
        return (RAX, RDX, *divisor, *registers)
    return registers


def falls_through(code: bytes) -> bool:
    """Return whether what comes next is always the instruction behind this one.

    After jumps, calls, returns, system calls and traps it is not, and an instruction on strings may
    come next itself.
    """
    opcode = _opcode(code)
    if opcode.is_vector:
        return True
    if (opcode.map, opcode.number & 0xF0) in _JUMPS:
        return False
    if opcode.map == _0F:
        return opcode.number not in _SYSTEM_CALLS
    if opcode.map != _ONE_BYTE:
        return True
    if opcode.number == _CALLS_AND_JUMPS and 2 <= opcode.rest[0] >> 3 & 7 <= 5:
        return False
    return opcode.number not in (*_LOOPS, *_STRINGS, *_ELSEWHERE)


def _opcode(code: bytes) -> _Opcode:
    start = 0
    while code[start] in _PREFIXES:
        start += 1
    first = code[start]
    if first == _TWO_BYTE_VEX:
        return _Opcode(_0F, code[start + 2], 0, 0, code[start + 3 :], is_vector=True)
    if first in (_THREE_BYTE_VEX, _EVEX):
        bits = code[start + 1]
        place = start + (3 if first == _THREE_BYTE_VEX else 4)
        # These bits are inverted.
        base_bit, index_bit = 8 * (not bits & 0x20), 8 * (not bits & 0x40)
        rest = code[place + 1 :]
        return _Opcode(bits & 7, code[place], base_bit, index_bit, rest, is_vector=True)
    base_bit = index_bit = 0
    if first & 0xF0 == 0x40:
        base_bit, index_bit = 8 * (first & 1), 4 * (first & 2)
        start += 1
    number, of_map = code[start], _ONE_BYTE
    if number == 0x0F:
        start += 1
        number, of_map = code[start], _0F
        if number in (0x38, 0x3A):
            start += 1
            of_map = _0F38 if number == 0x38 else _0F3A
            number = code[start]
    return _Opcode(of_map, number, base_bit, index_bit, code[start + 1 :])


def _has_modrm(opcode: _Opcode) -> bool:
    """Return whether a ModRM byte comes after the opcode."""
    number = opcode.number
    if opcode.map == _0F:
        without = (
            *(0x05, 0x06, 0x07, 0x08, 0x09, 0x0B, 0x0E, 0x77),
            *range(0x30, 0x38),
            *range(0x80, 0x90),
            *(0xA0, 0xA1, 0xA2, 0xA8, 0xA9, 0xAA),
            *range(0xC8, 0xD0),
        )
        return number not in without
    if opcode.map != _ONE_BYTE:
        return True
    arithmetic = number < 0x40 and number & 7 < 4
    others = (
        *(0x63, 0x69, 0x6B, 0xC0, 0xC1, 0xC6, 0xC7, 0xF6, 0xF7, 0xFE, 0xFF),
        *range(0x80, 0x90),
        *range(0xD0, 0xD4),
        *range(0xD8, 0xE0),
    )
    return arithmetic or number in others


def _address(opcode: _Opcode) -> tuple[int, ...]:
    """Return the base and the index, if any, of an operand in memory."""
    modrm = opcode.rest[0]
    mode, base = modrm >> 6, modrm & 7
    is_computed_only = opcode.map == _ONE_BYTE and opcode.number == _LEA
    # Hints have an operand but do nothing, except the one that fetches a cache line.
    is_hint = opcode.map == _0F and not opcode.is_vector and 0x19 <= opcode.number <= 0x1F
    if mode == 3 or is_computed_only or is_hint:
        return ()
    if base == RSP:
        sib = opcode.rest[1]
        base, index = sib & 7, sib >> 3 & 7 | opcode.index_bit
        indices = (index,) if index != RSP else ()
    else:
        indices = ()
    # Without a displacement, RBP's number means no base, or the instruction's own address.
    bases = () if mode == 0 and base == RBP else (base | opcode.base_bit,)
    return bases + indices
