"""A collector's store and its service, which tests ask in memory."""

from collections.abc import Callable, Sequence
from pathlib import Path

import httpx

from aggregator.clock import Clock
from aggregator.collector import store
from aggregator.collector.driver import Driver
from aggregator.collector.service import create_collector_app
from aggregator.dap.auth import bearer_header, hash_token
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import task_to_toml
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.secrets.crypter import Crypter
from aggregator.service.web.pages.host_page import Guest
from aggregator.written_times import IN_UTC, Times
from tests.support.empty_store import upgraded
from tests.support.entropy import SeededEntropy
from tests.support.look import Page
from tests.support.pair import COLLECTOR_TOKEN
from tests.support.tasks import collector_keypair

TOKEN = "for the desk".replace(" ", "-")
"""Opens the service."""

BEARER = {"authorization": bearer_header(TOKEN)}
HOST = "http://127.0.0.1"


class CollectorService:
    """A collector's store, with its service over it.

    Args:
        folder: Gets the store.
        tasks: Which it has.
        clock: Of the store; the database's own unless given.
        http: Reaches the leader; nobody unless given.
        token_hashes: Of the tokens that open the service; that of `TOKEN` unless given.
        guests: Pages of others.
        word_lists: The folder of strings that are tried.
        times: How pages write times.
        permit_lists: The folder of lists of who was invited.
    """

    def __init__(
        self,
        folder: Path,
        *tasks: Task,
        clock: Clock | None = None,
        http: httpx.AsyncClient | None = None,
        token_hashes: Callable[[], Sequence[bytes]] = lambda: [hash_token(TOKEN)],
        guests: Sequence[Guest] = (),
        word_lists: Path | None = None,
        times: Times = IN_UTC,
        permit_lists: Path | None = None,
    ) -> None:
        self.file = folder / "collector.sqlite"
        upgraded(f"sqlite:///{self.file}")
        self.database = Database.open(f"sqlite:///{self.file}", Crypter([bytes(32)]), clock)
        asks = http or httpx.AsyncClient(transport=httpx.MockTransport(unreachable))
        self.driver = Driver(self.database, collector_keypair(), asks)
        self.app = create_collector_app(
            self.database,
            self.driver,
            SeededEntropy(b"collector"),
            token_hashes,
            {"collector", "127.0.0.1", "::1"},
            guests,
            word_lists=word_lists,
            times=times,
            permit_lists=permit_lists,
        )
        for task in tasks:
            put_task(self.database, task)

    def client(
        self, host: str = HOST, path: str = "", *, shows_token: bool = False
    ) -> httpx.AsyncClient:
        """Return who asks the service, with its token or a cookie jar of their own."""
        transport = httpx.ASGITransport(self.app)
        headers = BEARER if shows_token else {}
        return httpx.AsyncClient(transport=transport, base_url=f"{host}{path}", headers=headers)


def put_task(database: Database, task: Task) -> None:
    """Give a collector's store a task, with the token that its leader takes."""
    record = store.CollectorTask(task.task_id.value, task_to_toml(task), COLLECTOR_TOKEN)
    database.run_sync("put task", lambda tx: store.put_collector_task(tx, record))


async def log_in(client: httpx.AsyncClient) -> httpx.Response:
    """Begin a session by the form of the login page."""
    form = Page((await client.get("/login")).text).form("/login")
    return await client.post("/login", data=form | {"token": TOKEN})


def unreachable(request: httpx.Request) -> httpx.Response:
    """Fail: the service itself asks nobody, but how many answers there are."""
    if request.url.path.endswith("/answers_so_far"):
        return httpx.Response(404)  # of a leader of another make
    raise AssertionError(f"the service itself asks nobody, and not {request.url}")
