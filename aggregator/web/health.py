"""The health listener: whether the service is ready, as JSON and as metrics, and always at once.

    GET /          a page for people, with the same as /health
    GET /health    200 while the work moves, 503 otherwise; a JSON document either way
    GET /metrics   the same as Prometheus metrics, and what this process has measured
    GET /healthz   200 while the process serves: if it does not answer, start it again
    GET /readyz    200 while it can take requests, 503 otherwise: send them elsewhere

/health is for whoever has to know that something is wrong; a leader whose helper does not answer is
at fault by it, and takes uploads all the same. /healthz and /readyz are for what starts processes
and spreads requests over them.

It answers from the last look at the store while a new one takes long, and says so when it takes too
long: a monitor learns most when the service is in trouble.
"""

import dataclasses
import json
import threading
import time
from collections.abc import Callable
from collections.abc import Set as AbstractSet

import structlog
from anyio import move_on_after, to_thread
from fastapi import APIRouter, Depends, FastAPI, Request, Response, status

import aggregator
from aggregator.errors import AggregatorError
from aggregator.telemetry.health import Document, Health, exposition
from aggregator.telemetry.metrics import process_exposition
from aggregator.web.app import create_app
from aggregator.web.pages.operator import operator_page
from aggregator.web.site import check_site

log = structlog.get_logger()

FRESH_SECONDS = 1.0
"""How long a look at the store is good for."""

PATIENCE_SECONDS = 0.05
"""How long a request waits for a new look before it gets the last one."""

SILENT_SECONDS = 30.0
"""A store that has not answered a look for so long is not ready."""

METRICS_MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_METHODS = ["GET", "HEAD"]


class Probe:
    """The last look at a service's store, taken anew when somebody asks."""

    def __init__(self, examine: Callable[[], Health], seen: Health | None = None) -> None:
        """Look by `examine`, in a thread, one at a time; `seen` was the last look, if any."""
        self._examine = examine
        self._is_looking = threading.Lock()
        self._looked_at = time.monotonic()
        self._looking_since: float | None = None
        self._last = seen or Health(["the store has not answered yet"], {}, [])
        self._is_fresh = seen is not None

    async def latest(self) -> Health:
        """Return the state of the service: a new look if it comes at once, or the last one."""
        if not self._is_fresh or time.monotonic() - self._looked_at > FRESH_SECONDS:
            with move_on_after(PATIENCE_SECONDS):
                await to_thread.run_sync(self._look, abandon_on_cancel=True)
        since = self._looking_since
        silence = 0.0 if since is None else time.monotonic() - since
        if silence <= SILENT_SECONDS:
            return self._last
        fault = f"the store has not answered for {silence:.0f} s"
        return dataclasses.replace(self._last, faults=[fault, *self._last.faults])

    def _look(self) -> None:
        if not self._is_looking.acquire(blocking=False):
            return
        self._looking_since = time.monotonic()
        try:
            self._last = look(self._examine)
            self._looked_at, self._is_fresh = time.monotonic(), True
        finally:
            self._looking_since = None
            self._is_looking.release()


def look(examine: Callable[[], Health]) -> Health:
    """Return what `examine` says; or that the store cannot be examined, and why."""
    try:
        return examine()
    except (AggregatorError, OSError) as error:
        log.warning("the store cannot be examined", reason=str(error))
        return Health([str(error)], {}, [])


def create_health_app(
    examine: Callable[[], Health],
    hosts: AbstractSet[str] = frozenset({"localhost", "127.0.0.1"}),
    *,
    any_address: bool = False,
    seen: Health | None = None,
) -> FastAPI:
    """Return the application of the health listener.

    Args:
        examine: Looks at the service's store; called in a thread.
        hosts: The only names that it answers to, lower case: a page of another site, which gave our
            address a name of its own, would read everything otherwise.
        any_address: Whether it also answers to IP addresses; see `check_site`.
        seen: What a look has just said, if there was one.
    """
    probe = Probe(examine, seen)

    async def check(request: Request) -> None:  # no thread: each takes turns that may be long
        check_site(request, hosts, any_address=any_address)

    router = APIRouter(dependencies=[Depends(check)])

    @router.get("/")
    async def page() -> Response:
        return operator_page(await probe.latest())

    @router.api_route("/health", methods=_METHODS)
    async def health() -> Response:
        latest = await probe.latest()
        return _answer(latest.whole_document, is_well=latest.is_ready)

    @router.api_route("/metrics", methods=_METHODS)
    async def metrics() -> Response:
        latest = await probe.latest()
        text = exposition(latest.metrics) + process_exposition()
        return Response(text, media_type=METRICS_MEDIA_TYPE)

    @router.api_route("/healthz", methods=_METHODS)
    async def healthz() -> dict[str, str]:
        return {"status": "ok", "prio": aggregator.__version__}

    @router.api_route("/readyz", methods=_METHODS)
    async def readyz() -> Response:
        obstacles = (await probe.latest()).obstacles
        return _answer({"obstacles": list(obstacles)}, is_well=not obstacles)

    return create_app("health", [router])


def _answer(document: Document, *, is_well: bool) -> Response:
    code = status.HTTP_200_OK if is_well else status.HTTP_503_SERVICE_UNAVAILABLE
    return Response(json.dumps(document), code, media_type="application/json")
