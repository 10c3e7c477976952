"""The health listener: whether the service is ready, as JSON and as metrics, always at once.

    GET /          a page for people, with the content of /health
    GET /health    200 while work makes progress, 503 otherwise; a JSON document either way
    GET /metrics   the same as Prometheus metrics, and what this process has measured
    GET /healthz   200 while the process serves: if it does not answer, restart it
    GET /readyz    200 while it can take requests, 503 otherwise: send them elsewhere

/health is for monitoring: by it, a leader whose helper does not answer has a fault, although it
still takes uploads. /healthz and /readyz are for process supervisors and load balancers.

Answers come from the last look at the store, which `Probe` takes every few seconds, and say how old
it is; too old is a fault. No request looks at the store itself, so none waits for it.
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
        probe: Looks at the service's store.
        hosts: The only host names that it answers to, lower case. Otherwise a page of another site
            that gave our address a name of its own could read everything.
        any_address: Whether it also answers to IP addresses; see `check_site`.
    """

    async def check(request: Request) -> None:  # async: handlers in threads may wait long for one
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
        obstacles = probe.latest().obstacles
        return _answer({"obstacles": list(obstacles)}, is_well=not obstacles)

    return create_app("health", [router])


def _answer(document: Document, *, is_well: bool) -> Response:
    code = status.HTTP_200_OK if is_well else status.HTTP_503_SERVICE_UNAVAILABLE
    return Response(json.dumps(document), code, media_type="application/json")
