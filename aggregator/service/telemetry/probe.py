"""Looks at a service's store in the background, again and again, and serves the last result.

A request gets the result of the last finished look and its age, at once, whatever the store does.
If a request waited for a look, it would hang just when the store is in trouble. If it only started
one, a monitor that asks every five minutes would get a result that is five minutes old.
"""

import dataclasses
import math
import threading
import time
from collections.abc import Callable

import anyio

from aggregator.errors import AggregatorError
from aggregator.failures import in_thread
from aggregator.service.telemetry.health import Health, Metric
from aggregator.service.telemetry.lines import log

STALE_SECONDS = 30.0
"""A service whose last look is older than this is not ready."""

LEAST_PAUSE_SECONDS = 5.0
"""The pause between cheap looks; with a thousand tasks, a look takes some 0.04 s of CPU time."""

MOST_PAUSE_SECONDS = 10.0
"""The pause between expensive looks: two of 10 s, with this pause between, are not stale yet."""

SHARE = 0.005
"""The fraction of the time that looks may take, until the pause reaches its maximum."""

_LEAVING_SECONDS = 1.0
"""How long a service that is ending waits for a look under way."""

_NONE_YET = Health(["the store has not answered yet"], {}, [])


class Probe:
    """Looks at a service's store, and says what it saw last and how long ago.

    One thread looks; any number of threads may ask. Anything that a look raises is a fault. `now`
    is a clock that is never set back.
    """

    def __init__(
        self, examine: Callable[[], Health], now: Callable[[], float] = time.monotonic
    ) -> None:
        self._examine = examine
        self._now = now
        self._seen = (_NONE_YET, now())
        self._began: float | None = None

    def latest(self) -> Health:
        """Return what the last finished look saw, and its age; if too old, that is a fault."""
        now, (health, seen_at) = self._now(), self._seen
        age = now - seen_at
        faults = health.faults
        if age > STALE_SECONDS:
            faults = [self._silence(now, age), *faults]
        gauge = Metric(
            "prio_seen_seconds",
            "Age of what is told of the store: seconds since the last finished look began.",
            "gauge",
            [({}, round(age, 3))],
        )
        return dataclasses.replace(
            health,
            faults=faults,
            document={"seen_seconds": math.floor(age), **health.document},
            metrics=[gauge, *health.metrics],
        )

    def look(self) -> float:
        """Look at the store; return how many seconds to rest before the next look."""
        began = self._began = self._now()
        try:
            # Dated by the beginning of the look, since that is when the store was read.
            self._seen = (look(self._examine), began)
        finally:
            self._began = None
        pause = (self._now() - began) / SHARE
        return min(max(pause, LEAST_PAUSE_SECONDS), MOST_PAUSE_SECONDS)

    async def watch(self, stop: anyio.Event) -> None:
        """Look again and again until `stop` is set.

        A thread of its own looks, since the service's event loop may be busy for long. A look that
        hangs does not keep the service from stopping.
        """
        is_over = threading.Event()

        def repeat() -> None:
            pause = LEAST_PAUSE_SECONDS
            while not is_over.wait(pause):
                pause = self.look()

        thread = threading.Thread(target=repeat, name="look at the store", daemon=True)
        thread.start()
        try:
            await stop.wait()
        finally:
            is_over.set()
            with anyio.CancelScope(shield=True):
                await in_thread(thread.join, _LEAVING_SECONDS)

    def _silence(self, now: float, age: float) -> str:
        said = f"the last look at the store is {age:.0f} s old"
        began = self._began
        if began is None:
            return f"{said}, and no other has begun"
        return f"{said}, and the store has not answered another for {now - began:.0f} s"


def look(examine: Callable[[], Health]) -> Health:
    """Return what `examine` returns, or a fault that says why the store cannot be examined."""
    try:
        return examine()
    except (AggregatorError, OSError) as error:
        log.warning("the store cannot be examined", reason=str(error))
        return Health([str(error)], {}, [])
    except Exception as error:  # the outermost edge of the thread, which must go on looking
        log.exception("the store cannot be examined")
        return Health(
            [f"the store cannot be examined: {type(error).__name__}, see the log"], {}, []
        )
