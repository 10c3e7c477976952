"""A process whose kernels are not compiled yet, whatever it has compiled before."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from field.lanes import KernelMissing, jit


def _missing(*_arguments: object) -> None:
    raise KernelMissing


@contextmanager
def without_kernels() -> Iterator[None]:
    """Let every kernel be missing, as before it is compiled in a process that compiles nothing."""
    with mock.patch.object(jit._Kernel, "__call__", _missing):
        yield
