"""Memory for a kernel's lane arrays, in one piece that the kernel cuts up.

Making and passing so many arrays in Python takes longer than verifying a small batch. A kernel
names its arrays once, in a generic named tuple: one of integers says how many rows each array has,
and one of lane arrays is what the kernel works on.
"""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from field.lanes.arrays import CACHE_LINE_SIZE, WORD_SIZE, LaneArray
from field.lanes.compiler import (
    BaseContext,
    Signature,
    ir,
    lower_builtin,
    populate_array,
    type_callable,
    types,
)
from field.lanes.jit import LaneWidth, inlined

Rows = TypeVar("Rows", bound=tuple[int, ...])


class Workspace(NamedTuple):
    """Memory for the lane arrays of a kernel.

    Attributes:
        memory: Room for all of them, one after another from the start of a cache line.
        ends: The row at which each of them ends, by name.
    """

    memory: npt.NDArray[np.uint64]
    ends: tuple[int, ...]

    @override
    def __repr__(self) -> str:
        """Show nothing: the memory holds secrets."""
        return "Workspace()"


def row_ends(counts: Rows, lanes: int) -> Rows:
    """Return where lane arrays end that each have this many rows and `lanes` spare ones.

    Copying words to rows of bytes reads some words beyond the last, without using them, and
    gathering words from rows sets some beyond the last to zero.
    """
    ends = itertools.accumulate(count + lanes for count in counts)
    return cast("Callable[..., Rows]", type(counts))(*ends)


def new_workspace(ends: tuple[int, ...], lanes: int) -> Workspace:
    """Return memory for lane arrays that end at these rows."""
    spare = CACHE_LINE_SIZE // WORD_SIZE
    return Workspace(np.empty(ends[-1] * lanes + spare, np.uint64), ends)


@inlined
def cut(width: LaneWidth, workspace: Workspace) -> Any:  # noqa: ANN401  a tuple of the ends' kind
    """Return the lane arrays in a workspace, in a named tuple of the class of `ends`."""
    lanes, rows, memory = len(width), workspace.ends[-1], workspace.memory
    # So a vector of eight lanes lies in one cache line.
    start = -(memory.ctypes.data // WORD_SIZE) % (CACHE_LINE_SIZE // WORD_SIZE)
    return _parts(memory[start : start + rows * lanes].reshape(rows, lanes), workspace.ends)


def _parts(words: LaneArray, ends: tuple[int, ...]) -> tuple[LaneArray, ...]:
    """Return the rows up to each end; a kernel cannot make a tuple of a class it does not name."""
    starts = (0, *ends[:-1])
    make = cast("Callable[..., tuple[LaneArray, ...]]", type(ends))
    return make(*(words[start:end] for start, end in zip(starts, ends, strict=True)))


@type_callable(_parts)  # type: ignore[untyped-decorator]  # numba has no types
def _parts_type(_context: object) -> Callable[..., types.Type]:
    def typer(words: types.Array, ends: types.NamedUniTuple) -> types.Type:
        return types.NamedUniTuple(words, ends.count, ends.instance_class)

    return typer


@lower_builtin(_parts, types.Array, types.NamedUniTuple)  # type: ignore[untyped-decorator]  # as above
def _compile_parts(
    context: BaseContext, builder: ir.IRBuilder, signature: Signature, values: list[ir.Value]
) -> ir.Value:
    words, ends = values
    array = signature.return_type.dtype
    whole = context.make_array(array)(context, builder, words)
    num_lanes = builder.extract_value(whole.shape, 1)
    start, parts = context.get_constant(types.intp, 0), []
    for place in range(signature.return_type.count):
        end = builder.extract_value(ends, place)
        part = context.make_array(array)(context, builder)
        populate_array(
            part,
            data=builder.gep(whole.data, [builder.mul(start, num_lanes)]),
            shape=(builder.sub(end, start), num_lanes),
            strides=whole.strides,
            itemsize=whole.itemsize,
            meminfo=whole.meminfo,
        )
        parts.append(part._getvalue())  # noqa: SLF001  so numba's own code asks for it
        start = end
    return context.make_tuple(builder, signature.return_type, parts)
