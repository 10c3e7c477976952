"""Compiled kernels with their types kept. Only this module and the two lane modules name numba."""

from collections.abc import Callable
from typing import ParamSpec, TypeAlias, TypeVar, cast

import llvmlite.binding
import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core.base import BaseContext
from numba.core.typing import Signature
from numba.extending import intrinsic, overload

P = ParamSpec("P")
R = TypeVar("R")

LaneWidth: TypeAlias = tuple[int, ...]
"""How many lanes, as a type: a tuple of that many zeros."""


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` in nopython mode, cached on disk, and keep its type."""
    compiled = numba.njit(cache=True, nogil=True)(function)
    return cast("Callable[P, R]", compiled)


def lanes() -> int:
    """Return how many reports this processor takes side by side: 8, 4 or 1."""
    features = numba.config.CPU_FEATURES
    if features is None:
        features = llvmlite.binding.get_host_cpu_features().flatten()
    enabled = set(features.split(","))
    if "+avx512f" in enabled and "+avx512dq" in enabled:
        return 8
    return 4 if "+avx2" in enabled else 1


def lane_width(count: int | None = None) -> LaneWidth:
    """Return `count` lanes, this processor's number if none is given, as `width` arguments."""
    return (0,) * (lanes() if count is None else count)


def multiply_wide(a: np.uint64, b: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Return the low and the high word of the 128-bit product, in a kernel by one instruction."""
    product = int(a) * int(b)
    return np.uint64(product & 0xFFFFFFFFFFFFFFFF), np.uint64(product >> 64)


@intrinsic  # type: ignore[untyped-decorator]  # numba has no types
def _wide_product(
    _context: object,
    _a: types.Type,
    _b: types.Type,
) -> tuple[object, Callable[..., object]]:
    word, wide = ir.IntType(64), ir.IntType(128)

    def generate(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, words: list[ir.Value]
    ) -> ir.Value:
        product = builder.mul(builder.zext(words[0], wide), builder.zext(words[1], wide))
        high = builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), word)
        low = builder.trunc(product, word)
        return context.make_tuple(builder, signature.return_type, (low, high))

    return types.UniTuple(types.uint64, 2)(types.uint64, types.uint64), generate


@overload(multiply_wide)  # type: ignore[untyped-decorator]  # numba has no types
def _compile_multiply_wide(
    a: types.Type,  # noqa: ARG001  numba matches the names
    b: types.Type,  # noqa: ARG001  numba matches the names
) -> Callable[..., object]:
    # Kernels call the intrinsic; an uncompiled kernel calls the function above.
    def implementation(a: types.Type, b: types.Type) -> object:
        return _wide_product(a, b)

    return implementation
