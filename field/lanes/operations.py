"""Operations: what kernels call to compute on words, compiled with them or interpreted.

A *kernel* is a function that `field.lanes.jit.kernel` compiles.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from field.lanes.compiler import BaseContext, Signature, ir, lower_builtin, type_callable, types
from field.lanes.emitter import I64, Emitted, Emitter
from field.lanes.interpreter import Interpreter
from field.lanes.jit import LaneWidth, compiled_width
from field.lanes.residues import Residues
from field.lanes.words import Code, Integer, Place, Rows, Scalars


def operation(body: Callable[..., None]) -> Callable[..., None]:
    """Make a vector operation that kernels can call from `body`, which computes with a `Code`.

    The body's first parameter is the `Code`; kernels pass `width` for it. The annotations of the
    others say what a kernel passes:

    - `Place`: a lane array, or a pair of one and a row of it;
    - `Scalars`: a `uint64` array, or a pair of one and an index into it;
    - `Rows`: a pair of any array and the index of the byte where lane 0 begins;
    - `Integer`: an integer.

    Arrays are contiguous. Compiled code checks no index, interpreted code checks all. All callers
    share one compiled function per module; inlining each use would take ten times as long to
    compile.
    """
    parameters = list(inspect.signature(body).parameters.values())
    kinds = [parameter.annotation for parameter in parameters[1:]]
    names = ["width", *(parameter.name for parameter in parameters[1:])]
    call = inspect.Signature([p.replace(name=n) for p, n in zip(parameters, names, strict=True)])

    @functools.wraps(body)
    def interpreted(*arguments: Any, **named: Any) -> None:  # noqa: ANN401  as the body says
        width, *given = call.bind(*arguments, **named).args
        _interpret(body, kinds, width, given)

    @type_callable(interpreted)  # type: ignore[untyped-decorator]  # numba has no types
    def _typed(_context: object) -> Callable[..., Signature]:
        def typer(*arguments: types.Type, **named: types.Type) -> Signature:
            given = call.bind(*arguments, **named).args
            return types.void(*(_expected(argument) for argument in given))

        # numba orders keyword arguments by it.
        typer.__signature__ = call  # type: ignore[attr-defined]  # it does
        return typer

    @lower_builtin(interpreted, types.VarArg(types.Any))  # type: ignore[untyped-decorator]  # as above
    def _lowered(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, values: list[ir.Value]
    ) -> ir.Value:
        _emit_call(body, kinds, _Call(context, builder, signature.args, values))
        return context.get_dummy_value()

    return interpreted


def operation_over(
    residues: Callable[[Code], Residues], body: Callable[..., None]
) -> Callable[..., None]:
    """Make an operation from a body that takes the `Residues` of a field instead of a `Code`.

    `residues` is that of `field64` or `field128`.
    """

    @functools.wraps(body)
    def over(code: Code, *operands: Any) -> None:  # noqa: ANN401  as the body says
        body(residues(code), *operands)

    # Compiled operations are found by name.
    over.__qualname__ = f"{body.__qualname__}.{residues.__module__}"
    return operation(over)


def _interpret(
    body: Callable[..., None], kinds: Sequence[type], width: LaneWidth, given: Sequence[Any]
) -> None:
    code = Interpreter(width.lanes, has_multiply_add=width.has_multiply_add)
    operands = []
    for kind, argument in zip(kinds, given, strict=True):
        if kind is Integer:
            operands.append(int(argument))
            continue
        array, index = argument if isinstance(argument, tuple) else (argument, 0)
        elements = array.view(np.uint8) if kind is Rows else array
        operands.append(kind(code, (elements, int(index))))
    body(code, *operands)


def _expected(argument: types.Type) -> types.Type:
    """Return the type that an argument is passed as; all integers have 64 bits."""
    if isinstance(argument, types.BaseTuple) and isinstance(argument[0], types.Array):
        return types.Tuple((argument[0], types.int64))
    is_integer = isinstance(argument, (types.Integer, types.Boolean))
    return types.int64 if is_integer else argument


@dataclasses.dataclass(frozen=True, slots=True)
class _Call:
    """One call of an operation in a kernel that numba is compiling; `width` is its first value."""

    context: BaseContext
    builder: ir.IRBuilder
    kinds: Sequence[types.Type]
    values: Sequence[ir.Value]

    def operands(self, kinds: Sequence[type], lanes: int) -> Iterator[ir.Value]:
        """Yield integers as they are, and pointers to where the other operands begin."""
        builder = self.builder
        for kind, given, value in zip(kinds, self.kinds[1:], self.values[1:], strict=True):
            if kind is Integer:
                yield value
                continue
            array, index, array_type = value, None, given
            if isinstance(given, types.BaseTuple):
                array, index = (builder.extract_value(value, place) for place in range(2))
                array_type = given[0]
            data = self.context.make_array(array_type)(self.context, builder, array).data
            pointer = builder.bitcast(data, _pointer(kind, lanes))
            yield pointer if index is None else builder.gep(pointer, [index])


def _pointer(kind: type, lanes: int) -> ir.PointerType:
    pointees: dict[type, ir.Type] = {
        Place: ir.VectorType(I64, lanes),
        Scalars: I64,
        Rows: ir.IntType(8),
    }
    return pointees[kind].as_pointer()


def _emit_call(body: Callable[..., None], kinds: Sequence[type], call: _Call) -> None:
    width = compiled_width(call.kinds[0])
    name = f"lanes{width.lanes}.{int(width.has_multiply_add)}.{body.__module__}.{body.__qualname__}"
    function = call.builder.module.globals.get(name)
    if function is None:
        function = _emit_function(body, kinds, width, call.builder.module, name)
    call.builder.call(function, list(call.operands(kinds, width.lanes)))


def _emit_function(
    body: Callable[..., None],
    kinds: Sequence[type],
    width: LaneWidth,
    module: ir.Module,
    name: str,
) -> ir.Function:
    parameters = [I64 if kind is Integer else _pointer(kind, width.lanes) for kind in kinds]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), parameters), name)
    function.linkage = "linkonce_odr"
    function.attributes.add("noinline")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    code = Emitter(builder, width.lanes, has_multiply_add=width.has_multiply_add)
    operands = [
        Emitted(builder, argument) if kind is Integer else kind(code, argument)
        for kind, argument in zip(kinds, function.args, strict=True)
    ]
    body(code, *operands)
    builder.ret_void()
    return function


@operation
def copy_words(code: Code, out: Place, source: Place, count: Integer) -> None:
    """Copy `count` words."""
    for index in code.repeat(count):
        out.moved(index).store(source.moved(index).load())


@operation
def xor_words(code: Code, out: Place, other: Place, count: Integer) -> None:
    """Set each of `count` words to its exclusive or with another."""
    for index in code.repeat(count):
        place = out.moved(index)
        place.store(place.load() ^ other.moved(index).load())
