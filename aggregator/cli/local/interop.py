"""`prio interop`: runs one party under the orders of an interoperability test.

Everything is fresh, in a folder that is deleted with the process.
"""

import tempfile
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aggregator.cli.options import OfProfile
from aggregator.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from starlette.types import ASGIApp

    from aggregator.cli.local.interop_api import Habits
    from aggregator.cli.service.running import Opening, Service
    from aggregator.dap.profile import Role
    from aggregator.service.config import HelperSettings, LeaderSettings

_LEADER = """
[tuning]
linger_seconds = 0
work_interval_seconds = 0.2
"""


def interop(
    role: Annotated[
        str, typer.Argument(metavar="ROLE", help="client, leader, helper or collector.")
    ],
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port to listen at; 0 for any free one.")
    ],
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    profile: OfProfile = "dap-18",
    token_header: Annotated[
        str,
        typer.Option(
            help="The header in which we send tokens: Authorization or "
            "DAP-Auth-Token. We accept both."
        ),
    ] = "Authorization",  # noqa: S107  a header's name
) -> None:
    """Run one party for tests of interoperability; the test runner may order anything.

    It serves the API of draft-dcook-ppm-dap-interop-test-design, and, for an aggregator, its
    resources at the same address.
    """
    import anyio

    from aggregator.cli.local.interop_api import ROLES, Habits
    from aggregator.cli.service.running import run
    from aggregator.dap.auth import token_header_named
    from aggregator.dap.profile import Role, profile_named

    if role not in ROLES:
        raise ParameterError(f"role: must be {', '.join(ROLES)}, not {role!r}")
    habits = Habits(profile_named(profile), token_header_named(token_header))
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    is_aggregator = ROLES[role] in (Role.LEADER, Role.HELPER)
    opening = _aggregator if is_aggregator else _caller
    with tempfile.TemporaryDirectory(prefix="prio-interop-") as folder:
        opened: Callable[[], Opening] = partial(opening, ROLES[role], address, habits, Path(folder))
        anyio.run(run, opened(), backend_options={"use_uvloop": True})


@asynccontextmanager
async def _caller(
    role: "Role", address: str, habits: "Habits", _folder: Path
) -> "AsyncIterator[Service]":
    """Open a client or a collector."""
    from aggregator.cli.local.interop_api import InteropClient, InteropCollector
    from aggregator.cli.service.running import Service
    from aggregator.dap.profile import Role
    from aggregator.service.telemetry.logs import LogFormat, configure_logs
    from aggregator.service.transport.client import open_client
    from aggregator.service.web.app import create_app

    configure_logs(LogFormat.CONSOLE, "info", role.name.lower())
    async with open_client(insecure_http=True) as http:
        kind = InteropClient if role is Role.CLIENT else InteropCollector
        app = create_app("interop", [kind(http, habits).router()])
        yield Service([(app, address)], [], max_connections=64)


@asynccontextmanager
async def _aggregator(
    role: "Role", address: str, habits: "Habits", folder: Path
) -> "AsyncIterator[Service]":
    """Open a leader with its workers, or a helper, over a fresh store."""
    from aggregator.cli.local.interop_api import PREFIX, InteropAggregator
    from aggregator.cli.service import services
    from aggregator.cli.service.health_checks import service_of
    from aggregator.cli.service.parties import AggregatorParty
    from aggregator.service.runtime.status import examine_aggregator
    from aggregator.service.transport.client import open_client
    from aggregator.service.web.app import create_app

    settings = _settings(role, address, folder)
    async with (
        services.open_aggregator(settings, role) as runtime,
        open_client(insecure_http=True) as http,
    ):
        party = AggregatorParty(role, settings, runtime.database, runtime.journal)
        orders = create_app("interop", [InteropAggregator(party, habits).router()])
        works = [services.warming_up(runtime)]
        if settings.role == "leader":
            resources = services.leader_app(runtime, settings)
            works += services.leader_work(runtime, settings, http)
        else:
            resources = services.helper_app(runtime, settings)
        examine = partial(examine_aggregator, settings, role, runtime.database, runtime.journal)
        app = _beside(PREFIX, orders, resources)
        yield await service_of(settings, [(app, address)], works, examine)


def _beside(prefix: str, orders: "ASGIApp", resources: "ASGIApp") -> "ASGIApp":
    """Return an application that sends a prefix's requests to `orders`, others to `resources`."""

    async def route(scope: object, receive: object, send: object) -> None:
        path = scope.get("path", "") if isinstance(scope, dict) else ""
        app = orders if str(path).startswith(prefix) else resources
        await app(scope, receive, send)  # type: ignore[arg-type]  # as they came

    return route


def _settings(role: "Role", address: str, folder: Path) -> "LeaderSettings | HelperSettings":
    from aggregator.dap.profile import Role
    from aggregator.service.config import HelperSettings, LeaderSettings, read_settings_of

    name = role.name.lower()
    config = folder / f"{name}.toml"
    config.write_text(
        f'[service]\nrole = "{name}"\nlisten = "{address}"\ndatabase = "{name}.sqlite"\n'
        '[keys]\nstore_key_file = "store.key"\n[tls]\ninsecure_http = true\n'
        + (_LEADER if role is Role.LEADER else "")
    )
    if role is Role.LEADER:
        return read_settings_of(LeaderSettings, config)
    return read_settings_of(HelperSettings, config)
