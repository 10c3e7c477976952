"""Interpreted operations: words are numpy arrays, every index is checked, nothing is compiled.

An index outside its array is an `IndexError`, where compiled code would read or overwrite what lies
beside the array. Results are the same. Any processor can run any number of lanes and either layout
of limbs.
"""

import functools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from field.lanes.arrays import WORD_SIZE, Bytes
from field.lanes.words import ALL_ONES, Code, Integer, Scalars, Value, Variables, Word

_Lanes: TypeAlias = npt.NDArray[np.uint64]

_Position: TypeAlias = tuple[npt.NDArray[Any], int]

_HALF = np.uint64(26)
_LOW_HALF = np.uint64((1 << 26) - 1)
_LOW = np.uint64((1 << 52) - 1)


def _arithmetic_right(word: _Lanes, bits: _Lanes) -> _Lanes:
    return (word.view(np.int64) >> bits.view(np.int64)).view(np.uint64)


_ARITHMETIC: Mapping[str, Callable[[_Lanes, _Lanes], _Lanes]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "and_": operator.and_,
    "or_": operator.or_,
    "xor": operator.xor,
    "shl": operator.lshift,
    "lshr": operator.rshift,
    "ashr": _arithmetic_right,
}


def _product(x: _Lanes, y: _Lanes) -> tuple[_Lanes, _Lanes]:
    """Return the low and the high 52 bits of the product of the low 52 bits of two words.

    With x = x0 + x1*2^26 and y likewise, x*y is x0*y0 + (x0*y1 + x1*y0)*2^26 + x1*y1*2^52.
    """
    x0, x1 = x & _LOW_HALF, (x & _LOW) >> _HALF
    y0, y1 = y & _LOW_HALF, (y & _LOW) >> _HALF
    lowest = x0 * y0
    middle = x0 * y1 + x1 * y0 + (lowest >> _HALF)
    low = ((middle & _LOW_HALF) << _HALF) | (lowest & _LOW_HALF)
    return low, x1 * y1 + (middle >> _HALF)


@functools.lru_cache(maxsize=1024)
def _filled(lanes: int, value: int) -> _Lanes:
    """Return the same word in every lane, not to be written to."""
    words = np.full(lanes, value & ALL_ONES, np.uint64)
    words.flags.writeable = False
    return words


class Interpreter(Code):
    """Computes at once, with numpy; a position is an array and an index into it."""

    def __init__(self, lanes: int, *, has_multiply_add: bool) -> None:
        self.lanes = lanes
        self.has_multiply_add = has_multiply_add

    @override
    def constant(self, value: int) -> Word:
        return Word(self, _filled(self.lanes, value))

    @override
    def in_every_lane(self, scalar: Integer) -> Word:
        return Word(self, np.full(self.lanes, _int(scalar) & ALL_ONES, np.uint64))

    @override
    def arithmetic(self, name: str, word: Word, other: Word | int) -> Word:
        operand = other.value if isinstance(other, Word) else _filled(self.lanes, other)
        return Word(self, _ARITHMETIC[name](word.value, operand))

    @override
    def at_least(self, word: Word, bound: Word | int) -> Word:
        test = word.value >= self._operand(bound)
        return Word(self, np.where(test, np.uint64(ALL_ONES), np.uint64(0)))

    @override
    def plus_low_product(self, word: Word, x: Word, y: Word) -> Word:
        low, _ = _product(x.value, y.value)
        return Word(self, word.value + low)

    @override
    def plus_high_product(self, word: Word, x: Word, y: Word) -> Word:
        _, high = _product(x.value, y.value)
        return Word(self, word.value + high)

    @override
    def shifted_left_with(self, word: Word, low: Word, bits: Word | int) -> Word:
        count = self._operand(bits)
        # A shift by 64 is undefined, so `low` is shifted twice.
        incoming = low.value >> np.uint64(1) >> (np.uint64(63) - count)
        return Word(self, (word.value << count) | incoming)

    @override
    def shuffled(self, first: Word, second: Word, picks: Sequence[int]) -> Word:
        return Word(self, np.concatenate([first.value, second.value])[list(picks)])

    @override
    def moved(self, position: _Position, count: Integer | int) -> _Position:
        array, index = position
        return array, index + _int(count)

    @override
    def load(self, position: _Position) -> Word:
        array, row = _checked(position)
        return Word(self, array[row].copy())

    @override
    def store(self, position: _Position, word: Word) -> None:
        array, row = _checked(position)
        array[row] = word.value

    @override
    def scalar(self, position: _Position) -> Integer:
        array, index = _checked(position)
        return _integer(int(array[index]))

    @override
    def table(self, name: str, values: Sequence[int]) -> Scalars:
        return Scalars(self, (np.array(values, np.uint64), 0))

    @override
    def load_bytes(self, position: _Position) -> Word:
        return self.load_some(position, _integer(self.lanes))

    @override
    def store_bytes(self, position: _Position, word: Word) -> None:
        self.store_some(position, word, _integer(self.lanes))

    @override
    def load_some(self, position: _Position, count: Integer) -> Word:
        size = WORD_SIZE * self._at_most_lanes(count)
        row = np.zeros(WORD_SIZE * self.lanes, np.uint8)
        row[:size] = _span(position, size)
        return Word(self, row.view(np.uint64))

    @override
    def store_some(self, position: _Position, word: Word, count: Integer) -> None:
        size = WORD_SIZE * self._at_most_lanes(count)
        _span(position, size)[:] = word.value.view(np.uint8)[:size]

    @override
    def copy_bytes(self, target: _Position, source: _Position, size: Integer) -> None:
        _span(target, _int(size))[:] = _span(source, _int(size))

    @override
    def fetch(self, position: _Position) -> None:
        pass  # It only changes when memory is read.

    @override
    def variables(self, words: Sequence[Word]) -> Variables:
        variables = Variables(self, [np.empty(self.lanes, np.uint64) for _ in words])
        variables.store_many(words)
        return variables

    @override
    def variable(self, slot: Value) -> Word:
        return Word(self, slot.copy())

    @override
    def set_variable(self, slot: Value, word: Word) -> None:
        slot[:] = word.value

    @override
    def repeat(self, times: Integer | int) -> Iterator[Integer]:
        yield from map(_integer, range(_int(times)))

    @override
    def parts(self, times: Integer, most: int) -> Iterator[tuple[Integer, Integer]]:
        for first in range(0, _int(times), most):
            yield _integer(first), _integer(min(most, _int(times) - first))

    @override
    def unless_zero(self, integer: Integer) -> Iterator[None]:
        if _int(integer) != 0:
            yield

    def _operand(self, other: Word | int) -> _Lanes:
        words: _Lanes = other.value if isinstance(other, Word) else _filled(self.lanes, other)
        return words

    def _at_most_lanes(self, count: Integer) -> int:
        """Return the count capped: it may exceed the lanes, as in compiled code, which masks."""
        return min(_int(count), self.lanes)


def _int(integer: Integer | int) -> int:
    return cast("int", integer)


def _integer(value: int) -> Integer:
    return cast("Integer", value)


def _checked(position: _Position) -> _Position:
    array, index = position
    if not 0 <= index < len(array):
        raise IndexError(f"element {index} of an array of {len(array)}")
    return position


def _span(position: _Position, size: int) -> Bytes:
    """Return a view of `size` bytes of an array of rows."""
    array, first = position
    flat = array.reshape(-1, copy=False)
    if size and not 0 <= first <= first + size <= len(flat):
        raise IndexError(f"bytes {first} to {first + size} of an array of {len(flat)}")
    return cast("Bytes", flat[first : first + size])
