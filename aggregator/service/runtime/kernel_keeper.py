"""Gets compiled kernels for a service, which verifies without them until they are ready.

One thread looks for the kernels of each type of task. Missing ones are compiled in a separate
process (`compilation`) and then loaded in this thread; the service uses them from the next batch
on. A failed compilation is tried again later.
"""

import functools
import queue
import threading
import time
from collections.abc import Callable, Sequence

from aggregator.service.runtime.compilation import Kind, compile_apart
from aggregator.service.runtime.kernels import are_compiled, vdaf_kernel_cache
from aggregator.service.telemetry.compiling import AWAITED
from aggregator.service.telemetry.lines import log
from aggregator.vdaf.instances import prio3_from_configuration

RETRY_SECONDS = 60.0
"""The wait before a failed compilation is tried again; it doubles after each further failure."""

MOST_RETRY_SECONDS = 3600.0


class KernelKeeper:
    """Loads the kernels of this process, by kind of task."""

    def __init__(
        self, compile_kinds: Callable[[Sequence[Kind]], str | None] = compile_apart
    ) -> None:
        """Begin with no kernels.

        `compile_kinds` compiles kernels elsewhere and returns what went wrong, if anything. The
        attribute `after_loading` is called whenever kernels have been loaded.
        """
        self.after_loading: Callable[[], object] = bool
        self._compile = compile_kinds
        self._wanted: queue.SimpleQueue[Kind] = queue.SimpleQueue()
        self._known: set[Kind] = set()
        self._lock = threading.Lock()
        self._is_running = False

    def want(self, kind: Kind) -> None:
        """Ask for the kernels of a kind, to be loaded later; costs nothing if already asked for."""
        if kind in self._known:
            return
        with self._lock:
            if kind in self._known:
                return
            self._known.add(kind)
            self._wanted.put(kind)
            if not self._is_running:
                self._is_running = True
                threading.Thread(target=self._keep, name="kernels", daemon=True).start()

    def _keep(self) -> None:
        missing: list[Kind] = []
        delay = RETRY_SECONDS
        while True:
            try:
                added = [self._wanted.get(timeout=delay if missing else None)]
            except queue.Empty:
                added = []
            while not self._wanted.empty():
                added.append(self._wanted.get())
            missing += added  # before anything below can raise and lose them
            try:
                found_missing = self._not_found(added)
                missing = [each for each in missing if each not in added or each in found_missing]
                if not missing:
                    self.after_loading()
                    continue
                problem = self._compile(missing)
                missing = self._still_missing(missing)
            except Exception as error:  # the outermost edge of the thread
                log.exception("kernels could not be looked for")
                problem = repr(error)
            if not missing:
                delay = RETRY_SECONDS
                self.after_loading()
                continue
            self._report(missing, problem or "what was compiled was not kept", delay)
            delay = min(2 * delay, MOST_RETRY_SECONDS)

    def _not_found(self, kinds: Sequence[Kind]) -> list[Kind]:
        """Return the kinds whose kernels must be compiled; log which are cached."""
        missing = []
        for kind in kinds:
            started = time.monotonic()
            if _are_compiled(kind):
                seconds = round(time.monotonic() - started, 1)
                log.info("kernels are cached", vdaf=kind.vdaf, seconds=seconds)
                continue
            missing.append(kind)
            AWAITED.begin(kind.vdaf)
            cache = vdaf_kernel_cache()
            log.info(
                "compiling kernels in a process of its own; verifying without them, more slowly",
                vdaf=kind.vdaf,
                directory=None if cache is None else str(cache.directory),
            )
            if cache is not None and cache.has_others and not cache.is_warm:
                log.info("cached kernels are of another version, processor or compiler")
        return missing

    def _still_missing(self, kinds: Sequence[Kind]) -> list[Kind]:
        missing = []
        for kind in kinds:
            if _are_compiled(kind):
                log.info("kernels ready", vdaf=kind.vdaf)
            else:
                missing.append(kind)
        for vdaf in {kind.vdaf for kind in kinds} - {kind.vdaf for kind in missing}:
            AWAITED.ready(vdaf)
        return missing

    def _report(self, missing: Sequence[Kind], problem: str, delay: float) -> None:
        for vdaf in sorted({kind.vdaf for kind in missing}):
            AWAITED.begin(vdaf)
            AWAITED.failed(vdaf, problem)
            log.warning(
                "kernels could not be compiled: verifying without them, more slowly",
                vdaf=vdaf,
                reason=problem,
                again_in_seconds=round(delay),
            )


def _are_compiled(kind: Kind) -> bool:
    prio3 = prio3_from_configuration(kind.vdaf_type, kind.configuration)
    return are_compiled(prio3, kind.role)


@functools.cache
def kernel_keeper() -> KernelKeeper:
    """Return the keeper of this process."""
    return KernelKeeper()
