"""`prio collector`: the service, its results and collections without end, and its public key."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from aggregator.cli import sighup
from aggregator.cli.options import Config, TaskArgument, TaskCommand
from aggregator.clock import SystemClock
from aggregator.entropy import SystemEntropy
from aggregator.errors import ParameterError, PeerError
from aggregator.service.telemetry.lines import log

if TYPE_CHECKING:
    from aggregator.cli.service.parties import CollectorParty
    from aggregator.cli.service.running import Service
    from aggregator.service.config import CollectorSettings
    from aggregator.service.storage.engine.store_check import StoreCheck


TELL_SECONDS = 10
"""How long the leader may take to answer when it is told of a collection that was given up."""

app = typer.Typer(no_args_is_help=True, help="Run the collector.")


@app.command("config")
def show_config(config: Config = None) -> None:
    """Print the HPKE configuration that tasks name, made on first use: for `prio task new`."""
    from aggregator.cli.service.parties import open_collector
    from aggregator.codec import encode
    from aggregator.collector.keys import keypair_of
    from aggregator.dap.ids import encode_base64url

    with open_collector(config) as party:
        print(encode_base64url(encode(keypair_of(party.database).config)))


@app.command(cls=TaskCommand)
def results(task_id: TaskArgument, config: Config = None) -> None:
    """Print every collection of a task with its result, oldest first, as JSON."""
    from aggregator.cli.service.parties import open_collector, task_id_of
    from aggregator.cli.service.task_states import task_of
    from aggregator.collector.documents import collection_document
    from aggregator.collector.store import list_collections

    with open_collector(config, may_make=False) as party:
        task = task_of(party, task_id_of(task_id))
        stored = party.database.read_sync(
            "list collections", lambda tx: list_collections(tx, task.task_id.value)
        )
    print(json.dumps([collection_document(task, each) for each in stored], indent=2))


@app.command("abandon")
def give_up(
    collection_id: Annotated[
        str,
        typer.Argument(
            metavar="COLLECTION_ID", help="The collection's id, as `prio status` prints it."
        ),
    ],
    config: Config = None,
) -> None:
    """Give up a collection whose leader is gone for ever, and tell the leader if it answers.

    The aggregators may have released the batch and charged its cost. Asking for it again sends the
    same request, which gets the same answer or is refused: no noise is drawn twice. A leader that
    is told deletes its job, and a result that it has released is then lost; if it may come back,
    wait instead. The collector service keeps telling it, and so does this command when it is called
    again.
    """
    import anyio

    from aggregator.cli.service.parties import open_collector
    from aggregator.collector.abandoning import MEANING

    with open_collector(config, may_make=False) as party:
        told = anyio.run(_give_up, party, collection_id)
    print(f"given up: {MEANING}\n{told}")


async def _give_up(party: "CollectorParty", text: str) -> str:
    """Give the collection up; return what its leader says about it, for a person."""
    from aggregator.collector.abandoning import abandon, tell_leader
    from aggregator.collector.collect import TaskCollector
    from aggregator.collector.keys import keypair_of
    from aggregator.collector.store import get_collector_task
    from aggregator.protocol.task_file import task_from_toml
    from aggregator.service.transport.client import client_of

    try:
        collection_id = bytes.fromhex(text)
    except ValueError:
        raise ParameterError(
            f"collection id: must be hexadecimal, as `prio status` prints it, not {text!r}"
        ) from None
    stored = await abandon(party.database, collection_id)
    if stored.location is None:
        return "the leader has no job of it that we know of"
    record = party.database.read_sync("get task", lambda tx: get_collector_task(tx, stored.task_id))
    assert record is not None  # noqa: S101 - every collection belongs to a task
    settings = party.settings
    client = client_of(settings, TELL_SECONDS)
    task = task_from_toml(record.definition)
    async with client as http:
        collector = TaskCollector(task, keypair_of(party.database), record.token, http)
        try:
            if not await tell_leader(party.database, collector, stored):
                return "the batch was asked for again, which goes on with the leader's job"
        except PeerError as error:
            return f"the leader has not heard of it: {error}"
    return "the leader has no job of it any more"


@app.command()
def serve(config: Config = None) -> None:
    """List tasks, collect batches and keep results: pages, and JSON over HTTP."""
    import anyio

    from aggregator.cli.service.reading import Reading
    from aggregator.cli.service.running import run
    from aggregator.service.config import CollectorSettings
    from aggregator.service.storage.engine.store_check import StoreCheck
    from aggregator.service.telemetry.logs import LogFormat, configure_logs

    reading = Reading(CollectorSettings, config)
    configure_logs(LogFormat(reading.now.log_format), reading.now.log_level, reading.now.role)
    sighup.hold()
    check = StoreCheck(reading.now.database_url)
    check.before_serving()
    anyio.run(
        run,
        _service(reading.now, check),
        lambda: _service(reading.again(), check),
        backend_options={"use_uvloop": True},
    )


@asynccontextmanager
async def _service(settings: "CollectorSettings", check: "StoreCheck") -> "AsyncIterator[Service]":
    import anyio
    from anyio import to_thread

    from aggregator.cli.client.module_route import module_router
    from aggregator.cli.service.attendance import attendance
    from aggregator.cli.service.health_checks import service_of
    from aggregator.cli.steward.plan_serve import planner_guest
    from aggregator.collector.driver import Driver
    from aggregator.collector.keys import keypair_of
    from aggregator.collector.schedule import Scheduler
    from aggregator.collector.service import create_collector_app
    from aggregator.collector.status import examine_collector
    from aggregator.service.storage.engine.presence import Duty
    from aggregator.service.storage.opening import open_database
    from aggregator.service.transport.client import client_of

    database = await to_thread.run_sync(open_database, settings)
    try:
        # Not before the store is found, beside which it lies.
        make_token(settings)
        if settings.token is None:
            log.info("requests must carry the token of a file", file=str(settings.token_path))
        async with client_of(settings) as http, attendance(database, {Duty.SERVE}) as attending:
            driver = Driver(database, keypair_of(database), http)
            application = create_collector_app(
                database,
                driver,
                SystemEntropy(),
                _token_hashes(settings),
                settings.hosts,
                [planner_guest()],
                _token_place(settings),
                [module_router()],
                settings.word_lists,
                settings.times,
                settings.permit_lists,
            )
            scheduler = Scheduler(
                database, driver, settings.schedule, http, SystemClock(), SystemEntropy()
            )
            yield await service_of(
                settings,
                [(application, settings.listen)],
                [attending, driver.run, scheduler.run],
                partial(examine_collector, database),
                check,
            )
    finally:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(database.close)


def make_token(settings: "CollectorSettings") -> None:
    """Make the token that requests to the collector service must carry, if there is none."""
    from aggregator.dap.auth import new_token
    from aggregator.service.storage.secrets.files import create_secret, read_secret

    if settings.token is None and read_secret(settings.token_path) is None:
        create_secret(settings.token_path, new_token(SystemEntropy()))


def _token_place(settings: "CollectorSettings") -> str:
    """Return where the token is; strangers may see this, so it names no folder."""
    if settings.token is not None:
        return "its setting token (PRIO_TOKEN)"
    name = settings.token_path.name
    if settings.token_file is not None:
        return f"the file {name}, which its setting token_file names"
    return f"the file {name} beside its store"


def _token_hashes(settings: "CollectorSettings") -> Callable[[], tuple[bytes, ...]]:
    from aggregator.collector.api_tokens import TokenFile
    from aggregator.dap.auth import hash_token

    if settings.token is None:
        return TokenFile(settings.token_path).hashes
    only = hash_token(settings.token.get_secret_value())
    return lambda: (only,)
