"""`prio collector`: the collector service, and the public key that tasks name."""

import ipaddress
from pathlib import Path
from typing import Annotated

import anyio
import httpx
import typer
from starlette.types import ASGIApp

from aggregator.cli.parties import CollectorDesk, open_collector
from aggregator.cli.services import health_listeners, run_services
from aggregator.codec import encode
from aggregator.collector.driver import Driver
from aggregator.collector.service import create_collector_app
from aggregator.config import CollectorSettings, read_settings_of
from aggregator.dap.auth import hash_token
from aggregator.dap.ids import encode_base64url
from aggregator.entropy import SystemEntropy
from aggregator.errors import ConfigurationError
from aggregator.telemetry.logs import LogFormat, configure_logs

app = typer.Typer(no_args_is_help=True, help="Run the collector.")

Config = Annotated[Path, typer.Option(help="The collector's service file.")]
TIMEOUT_SECONDS = 60.0


@app.command("config")
def show_config(config: Config) -> None:
    """Print the HPKE configuration that tasks name, made on first use: for `prio task new`."""
    with open_collector(config) as desk:
        print(encode_base64url(encode(desk.keypair().config)))


@app.command()
def serve(config: Config) -> None:
    """List tasks, collect batches and keep results, as JSON over HTTP."""
    settings = read_settings_of(CollectorSettings, config)
    _check_exposure(settings)
    configure_logs(LogFormat(settings.log_format), settings.log_level)
    with open_collector(config) as desk:
        anyio.run(_serve, desk, backend_options={"use_uvloop": True})


async def _serve(desk: CollectorDesk) -> None:
    settings = desk.settings
    async with httpx.AsyncClient(timeout=TIMEOUT_SECONDS) as http:
        driver = Driver(desk.database, desk.keypair(), http)
        token = settings.token
        application = create_collector_app(
            desk.database,
            driver,
            SystemEntropy(),
            None if token is None else hash_token(token.get_secret_value()),
        )
        listeners: list[tuple[ASGIApp, str]] = [
            (application, settings.listen),
            *health_listeners(settings),
        ]
        await run_services(listeners, [driver.run])


def _check_exposure(settings: CollectorSettings) -> None:
    """Refuse to show results to the network without a token."""
    host = settings.listen.rpartition(":")[0].strip("[]")
    try:
        is_loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_loopback = host == "localhost"
    if not is_loopback and settings.token is None:
        raise ConfigurationError(
            f"token: needed to listen on {host}; without one the collector listens on the "
            "loopback interface only"
        )
