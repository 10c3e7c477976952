"""Whether this process compiles kernels, or only uses what the cache has.

Compiling takes half a minute of a processor, and nobody who waits for an answer should wait for it.
A process that compiles nothing takes a kernel from the cache and otherwise says `KernelMissing`,
for which its callers have another way to the same result. That is every process, unless it says
`compile_here`: `prio warm`, benchmarks, tests, and the process that a service starts for it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class KernelMissing(Exception):
    """A kernel's compiled code is not in the cache, and this process compiles nothing."""


_may_compile = False
_is_looking = ContextVar("_is_looking", default=False)


def compile_here() -> None:
    """Let this process compile the kernels that it does not find."""
    global _may_compile  # noqa: PLW0603  of the process, as numba's compiler is
    _may_compile = True


def check_may_compile() -> None:
    """Refuse to compile, by `KernelMissing`, unless this process may."""
    if not _may_compile:
        raise KernelMissing


@contextmanager
def looking_for_kernels() -> Iterator[None]:
    """Look in the cache again for kernels that were missing, within this context.

    `KernelMissing` is raised there for every kernel that is still missing, also for one that has
    another way. Kernels that are found are used by the whole process from then on.
    """
    token = _is_looking.set(True)
    try:
        yield
    finally:
        _is_looking.reset(token)


def is_looking() -> bool:
    """Return whether kernels are being looked for here."""
    return _is_looking.get()
