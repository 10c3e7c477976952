"""A kernel's entries in the cache, found by what the sources say and not by where they lie.

numba's own entries are of a file at a path, and of the time when it was written. So a second
checkout of the same sources would compile again. The directory of a `KernelCache` stands for the
sources' content already; in it an entry needs only the module's place in the package and the
kernel's name and line.
"""

import contextlib
from pathlib import Path
from types import FunctionType

from typing_extensions import override

from field.lanes.cache import home, kernel_cache
from field.lanes.compiler import CacheLocator, CompileResultCacheImpl, FunctionCache, NullCache
from field.lanes.compiling import check_may_compile


class _Locator(CacheLocator):  # type: ignore[misc]  # numba has no types
    """Says where the entries of one kernel are."""

    def __init__(self, function: FunctionType, path: Path, directory: Path) -> None:
        self._py_file = str(path)  # numba's warnings name it.
        self._line = function.__code__.co_firstlineno
        self._directory = directory

    @override
    def get_cache_path(self) -> str:
        return str(self._directory)

    @override
    def get_source_stamp(self) -> str:
        return ""  # The directory is of these very sources.

    @override
    def get_disambiguator(self) -> str:
        return str(self._line)

    @classmethod
    @override
    def from_function(cls, py_func: FunctionType, py_file: str) -> "_Locator | None":
        path = Path(py_file)
        package = home(path)
        cache = kernel_cache(package)
        if cache is None:
            return None
        return cls(py_func, path, cache.directory / path.parent.relative_to(package))


class _Entries(CompileResultCacheImpl):  # type: ignore[misc]  # numba has no types
    _locator_classes = (_Locator,)


class KernelEntries(FunctionCache):  # type: ignore[misc]  # numba has no types
    """What numba asks for a kernel's compiled code, and gives it to."""

    _impl_class = _Entries

    @override
    def load_overload(self, sig: object, target_context: object) -> object:
        """Return compiled code, or None if there is none and this process may make it.

        Raises `KernelMissing` if there is none, and this process compiles nothing.
        """
        if not self._has_file():
            check_may_compile()  # before numba gets ready to load, which takes half a second
        try:
            found = super().load_overload(sig, target_context)
        except Exception:  # noqa: BLE001  a damaged file: whatever reading it says, there is no code
            found = None
        if found is None:
            check_may_compile()
        return found

    def _has_file(self) -> bool:
        index = Path(self._cache_file._index_path)  # noqa: SLF001  numba tells it in no other way
        with contextlib.suppress(OSError):  # of a folder that we may not look into
            return index.exists()
        return False

    @override
    def save_overload(self, sig: object, data: object) -> None:
        """Keep compiled code, unless the disk is full or not ours to write to."""
        try:
            super().save_overload(sig, data)
        except OSError:
            pass
        except Exception:  # noqa: BLE001  numba reads the kernel's index first: it is damaged
            with contextlib.suppress(Exception):
                self._cache_file.flush()
                super().save_overload(sig, data)


class NoEntries(NullCache):  # type: ignore[misc]  # numba has no types
    """Stands for a cache where there is none."""

    @override
    def load_overload(self, sig: object, target_context: object) -> None:
        """Return None, or raise `KernelMissing` if this process compiles nothing."""
        check_may_compile()
