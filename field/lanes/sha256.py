"""SHA-256's compression function by the processor's own instructions.

They take 40 ns for a block; a library that is called for each message, about a microsecond more.

Source: FIPS 180-4, "SHA-256 Hash Computation".
"""

import functools

import numpy as np
import numpy.typing as npt

from field.lanes.compiler import BaseContext, Signature, intrinsic, ir, numba, overload, types
from field.lanes.jit import processor_features

_ROUND_CONSTANTS = (
    0x428A2F98, 0x71374491, 0xB5C0FBCF, 0xE9B5DBA5,
    0x3956C25B, 0x59F111F1, 0x923F82A4, 0xAB1C5ED5,
    0xD807AA98, 0x12835B01, 0x243185BE, 0x550C7DC3,
    0x72BE5D74, 0x80DEB1FE, 0x9BDC06A7, 0xC19BF174,
    0xE49B69C1, 0xEFBE4786, 0x0FC19DC6, 0x240CA1CC,
    0x2DE92C6F, 0x4A7484AA, 0x5CB0A9DC, 0x76F988DA,
    0x983E5152, 0xA831C66D, 0xB00327C8, 0xBF597FC7,
    0xC6E00BF3, 0xD5A79147, 0x06CA6351, 0x14292967,
    0x27B70A85, 0x2E1B2138, 0x4D2C6DFC, 0x53380D13,
    0x650A7354, 0x766A0ABB, 0x81C2C92E, 0x92722C85,
    0xA2BFE8A1, 0xA81A664B, 0xC24B8B70, 0xC76C51A3,
    0xD192E819, 0xD6990624, 0xF40E3585, 0x106AA070,
    0x19A4C116, 0x1E376C08, 0x2748774C, 0x34B0BCB5,
    0x391C0CB3, 0x4ED8AA4A, 0x5B9CCA4F, 0x682E6FF3,
    0x748F82EE, 0x78A5636F, 0x84C87814, 0x8CC70208,
    0x90BEFFFA, 0xA4506CEB, 0xBEF9A3F7, 0xC67178F2,
)  # fmt: skip

INITIAL_STATE = (
    0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A,
    0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19,
)  # fmt: skip

_MASK = 0xFFFFFFFF
_BLOCK_PARTS = 4


@functools.cache
def has_sha256() -> bool:
    """Return whether kernels can use these instructions; uncompiled, a library is quicker."""
    return not numba.config.DISABLE_JIT and "+sha" in processor_features()


def compress(state: npt.NDArray[np.uint32], block: npt.NDArray[np.uint8]) -> None:
    """Replace the state, eight words, by the next one after a block of 64 bytes.

    In a kernel, no branch and no address depends on what is hashed.
    """
    words = [int.from_bytes(block[at : at + 4].tobytes(), "big") for at in range(0, 64, 4)]
    for at in range(16, 64):
        x, y = words[at - 15], words[at - 2]
        first = _rotated(x, 7) ^ _rotated(x, 18) ^ x >> 3
        second = _rotated(y, 17) ^ _rotated(y, 19) ^ y >> 10
        words.append((words[at - 16] + first + words[at - 7] + second) & _MASK)
    before = [int(word) for word in state]
    a, b, c, d, e, f, g, h = before
    for constant, word in zip(_ROUND_CONSTANTS, words, strict=True):
        chosen = (e & f) ^ (~e & g)
        one = h + (_rotated(e, 6) ^ _rotated(e, 11) ^ _rotated(e, 25)) + chosen + constant + word
        two = (_rotated(a, 2) ^ _rotated(a, 13) ^ _rotated(a, 22)) + (a & b ^ a & c ^ b & c)
        a, b, c, d, e, f, g, h = (one + two) & _MASK, a, b, c, (d + one) & _MASK, e, f, g
    for place, word in enumerate((a, b, c, d, e, f, g, h)):
        state[place] = (before[place] + word) & _MASK


def _rotated(word: int, by: int) -> int:
    return (word >> by | word << 32 - by) & _MASK


@intrinsic  # type: ignore[untyped-decorator]  # numba has no types
def _compressed(_context: object, state: types.Type, block: types.Type) -> object:
    def generate(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, arrays: list[ir.Value]
    ) -> ir.Value:
        of_state, of_block = (
            context.make_array(kind)(context, builder, array).data
            for kind, array in zip(signature.args, arrays, strict=True)
        )
        _emit(builder, of_state, of_block)
        return context.get_dummy_value()

    return types.void(state, block), generate


def _emit(builder: ir.IRBuilder, of_state: ir.Value, of_block: ir.Value) -> None:
    """Emit four rounds at a time, in the order of the processor's manual."""
    word = ir.IntType(32)
    four, index = ir.VectorType(word, 4), ir.IntType(32)

    def constant(*lanes: int) -> ir.Value:
        return ir.Constant(four, list(lanes))

    def picked(low: ir.Value, high: ir.Value, *lanes: int) -> ir.Value:
        return builder.shuffle_vector(low, high, ir.Constant(ir.VectorType(index, 4), list(lanes)))

    def called(name: str, *operands: ir.Value) -> ir.Value:
        kind = ir.FunctionType(four, [four] * len(operands))
        function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
        return builder.call(function, operands)

    def loaded(pointer: ir.Value, part: int) -> ir.Value:
        parts = builder.bitcast(pointer, four.as_pointer())
        return builder.load(builder.gep(parts, [ir.Constant(word, part)]), align=1)

    first, last = loaded(of_state, 0), loaded(of_state, 1)  # a b c d, e f g h
    start = picked(last, first, 1, 0, 5, 4), picked(last, first, 3, 2, 7, 6)  # f e b a, h g d c
    abef, cdgh = start
    parts: list[ir.Value] = []
    for group in range(16):
        if group < _BLOCK_PARTS:
            part = called("llvm.bswap.v4i32", loaded(of_block, group))
        else:
            part = called("llvm.x86.sha256msg1", parts[group - 4], parts[group - 3])
            part = builder.add(part, picked(parts[group - 2], parts[group - 1], 1, 2, 3, 4))
            part = called("llvm.x86.sha256msg2", part, parts[group - 1])
        parts.append(part)
        added = builder.add(part, constant(*_ROUND_CONSTANTS[4 * group : 4 * group + 4]))
        cdgh = called("llvm.x86.sha256rnds2", cdgh, abef, added)
        abef = called("llvm.x86.sha256rnds2", abef, cdgh, picked(added, added, 2, 3, 2, 3))
    abef, cdgh = builder.add(abef, start[0]), builder.add(cdgh, start[1])
    halves = picked(abef, cdgh, 3, 2, 7, 6), picked(abef, cdgh, 1, 0, 5, 4)
    parts_of_state = builder.bitcast(of_state, four.as_pointer())
    for place, half in enumerate(halves):
        builder.store(half, builder.gep(parts_of_state, [ir.Constant(word, place)]), align=1)


overload(compress)(lambda state, block: lambda state, block: _compressed(state, block))  # noqa: ARG005, PLW0108  numba matches the names
