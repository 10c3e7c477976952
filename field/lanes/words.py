"""Reports side by side: LLVM vectors of 64-bit words, one lane a report.

A *lane* is one element of a vector register. Verification does the same work on every report,
whatever its contents, so reports are laid beside each other: word `i` of as many reports as there
are lanes makes one vector, and one instruction advances all of them. The layout is a *lane array*,
`uint64[count, lanes]`, contiguous: row `i` holds word `i` of each report, column `l` belongs to the
report in lane `l`. A *place* in a lane array is the pair of arguments (array, row).

LLVM does not find this form by itself in code such as Keccak's, so the few operations that matter
are emitted as vector instructions. `operation` makes one of them callable from a kernel. Its body
computes with `Word`, a vector that does not exist yet: `a + b` on two words *emits* an addition.

How many lanes there are is a type: the first argument of every operation is `width`, a tuple of
that many zeros. Compiled code is thus specialised to 1, 2, 4 or 8 lanes as it is to any other type,
and several live in one process: very long reports take fewer lanes, and tests take all.

A *kernel* is a function that `field.lanes.jit.kernel` compiles.
"""

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias, cast

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.base import BaseContext
from numba.core.typing import Signature
from numba.extending import intrinsic

Integer: TypeAlias = ir.Value
"""Operand of an operation: a 64-bit integer of the run, the same for every report."""

_I8 = ir.IntType(8)
_I32 = ir.IntType(32)
_I64 = ir.IntType(64)
_MASK32 = 0xFFFF_FFFF
_ALL_ONES = 0xFFFF_FFFF_FFFF_FFFF


class Word:
    """One 64-bit word in every lane, while code is generated: arithmetic emits instructions.

    Sums, differences and left shifts wrap modulo 2**64. `>>` copies the sign bit, so a word can be
    a signed number; `logical_right` shifts zeros in. An integer operand stands in every lane.
    """

    __slots__ = ("builder", "code", "value")

    def __init__(self, code: "Code", value: ir.Value) -> None:
        self.code = code
        self.builder = code.builder
        self.value = value

    def __add__(self, other: "Word | int") -> "Word":
        return Word(self.code, self.builder.add(self.value, self._operand(other)))

    def __sub__(self, other: "Word | int") -> "Word":
        return Word(self.code, self.builder.sub(self.value, self._operand(other)))

    def __and__(self, other: "Word | int") -> "Word":
        return Word(self.code, self.builder.and_(self.value, self._operand(other)))

    def __or__(self, other: "Word | int") -> "Word":
        return Word(self.code, self.builder.or_(self.value, self._operand(other)))

    def __xor__(self, other: "Word | int") -> "Word":
        return Word(self.code, self.builder.xor(self.value, self._operand(other)))

    def __invert__(self) -> "Word":
        return self ^ _ALL_ONES

    def __lshift__(self, bits: "Word | int") -> "Word":
        return Word(self.code, self.builder.shl(self.value, self._operand(bits)))

    def __rshift__(self, bits: "Word | int") -> "Word":
        return Word(self.code, self.builder.ashr(self.value, self._operand(bits)))

    def logical_right(self, bits: "Word | int") -> "Word":
        """Return the word shifted right with zeros coming in from the left."""
        return Word(self.code, self.builder.lshr(self.value, self._operand(bits)))

    def times32(self, other: "Word | int") -> "Word":
        """Return the 64-bit product of the low 32 bits of both words.

        The masks cost nothing: they tell LLVM that one 32 x 32 -> 64 bit multiplication (vpmuludq)
        will do, where a 64-bit one takes three.
        """
        low, other_low = self & _MASK32, other & _MASK32
        return Word(self.code, self.builder.mul(low.value, self._operand(other_low)))

    def plus_low_product(self, x: "Word", y: "Word") -> "Word":
        """Return this word plus the low 52 bits of the product of the low 52 bits of x and y.

        One instruction, of processors for which `field.lanes.jit.has_multiply_add` is true.
        """
        return self._multiply_add("l", x, y)

    def plus_high_product(self, x: "Word", y: "Word") -> "Word":
        """Return this word plus the next 52 bits of that product."""
        return self._multiply_add("h", x, y)

    def _multiply_add(self, half: str, x: "Word", y: "Word") -> "Word":
        name = f"llvm.x86.avx512.vpmadd52{half}.uq.{64 * self.code.lanes}"
        return self.code.call(name, [self, x, y])

    def shifted_left_with(self, low: "Word", bits: "Word | int") -> "Word":
        """Return the word shifted left by 0 to 63 bits, the highest bits of `low` coming in."""
        count = bits if isinstance(bits, Word) else self.code.constant(bits)
        return self.code.call(f"llvm.fshl.v{self.code.lanes}i64", [self, low, count])

    def rotate_left(self, bits: int) -> "Word":
        """Return the word rotated left by `bits`, 0 to 63."""
        return (self << bits) | self.logical_right(64 - bits) if bits else self

    def at_least(self, bound: "Word | int") -> "Word":
        """Return all ones in lanes whose word, unsigned, is `bound` or more, zero elsewhere.

        What depends on secrets is chosen by such masks: of a selection, or of a maximum of words,
        LLVM may make a branch where there is one lane.
        """
        test = self.builder.icmp_unsigned(">=", self.value, self._operand(bound))
        return Word(self.code, self.builder.sext(test, self.value.type))

    def _operand(self, other: "Word | int") -> ir.Value:
        if isinstance(other, Word):
            return other.value
        return ir.Constant(self.value.type, [other & _ALL_ONES] * self.value.type.count)


class Place:
    """Operand of an operation: consecutive words of a lane array, from the row given on."""

    __slots__ = ("code", "pointer")

    def __init__(self, code: "Code", pointer: ir.Value) -> None:
        self.code = code
        self.pointer = pointer

    def load(self, row: int = 0) -> Word:
        """Emit a load of the word `row` rows further on."""
        loaded = self.code.builder.load(self._at(row))
        loaded.align = 8
        return Word(self.code, loaded)

    def store(self, word: Word, row: int = 0) -> None:
        """Emit a store of `word` `row` rows further on."""
        stored = self.code.builder.store(word.value, self._at(row))
        stored.align = 8

    def load_many(self, count: int) -> list[Word]:
        """Emit loads of `count` consecutive words."""
        return [self.load(row) for row in range(count)]

    def store_many(self, words: Sequence[Word]) -> None:
        """Emit stores of `words`, one after the other."""
        for row, word in enumerate(words):
            self.store(word, row)

    def moved(self, rows: int) -> "Place":
        """Return the place `rows` rows further on."""
        return Place(self.code, self._at(rows))

    def advanced(self, rows: ir.Value) -> "Place":
        """Return the place `rows` rows further on; `rows` is known only at run time."""
        return Place(self.code, self.code.builder.gep(self.pointer, [rows]))

    def _at(self, row: int) -> ir.Value:
        return (
            self.code.builder.gep(self.pointer, [ir.Constant(_I64, row)]) if row else self.pointer
        )


class Scalars:
    """Operand of an operation: consecutive 64-bit words of a plain array, for all lanes."""

    __slots__ = ("code", "pointer")

    def __init__(self, code: "Code", pointer: ir.Value) -> None:
        self.code = code
        self.pointer = pointer

    def load(self, index: int = 0) -> Word:
        """Emit a load of one word and its copying into every lane."""
        builder = self.code.builder
        pointer = builder.gep(self.pointer, [ir.Constant(_I64, index)])
        return self.code.in_every_lane(builder.load(pointer))

    def load_many(self, count: int) -> list[Word]:
        """Emit loads of `count` consecutive words."""
        return [self.load(index) for index in range(count)]

    def advanced(self, words: ir.Value) -> "Scalars":
        """Return the place `words` words further on."""
        return Scalars(self.code, self.code.builder.gep(self.pointer, [words]))


class Rows:
    """Operand of an operation: one row of bytes for each lane, the next row a stride further on."""

    __slots__ = ("code", "pointer")

    def __init__(self, code: "Code", pointer: ir.Value) -> None:
        self.code = code
        self.pointer = pointer

    def load(self, lane: int, stride: ir.Value) -> Word:
        """Emit a load of as many words as there are lanes from the row of `lane`."""
        loaded = self.code.builder.load(self._vector(lane, stride))
        loaded.align = 1
        return Word(self.code, loaded)

    def store(self, word: Word, lane: int, stride: ir.Value) -> None:
        """Emit a store of as many words as there are lanes to the row of `lane`."""
        stored = self.code.builder.store(word.value, self._vector(lane, stride))
        stored.align = 1

    def load_some(self, lane: int, stride: ir.Value, count: ir.Value) -> Word:
        """Emit a load of `count` words from the row of `lane`; the others are 0 and not touched."""
        code, pointer = self.code, self._vector(lane, stride)
        arguments = [pointer, ir.Constant(_I32, 1), code.first(count), code.constant(0).value]
        return Word(code, code.masked("load", code.vector, arguments))

    def store_some(self, word: Word, lane: int, stride: ir.Value, count: ir.Value) -> None:
        """Emit a store of the first `count` words to the row of `lane`, and to nothing beyond."""
        code, pointer = self.code, self._vector(lane, stride)
        arguments = [word.value, pointer, ir.Constant(_I32, 1), code.first(count)]
        code.masked("store", ir.VoidType(), arguments)

    def fetch(self, lane: int, stride: ir.Value, offset: ir.Value) -> None:
        """Emit a request for the cache line with the byte at `offset` of the row of `lane`."""
        builder, name = self.code.builder, "llvm.prefetch.p0"
        if name not in builder.module.globals:
            kinds = [_I8.as_pointer(), _I32, _I32, _I32]
            ir.Function(builder.module, ir.FunctionType(ir.VoidType(), kinds), name)
        pointer = builder.gep(self.row(lane, stride), [offset])
        read, nearest, data = (ir.Constant(_I32, number) for number in (0, 3, 1))
        builder.call(builder.module.globals[name], [pointer, read, nearest, data])

    def advanced(self, size: ir.Value) -> "Rows":
        """Return the rows from `size` bytes further on."""
        return Rows(self.code, self.code.builder.gep(self.pointer, [size]))

    def row(self, lane: int, stride: ir.Value) -> ir.Value:
        """Return the pointer to the row of `lane`."""
        return self.code.builder.gep(self.pointer, [self.code.scaled(stride, lane)])

    def _vector(self, lane: int, stride: ir.Value) -> ir.Value:
        return self.code.builder.bitcast(self.row(lane, stride), self.code.vector.as_pointer())


class Variables:
    """Words that change in a loop of one operation; LLVM keeps them in registers."""

    __slots__ = ("code", "slots")

    def __init__(self, code: "Code", slots: Sequence[ir.Value]) -> None:
        self.code = code
        self.slots = slots

    def load_many(self) -> list[Word]:
        """Return the words as they are now."""
        builder = self.code.builder
        return [Word(self.code, builder.load(slot)) for slot in self.slots]

    def store_many(self, words: Sequence[Word]) -> None:
        """Change all words."""
        for slot, word in zip(self.slots, words, strict=True):
            self.code.builder.store(word.value, slot)


class Code:
    """Where an operation's instructions go, and how many lanes they have."""

    def __init__(self, builder: ir.IRBuilder, lanes: int) -> None:
        self.builder = builder
        self.lanes = lanes
        self.vector = ir.VectorType(_I64, lanes)

    def constant(self, value: int) -> Word:
        """Return `value` in every lane."""
        return Word(self, ir.Constant(self.vector, [value & _ALL_ONES] * self.lanes))

    def integer(self, value: int) -> ir.Value:
        """Return an integer of the run that is always `value`."""
        return ir.Constant(_I64, value)

    def in_every_lane(self, scalar: ir.Value) -> Word:
        """Emit the copying of a 64-bit integer of the run into every lane."""
        undefined = ir.Constant(self.vector, ir.Undefined)
        single = self.builder.insert_element(undefined, scalar, ir.Constant(_I32, 0))
        picks = ir.Constant(ir.VectorType(_I32, self.lanes), [0] * self.lanes)
        return Word(self, self.builder.shuffle_vector(single, undefined, picks))

    def shuffled(self, first: Word, second: Word, picks: Sequence[int]) -> Word:
        """Emit the word whose lane l is lane `picks[l]` of `first` followed by `second`."""
        mask = ir.Constant(ir.VectorType(_I32, self.lanes), list(picks))
        return Word(self, self.builder.shuffle_vector(first.value, second.value, mask))

    def variables(self, words: Sequence[Word]) -> "Variables":
        """Return variables with these first values, to be changed in a loop."""
        slots = [cgutils.alloca_once(self.builder, self.vector) for _ in words]
        variables = Variables(self, slots)
        variables.store_many(words)
        return variables

    def table(self, name: str, values: Sequence[int]) -> Scalars:
        """Return a constant table of 64-bit words."""
        array = ir.Constant(ir.ArrayType(_I64, len(values)), list(values))
        pointer = cgutils.global_constant(self.builder, name, array)
        return Scalars(self, self.builder.bitcast(pointer, _I64.as_pointer()))

    def scaled(self, index: ir.Value, factor: int) -> ir.Value:
        """Emit the product of an integer of the run and a constant."""
        return self.builder.mul(index, ir.Constant(_I64, factor))

    def sum(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """Emit the sum of two integers of the run."""
        return self.builder.add(a, b)

    def product(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """Emit the product of two integers of the run."""
        return self.builder.mul(a, b)

    def copy_bytes(self, target: ir.Value, source: ir.Value, size: ir.Value) -> None:
        """Emit a copy of `size` bytes from pointer to pointer."""
        cgutils.raw_memcpy(self.builder, target, source, size, 1)

    def first(self, count: ir.Value) -> ir.Value:
        """Emit the mask that is true in the first `count` lanes."""
        numbers = ir.Constant(self.vector, list(range(self.lanes)))
        return self.builder.icmp_unsigned("<", numbers, self.in_every_lane(count).value)

    def masked(self, action: str, result: ir.Type, arguments: Sequence[ir.Value]) -> ir.CallInstr:
        """Emit LLVM's load or store of some words of a vector."""
        name, module = f"llvm.masked.{action}.v{self.lanes}i64.p0", self.builder.module
        if name not in module.globals:
            kinds = [argument.type for argument in arguments]
            ir.Function(module, ir.FunctionType(result, kinds), name)
        return self.builder.call(module.globals[name], arguments)

    def call(self, name: str, operands: Sequence[Word]) -> Word:
        """Emit the use of one of LLVM's functions from words to a word."""
        module = self.builder.module
        if name not in module.globals:
            kinds = [self.vector] * len(operands)
            ir.Function(module, ir.FunctionType(self.vector, kinds), name)
        values = [operand.value for operand in operands]
        return Word(self, self.builder.call(module.globals[name], values))

    @contextmanager
    def repeat(self, times: ir.Value | int) -> Iterator[ir.Value]:
        """Emit the body once, run it `times` times; yields the index, 0 and up."""
        count = ir.Constant(_I64, times) if isinstance(times, int) else times
        with cgutils.for_range(self.builder, count) as loop:
            yield loop.index

    @contextmanager
    def parts(self, times: ir.Value, most: int) -> Iterator[tuple[ir.Value, ir.Value]]:
        """Emit the body once, run it for each part of so many turns, of `most` turns but the last.

        Yields a part's first turn and how many it has.
        """
        builder, size = self.builder, ir.Constant(_I64, most)
        rounded = builder.add(times, ir.Constant(_I64, most - 1))
        with self.repeat(builder.sdiv(rounded, size)) as part:
            first = builder.mul(part, size)
            rest = builder.sub(times, first)
            yield first, builder.select(builder.icmp_signed("<", rest, size), rest, size)

    @contextmanager
    def unless_zero(self, integer: ir.Value) -> Iterator[None]:
        """Emit the body once, run it if an integer of the run is not 0."""
        with self.builder.if_then(self.builder.icmp_signed("!=", integer, ir.Constant(_I64, 0))):
            yield


def operation(body: Callable[..., None]) -> Callable[..., None]:
    """Make a vector operation that kernels can call from `body`, which emits its instructions.

    The body's first parameter is a `Code`; kernels pass `width` for it. Its other parameters say
    by their annotation what a kernel passes:

    - `Place`: a lane array and a row of it;
    - `Scalars`: a `uint64` array and an index into it;
    - `Rows`: a `uint8` array and the index of the byte where lane 0 begins;
    - `Integer`: an integer.

    Arrays are contiguous. Nothing checks an index: that is up to the kernel, as everywhere in
    compiled code. The instructions become one function of the compiled module, which all callers
    share; inlining each use would multiply the time to compile by ten.
    """
    parameters = list(inspect.signature(body).parameters.values())[1:]
    kinds = [parameter.annotation for parameter in parameters]
    names = ["width"]
    for parameter in parameters:
        names.append(parameter.name)
        if parameter.annotation is not Integer:
            names.append(parameter.name + "_index")

    def typing(_context: object, width: types.UniTuple, *arguments: types.Type) -> object:
        signature = types.void(width, *(_expected(argument) for argument in arguments))

        def generate(
            context: BaseContext, builder: ir.IRBuilder, sig: Signature, values: list[ir.Value]
        ) -> ir.Value:
            _emit_call(body, kinds, width.count, _Call(context, builder, sig, values))
            return context.get_dummy_value()

        return signature, generate

    positional = inspect.Parameter.POSITIONAL_ONLY
    typing.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # numba reads it
        [inspect.Parameter(name, positional) for name in ("_context", *names)]
    )
    typing.__name__ = body.__name__
    typing.__doc__ = body.__doc__
    return cast("Callable[..., None]", intrinsic(typing))


def _expected(argument: types.Type) -> types.Type:
    return argument if isinstance(argument, types.Array) else types.int64


@dataclasses.dataclass(frozen=True, slots=True)
class _Call:
    """One call of an operation in a kernel that numba is compiling."""

    context: BaseContext
    builder: ir.IRBuilder
    signature: Signature
    values: Sequence[ir.Value]

    def operands(self, kinds: Sequence[type], lanes: int) -> list[ir.Value]:
        """Turn (array, index) pairs into pointers; integers stay."""
        builder = self.builder
        arguments = iter(zip(self.signature.args[1:], self.values[1:], strict=True))
        operands = []
        for kind in kinds:
            argument_type, value = next(arguments)
            if kind is Integer:
                operands.append(value)
                continue
            array = self.context.make_array(argument_type)(self.context, builder, value)
            _, index = next(arguments)
            pointer = builder.bitcast(array.data, _pointer(kind, lanes).pointee.as_pointer())
            operands.append(builder.gep(pointer, [index]))
        return operands


def _pointer(kind: type, lanes: int) -> ir.PointerType:
    pointees: dict[type, ir.Type] = {Place: ir.VectorType(_I64, lanes), Scalars: _I64, Rows: _I8}
    return pointees[kind].as_pointer()


def _emit_call(body: Callable[..., None], kinds: Sequence[type], lanes: int, call: _Call) -> None:
    name = f"lanes{lanes}.{body.__module__}.{body.__qualname__}"
    function = call.builder.module.globals.get(name)
    if function is None:
        function = _emit_function(body, kinds, lanes, call.builder.module, name)
    call.builder.call(function, call.operands(kinds, lanes))


def _emit_function(
    body: Callable[..., None], kinds: Sequence[type], lanes: int, module: ir.Module, name: str
) -> ir.Function:
    parameters = [_I64 if kind is Integer else _pointer(kind, lanes) for kind in kinds]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), parameters), name)
    function.linkage = "linkonce_odr"
    function.attributes.add("noinline")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    code = Code(builder, lanes)
    operands = [
        argument if kind is Integer else kind(code, argument)
        for kind, argument in zip(kinds, function.args, strict=True)
    ]
    body(code, *operands)
    builder.ret_void()
    return function


@operation
def copy_words(code: Code, out: Place, source: Place, count: Integer) -> None:
    """Copy `count` words."""
    with code.repeat(count) as index:
        out.advanced(index).store(source.advanced(index).load())


@operation
def xor_words(code: Code, out: Place, other: Place, count: Integer) -> None:
    """Add `count` words into others, bit by bit and modulo 2."""
    with code.repeat(count) as index:
        place = out.advanced(index)
        place.store(place.load() ^ other.advanced(index).load())
