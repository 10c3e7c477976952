"""`prio plan serve`: the steward's planner as a page, on this machine only."""

from typing import TYPE_CHECKING, Annotated

import typer

from aggregator.cli.faults import reported
from aggregator.clock import SystemClock
from aggregator.entropy import SystemEntropy
from aggregator.errors import ParameterError

if TYPE_CHECKING:
    from fastapi import APIRouter, Request

    from aggregator.service.web.pages.host_page import Admit, Guest, Visit
    from aggregator.steward.planner import Planner

LOOPBACK = ("127.0.0.1", "::1", "localhost")
_MAX_CONNECTIONS = 32
_MOST_PORT = 65535


def serve(
    port: Annotated[int, typer.Option(help="The port on this machine, from 1 to 65535.")] = 8470,
) -> None:
    """Open the planner as a page: charts with real noise, costs, and survey.toml to save.

    It answers on this machine only (127.0.0.1), keeps nothing and asks for no token.
    """
    import anyio

    from aggregator.service.telemetry.logs import LogFormat, configure_logs

    with reported():
        if not 1 <= port <= _MOST_PORT:
            raise ParameterError(f"port must be from 1 to {_MOST_PORT}, not {port}")
        configure_logs(LogFormat.CONSOLE, "warning", "planner")
        anyio.run(_serve, port, backend_options={"use_uvloop": True})


def planner_guest() -> "Guest":
    """Return the planner as a page of a service."""
    from aggregator.service.web.pages.host_page import Guest
    from aggregator.steward.planner import NAME, PATH

    return Guest(PATH, NAME, lambda admit: _planner(admit).router())


def _planner(admit: "Admit") -> "Planner":
    from aggregator.steward.planner import Planner

    return Planner(SystemEntropy(), SystemClock(), admit)


async def _serve(port: int) -> None:
    import anyio
    from anyio import to_thread

    from aggregator.cli.service.running import run_services
    from aggregator.service.web.app import create_app
    from aggregator.steward.planner import PATH

    planner = _planner(_admit)
    application = create_app("planner", [planner.router(), _home()])

    async def announce(_stop: anyio.Event) -> None:
        print(f"the planner is at http://127.0.0.1:{port}{PATH} (Ctrl-C ends it)", flush=True)
        await to_thread.run_sync(planner.warm_up)

    await run_services([(application, f"127.0.0.1:{port}")], [announce], _MAX_CONNECTIONS)


def _home() -> "APIRouter":
    """Return a route that leads from the bare host name to the page."""
    from fastapi import APIRouter, Request, Response, status
    from fastapi.responses import RedirectResponse

    from aggregator.steward.planner import PATH

    router = APIRouter(include_in_schema=False)

    @router.get("/")
    async def home(request: Request) -> Response:
        _admit(request)
        return RedirectResponse(PATH, status.HTTP_303_SEE_OTHER)

    return router


def _admit(request: "Request") -> "Visit":
    from aggregator.service.web.pages.host_page import Visit
    from aggregator.service.web.site import check_site

    check_site(request, frozenset(LOOPBACK))
    return Visit()
