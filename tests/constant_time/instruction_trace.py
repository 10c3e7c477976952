"""What a kernel does step by step, as a debugger sees it: the same for all secrets, or not.

A *trace* is the sequence of the addresses of all instructions that a call executes and, with each,
the registers that make up the address of its operand in memory, or that it divides. Two calls with
the same trace took the same branches, read and wrote the same places, and divided the same numbers.

A branch on a secret may be taken only once in 2^32 times: a reduction seldom has anything to
subtract. So a trace also has the flags at each conditional jump. They tell the sign and the parity
of the difference that was compared, which vary between secrets even where the jump does not.

`differences` takes calls of one kernel whose arrays have different contents. Each runs in a child
process, forked when all is compiled and ready. The child copies its call's contents into the arrays
of the first call, so that addresses are the same, and ptrace steps it through the kernel, from its
first instruction to its return. What the kernel calls in turn, to copy or allocate memory, is in
the trace, but not the flags there: an allocator compares what is on the heap.

The README beside this file lists what a trace does not show.
"""

import ctypes
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numba
import numpy as np
import numpy.typing as npt
import pytest

from tests.constant_time.machine_code import FLAGS, MAX_SIZE, watched_registers

if TYPE_CHECKING:
    Words: TypeAlias = array[int]

MAX_STEPS = 1_000_000
"""A call that takes more is lost."""

_TRACEME, _POKETEXT, _POKEUSER, _CONTINUE, _SINGLESTEP = 0, 4, 6, 7, 9
_GETREGS, _SETOPTIONS = 12, 0x4200
_EXITKILL = 1 << 20

# Places in Linux's `user_regs_struct`.
_NUM_REGISTERS = 27
_RIP, _RSP = 16, 19
_NUMBERED = (10, 11, 12, 5, 19, 4, 13, 14, 9, 8, 7, 6, 3, 2, 1, 0, 18)
"""Places of the registers that machine code numbers 0 to 15, and of the flags."""
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

_NOT_PERMITTED = 77
"""Exit status of a child that may not be traced."""

_BREAKPOINT = b"\xcc"
WORD_SIZE = 8

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long


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


class _Watch(dict[int, tuple[int, ...]]):
    """The registers to record at each instruction met so far, by its address."""

    def __missing__(self, address: int) -> tuple[int, ...]:
        # This process has the same code at the same address.
        registers = watched_registers(ctypes.string_at(address, MAX_SIZE))
        if not any(address in code for code in self._compiled):
            registers = tuple(register for register in registers if register != FLAGS)
        self[address] = registers
        return registers

    @cached_property
    def _compiled(self) -> list[range]:
        """Where code that is in no file is: all that was compiled before the first step."""
        found = []
        for line in Path("/proc/self/maps").read_text().splitlines():
            span, permissions, _, _, _, *name = line.split()
            if "x" in permissions and not name:
                low, high = (int(end, 16) for end in span.split("-"))
                found.append(range(low, high))
        return found


def why_not() -> str | None:
    """Return why no trace can be taken here, None if one can."""
    if not sys.platform.startswith("linux") or platform.machine() != "x86_64":
        return f"traces are taken on Linux on x86-64, not on {sys.platform}, {platform.machine()}"
    if numba.config.DISABLE_JIT:
        return "kernels are not compiled"
    with _forks_without_warning():
        child = _fork(lambda: None)
    _, status = os.waitpid(child, 0)
    if os.WIFSTOPPED(status):
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return None
    return "a process may not trace its child here"


def differences(first: Call, others: Mapping[str, Call]) -> list[str]:
    """Return where the traces of other calls differ from that of the first, if anywhere.

    Args:
        first: A call; the contents of its arrays are meaningless afterwards.
        others: Calls of the same kernel with equal numbers and arrays of equal size, by name.
    """
    for call in others.values():
        assert call.kernel is first.kernel, "calls of one kernel are compared"
        assert call.form() == first.form(), "what is public is the same in all calls"
    watch = _Watch()
    expected, *traces = _traces([first, *others.values()], watch)
    return [
        f"{name}: {_explain(first, expected, trace, watch)}"
        for name, trace in zip(others, traces, strict=True)
        if trace != expected
    ]


def num_steps(call: Call) -> int:
    """Return how many instructions a call executes."""
    watch = _Watch()
    (trace,) = _traces([call], watch)
    return sum(1 for _ in _steps(trace, watch))


def _leaves(argument: object) -> Iterator[object]:
    if isinstance(argument, tuple):
        for part in argument:
            yield from _leaves(part)
    else:
        yield argument


@contextmanager
def _one_processor() -> Iterator[None]:
    """Keep this process and its children on one processor: four times as fast as on two."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def _traces(calls: Sequence[Call], watch: _Watch) -> list["Words"]:
    """Return the traces of the first call with what the arrays of each call hold."""
    first = calls[0]
    first.run()
    entries = _entries(first.kernel)
    # The first child is not stepped: the first fork allocates memory, too.
    prepared = [partial(_copy, call, first) for call in (first, *calls)]
    children = [0] * len(prepared)
    with _one_processor(), _forks_without_warning():
        try:
            # All are forked before one is traced, and nothing but a number is made in between, so
            # that a kernel that makes arrays is given the same addresses in every child.
            for index, prepare in enumerate(prepared):
                children[index] = _fork(prepare, first.run)
            return [_stepped(child, entries, watch) for child in children[1:]]
        finally:
            for child in filter(None, children):
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)


@contextmanager
def _forks_without_warning() -> Iterator[None]:
    """Silence the warning about forks.

    Python warns if there are other threads, which may hold a lock that a child waits for. A child
    here only copies and calls compiled code; the threads are those of numpy's BLAS.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def _entries(kernel: object) -> frozenset[int]:
    """Return where the code of a kernel begins, for each of the types it was compiled for."""
    return frozenset(
        compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)
        for compiled in _overloads(kernel)
    )


def _copy(call: Call, first: Call) -> None:
    """Copy the contents of another call into the arrays of the first; in a child only."""
    for array_, content in zip(first.arrays(), call.contents, strict=True):
        assert array_.flags.c_contiguous
        # Read-only arrays too: a child's memory is its own.
        ctypes.memmove(array_.ctypes.data, content.ctypes.data, array_.nbytes)


def _fork(prepare: Callable[[], None], run: Callable[[], None] = lambda: None) -> int:
    """Start a child that prepares, stops, and runs once its parent lets it."""
    child = os.fork()
    if child:
        return child
    status = _NOT_PERMITTED
    try:
        prepare()
        if _libc.ptrace(_TRACEME, 0, 0, 0) == 0:
            os.kill(os.getpid(), signal.SIGSTOP)
            run()
            status = 0
    finally:
        os._exit(status)


def _ptrace(
    request: int,
    child: int,
    address: int = 0,
    data: "int | ctypes.Array[ctypes.c_uint64]" = 0,
) -> None:
    if _libc.ptrace(request, child, address, data) != 0:
        raise OSError(ctypes.get_errno(), f"ptrace request {request}")


def _wait(child: int, expected: signal.Signals) -> None:
    _, status = os.waitpid(child, 0)
    if not os.WIFSTOPPED(status):
        raise RuntimeError(f"a traced child ended with status {status}")
    if os.WSTOPSIG(status) != expected:
        raise RuntimeError(f"a traced child met {signal.Signals(os.WSTOPSIG(status)).name}")


def _stepped(child: int, entries: frozenset[int], watch: _Watch) -> "Words":
    """Step a child from where a kernel begins to where it returns."""
    _wait(child, signal.SIGSTOP)
    _ptrace(_SETOPTIONS, child, 0, _EXITKILL)
    registers = (ctypes.c_uint64 * _NUM_REGISTERS)()
    _run_to(child, entries, registers)
    bottom = registers[_RSP]
    words = array("Q")
    for _ in range(MAX_STEPS):
        # Once the kernel has returned, its return address is off the stack.
        if registers[_RSP] > bottom:
            return words
        address = registers[_RIP]
        words.append(address)
        for register in watch[address]:
            value = registers[_NUMBERED[register]]
            words.append(value & _TESTED if register == FLAGS else value)
        _ptrace(_SINGLESTEP, child)
        _wait(child, signal.SIGTRAP)
        _ptrace(_GETREGS, child, 0, registers)
    raise RuntimeError(f"a call takes more than {MAX_STEPS} steps")


def _run_to(
    child: int, entries: frozenset[int], registers: "ctypes.Array[ctypes.c_uint64]"
) -> None:
    """Let a child run until it is about to execute one of some instructions."""
    # This process has the same code at the same addresses.
    codes = {entry: ctypes.string_at(entry, WORD_SIZE) for entry in entries}
    for entry, code in codes.items():
        stop = _BREAKPOINT + code[len(_BREAKPOINT) :]
        _ptrace(_POKETEXT, child, entry, int.from_bytes(stop, sys.byteorder))
    _ptrace(_CONTINUE, child)
    _wait(child, signal.SIGTRAP)
    for entry, code in codes.items():
        _ptrace(_POKETEXT, child, entry, int.from_bytes(code, sys.byteorder))
    _ptrace(_GETREGS, child, 0, registers)
    registers[_RIP] -= len(_BREAKPOINT)
    _ptrace(_POKEUSER, child, _RIP * WORD_SIZE, registers[_RIP])


def _steps(words: "Words", watch: _Watch) -> Iterator[tuple[int, Sequence[int]]]:
    """Yield the address of each instruction of a trace, and the registers watched there."""
    place = 0
    while place < len(words):
        address = words[place]
        end = place + 1 + len(watch[address])
        yield address, words[place + 1 : end]
        place = end


def _explain(first: Call, expected: "Words", found: "Words", watch: _Watch) -> str:
    """Say where two traces part, with the code there."""
    last = 0
    pairs = zip(_steps(expected, watch), _steps(found, watch), strict=False)
    for step, ((address, values), (other, other_values)) in enumerate(pairs):
        if address != other:
            what = f"goes on at {other:#x} instead of {address:#x}"
            return f"step {step} {what} after\n{_listing(first.kernel, last)}"
        if values != other_values:
            registers = zip(watch[address], values, other_values, strict=True)
            names = [_NAMES[number] for number, mine, other in registers if mine != other]
            what = f"has another value in {', '.join(names)}, of an address, a division or a jump"
            return f"step {step} {what}, at\n{_listing(first.kernel, address)}"
        last = address
    return f"one trace ends where the other goes on, after\n{_listing(first.kernel, last)}"


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
