"""`prio collector`: the collector service, its results, and the public key that tasks name."""

import json
from collections.abc import Callable
from functools import partial

import anyio
import structlog
import typer

from aggregator.cli.options import Config, TaskArgument, TaskCommand
from aggregator.cli.parties import CollectorDesk, open_collector, task_id_of
from aggregator.cli.plan_serve import planner_guest
from aggregator.cli.services import health_listener, run_services
from aggregator.clock import SystemClock
from aggregator.codec import encode
from aggregator.collector.api_tokens import TokenFile
from aggregator.collector.driver import Driver
from aggregator.collector.schedule import Scheduler
from aggregator.collector.service import create_collector_app
from aggregator.collector.status import read_collector_health
from aggregator.config import CollectorSettings, read_settings_of
from aggregator.dap.auth import hash_token, new_token
from aggregator.dap.ids import encode_base64url
from aggregator.entropy import SystemEntropy
from aggregator.storage.secret_files import create_secret, read_secret
from aggregator.telemetry.health import Health
from aggregator.telemetry.logs import LogFormat, configure_logs
from aggregator.transport.client import open_client

log = structlog.get_logger()

app = typer.Typer(no_args_is_help=True, help="Run the collector.")


@app.command("config")
def show_config(config: Config = None) -> None:
    """Print the HPKE configuration that tasks name, made on first use: for `prio task new`."""
    with open_collector(config) as desk:
        print(encode_base64url(encode(desk.keypair().config)))


@app.command(cls=TaskCommand)
def results(task_id: TaskArgument, config: Config = None) -> None:
    """Print every collection of a task with its result, oldest first, as JSON."""
    with open_collector(config) as desk:
        print(json.dumps(desk.collections(task_id_of(task_id)), indent=2))


@app.command()
def serve(config: Config = None) -> None:
    """List tasks, collect batches and keep results: pages, and JSON over HTTP."""
    settings = read_settings_of(CollectorSettings, config)
    make_token(settings)
    configure_logs(LogFormat(settings.log_format), settings.log_level, settings.role)
    if settings.token is None:
        log.info("requests must carry the token of a file", file=str(settings.token_path))
    with open_collector(config) as desk:
        anyio.run(_serve, desk, backend_options={"use_uvloop": True})


async def _serve(desk: CollectorDesk) -> None:
    settings = desk.settings
    async with open_client(
        insecure_http=settings.insecure_http,
        environment_proxy=settings.environment_proxy,
    ) as http:
        driver = Driver(desk.database, desk.keypair(), http)
        application = create_collector_app(
            desk.database,
            driver,
            SystemEntropy(),
            _token_hashes(settings),
            settings.hosts,
            [planner_guest()],
        )
        scheduler = Scheduler(
            desk.database, driver, settings.schedule, http, SystemClock(), SystemEntropy()
        )
        await run_services(
            [(application, settings.listen)],
            [driver.run, scheduler.run],
            settings.max_connections,
            health_listener(settings, partial(examine_collector, desk)),
        )


def examine_collector(desk: CollectorDesk) -> Health:
    """Look at a collector's store."""
    return desk.database.read_sync("health", read_collector_health)


def make_token(settings: CollectorSettings) -> None:
    """Make the token that requests to the collector service must carry, if there is none."""
    if settings.token is None and read_secret(settings.token_path) is None:
        create_secret(settings.token_path, new_token(SystemEntropy()))


def _token_hashes(settings: CollectorSettings) -> Callable[[], tuple[bytes, ...]]:
    if settings.token is None:
        return TokenFile(settings.token_path).hashes
    only = hash_token(settings.token.get_secret_value())
    return lambda: (only,)
