"""The language of operations on words of many reports side by side.

A *lane* is one element of a vector register. Verification does the same work on every report,
whatever its contents, so reports lie side by side: word `i` of as many reports as there are lanes
makes one vector, and one instruction advances all of them. The layout is a *lane array*,
`uint64[count, lanes]`, contiguous: row `i` holds word `i` of each report, column `l` belongs to the
report in lane `l`.

Compilers do not find this form in code such as Keccak's, so the few operations that matter are
written in terms of whole vectors: a `Word` is one word of each report, `a + b` the sum in every
lane. A `Code` computes, and there are two:

- `field.lanes.emitter` compiles: a word does not exist yet, and `a + b` *emits* an instruction.
- `field.lanes.interpreter` computes at once, with numpy, and checks every index. A debugger can
  step through an operation there, and a failure is an ordinary traceback.

An operation does not know which of them it runs on. So it never branches on computed values, and it
loops with `code.repeat`, whose body is emitted once and interpreted many times.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Protocol, Self, TypeAlias

_MASK32 = 0xFFFF_FFFF
ALL_ONES = 0xFFFF_FFFF_FFFF_FFFF

Value: TypeAlias = Any
"""A word or a position as its code holds it: an LLVM value, or numpy's."""


class Integer(Protocol):
    """A 64-bit integer at run time, the same for every report; an `int` when interpreted."""

    def __add__(self, other: "Integer | int", /) -> "Integer": ...
    def __radd__(self, other: int, /) -> "Integer": ...
    def __sub__(self, other: "Integer | int", /) -> "Integer": ...
    def __rsub__(self, other: int, /) -> "Integer": ...
    def __mul__(self, other: "Integer | int", /) -> "Integer": ...
    def __rmul__(self, other: int, /) -> "Integer": ...
    def __lshift__(self, other: "Integer | int", /) -> "Integer": ...
    def __rlshift__(self, other: int, /) -> "Integer": ...
    def __floordiv__(self, other: "Integer | int", /) -> "Integer": ...


class Word:
    """One 64-bit word in every lane.

    Sums, differences and left shifts wrap modulo 2**64. `>>` copies the sign bit, so a word can be
    a signed number; `logical_right` shifts zeros in. An integer operand is used in every lane.
    """

    __slots__ = ("code", "value")

    def __init__(self, code: "Code", value: Value) -> None:
        self.code = code
        self.value = value

    def __add__(self, other: "Word | int") -> "Word":
        return self.code.arithmetic("add", self, other)

    def __sub__(self, other: "Word | int") -> "Word":
        return self.code.arithmetic("sub", self, other)

    def __and__(self, other: "Word | int") -> "Word":
        return self.code.arithmetic("and_", self, other)

    def __or__(self, other: "Word | int") -> "Word":
        return self.code.arithmetic("or_", self, other)

    def __xor__(self, other: "Word | int") -> "Word":
        return self.code.arithmetic("xor", self, other)

    def __invert__(self) -> "Word":
        return self ^ ALL_ONES

    def __lshift__(self, bits: "Word | int") -> "Word":
        return self.code.arithmetic("shl", self, bits)

    def __rshift__(self, bits: "Word | int") -> "Word":
        return self.code.arithmetic("ashr", self, bits)

    def logical_right(self, bits: "Word | int") -> "Word":
        """Return the word shifted right, with zeros coming in from the left."""
        return self.code.arithmetic("lshr", self, bits)

    def times32(self, other: "Word | int") -> "Word":
        """Return the 64-bit product of the low 32 bits of both words.

        The masks cost nothing: they tell LLVM that one 32 x 32 -> 64 bit multiplication (vpmuludq)
        is enough, where a 64-bit one takes three.
        """
        return self.code.arithmetic("mul", self & _MASK32, other & _MASK32)

    def plus_low_product(self, x: "Word", y: "Word") -> "Word":
        """Return this word plus the low 52 bits of the product of the low 52 bits of x and y.

        One instruction, on processors for which `field.lanes.jit.has_multiply_add` is true.
        """
        return self.code.plus_low_product(self, x, y)

    def plus_high_product(self, x: "Word", y: "Word") -> "Word":
        """Return this word plus the next 52 bits of that product."""
        return self.code.plus_high_product(self, x, y)

    def shifted_left_with(self, low: "Word", bits: "Word | int") -> "Word":
        """Return the word shifted left by 0 to 63 bits, the highest bits of `low` coming in."""
        return self.code.shifted_left_with(self, low, bits)

    def rotate_left(self, bits: int) -> "Word":
        """Return the word rotated left by `bits`, 0 to 63."""
        return (self << bits) | self.logical_right(64 - bits) if bits else self

    def at_least(self, bound: "Word | int") -> "Word":
        """Return all ones in lanes whose word, unsigned, is `bound` or more, zero elsewhere.

        Such masks choose whatever depends on secrets: with one lane, LLVM may turn a selection or a
        maximum of words into a branch.
        """
        return self.code.at_least(self, bound)

    def filled(self, value: int) -> "Word":
        """Return `value` in every lane, for arithmetic that has words but no `Code`."""
        return self.code.constant(value)


class _Operand:
    """An operand of an operation: elements of an array, from some position on."""

    __slots__ = ("code", "position")

    def __init__(self, code: "Code", position: Value) -> None:
        self.code = code
        self.position = position

    def moved(self, count: Integer | int) -> Self:
        """Return the operand `count` elements further on: rows, words or bytes."""
        return type(self)(self.code, self.code.moved(self.position, count))


class Place(_Operand):
    """Consecutive words of a lane array, from some row on."""

    __slots__ = ()

    def load(self, row: int = 0) -> Word:
        """Return the word `row` rows further on."""
        return self.code.load(self.code.moved(self.position, row))

    def store(self, word: Word, row: int = 0) -> None:
        """Set the word `row` rows further on."""
        self.code.store(self.code.moved(self.position, row), word)

    def load_many(self, count: int) -> list[Word]:
        """Return `count` consecutive words."""
        return [self.load(row) for row in range(count)]

    def store_many(self, words: Sequence[Word]) -> None:
        """Set consecutive words."""
        for row, word in enumerate(words):
            self.store(word, row)


class Scalars(_Operand):
    """Consecutive 64-bit words of a plain array, the same for all lanes."""

    __slots__ = ()

    def load(self, index: int = 0) -> Word:
        """Return one word in every lane."""
        return self.code.in_every_lane(self.code.scalar(self.code.moved(self.position, index)))

    def load_many(self, count: int) -> list[Word]:
        """Return `count` consecutive words."""
        return [self.load(index) for index in range(count)]


class Rows(_Operand):
    """A row of bytes for each lane, rows a stride apart."""

    __slots__ = ()

    def load(self, lane: int, stride: Integer) -> Word:
        """Return the first words of the row of `lane`, as many as there are lanes."""
        return self.code.load_bytes(self.row(lane, stride).position)

    def store(self, word: Word, lane: int, stride: Integer | int) -> None:
        """Write the first words of the row of `lane`, as many as there are lanes."""
        self.code.store_bytes(self.row(lane, stride).position, word)

    def load_some(self, lane: int, stride: Integer, count: Integer) -> Word:
        """Return `count` words from the row of `lane`, then zeros; nothing beyond is read."""
        return self.code.load_some(self.row(lane, stride).position, count)

    def store_some(self, word: Word, lane: int, stride: Integer, count: Integer) -> None:
        """Write the first `count` words to the row of `lane`, and nothing beyond."""
        self.code.store_some(self.row(lane, stride).position, word, count)

    def row(self, lane: int, stride: Integer | int) -> "Rows":
        """Return where the row of `lane` begins."""
        return self.moved(lane * stride)


class Variables:
    """Words that change in a loop of one operation; compiled, they stay in registers."""

    __slots__ = ("code", "slots")

    def __init__(self, code: "Code", slots: Sequence[Value]) -> None:
        self.code = code
        self.slots = slots

    def load_many(self) -> list[Word]:
        """Return the words as they are now."""
        return [self.code.variable(slot) for slot in self.slots]

    def store_many(self, words: Sequence[Word]) -> None:
        """Change all words."""
        for slot, word in zip(self.slots, words, strict=True):
            self.code.set_variable(slot, word)


class Code(ABC):
    """Computes the words of an operation.

    Attributes:
        lanes: How many lanes there are.
        has_multiply_add: Whether products are made from 52-bit factors, by `plus_low_product` and
            `plus_high_product`, or from 32-bit factors, by `times32`.
    """

    lanes: int
    has_multiply_add: bool

    @abstractmethod
    def constant(self, value: int) -> Word:
        """Return `value` in every lane."""

    @abstractmethod
    def in_every_lane(self, scalar: Integer) -> Word:
        """Return a run-time integer in every lane."""

    @abstractmethod
    def arithmetic(self, name: str, word: Word, other: Word | int) -> Word:
        """Return the result of LLVM's instruction of this name on two words."""

    @abstractmethod
    def at_least(self, word: Word, bound: Word | int) -> Word:
        """See `Word.at_least`."""

    @abstractmethod
    def plus_low_product(self, word: Word, x: Word, y: Word) -> Word:
        """See `Word.plus_low_product`."""

    @abstractmethod
    def plus_high_product(self, word: Word, x: Word, y: Word) -> Word:
        """See `Word.plus_high_product`."""

    @abstractmethod
    def shifted_left_with(self, word: Word, low: Word, bits: Word | int) -> Word:
        """See `Word.shifted_left_with`."""

    @abstractmethod
    def shuffled(self, first: Word, second: Word, picks: Sequence[int]) -> Word:
        """Return the word whose lane l is lane `picks[l]` of `first` followed by `second`."""

    @abstractmethod
    def moved(self, position: Value, count: Integer | int) -> Value:
        """Return the position `count` elements further on: rows, words or bytes."""

    @abstractmethod
    def load(self, position: Value) -> Word:
        """Return a row of a lane array."""

    @abstractmethod
    def store(self, position: Value, word: Word) -> None:
        """Set a row of a lane array."""

    @abstractmethod
    def scalar(self, position: Value) -> Integer:
        """Return an element of a plain array."""

    @abstractmethod
    def table(self, name: str, values: Sequence[int]) -> Scalars:
        """Return a constant table of 64-bit words."""

    @abstractmethod
    def load_bytes(self, position: Value) -> Word:
        """See `Rows.load`."""

    @abstractmethod
    def store_bytes(self, position: Value, word: Word) -> None:
        """See `Rows.store`."""

    @abstractmethod
    def load_some(self, position: Value, count: Integer) -> Word:
        """See `Rows.load_some`."""

    @abstractmethod
    def store_some(self, position: Value, word: Word, count: Integer) -> None:
        """See `Rows.store_some`."""

    @abstractmethod
    def copy_bytes(self, target: Value, source: Value, size: Integer) -> None:
        """Copy `size` bytes."""

    @abstractmethod
    def fetch(self, position: Value) -> None:
        """Prefetch the cache line of a byte."""

    @abstractmethod
    def variables(self, words: Sequence[Word]) -> Variables:
        """Return variables with these initial values, to be changed in a loop."""

    @abstractmethod
    def variable(self, slot: Value) -> Word:
        """Return the value of one variable."""

    @abstractmethod
    def set_variable(self, slot: Value, word: Word) -> None:
        """Change one variable."""

    @abstractmethod
    def repeat(self, times: Integer | int) -> Iterator[Integer]:
        """Run the body of a `for` loop `times` times, yielding the index from 0."""

    @abstractmethod
    def parts(self, times: Integer, most: int) -> Iterator[tuple[Integer, Integer]]:
        """Run the body once per part of a loop, each part but the last of `most` turns.

        Yields a part's first turn and its number of turns.
        """

    @abstractmethod
    def unless_zero(self, integer: Integer) -> Iterator[None]:
        """Run the body once if a run-time integer is not 0."""
