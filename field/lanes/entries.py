"""A kernel's entries in the cache, found by what the sources say and not by where they lie.

numba's own entries are of a file at a path, and of the time when it was written. So a second
checkout of the same sources would compile again. The directory of a `KernelCache` stands for the
sources' content already; in it an entry needs only the module's place in the package and the
kernel's name and line.
"""

from pathlib import Path
from types import FunctionType

from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator
from typing_extensions import override

from field.lanes.cache import home, kernel_cache


class _Locator(_CacheLocator):  # type: ignore[misc]  # numba has no types
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
