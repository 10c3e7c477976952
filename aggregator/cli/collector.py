"""`prio collector`: the collector service, and the public key that tasks name."""

import ipaddress

import anyio
import httpx
import typer

from aggregator.cli.options import Config
from aggregator.cli.parties import CollectorDesk, open_collector
from aggregator.cli.secret_files import create_secret, read_secret
from aggregator.cli.services import health_listeners, run_services
from aggregator.codec import encode
from aggregator.collector.driver import Driver
from aggregator.collector.service import create_collector_app
from aggregator.config import CollectorSettings, read_settings_of
from aggregator.dap.auth import hash_token, new_token
from aggregator.dap.ids import encode_base64url
from aggregator.entropy import SystemEntropy
from aggregator.errors import ConfigurationError
from aggregator.telemetry.logs import LogFormat, configure_logs

app = typer.Typer(no_args_is_help=True, help="Run the collector.")

TIMEOUT_SECONDS = 60.0


@app.command("config")
def show_config(config: Config = None) -> None:
    """Print the HPKE configuration that tasks name, made on first use: for `prio task new`."""
    with open_collector(config) as desk:
        print(encode_base64url(encode(desk.keypair().config)))


@app.command()
def serve(config: Config = None) -> None:
    """List tasks, collect batches and keep results, as JSON over HTTP."""
    settings = read_settings_of(CollectorSettings, config)
    token = _token(settings)
    _check_exposure(settings, token)
    configure_logs(LogFormat(settings.log_format), settings.log_level)
    with open_collector(config) as desk:
        anyio.run(_serve, desk, token, backend_options={"use_uvloop": True})


async def _serve(desk: CollectorDesk, token: str | None) -> None:
    settings = desk.settings
    async with httpx.AsyncClient(timeout=TIMEOUT_SECONDS) as http:
        driver = Driver(desk.database, desk.keypair(), http)
        application = create_collector_app(
            desk.database,
            driver,
            SystemEntropy(),
            None if token is None else hash_token(token),
        )
        listeners = health_listeners(settings)
        listeners.append((application, settings.listen))
        await run_services(listeners, [driver.run], settings.max_connections)


def _token(settings: CollectorSettings) -> str | None:
    """Return the token that requests must carry, made now if its file is named and missing."""
    if settings.token is not None:
        return settings.token.get_secret_value()
    if settings.token_file is None:
        return None
    token = read_secret(settings.token_file)
    return (
        create_secret(settings.token_file, new_token(SystemEntropy())) if token is None else token
    )


def _check_exposure(settings: CollectorSettings, token: str | None) -> None:
    """Refuse to show results to the network without a token."""
    host = settings.listen.rpartition(":")[0].strip("[]")
    try:
        is_loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_loopback = host == "localhost"
    if not is_loopback and token is None:
        raise ConfigurationError(
            f"token or token_file: needed to listen on {host}; without one the collector listens "
            "on the loopback interface only"
        )
