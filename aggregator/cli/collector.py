"""`prio collector`: the collector service, its results, and the public key that tasks name."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

import anyio
import structlog
import typer
from anyio import to_thread

from aggregator.cli import hangups
from aggregator.cli.options import Config, TaskArgument, TaskCommand
from aggregator.cli.parties import CollectorDesk, open_collector, task_id_of
from aggregator.cli.plan_serve import planner_guest
from aggregator.cli.reading import Reading
from aggregator.cli.running import Service, run
from aggregator.cli.services import service_of
from aggregator.clock import SystemClock
from aggregator.codec import encode
from aggregator.collector.api_tokens import TokenFile
from aggregator.collector.driver import Driver
from aggregator.collector.schedule import Scheduler
from aggregator.collector.service import create_collector_app
from aggregator.collector.status import read_collector_health
from aggregator.config import CollectorSettings
from aggregator.dap.auth import hash_token, new_token
from aggregator.dap.ids import encode_base64url
from aggregator.entropy import SystemEntropy
from aggregator.storage.opening import open_database
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
    reading = Reading(CollectorSettings, config)
    configure_logs(LogFormat(reading.now.log_format), reading.now.log_level, reading.now.role)
    hangups.hold()
    anyio.run(
        run,
        _service(reading.now),
        lambda: _service(reading.again()),
        backend_options={"use_uvloop": True},
    )


@asynccontextmanager
async def _service(settings: CollectorSettings) -> AsyncIterator[Service]:
    make_token(settings)
    if settings.token is None:
        log.info("requests must carry the token of a file", file=str(settings.token_path))
    database = await to_thread.run_sync(open_database, settings)
    try:
        desk = CollectorDesk(settings, database)
        async with open_client(
            insecure_http=settings.insecure_http,
            environment_proxy=settings.environment_proxy,
        ) as http:
            driver = Driver(database, desk.keypair(), http)
            application = create_collector_app(
                database,
                driver,
                SystemEntropy(),
                _token_hashes(settings),
                settings.hosts,
                [planner_guest()],
            )
            scheduler = Scheduler(
                database, driver, settings.schedule, http, SystemClock(), SystemEntropy()
            )
            yield await service_of(
                settings,
                [(application, settings.listen)],
                [driver.run, scheduler.run],
                partial(examine_collector, desk),
            )
    finally:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(database.close)


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
