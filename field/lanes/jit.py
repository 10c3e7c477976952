"""Compiling kernels while keeping their types."""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

from field.lanes import compiler, compiling, wide
from field.lanes.cache import home, kernel_cache
from field.lanes.compiler import (
    BaseContext,
    Signature,
    binding,
    intrinsic,
    ir,
    numba,
    overload,
    types,
)
from field.lanes.compiling import KernelMissing
from field.lanes.entries import KernelEntries, NoEntries

P = ParamSpec("P")
R = TypeVar("R")


@dataclasses.dataclass(frozen=True)  # No slots: `zeros` is cached in the instance.
class LaneWidth:
    """The number of lanes and the way to multiply; the first argument of each kernel.

    Kernels are specialised to it, and a process may use several: very long reports take fewer
    lanes, and tests take all widths.

    Attributes:
        lanes: Reports side by side: 1, 2, 4 or 8.
        has_multiply_add: Whether products are made by the instruction that multiplies 52-bit
            numbers and adds half of the product, in each lane. Otherwise 32-bit numbers are
            multiplied, which any processor can do.
        is_interpreted: Whether kernels run as plain Python, with `field.lanes.interpreter`. Any
            processor can then take any width.
    """

    lanes: int
    has_multiply_add: bool
    is_interpreted: bool = False

    def __len__(self) -> int:
        return self.lanes

    @cached_property
    def zeros(self) -> tuple[int, ...]:
        """What compiled code is given for the width: only its type matters."""
        return (False if self.has_multiply_add else 0,) * self.lanes


def compiled_width(zeros: types.UniTuple) -> LaneWidth:
    """Return the width whose `zeros` have this type."""
    return LaneWidth(zeros.count, has_multiply_add=zeros.dtype == types.boolean)


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` in nopython mode, cached on disk, and keep its type.

    A kernel makes no array, and copies none by an assignment, for which numba may make another. So
    it needs no allocator, and without one numba counts no references to arrays. Counting is an
    atomic step for every array that is passed on or taken out of a tuple; in kernels that do little
    per call it took half of the time.
    """
    return _compiled(function)


class _Kernel:
    """A kernel as callers see it: compiled code, if there is some.

    A kernel whose first argument is a `LaneWidth` is run uncompiled if the width says so.
    """

    def __init__(self, dispatcher: Any) -> None:  # noqa: ANN401  numba has no types
        self.dispatcher = dispatcher
        functools.update_wrapper(self, dispatcher.py_func)
        self._has_width = next(iter(inspect.signature(self).parameters), None) == "width"
        self._missing: set[object] = set()

    @property
    def _numba_type_(self) -> types.Type:
        """The type of this kernel in a kernel that calls it."""
        return self.dispatcher._numba_type_

    def __call__(self, *arguments: Any) -> object:  # noqa: ANN401  as the function says
        kind = None
        if self._has_width:
            width, *others = arguments
            if width.is_interpreted:
                return self.dispatcher.py_func(width, *others)
            kind, arguments = width.zeros, (width.zeros, *others)
        if kind in self._missing and not compiling.is_looking():
            raise KernelMissing
        try:
            result = self.dispatcher(*arguments)
        except KernelMissing:
            self._missing.add(kind)  # It is not asked for at every call.
            raise
        self._missing.discard(kind)
        return result


class _NoCode:
    """Stands where compiled code would, and there is no compiler."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.py_func = function

    def __call__(self, *_: object) -> object:
        raise KernelMissing


class _Step:
    """An inlined step as callers see it: kernels compile it, and Python calls it as it stands.

    So a step of one word is also one of many words, given arrays.
    """

    def __init__(self, dispatcher: Any) -> None:  # noqa: ANN401  numba has no types
        self.dispatcher = dispatcher
        functools.update_wrapper(self, dispatcher.py_func)

    @property
    def _numba_type_(self) -> types.Type:
        return self.dispatcher._numba_type_

    def __call__(self, *arguments: object) -> object:
        return self.dispatcher.py_func(*arguments)


def with_plain(compiled: Callable[P, R], plain: Callable[P, R]) -> Callable[P, R]:
    """Return a kernel in whose place `plain` is called as long as it is not compiled.

    Both take the same arguments, fill the same outputs and return the same.
    """
    if not isinstance(compiled, _Kernel):  # numba is told to compile nothing.
        return compiled
    return cast("Callable[P, R]", _Either(compiled, plain))


class _Either:
    def __init__(self, compiled: Any, plain: Any) -> None:  # noqa: ANN401  numba has no types
        self.compiled, self.plain = compiled, plain
        functools.update_wrapper(self, compiled)

    @property
    def dispatcher(self) -> object:
        return self.compiled.dispatcher

    def __call__(self, *arguments: object) -> object:
        try:
            return self.compiled(*arguments)
        except KernelMissing:
            if compiling.is_looking():
                raise
        return self.plain(*arguments)


def allocating_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a kernel that makes arrays."""
    return _compiled(function, allocates=True)


@functools.cache
def lanes() -> int:
    """Return how many reports to take side by side: 8 with AVX-512, else 4.

    For shorter vectors LLVM makes several instructions of one. Four lanes halve the time of one
    even with the two-word vectors that every x86-64 processor has.
    """
    return 8 if {"+avx512f", "+avx512dq"} <= processor_features() else 4


def has_multiply_add(lanes: int) -> bool:
    """Return whether this many lanes have an instruction to multiply and add 52-bit numbers."""
    features = processor_features()
    needed = {8: {"+avx512ifma"}, 4: {"+avx512ifma", "+avx512vl"}}
    return lanes in needed and needed[lanes] <= features


@functools.cache
def processor_features() -> frozenset[str]:
    """Return the features numba compiles for, with "+" before those the processor has."""
    if not compiler.IS_THERE:
        return frozenset()
    features = numba.config.CPU_FEATURES
    if features is None:
        features = binding.get_host_cpu_features().flatten()
    return frozenset(features.split(","))


@functools.cache
def lane_width(count: int | None = None) -> LaneWidth:
    """Return this processor's fastest width with `count` lanes, by default `lanes()`."""
    number = lanes() if count is None else count
    return LaneWidth(number, has_multiply_add(number))


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a step of a kernel: as `kernel`, but always inlined."""
    return _compiled(function, forceinline=True)


def _compiled(
    function: Callable[P, R], *, forceinline: bool = False, allocates: bool = False
) -> Callable[P, R]:
    if not compiler.IS_THERE:
        missing: Any = _NoCode(function)
        return cast("Callable[P, R]", _Step(missing) if forceinline else _Kernel(missing))
    decorated: Any = numba.njit(nogil=True, forceinline=forceinline, _nrt=allocates)(function)
    if decorated is function:  # numba is told to compile nothing.
        return decorated
    is_kept = kernel_cache(home(Path(function.__code__.co_filename))) is not None
    decorated._cache = KernelEntries(function) if is_kept else NoEntries()  # noqa: SLF001  as numba's own caching does
    return cast("Callable[P, R]", _Step(decorated) if forceinline else _Kernel(decorated))


def multiply_wide(a: np.uint64, b: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Return the low and the high word of the 128-bit product; one instruction in a kernel."""
    if _is_of_arrays(a, b):
        return wide.product(a, b)
    product = int(a) * int(b)
    return np.uint64(product & 0xFFFFFFFFFFFFFFFF), np.uint64(product >> 64)


def add_carry(a: np.uint64, b: np.uint64, carry: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Return the low word of a + b + carry, and the carry out. Carries are 0 or 1."""
    if _is_of_arrays(a, b, carry):
        return wide.sum_with_carry(a, b, carry)
    total = int(a) + int(b) + int(carry)
    return np.uint64(total & 0xFFFFFFFFFFFFFFFF), np.uint64(total >> 64)


def subtract_borrow(a: np.uint64, b: np.uint64, borrow: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Return the low word of a - b - borrow, and the borrow out. Borrows are 0 or 1."""
    if _is_of_arrays(a, b, borrow):
        return wide.difference_with_borrow(a, b, borrow)
    total = int(a) - int(b) - int(borrow)
    return np.uint64(total & 0xFFFFFFFFFFFFFFFF), np.uint64(total < 0)


def _is_of_arrays(*operands: object) -> bool:
    return any(isinstance(operand, np.ndarray) for operand in operands)


def opaque(word: np.uint64) -> np.uint64:
    """Return the word, but hide from the compiler what it knows about it.

    A mask made from a carry is 0 or all ones. A compiler that knows that may branch on the carry
    instead of using the mask (LLVM does), and timing would reveal something about a secret.
    """
    return word


def _wide(
    formula: Callable[..., ir.Value], arity: int
) -> tuple[Signature, Callable[..., ir.Value]]:
    """Return the type and code of an intrinsic from words to the low and high word of a result.

    It computes in 128 bits. LLVM turns that into multiplications with a double-length result and
    chains of additions with carry.
    """
    word, wide = ir.IntType(64), ir.IntType(128)

    def generate(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, words: list[ir.Value]
    ) -> ir.Value:
        result = formula(builder, *(builder.zext(operand, wide) for operand in words))
        low = builder.trunc(result, word)
        high = builder.trunc(builder.lshr(result, ir.Constant(wide, 64)), word)
        return context.make_tuple(builder, signature.return_type, (low, high))

    return types.UniTuple(types.uint64, 2)(*[types.uint64] * arity), generate


@intrinsic  # type: ignore[untyped-decorator]  # numba has no types
def _wide_product(_context: object, _a: types.Type, _b: types.Type) -> object:
    return _wide(lambda builder, a, b: builder.mul(a, b), 2)


@intrinsic  # type: ignore[untyped-decorator]  # numba has no types
def _wide_sum(_context: object, _a: types.Type, _b: types.Type, _carry: types.Type) -> object:
    return _wide(lambda builder, a, b, carry: builder.add(builder.add(a, b), carry), 3)


@intrinsic  # type: ignore[untyped-decorator]  # numba has no types
def _wide_difference(
    _context: object, _a: types.Type, _b: types.Type, _borrow: types.Type
) -> object:
    def formula(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, borrow: ir.Value) -> ir.Value:
        # The high word is 0 or all ones; one bit of it is the borrow.
        mask = ir.Constant(ir.IntType(128), (1 << 65) - 1)
        return builder.and_(builder.sub(builder.sub(a, b), borrow), mask)

    return _wide(formula, 3)


@intrinsic  # type: ignore[untyped-decorator]  # numba has no types
def _hidden(_context: object, _word: types.Type) -> tuple[object, Callable[..., object]]:
    def generate(
        _context: BaseContext, builder: ir.IRBuilder, _signature: Signature, words: list[ir.Value]
    ) -> ir.Value:
        # No instruction, but to LLVM some code that takes a register and leaves its result there.
        word = ir.IntType(64)
        return builder.asm(ir.FunctionType(word, [word]), "", "=r,0", words, side_effect=False)

    return types.uint64(types.uint64), generate


# Kernels call the intrinsics; an uncompiled kernel calls the functions.
overload(multiply_wide)(lambda a, b: lambda a, b: _wide_product(a, b))  # noqa: ARG005, PLW0108  numba matches the names
overload(add_carry)(lambda a, b, carry: lambda a, b, carry: _wide_sum(a, b, carry))  # noqa: ARG005, PLW0108  numba matches the names
overload(subtract_borrow)(lambda a, b, borrow: lambda a, b, borrow: _wide_difference(a, b, borrow))  # noqa: ARG005, PLW0108  numba matches the names
overload(opaque)(lambda word: lambda word: _hidden(word))  # noqa: ARG005, PLW0108  numba matches the names
