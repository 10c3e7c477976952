"""Compiled kernels with their types kept. Only this module and the two lane modules name numba."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` in nopython mode, cached on disk, and keep its type."""
    compiled = numba.njit(cache=True, nogil=True)(function)
    return cast("Callable[P, R]", compiled)
