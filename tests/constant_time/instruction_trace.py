"""What a kernel does step by step, as a debugger sees it: the same for all secrets, or not.

A *trace* is the sequence of the addresses of all instructions that a call executes and, with each,
the registers that make up the address of its operand in memory, or that it divides. Two calls with
the same trace took the same branches, read and wrote the same places, and divided the same numbers.

A branch on a secret may be taken only once in 2^32 times: a reduction seldom has anything to
subtract. So a trace also has the flags at each conditional jump. They tell the sign and the parity
of the difference that was compared, which vary between secrets even where the jump does not.

`differences` takes calls of one kernel whose arrays have different contents. Each runs in a child
process, forked when all is compiled and ready. The child copies its call's contents into the arrays
of the first call, so that addresses are the same, and stops itself from the kernel's first
instruction to its return, for a signal's handler to write all registers down.

The first call stops after each instruction: the processor's trap flag is set. The others have to
follow it, and stop only before instructions of the kernel's own code that matter, at breakpoints,
which are five times as quick. From one to the next there are only instructions that are followed by
the next in memory; anything else, as a jump, is stepped by the trap flag, and so is code of other
libraries. A call that did not follow is stepped once more, after each instruction, to say where.
What the kernel calls in turn, to copy or allocate memory, is in the trace, but not the flags there:
an allocator compares what is on the heap.

The README beside this file lists what a trace does not show.
"""

import ctypes
import mmap
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
import pytest
from numba.extending import intrinsic

from tests.constant_time.machine_code import FLAGS, MAX_SIZE, falls_through, watched_registers

Words = npt.NDArray[np.uint64]

MAX_STEPS = 500_000
"""A call that takes more is lost."""

# Places in the context of a signal, Linux's `ucontext_t`, in words.
_STACK, _REGISTERS, _RSP, _RIP, _FLAGS = 2, 5, 20, 21, 22
_NUM_REGISTERS = 18
_NUMBERED = (13, 14, 12, 11, 15, 10, 9, 8, 0, 1, 2, 3, 4, 5, 6, 7, 17)
"""Places, after the first, of the registers that machine code numbers 0 to 15, and of the flags."""
_TRAP = 0x100
_TESTED = 0x8C4
"""Overflow, sign, zero and parity. The carry may be older: increments leave it alone."""
_NAMES = (
    "rax",
    "rcx",
    "rdx",
    "rbx",
    "rsp",
    "rbp",
    "rsi",
    "rdi",
    *(f"r{i}" for i in range(8, 16)),
    "flags",
)

_BREAKPOINT = 0xCC
WORD_SIZE = 8

# What a child shares with its parent, in words: how many stops there were, whether the kernel has
# returned, the stack pointer at its first instruction, the address of the plan that it follows, the
# byte that a breakpoint replaces, where kernels begin and the bytes there, then registers, and last
# the handler's stack.
_LENGTH, _HAS_RETURNED, _BOTTOM, _PLAN, _REPLACED, _NUM_ENTRIES, _ENTRIES = range(7)
_MAX_ENTRIES = 100
_STEPS = _ENTRIES + 2 * _MAX_ENTRIES
_HANDLER_STACK = 1 << 13
_SHARED_WORDS = _STEPS + MAX_STEPS * _NUM_REGISTERS + _HANDLER_STACK

# A plan is the number of stops, then for each its address, and whether all is straight from it to
# the next.
_PLAN_WORDS = 1 + 2 * MAX_STEPS

_SIGINFO, _ONSTACK = 4, 0x08000000
_ALL_RIGHTS = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC


class _Action(ctypes.Structure):
    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_uint64 * 16),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


class _Stack(ctypes.Structure):
    _fields_ = (
        ("start", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("size", ctypes.c_size_t),
    )


_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class Call:
    """A kernel and its arguments: arrays, numbers, and tuples of them.

    The call is for what the arrays hold when this is made; they may change afterwards.
    """

    def __init__(self, kernel: Callable[..., None], *arguments: object) -> None:
        self.kernel = kernel
        self.arguments = arguments
        self.contents = [array_.copy() for array_ in self.arrays()]

    def run(self) -> None:
        self.kernel(*self.arguments)

    def arrays(self) -> list[npt.NDArray[Any]]:
        return [leaf for leaf in _leaves(self.arguments) if isinstance(leaf, np.ndarray)]

    def form(self) -> tuple[object, ...]:
        """Return what is public: numbers, and the sizes and memory layouts of arrays."""
        return tuple(
            (leaf.shape, leaf.strides, leaf.dtype, leaf.flags.writeable)
            if isinstance(leaf, np.ndarray)
            else leaf
            for leaf in _leaves(self.arguments)
        )


def captured(kernels: Iterable[tuple[object, str]], run: Callable[[], object]) -> list[Call]:
    """Return the calls that `run` makes of some kernels, each given by its module and name."""
    calls: list[Call] = []

    def watched(kernel: Callable[..., None]) -> Callable[..., None]:
        def call(*arguments: object) -> None:
            calls.append(Call(kernel, *arguments))
            kernel(*arguments)

        return call

    with pytest.MonkeyPatch.context() as monkeypatch:
        for module, name in kernels:
            monkeypatch.setattr(module, name, watched(getattr(module, name)))
        run()
    return calls


def _compiled() -> list[range]:
    """Return where code that is in no file is: all that was compiled."""
    found = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, permissions, _, _, _, *name = line.split()
        if "x" in permissions and not name:
            low, high = (int(end, 16) for end in span.split("-"))
            found.append(range(low, high))
    return found


class _Trace:
    """The steps of a call.

    Attributes:
        addresses: Of the instructions, in order.
        watched: For each of them a row of the registers, as machine code numbers them; those that
            do not matter there are zero.
        masks: What of the registers matters there.
        is_straight: Whether each is in the kernel's own code and followed by the next in memory.
    """

    def __init__(self, steps: Words) -> None:
        self.addresses = steps[:, _RIP - _REGISTERS]
        instructions, places = np.unique(self.addresses, return_inverse=True)
        compiled = _compiled()
        masks = np.zeros((len(instructions), len(_NUMBERED)), np.uint64)
        is_straight = np.zeros(len(instructions), np.bool_)
        for index, address in enumerate(map(int, instructions)):
            # This process has the same code at the same address.
            code = ctypes.string_at(address, MAX_SIZE)
            is_own = any(address in span for span in compiled)
            masks[index, list(watched_registers(code))] = ~np.uint64(0)
            masks[index, FLAGS] &= np.uint64(_TESTED if is_own else 0)
            is_straight[index] = is_own and falls_through(code)
        self.masks, self.is_straight = masks[places], is_straight[places]
        self.watched = steps[:, _NUMBERED] & self.masks
        further = np.diff(self.addresses)[self.is_straight[:-1]]
        assert ((further > 0) & (further <= MAX_SIZE)).all(), "straight code goes elsewhere"

    def __len__(self) -> int:
        return len(self.addresses)

    def stops(self) -> npt.NDArray[np.intp]:
        """Return which steps another call has to be seen at, to have the same trace."""
        after_jump = np.append(True, ~self.is_straight[:-1])
        return np.flatnonzero(self.masks.any(axis=1) | ~self.is_straight | after_jump)

    def is_followed(self, stops: npt.NDArray[np.intp], seen: Words) -> bool:
        """Return whether a call that was seen at these registers has this trace."""
        return (
            len(seen) == len(stops)
            and np.array_equal(seen[:, _RIP - _REGISTERS], self.addresses[stops])
            and np.array_equal(seen[:, _NUMBERED] & self.masks[stops], self.watched[stops])
        )


def why_not() -> str | None:
    """Return why no trace can be taken here, None if one can."""
    if not sys.platform.startswith("linux") or platform.machine() != "x86_64":
        return f"traces are taken on Linux on x86-64, not on {sys.platform}, {platform.machine()}"
    if numba.config.DISABLE_JIT:
        return "kernels are not compiled"
    return None


def differences(first: Call, others: Mapping[str, Call]) -> list[str]:
    """Return where the traces of other calls differ from that of the first, if anywhere.

    Args:
        first: A call; the contents of its arrays are meaningless afterwards.
        others: Calls of the same kernel with equal numbers and arrays of equal size, by name.
    """
    for call in others.values():
        assert call.kernel is first.kernel, "calls of one kernel are compared"
        assert call.form() == first.form(), "what is public is the same in all calls"
    parted = _parted(first, list(others.values()))
    return [
        f"{name}: {_explain(first, *_traces([first, call]))}"
        for (name, call), has in zip(others.items(), parted, strict=True)
        if has
    ]


def num_steps(call: Call) -> int:
    """Return how many instructions a call executes."""
    (trace,) = _traces([call])
    return len(trace)


def _leaves(argument: object) -> Iterator[object]:
    if isinstance(argument, tuple):
        for part in argument:
            yield from _leaves(part)
    else:
        yield argument


def _traces(calls: Sequence[Call]) -> list[_Trace]:
    """Return the traces of the first call with what the arrays of each call hold."""
    with _children(calls, None) as children:
        return [child.trace() for child in children]


def _parted(first: Call, others: Sequence[Call]) -> list[bool]:
    """Return for each of some calls whether its trace is another than the first call's."""
    plan = _shared_words(_PLAN_WORDS)
    with _children([first, *others], plan) as (child, *children):
        expected = child.trace()
        stops = expected.stops()
        plan[0] = len(stops)
        plan[1 : 1 + 2 * len(stops)] = np.column_stack(
            (expected.addresses[stops], expected.is_straight[stops])
        ).ravel()
        return [not expected.is_followed(stops, each.stepped()) for each in children]


def _shared_words(number: int) -> Words:
    return np.frombuffer(mmap.mmap(-1, WORD_SIZE * number), np.uint64)


@contextmanager
def _children(calls: Sequence[Call], plan: Words | None) -> Iterator[list["_Child"]]:
    """Start a child for each call, which waits; all but the first will follow a plan, if given."""
    first = calls[0]
    first.run()
    prepare = partial(_prepare, first, _entries(first.kernel), _recorder().address, _compiled())
    children = [_Child() for _ in calls]
    # The first child is not stepped: the first fork allocates memory, too.
    prepared = [(_Child(), partial(_copy, first, first))]
    for call, child in zip(calls, children, strict=True):
        follows = 0 if plan is None or call is first else plan.ctypes.data
        prepared.append((child, partial(prepare, call, child.shared, follows)))
    with _forks_without_warning():
        try:
            # All are forked before one goes on, and nothing but a number is made in between, so
            # that a kernel that makes arrays is given the same addresses in every child.
            for child, each in prepared:
                child.pid = _fork(each, first.run)
            yield children
        finally:
            for child, _ in prepared:
                child.end()


class _Child:
    """A child that waits to be let go on.

    Attributes:
        pid: Its number, zero before it is there and once it has ended.
        shared: What it writes down.
    """

    def __init__(self) -> None:
        self.pid = 0
        self.shared = _shared_words(_SHARED_WORDS)

    def stepped(self) -> Words:
        """Let the child go on; return the registers at each of its stops, a row each."""
        _, status = os.waitpid(self.pid, os.WUNTRACED)
        if os.WIFSTOPPED(status):
            os.kill(self.pid, signal.SIGCONT)
            _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        if status != 0:
            raise RuntimeError(f"a stepped child ended with status {status}")
        length = int(self.shared[_LENGTH])
        if length == MAX_STEPS:
            raise RuntimeError(f"a call takes more than {MAX_STEPS} steps")
        end = _STEPS + length * _NUM_REGISTERS
        return self.shared[_STEPS:end].reshape(length, _NUM_REGISTERS)

    def trace(self) -> _Trace:
        """Let the child go on; return its trace, if it was stepped to the kernel's return."""
        steps = self.stepped()
        if not self.shared[_HAS_RETURNED]:
            raise RuntimeError(f"a kernel was not stepped to its return, but {len(steps)} times")
        return _Trace(steps)

    def end(self) -> None:
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)


@contextmanager
def _forks_without_warning() -> Iterator[None]:
    """Silence the warning about forks.

    Python warns if there are other threads, which may hold a lock that a child waits for. A child
    here only copies and calls compiled code; the threads are those of numpy's BLAS.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def _entries(kernel: object) -> list[int]:
    """Return where the code of a kernel begins, for each of the types it was compiled for."""
    found = {
        compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)
        for compiled in _overloads(kernel)
    }
    assert len(found) <= _MAX_ENTRIES
    return sorted(found)


def _copy(call: Call, first: Call) -> None:
    """Copy the contents of another call into the arrays of the first; in a child only."""
    for array_, content in zip(first.arrays(), call.contents, strict=True):
        assert array_.flags.c_contiguous
        # Read-only arrays too: a child's memory is its own.
        ctypes.memmove(array_.ctypes.data, content.ctypes.data, array_.nbytes)


def _prepare(
    first: Call,
    entries: Sequence[int],
    handler: int,
    compiled: Sequence[range],
    call: Call,
    shared: Words,
    plan: int,
) -> None:
    """Make a child ready for the call, and let the handler begin where a kernel does."""
    _copy(call, first)
    # The handler finds what is shared at the other end of its stack.
    stack = _Stack(shared.ctypes.data, 0, shared.nbytes)
    action = _Action(handler, flags=_SIGINFO | _ONSTACK)
    _succeed(_libc.sigaltstack(ctypes.byref(stack), None))
    _succeed(_libc.sigaction(signal.SIGTRAP, ctypes.byref(action), None))
    for span in compiled:
        _succeed(_libc.mprotect(span.start, len(span), _ALL_RIGHTS))
    shared[_PLAN] = plan
    shared[_NUM_ENTRIES] = len(entries)
    for index, entry in enumerate(entries):
        byte = ctypes.c_uint8.from_address(entry)
        shared[_ENTRIES + 2 * index] = entry
        shared[_ENTRIES + 2 * index + 1] = byte.value
        byte.value = _BREAKPOINT


def _succeed(status: int) -> None:
    if status != 0:
        raise OSError(ctypes.get_errno(), "a child cannot be made ready to be stepped")


def _fork(prepare: Callable[[], None], run: Callable[[], None]) -> int:
    """Start a child that prepares, stops, and runs once its parent lets it."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        prepare()
        os.kill(os.getpid(), signal.SIGSTOP)
        run()
        status = 0
    finally:
        os._exit(status)


@cache
def _recorder() -> Any:  # noqa: ANN401, C901  numba has no types; what it compiles is one function
    """Compile the handler of the signal that a breakpoint or the trap flag raises."""
    words, bytes_ = (numba.types.CPointer(type_) for type_ in (numba.uint64, numba.uint8))
    trap = np.uint64(_TRAP)
    no_trap = ~trap

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401  numba's own
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    @intrinsic  # type: ignore[untyped-decorator]  # numba has no types
    def words_at(_: object, _address: object) -> Any:  # noqa: ANN401  numba's own
        return words(numba.uint64), code

    @intrinsic  # type: ignore[untyped-decorator]  # numba has no types
    def bytes_at(_: object, _address: object) -> Any:  # noqa: ANN401  numba's own
        return bytes_(numba.uint64), code

    @numba.cfunc(numba.void(numba.int32, words, words))  # type: ignore[untyped-decorator]  # numba's
    def record(_number: int, _info: Words, context: Words) -> None:
        shared = words_at(context[_STACK])
        length = shared[_LENGTH]
        plan = words_at(shared[_PLAN])
        follows = shared[_PLAN] != 0
        next_ = np.uint64(1) + np.uint64(2) * length
        if shared[_BOTTOM] == 0:
            # At the breakpoint where the kernel begins. What was there is put back and executed.
            for entry in range(shared[_NUM_ENTRIES]):
                bytes_at(shared[_ENTRIES + 2 * entry])[0] = shared[_ENTRIES + 2 * entry + 1]
            context[_RIP] -= np.uint64(1)
            shared[_BOTTOM] = context[_RSP]
        elif follows and plan[next_ - np.uint64(1)]:
            # At the breakpoint behind straight code.
            context[_RIP] -= np.uint64(1)
            bytes_at(context[_RIP])[0] = shared[_REPLACED]
        context[_FLAGS] &= no_trap
        # Once the kernel has returned, its return address is off the stack.
        shared[_HAS_RETURNED] = context[_RSP] > shared[_BOTTOM]
        if shared[_HAS_RETURNED] or length == MAX_STEPS:
            return
        start = _STEPS + length * np.uint64(_NUM_REGISTERS)
        for register in range(_NUM_REGISTERS):
            shared[start + np.uint64(register)] = context[_REGISTERS + register]
        shared[_LENGTH] = length + np.uint64(1)
        if follows and (length == plan[0] or context[_RIP] != plan[next_]):
            return
        if follows and plan[next_ + np.uint64(1)]:
            byte = bytes_at(plan[next_ + np.uint64(2)])
            shared[_REPLACED] = byte[0]
            byte[0] = np.uint8(_BREAKPOINT)
        else:
            context[_FLAGS] |= trap

    return record


def _explain(first: Call, expected: _Trace, found: _Trace) -> str:
    """Say where two traces part, with the code there."""
    length = min(len(expected), len(found))
    same = expected.addresses[:length] == found.addresses[:length]
    values, other_values = expected.watched[:length], found.watched[:length]
    parted = np.flatnonzero(~same | (values != other_values).any(axis=1))
    if parted.size == 0:
        assert len(expected) != len(found), "a call parts only if it is not stepped"
        last = int(expected.addresses[length - 1])
        return f"one trace ends where the other goes on, after\n{_listing(first.kernel, last)}"
    step = int(parted[0])
    address = int(expected.addresses[step])
    if not same[step]:
        what = f"goes on at {int(found.addresses[step]):#x} instead of {address:#x}"
        last = int(expected.addresses[max(step - 1, 0)])
        return f"step {step} {what} after\n{_listing(first.kernel, last)}"
    names = [_NAMES[number] for number in np.flatnonzero(values[step] != other_values[step])]
    what = f"has another value in {', '.join(names)}, of an address, a division or a jump"
    return f"step {step} {what}, at\n{_listing(first.kernel, address)}"


def _listing(kernel: object, address: int) -> str:
    """Name an instruction of a kernel, and disassemble it and some after it if possible."""
    start, name = _function(kernel, address)
    place = f"{name}+{address - start:#x}" if start else f"{address:#x}, not the kernel's own code"
    code = ctypes.string_at(address, 3 * MAX_SIZE)
    objdump = shutil.which("objdump")
    if objdump is None:
        return f"{place}: {code.hex(' ')}"
    with tempfile.NamedTemporaryFile() as file:
        file.write(code)
        file.flush()
        options = ["-D", "-b", "binary", "-m", "i386:x86-64", f"--adjust-vma={address:#x}"]
        done = subprocess.run(  # noqa: S603  a program found on the path, and a file of ours
            [objdump, *options, file.name], check=True, capture_output=True, text=True
        )
    lines = [line for line in done.stdout.splitlines() if "\t" in line]
    return "\n".join([place, *lines[:3]])


def _function(kernel: object, address: int) -> tuple[int, str]:
    """Return the start and the name of the function in a kernel's code that has an instruction.

    A kernel from numba's cache knows only its first function's name. Returns zero and an empty name
    if no function begins in the megabyte before the instruction.
    """
    functions = [(0, "")]
    for compiled in _overloads(kernel):
        defined = [function.name for function in compiled.library.get_defined_functions()]
        for name in (*defined, compiled.fndesc.llvm_func_name):
            start = compiled.library.get_pointer_to_function(name)
            if 0 <= address - start < 1 << 20:
                functions.append((start, name))
    return max(functions)


def _overloads(kernel: object) -> list[Any]:
    """Return the compiled versions of a kernel."""
    dispatcher = getattr(kernel, "dispatcher", kernel)
    return list(getattr(dispatcher, "overloads", {}).values())
