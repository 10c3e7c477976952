"""The Collector service: lists tasks, starts collections and keeps every result, as JSON over HTTP.

For people it has pages (`pages.routes`); for programs, described at /docs and /openapi.json:

    GET  /api/tasks                          the tasks
    GET  /api/tasks/{task_id}                one
    GET  /api/tasks/{task_id}/collections    its collections, oldest first
    POST /api/tasks/{task_id}/collections    {"start": …, "end": …} in seconds: collect a batch;
                                             with ?now=true also one that is not over; {} the next
                                             one, if the leader selects the task's
    GET  /api/collections/{collection_id}    a collection: pending, finished, failed or abandoned;
                                             with ?post_process=clamp or simplex also post-processed
    POST /api/collections/{collection_id}/abandon    give it up, if it is pending

Every request must carry the service's token and name a host that the service answers to; requests
from pages of another origin are refused. So no other user of the machine can collect, and no page
in the operator's browser can, even one that gave our address a name of its own.
"""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path

from fastapi import APIRouter, Depends, FastAPI, Request, Response, status
from pydantic import ConfigDict, NonNegativeInt, TypeAdapter, ValidationError

from aggregator.clock import SystemClock
from aggregator.collector import models, store
from aggregator.collector.abandoning import abandon
from aggregator.collector.bundles import HandedIn, read_reports
from aggregator.collector.documents import (
    Document,
    collection_document,
    task_document,
    with_post_processing,
)
from aggregator.collector.driver import Driver
from aggregator.collector.invited import PermitLists
from aggregator.collector.openapi import described, naming_a_batch
from aggregator.collector.pages.access import Access
from aggregator.collector.pages.readings import Readings
from aggregator.collector.pages.routes import HOME, Pages
from aggregator.collector.pages.session import Sessions
from aggregator.collector.pages.word_lists import WordLists
from aggregator.collector.requests import begin_collection, new_collection
from aggregator.collector.results.post_processing import Rule
from aggregator.collector.results.result import collection_request
from aggregator.collector.so_far import LeadersWord
from aggregator.dap.attribution import BUDGET_NAME, budget_of
from aggregator.dap.ids import TaskId
from aggregator.dap.problems import (
    BatchInvalid,
    InvalidMessage,
    UnrecognizedCollectionJob,
    UnrecognizedTask,
    UnsupportedMediaType,
)
from aggregator.dp.rationals import parse_rational
from aggregator.entropy import Entropy
from aggregator.errors import Abort, ParameterError, PeerError
from aggregator.failures import in_thread
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import task_from_toml
from aggregator.service.config import in_words, place_of
from aggregator.service.storage.engine.database import Database
from aggregator.service.web.app import create_app
from aggregator.service.web.auth import require_token
from aggregator.service.web.messages import read_bytes
from aggregator.service.web.pages.host_page import Guest
from aggregator.service.web.site import check_site
from aggregator.written_times import IN_UTC, Times

MAX_QUERY_SIZE = 1024
"""The most bytes of a request to collect."""


_QUERY = TypeAdapter(dict[str, NonNegativeInt], config=ConfigDict(strict=True))
"""The members that name a batch; the batch mode defines them."""


class CollectorApi:
    """The handlers of the JSON API.

    The caller runs the driver, which finishes collections, and is woken when one is added.
    """

    def __init__(self, database: Database, driver: Driver, entropy: Entropy) -> None:
        self._database = database
        self._driver = driver
        self._entropy = entropy

    async def tasks(self) -> list[Document]:
        """Return all tasks."""
        definitions = await self._database.read("list tasks", store.list_definitions)
        return [task_document(task_from_toml(each)) for each in definitions]

    async def task(self, task_id: str) -> Document:
        """Return one task."""
        return task_document(await self._task(task_id))

    async def collections(self, task_id: str) -> list[Document]:
        """Return a task's collections, oldest first."""
        task = await self._task(task_id)
        stored = await self._database.read(
            "list collections", lambda tx: store.list_collections(tx, task.task_id.value)
        )
        return [collection_document(task, each) for each in stored]

    async def collect(
        self, task_id: str, request: Request, response: Response, *, now: bool = False
    ) -> Document:
        """Start a collection, or return the one that the batch already has."""
        task = await self._task(task_id)
        stored = await self.begin(task, await _read_query(request), now=now)
        response.headers["Location"] = f"/api/collections/{stored.collection_id.hex()}"
        return collection_document(task, stored)

    async def begin(
        self, task: Task, named: Mapping[str, int], *, now: bool
    ) -> store.StoredCollection:
        """Start the collection of the batch that is named; see `begin_collection`."""
        stored = await begin_collection(self._database, task, named, self._entropy, now=now)
        self._driver.wake()
        return stored

    async def hand_in(self, task: Task, epsilon: str, data: bytes) -> HandedIn:
        """Hand in encoded reports that have each paid an epsilon, and collect them.

        Raises `BatchInvalid` if they are none, or the leader does not take the bundle.
        """
        try:
            budget = budget_of(parse_rational(epsilon, "epsilon"))
            reports = await in_thread(read_reports, data)
            request = collection_request(task, {BUDGET_NAME: budget})
            new = new_collection(task, request, self._entropy)
            return await self._driver.hand_in(task, new, reports)
        except (ParameterError, PeerError) as error:
            raise BatchInvalid(str(error), task.task_id) from error

    async def collection(self, collection_id: str, post_process: Rule | None = None) -> Document:
        """Return one collection, on request with post-processed values beside the raw ones."""
        identifier = _identifier(collection_id)
        stored = await self._database.read(
            "get collection", lambda tx: store.get_collection(tx, identifier)
        )
        if stored is None:
            raise UnrecognizedCollectionJob("there is no such collection")
        task = await self._task(str(TaskId(stored.task_id)))
        try:
            return with_post_processing(task, collection_document(task, stored), post_process)
        except ParameterError as error:
            raise InvalidMessage(str(error), task.task_id) from error

    async def abandon(self, collection_id: str) -> Document:
        """Give a collection up, whose leader may never answer, and tell the leader if it does."""
        stored = await abandon(self._database, _identifier(collection_id))
        self._driver.wake()
        return collection_document(await self._task(str(TaskId(stored.task_id))), stored)

    async def _task(self, text: str) -> Task:
        try:
            task_id = TaskId.parse(text)
        except Abort as error:
            raise UnrecognizedTask("the path holds no task identifier") from error
        definition = await self._database.read(
            "get task", lambda tx: store.get_definition(tx, task_id.value)
        )
        if definition is None:
            raise UnrecognizedTask("this collector has no such task", task_id)
        return task_from_toml(definition)


def create_collector_app(
    database: Database,
    driver: Driver,
    entropy: Entropy,
    token_hashes: Callable[[], Sequence[bytes]],
    hosts: AbstractSet[str],
    guests: Sequence[Guest] = (),
    where_to_look: str = "the file that its settings name",
    public: Sequence[APIRouter] = (),
    word_lists: Path | None = None,
    times: Times = IN_UTC,
    permit_lists: Path | None = None,
) -> FastAPI:
    """Return the Collector's application.

    Args:
        database: The Collector's store.
        driver: Finishes the collections; the caller runs it.
        entropy: Where collection ids come from.
        token_hashes: Returns, for each request, the SHA-256 of each token that is accepted.
        hosts: The names that the service answers to, lower case.
        guests: Pages of other modules that are shown here to people who may see ours.
        where_to_look: Where the operator finds the token.
        public: Routes that are served to anybody, without a token.
        word_lists: The folder of word lists that pages try on text questions.
        times: How pages write times, and in which zone.
        permit_lists: The folder of lists by which pages say how many were invited.
    """

    def authorize(request: Request) -> None:
        check_site(request, hosts)
        require_token(request, token_hashes())

    api = CollectorApi(database, driver, entropy)
    router = APIRouter(prefix="/api", dependencies=[Depends(authorize)])
    one, many = described(models.Collection), described(list[models.Collection])
    started = naming_a_batch(one, status.HTTP_201_CREATED)
    router.get("/tasks", **described(list[models.Task]))(api.tasks)
    router.get("/tasks/{task_id}", **described(models.Task))(api.task)
    router.get("/tasks/{task_id}/collections", **many)(api.collections)
    router.post("/tasks/{task_id}/collections", **started)(api.collect)
    router.get("/collections/{collection_id}", **one)(api.collection)
    router.post("/collections/{collection_id}/abandon", **one)(api.abandon)
    access = Access(
        Sessions(entropy, SystemClock()),
        token_hashes,
        check=lambda request: check_site(request, hosts),
        links=[*HOME, *((guest.path, guest.name) for guest in guests)],
        where_to_look=where_to_look,
    )
    leaders_word = LeadersWord(driver.answers_so_far, SystemClock(), times)
    lists = WordLists(word_lists)
    readings = Readings(times, PermitLists(permit_lists))
    acts = api.begin, api.hand_in, api.abandon
    pages = Pages(database, *acts, access, lists, readings, leaders_word)
    mounted = [guest.router(access.admit) for guest in guests]
    return create_app(
        "collector",
        [router, access.router(), pages.router(), *mounted, *public],
        on_http_error=access.not_served,
    )


def _identifier(text: str) -> bytes:
    """Return the id that a path names; if it names none, an id that no collection has."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""


async def _read_query(request: Request) -> dict[str, int]:
    """Return the members by which a request's body names a batch.

    The body is read here and not by the framework: after the token is checked, no further than a
    query needs, and only if it is declared as JSON, which pages of other sites cannot do.

    Raises:
        UnsupportedMediaType: The body is declared as something else.
        MessageTooLarge: It is too long.
        InvalidMessage: The body is not a query; the detail names every faulty member.
    """
    if request.headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
        raise UnsupportedMediaType("the media type must be application/json")
    body = await read_bytes(request, MAX_QUERY_SIZE)
    try:
        return _QUERY.validate_json(body)
    except ValidationError as error:
        faults = [
            (place_of(fault["loc"]), in_words(fault, table="an object", member="member"))
            for fault in error.errors(include_url=False)
        ]
        said = "; ".join(": ".join(filter(None, each)) for each in faults)
        raise InvalidMessage(said) from None
