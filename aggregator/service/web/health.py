"""The health listener: whether the service is ready, as JSON and as metrics, and always at once.

    GET /          a page for people, with the same as /health
    GET /health    200 while the work moves, 503 otherwise; a JSON document either way
    GET /metrics   the same as Prometheus metrics, and what this process has measured
    GET /healthz   200 while the process serves: if it does not answer, start it again
    GET /readyz    200 while it can take requests, 503 otherwise: send them elsewhere

/health is for whoever has to know that something is wrong; a leader whose helper does not answer is
at fault by it, and takes uploads all the same. /healthz and /readyz are for what starts processes
and spreads requests over them.

It answers from the last look at the store, which `Probe` takes every few seconds, and says how old
that is: too old is a fault. No request looks at the store, so none waits for it.
"""

import json
from collections.abc import Set as AbstractSet

from fastapi import APIRouter, Depends, FastAPI, Request, Response, status

import aggregator
from aggregator.service.telemetry.health import Document, exposition
from aggregator.service.telemetry.metrics import process_exposition
from aggregator.service.telemetry.probe import Probe
from aggregator.service.web.app import create_app
from aggregator.service.web.pages.operator import operator_page
from aggregator.service.web.site import check_site

METRICS_MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_METHODS = ["GET", "HEAD"]


def create_health_app(
    probe: Probe,
    hosts: AbstractSet[str] = frozenset({"localhost", "127.0.0.1"}),
    *,
    any_address: bool = False,
) -> FastAPI:
    """Return the application of the health listener.

    Args:
        probe: What was seen of the service's store.
        hosts: The only names that it answers to, lower case: a page of another site, which gave our
            address a name of its own, would read everything otherwise.
        any_address: Whether it also answers to IP addresses; see `check_site`.
    """

    async def check(request: Request) -> None:  # no thread: each takes turns that may be long
        check_site(request, hosts, any_address=any_address)

    router = APIRouter(dependencies=[Depends(check)])

    @router.get("/")
    async def page() -> Response:
        return operator_page(probe.latest())

    @router.api_route("/health", methods=_METHODS)
    async def health() -> Response:
        latest = probe.latest()
        return _answer(latest.whole_document, is_well=latest.is_ready)

    @router.api_route("/metrics", methods=_METHODS)
    async def metrics() -> Response:
        latest = probe.latest()
        text = exposition(latest.whole_metrics) + process_exposition()
        return Response(text, media_type=METRICS_MEDIA_TYPE)

    @router.api_route("/healthz", methods=_METHODS)
    async def healthz() -> dict[str, str]:
        return {"status": "ok", "prio": aggregator.__version__}

    @router.api_route("/readyz", methods=_METHODS)
    async def readyz() -> Response:
        obstacles = (probe.latest()).obstacles
        return _answer({"obstacles": list(obstacles)}, is_well=not obstacles)

    return create_app("health", [router])


def _answer(document: Document, *, is_well: bool) -> Response:
    code = status.HTTP_200_OK if is_well else status.HTTP_503_SERVICE_UNAVAILABLE
    return Response(json.dumps(document), code, media_type="application/json")
