"""Compiled operations: computing with words emits LLVM's vector instructions."""

from collections.abc import Iterator, Sequence

from typing_extensions import override

from field.lanes.compiler import cgutils, ir
from field.lanes.words import ALL_ONES, Code, Integer, Scalars, Value, Variables, Word

_I8 = ir.IntType(8)
_I32 = ir.IntType(32)
I64 = ir.IntType(64)


class Emitted:
    """An integer at run time: arithmetic on it emits instructions."""

    __slots__ = ("builder", "value")

    def __init__(self, builder: ir.IRBuilder, value: ir.Value) -> None:
        self.builder = builder
        self.value = value

    def __add__(self, other: "Integer | int") -> "Emitted":
        return self._made(self.builder.add, self, other)

    __radd__ = __add__

    def __sub__(self, other: "Integer | int") -> "Emitted":
        return self._made(self.builder.sub, self, other)

    def __rsub__(self, other: int) -> "Emitted":
        return self._made(self.builder.sub, other, self)

    def __mul__(self, other: "Integer | int") -> "Emitted":
        return self._made(self.builder.mul, self, other)

    __rmul__ = __mul__

    def __lshift__(self, other: "Integer | int") -> "Emitted":
        return self._made(self.builder.shl, self, other)

    def __rlshift__(self, other: int) -> "Emitted":
        return self._made(self.builder.shl, other, self)

    def __floordiv__(self, other: "Integer | int") -> "Emitted":
        return self._made(self.builder.udiv, self, other)

    def _made(self, instruction: Value, a: "Integer | int", b: "Integer | int") -> "Emitted":
        return Emitted(self.builder, instruction(llvm_value(a), llvm_value(b)))


def llvm_value(integer: Integer | int) -> ir.Value:
    """Return the LLVM value of an integer."""
    if isinstance(integer, Emitted):
        return integer.value
    return ir.Constant(I64, integer)


class Emitter(Code):
    """Emits the instructions of an operation; a position is a pointer."""

    def __init__(self, builder: ir.IRBuilder, lanes: int, *, has_multiply_add: bool) -> None:
        self.builder = builder
        self.lanes = lanes
        self.has_multiply_add = has_multiply_add
        self.vector = ir.VectorType(I64, lanes)

    @override
    def constant(self, value: int) -> Word:
        return Word(self, self._every(value))

    @override
    def in_every_lane(self, scalar: Integer) -> Word:
        undefined = ir.Constant(self.vector, ir.Undefined)
        single = self.builder.insert_element(undefined, llvm_value(scalar), ir.Constant(_I32, 0))
        picks = ir.Constant(ir.VectorType(_I32, self.lanes), [0] * self.lanes)
        return Word(self, self.builder.shuffle_vector(single, undefined, picks))

    @override
    def arithmetic(self, name: str, word: Word, other: Word | int) -> Word:
        return Word(self, getattr(self.builder, name)(word.value, self._operand(other)))

    @override
    def at_least(self, word: Word, bound: Word | int) -> Word:
        test = self.builder.icmp_unsigned(">=", word.value, self._operand(bound))
        return Word(self, self.builder.sext(test, self.vector))

    @override
    def plus_low_product(self, word: Word, x: Word, y: Word) -> Word:
        return self._call(f"llvm.x86.avx512.vpmadd52l.uq.{64 * self.lanes}", [word, x, y])

    @override
    def plus_high_product(self, word: Word, x: Word, y: Word) -> Word:
        return self._call(f"llvm.x86.avx512.vpmadd52h.uq.{64 * self.lanes}", [word, x, y])

    @override
    def shifted_left_with(self, word: Word, low: Word, bits: Word | int) -> Word:
        count = bits if isinstance(bits, Word) else self.constant(bits)
        return self._call(f"llvm.fshl.v{self.lanes}i64", [word, low, count])

    @override
    def shuffled(self, first: Word, second: Word, picks: Sequence[int]) -> Word:
        mask = ir.Constant(ir.VectorType(_I32, self.lanes), list(picks))
        return Word(self, self.builder.shuffle_vector(first.value, second.value, mask))

    @override
    def moved(self, position: Value, count: Integer | int) -> Value:
        return self.builder.gep(position, [llvm_value(count)])

    @override
    def load(self, position: Value) -> Word:
        loaded = self.builder.load(position)
        loaded.align = 8
        return Word(self, loaded)

    @override
    def store(self, position: Value, word: Word) -> None:
        stored = self.builder.store(word.value, position)
        stored.align = 8

    @override
    def scalar(self, position: Value) -> Integer:
        return self._integer(self.builder.load(position))

    @override
    def table(self, name: str, values: Sequence[int]) -> Scalars:
        array = ir.Constant(ir.ArrayType(I64, len(values)), list(values))
        pointer = cgutils.global_constant(self.builder, name, array)
        return Scalars(self, self.builder.bitcast(pointer, I64.as_pointer()))

    @override
    def load_bytes(self, position: Value) -> Word:
        loaded = self.builder.load(self._vector(position))
        loaded.align = 1
        return Word(self, loaded)

    @override
    def store_bytes(self, position: Value, word: Word) -> None:
        stored = self.builder.store(word.value, self._vector(position))
        stored.align = 1

    @override
    def load_some(self, position: Value, count: Integer) -> Word:
        arguments = [
            self._vector(position),
            ir.Constant(_I32, 1),
            self._first(count),
            self._every(0),
        ]
        return Word(self, self._masked("load", self.vector, arguments))

    @override
    def store_some(self, position: Value, word: Word, count: Integer) -> None:
        arguments = [word.value, self._vector(position), ir.Constant(_I32, 1), self._first(count)]
        self._masked("store", ir.VoidType(), arguments)

    @override
    def copy_bytes(self, target: Value, source: Value, size: Integer) -> None:
        cgutils.raw_memcpy(self.builder, target, source, llvm_value(size), 1)

    @override
    def fetch(self, position: Value) -> None:
        read, nearest, data = (ir.Constant(_I32, number) for number in (0, 3, 1))
        kinds = [_I8.as_pointer(), _I32, _I32, _I32]
        prefetch = self._declared("llvm.prefetch.p0", ir.VoidType(), kinds)
        self.builder.call(prefetch, [position, read, nearest, data])

    @override
    def variables(self, words: Sequence[Word]) -> Variables:
        slots = [cgutils.alloca_once(self.builder, self.vector) for _ in words]
        variables = Variables(self, slots)
        variables.store_many(words)
        return variables

    @override
    def variable(self, slot: Value) -> Word:
        return Word(self, self.builder.load(slot))

    @override
    def set_variable(self, slot: Value, word: Word) -> None:
        self.builder.store(word.value, slot)

    @override
    def repeat(self, times: Integer | int) -> Iterator[Integer]:
        with cgutils.for_range(self.builder, llvm_value(times)) as loop:
            yield self._integer(loop.index)

    @override
    def parts(self, times: Integer, most: int) -> Iterator[tuple[Integer, Integer]]:
        builder, size = self.builder, ir.Constant(I64, most)
        for part in self.repeat((times + (most - 1)) // most):
            first = part * most
            rest = llvm_value(times - first)
            is_last = builder.icmp_signed("<", rest, size)
            yield first, self._integer(builder.select(is_last, rest, size))

    @override
    def unless_zero(self, integer: Integer) -> Iterator[None]:
        zero = ir.Constant(I64, 0)
        with self.builder.if_then(self.builder.icmp_signed("!=", llvm_value(integer), zero)):
            yield

    def _integer(self, value: ir.Value) -> Integer:
        return Emitted(self.builder, value)

    def _every(self, value: int) -> ir.Constant:
        return ir.Constant(self.vector, [value & ALL_ONES] * self.lanes)

    def _operand(self, other: Word | int) -> ir.Value:
        return other.value if isinstance(other, Word) else self._every(other)

    def _vector(self, position: ir.Value) -> ir.Value:
        return self.builder.bitcast(position, self.vector.as_pointer())

    def _first(self, count: Integer) -> ir.Value:
        """Emit the mask that is true in the first `count` lanes."""
        numbers = ir.Constant(self.vector, list(range(self.lanes)))
        return self.builder.icmp_unsigned("<", numbers, self.in_every_lane(count).value)

    def _masked(self, action: str, result: ir.Type, arguments: Sequence[ir.Value]) -> ir.Value:
        """Emit a load or store of some words of a vector."""
        name = f"llvm.masked.{action}.v{self.lanes}i64.p0"
        kinds = [argument.type for argument in arguments]
        return self.builder.call(self._declared(name, result, kinds), arguments)

    def _call(self, name: str, operands: Sequence[Word]) -> Word:
        """Emit a call of an LLVM function from words to a word."""
        function = self._declared(name, self.vector, [self.vector] * len(operands))
        return Word(self, self.builder.call(function, [operand.value for operand in operands]))

    def _declared(self, name: str, result: ir.Type, kinds: Sequence[ir.Type]) -> ir.Function:
        module = self.builder.module
        if name not in module.globals:
            ir.Function(module, ir.FunctionType(result, kinds), name)
        return module.globals[name]
