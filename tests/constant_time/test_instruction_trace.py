"""Instruction traces tell kernels whose course depends on their input from those that do not."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from field.lanes import kernel
from tests.constant_time.instruction_trace import Call, differences, num_steps
from tests.constant_time.machine_code import FLAGS, falls_through, watched_registers

Words = npt.NDArray[np.uint64]

_THREE = np.uint64(3)
_LIMIT = np.uint64(1000)
_NEVER = np.uint64(2**64 - 2**32)
_INDEX = np.uint64(15)


@kernel
def branch(a: Words, out: Words) -> None:
    """Do more where a word is large."""
    for i in range(a.shape[0]):
        if a[i] > _LIMIT:
            out[i] = out[i] * _THREE + a[i] // _THREE


@kernel
def end_early(a: Words, out: Words) -> None:
    """Stop at the first word that is large."""
    for i in range(a.shape[0]):
        if a[i] > _LIMIT:
            break
        out[i] = a[i]


@kernel
def branch_seldom(a: Words, out: Words) -> None:
    """Do more where a word is larger than any that occurs."""
    for i in range(a.shape[0]):
        if a[i] > _NEVER:
            out[i] = out[i] * _THREE + a[i] // _THREE


@kernel
def look_up(a: Words, out: Words) -> None:
    """Read from a place that a word determines."""
    for i in range(a.shape[0]):
        out[i] += out[16 + (a[i] & _INDEX)]


@kernel
def put(a: Words, out: Words) -> None:
    """Write to a place that a word determines."""
    for i in range(a.shape[0]):
        out[16 + (a[i] & _INDEX)] = _THREE


@kernel
def divide(a: Words, out: Words) -> None:
    """Divide by a word."""
    for i in range(a.shape[0]):
        out[i] = (out[i] + _LIMIT) // (a[i] | _THREE)


@kernel
def fill(a: Words, out: Words) -> None:
    """Set as many words as a word says, by another library's function."""
    out[: a[0] & _INDEX] = 0


@kernel
def mask(a: Words, out: Words) -> None:
    """Add only where a word is large, by a mask."""
    for i in range(a.shape[0]):
        out[i] += _THREE & (np.uint64(0) - ((_LIMIT - a[i]) >> np.uint64(63)))


def call(function: Callable[[Words, Words], None], numbers: list[int]) -> Call:
    return Call(function, np.array(numbers, np.uint64), np.arange(32, dtype=np.uint64))


SMALL = [1, 2, 3, 4, 5]
LARGE = [14, 7, 2000, 10, 11]


@pytest.mark.usefixtures("_traced")
@pytest.mark.parametrize(
    ("function", "what"),
    [
        (branch, "another value in flags"),
        (end_early, "another value in flags"),
        (branch_seldom, "another value in flags"),
        (look_up, "another value in r"),
        (put, "another value in r"),
        (divide, "another value in r"),
        (fill, "step"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_trace_of_a_kernel_that_depends_on_a_word_changes_with_the_word(
    function: Callable[[Words, Words], None], what: str
) -> None:
    others = {"the same": call(function, SMALL), "larger": call(function, LARGE)}
    (difference,) = differences(call(function, SMALL), others)
    assert difference.startswith("larger: step ")
    assert what in difference


@pytest.mark.usefixtures("_traced")
def test_a_kernel_that_uses_a_mask_has_one_trace() -> None:
    assert differences(call(mask, SMALL), {"larger": call(mask, LARGE)}) == []
    assert num_steps(call(mask, SMALL)) > 10


@pytest.mark.usefixtures("_traced")
def test_a_difference_names_the_kernel_and_the_code() -> None:
    (difference,) = differences(call(branch, SMALL), {"larger": call(branch, LARGE)})
    assert "branch" in difference
    assert len(difference.splitlines()) > 1


@pytest.mark.usefixtures("_traced")
def test_calls_with_different_public_arguments_are_not_compared() -> None:
    for other in (call(mask, [*SMALL, 6]), call(branch, SMALL)):
        with pytest.raises(AssertionError, match=r"public|one kernel"):
            differences(call(mask, SMALL), {"other": other})


RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R9, R10, R11, R12, R13, R14, R15 = range(16)


@pytest.mark.parametrize(
    ("code", "registers"),
    [
        ("4e 8b 0c c8", {RAX, R9}),  # mov r9, [rax + 8*r9]
        ("4a 89 04 ce", {RSI, R9}),  # mov [rsi + 8*r9], rax
        ("48 8b 44 24 08", {RSP}),  # mov rax, [rsp + 8]
        ("4b 8b 44 25 00", {R13, R12}),  # mov rax, [r13 + r12]
        ("48 8b 04 cd 00 00 00 00", {RCX}),  # mov rax, [8*rcx]
        ("48 8b 05 00 00 00 00", set()),  # mov rax, [rip]
        ("48 8d 04 08", set()),  # lea rax, [rax + rcx]: computes, and reads nothing
        ("0f 1f 44 00 00", set()),  # nop
        ("0f 18 0c 0f", {RDI, RCX}),  # prefetcht0 [rdi + rcx]
        ("48 89 c8", set()),  # mov rax, rcx
        ("41 f7 f2", {RAX, RDX, R10}),  # div r10d
        ("f7 37", {RAX, RDX, RDI}),  # div dword [rdi]
        ("48 f7 e1", set()),  # mul rcx
        ("f3 a4", {RCX, RSI, RDI}),  # rep movsb
        ("74 08", {FLAGS}),  # je
        ("0f 84 00 00 00 00", {FLAGS}),  # je
        ("e3 08", {RCX, FLAGS}),  # jrcxz
        ("c4 c1 79 7e c0", set()),  # vmovd r8d, xmm0
        ("41 0f 93 c0", set()),  # setae r8b
        ("0f c8", set()),  # bswap eax
        ("66 0f 6f 04 0f", {RDI, RCX}),  # movdqa xmm0, [rdi + rcx]
        ("66 42 0f 38 00 04 07", {RDI, R8}),  # pshufb xmm0, [rdi + r8]
        ("c5 f8 77", set()),  # vzeroupper
        ("c5 fd 6f 04 0f", {RDI, RCX}),  # vmovdqa ymm0, [rdi + rcx]
        ("c4 c1 7d 6f 04 09", {R9, RCX}),  # vmovdqa ymm0, [r9 + rcx]
        ("c4 a2 eb f6 54 c7 08", {RDI, R8}),  # mulx rdx, rdx, [rdi + 8*r8 + 8]
        ("62 b1 fd 48 6f 04 07", {RDI, R8}),  # vmovdqa64 zmm0, [rdi + r8]
        ("62 d2 fd 48 b4 44 24 01", {R12}),  # vpmadd52luq zmm0, zmm0, [r12 + 64]
        ("62 f1 fd 48 d4 c1", set()),  # vpaddq zmm0, zmm0, zmm1
    ],
)
def test_the_registers_of_addresses_divisions_and_jumps_are_known(
    code: str, registers: set[int]
) -> None:
    assert set(watched_registers(bytes.fromhex(code))) == registers


@pytest.mark.parametrize(
    "code",
    [
        "c4 e2 ed 91 04 0f",  # vpgatherqq ymm0, [rdi + ymm1], ymm2
        "62 f2 fd 49 91 04 0f",  # vpgatherqq zmm0{k1}, [rdi + zmm1]
        "62 f2 fd 49 a1 04 0f",  # vpscatterqq [rdi + zmm1]{k1}, zmm0
        "d7",  # xlat
    ],
)
def test_an_address_outside_the_general_registers_is_refused(code: str) -> None:
    with pytest.raises(ValueError, match=r"gather|xlat"):
        watched_registers(bytes.fromhex(code))


@pytest.mark.parametrize(
    "code",
    [
        "c5 f8 98 c0",  # kortestw k0, k0
        "c5 f9 99 c1",  # ktestb k0, k1
        "c5 f8 93 c0",  # kmovw eax, k0
        "c4 e2 7d 17 c0",  # vptest ymm0, ymm0
        "c5 fc 50 c0",  # vmovmskps eax, ymm0
        "c5 fd d7 c0",  # vpmovmskb eax, ymm0
        "66 0f d7 c0",  # pmovmskb eax, xmm0
        "66 0f 38 17 c0",  # ptest xmm0, xmm0
    ],
)
def test_a_vector_comparison_that_a_jump_could_use_is_refused(code: str) -> None:
    with pytest.raises(ValueError, match="for a jump"):
        watched_registers(bytes.fromhex(code))


@pytest.mark.parametrize(
    ("code", "where"),
    [
        ("4e 8b 0c c8", "next"),  # mov r9, [rax + 8*r9]
        ("48 8d 04 08", "next"),  # lea rax, [rax + rcx]
        ("ff c0", "next"),  # inc eax
        ("ff 74 24 08", "next"),  # push [rsp + 8]
        ("0f 43 c1", "next"),  # cmovae eax, ecx
        ("41 0f 93 c0", "next"),  # setae r8b
        ("48 f7 e1", "next"),  # mul rcx
        ("c5 fd 6f 04 0f", "next"),  # vmovdqa ymm0, [rdi + rcx]
        ("62 f1 fd 48 d4 c1", "next"),  # vpaddq zmm0, zmm0, zmm1
        ("c5 fd eb c1", "next"),  # vpor ymm0, ymm0, ymm1: the number of a jump without VEX
        ("74 08", "elsewhere"),  # je
        ("0f 84 00 00 00 00", "elsewhere"),  # je
        ("e3 08", "elsewhere"),  # jrcxz
        ("eb 08", "elsewhere"),  # jmp
        ("e9 00 00 00 00", "elsewhere"),  # jmp
        ("e8 00 00 00 00", "elsewhere"),  # call
        ("ff d0", "elsewhere"),  # call rax
        ("41 ff 64 24 08", "elsewhere"),  # jmp [r12 + 8]
        ("c3", "elsewhere"),  # ret
        ("f3 c3", "elsewhere"),  # rep ret
        ("f3 a4", "elsewhere"),  # rep movsb
        ("0f 05", "elsewhere"),  # syscall
    ],
)
def test_it_is_known_which_instructions_are_followed_by_the_next_in_memory(
    code: str, where: str
) -> None:
    assert falls_through(bytes.fromhex(code)) is (where == "next")
