"""What an aggregator logs about the kernels that it may have to compile.

Compiling takes seconds per task, and the first report waits for it. The log announces it, and says
if a cache that should have spared it did not fit.
"""

from pathlib import Path

import structlog

from aggregator.vdaf import kernels
from field.lanes import KernelCache, kernel_cache

log = structlog.get_logger()


def vdaf_kernel_cache() -> KernelCache | None:
    """Return the cache of the verification kernels as this process found it."""
    return kernel_cache(Path(kernels.__path__[0]))


def log_kernel_cache(cache: KernelCache | None) -> None:
    """Say whether kernels are cached and, if not, why they will be compiled.

    Args:
        cache: The cache that the process found; None if it cannot write one.
    """
    if cache is None:
        log.warning("no cache of kernels can be written: every process compiles them again")
    elif cache.is_warm:
        log.info("kernels are cached", directory=str(cache.directory))
    elif cache.has_others:
        log.warning(
            "cached kernels are of another version, processor or compiler: compiling again",
            directory=str(cache.directory),
        )
    else:
        log.info("no kernels are cached yet: compiling", directory=str(cache.directory))
