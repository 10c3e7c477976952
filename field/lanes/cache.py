"""Where compiled kernels are kept between runs.

numba keeps one entry per function and looks only at that function's own file to tell whether it is
stale: it would take a kernel whose callee was edited from the cache as it was. So every state of
the kernels' sources, every processor and every version of the compiler has its own directory, and
what was compiled from other sources, or elsewhere, is never found. Where the sources lie and when
they were written does not matter: a second checkout or environment of the same version finds what
the first one compiled (`field.lanes.entries`).

The directories are in `NUMBA_CACHE_DIR`, or in the user's cache. One that cannot be written is
read: an image's, for example.
"""

import dataclasses
import functools
import hashlib
import itertools
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from field.lanes.compiler import binding, llvmlite, numba

_FIELD = Path(__file__).parents[1]
_KERNEL_IMPORT = b"from field.lanes import"


@dataclasses.dataclass(frozen=True, slots=True)
class KernelCache:
    """The cache of the kernels in one package and those below it.

    Attributes:
        directory: Where they are kept for these sources, this processor and this compiler.
        is_warm: Whether kernels were there when the process began.
        has_others: Whether there were kernels for other sources, processors or compilers.
        is_writable: Whether what is compiled can be kept there; else it is only read.
    """

    directory: Path
    is_warm: bool
    has_others: bool
    is_writable: bool = True


def home(file: Path) -> Path:
    """Return the package whose cache has the kernels of a module.

    It is the module's own package, except for modules below a package `kernels`: kernels there call
    each other across packages, so all share one cache.
    """
    packages = itertools.takewhile(lambda path: (path / "__init__.py").exists(), file.parents)
    return next((package for package in packages if package.name == "kernels"), file.parent)


@functools.cache
def kernel_cache(package: Path) -> KernelCache | None:
    """Return the cache of the kernels in a package's directory.

    It is None if there is none and none can be made; or if it is another user's, who could have any
    code run, and cannot be written.
    """
    base = _base()
    if base is None:
        return None
    directory = base / f"{package.name}-{_key(package)}"
    siblings = {path.name for path in base.glob(f"{package.name}-*")}
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
        is_writable = True
    except OSError:
        is_writable = False
    has_others, is_warm = bool(siblings - {directory.name}), directory.name in siblings
    if not is_writable and not (is_warm and _is_trusted(directory)):
        return None
    return KernelCache(directory, is_warm, has_others, is_writable)


def _is_trusted(directory: Path) -> bool:
    """Return whether code that this process did not compile may be run from a directory."""
    return directory.stat().st_uid in {0, os.geteuid()}


def _base() -> Path | None:
    if numba.config.CACHE_DIR:
        return Path(numba.config.CACHE_DIR)
    try:
        return Path.home() / ".cache" / "prio-aggregator"
    except RuntimeError:  # The user has no home.
        return None


def _key(package: Path) -> str:
    """Return a name for everything that compiled code depends on."""
    digest = hashlib.sha256()
    cpu = numba.config.CPU_NAME or binding.get_host_cpu_name()
    features = numba.config.CPU_FEATURES or binding.get_host_cpu_features().flatten()
    python = sys.implementation.cache_tag
    for text in (python, numba.__version__, llvmlite.__version__, cpu, features):
        digest.update(text.encode() + b"\0")
    for root, sources in ((_FIELD, _FIELD.rglob("*.py")), (package, _kernel_sources(package))):
        for path in sorted(sources):
            name = path.relative_to(root).as_posix()
            digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _kernel_sources(package: Path) -> Iterator[Path]:
    """Yield the modules of a package that have kernels.

    A kernel freezes the constants it names. A test checks that they come from these modules or from
    `field`.
    """
    for path in package.rglob("*.py"):
        if _KERNEL_IMPORT in path.read_bytes():
            yield path
