"""The addresses of the collector's pages.

    GET  /                                   the overview; also /overview.json, .csv, .parquet
    GET  /questions/{task_id}                a question of a task; also .json, .csv, .parquet
    GET  /questions/{task_id}/{chart}.svg    a chart of it; also .png
    GET  /questions/{task_id}/sheet          a sheet for a meeting; also .json, .csv, .parquet
    GET  /questions/{task_id}/about          about one number; also .json, .csv, .parquet
    GET  /questions/{task_id}/batches        its batches; also .json, .csv, .parquet
    GET  /questions/{task_id}/words          what people wrote (`words_routes`)
    GET  /questions/{task_id}/synthetic      rows of nobody (`synthetic_routes`)
    POST /questions/{task_id}/batches        collects one, or gives a collection up
    POST /questions/{task_id}/bundle         hands in a bundle of reports, and collects it
    GET  /docs, /openapi.json                what programs can ask for

Pages need a session (`access`); files may also be fetched with the token as a bearer token.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Protocol

from anyio import CapacityLimiter
from fastapi import APIRouter, Request, Response, status
from fastapi.responses import JSONResponse, RedirectResponse

from aggregator.collector.bundles import HandedIn
from aggregator.collector.openapi import described_file, openapi
from aggregator.collector.pages.about import about
from aggregator.collector.pages.access import NOT_OWN, Access, Handler, to_login, why_and_code
from aggregator.collector.pages.asked import Asked
from aggregator.collector.pages.batches import ABANDONED, batches
from aggregator.collector.pages.files import add_files, as_file, as_png, download, draws_png
from aggregator.collector.pages.forms import named_batch, read_form, read_upload, task_named
from aggregator.collector.pages.models import AboutNumber, Batches, Overview, Question, Sheet
from aggregator.collector.pages.overview import overview
from aggregator.collector.pages.question import question
from aggregator.collector.pages.readings import Readings
from aggregator.collector.pages.reference import reference
from aggregator.collector.pages.session import Session
from aggregator.collector.pages.sheet import sheet
from aggregator.collector.pages.synthetic_routes import SyntheticPages
from aggregator.collector.pages.view import View
from aggregator.collector.pages.word_lists import WordLists
from aggregator.collector.pages.words_routes import WordPages
from aggregator.collector.so_far import LeadersWord
from aggregator.dap.problems import BatchInvalid, UnrecognizedCollectionJob, UnrecognizedTask
from aggregator.errors import Abort
from aggregator.failures import in_thread
from aggregator.protocol.task import Task
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.web.pages.charts import Chart, standalone
from aggregator.service.web.pages.frame import HEADERS
from aggregator.service.web.pages.html import tag

HOME = (("/", "Overview"), ("/docs", "For programs"))
"""The first links of the navigation."""

MOST_BUNDLE_BYTES = 8 * 2**20
"""The largest form with a file of reports; reading one may take twenty times the memory.

The command takes files of any size.
"""

Read = Callable[[Transaction], View]
Reader = Callable[[Request, str], Read]


class Begin(Protocol):
    """Starts the collection of a batch."""

    def __call__(self, task: Task, named: Mapping[str, int], *, now: bool) -> Awaitable[object]:
        """Store the collection; raises `Abort` if that is refused."""


HandIn = Callable[[Task, str, bytes], Awaitable[HandedIn]]
"""Hands in a bundle of encoded reports, with an epsilon, and collects it; raises `Abort`."""

Abandon = Callable[[str], Awaitable[object]]
"""Gives up the collection with this hexadecimal id; raises `Abort` if that is refused."""


class Pages:
    """The handlers of all pages."""

    def __init__(
        self,
        database: Database,
        begin: Begin,
        hand_in: HandIn,
        abandon: Abandon,
        access: Access,
        lists: WordLists,
        readings: Readings,
        leaders_word: LeadersWord,
    ) -> None:
        self._database = database
        self._begin, self._hand_in, self._abandon = begin, hand_in, abandon
        self._access = access
        self._leaders_word = leaders_word
        self._readings = readings
        self._words = WordPages(database, self._readings, access, lists)
        self._synthetic = SyntheticPages(database, self._readings, access)
        self._drawing = CapacityLimiter(1)  # neither matplotlib nor `warnings` is made for threads

    def router(self) -> APIRouter:
        """Return the routes."""
        router = APIRouter()
        router.include_router(self._words.router())
        router.include_router(self._synthetic.router())
        # Pages that the description of the API leaves out.
        get, post = (partial(each, include_in_schema=False) for each in (router.get, router.post))
        get("/docs")(self._access.page_of(self._docs))
        get("/openapi.json")(self.openapi)
        # For each view: its reader, its model, and the parameters that it reads itself.
        views: dict[str, tuple[Reader, type, tuple[str, ...]]] = {
            "/overview": (self._overview, Overview, ()),
            "/questions/{task_id}": (
                self._question,
                Question,
                ("part", "result", "with", "group", "all"),
            ),
            "/questions/{task_id}/sheet": (self._sheet, Sheet, ("part", "result")),
            "/questions/{task_id}/about": (self._about, AboutNumber, ("part", "result", "value")),
            "/questions/{task_id}/batches": (self._batches, Batches, ()),
        }
        for path, (read, model, query) in views.items():
            page_path = "/" if path == "/overview" else path
            add_files(
                router,
                path,
                model,
                query,
                partial(self._file, read),
                f"What the page {page_path} shows; also as .csv and .parquet.",
                f"The rows of {path}.json as a file.",
            )
            get(page_path)(self._access.page_of(partial(self._view, read)))
        chart = partial(described_file, in_path=True)
        query = ("part", "result", "with", "group", "figure", "all")
        svg = chart("image/svg+xml", "The chart, with its style.", *query)
        png = chart("image/png", "The chart, where the service has matplotlib; else 404.", *query)
        router.get("/questions/{task_id}/{chart}.svg", **svg)(self.svg)
        router.get("/questions/{task_id}/{chart}.png", **png)(self.png)
        post("/questions/{task_id}/batches")(self.collect)
        post("/questions/{task_id}/bundle")(self.hand_in)
        return router

    async def openapi(self, request: Request) -> Response:
        """Return the description of the API."""
        self._access.check_reader(request)
        return JSONResponse(openapi(request.app), headers=HEADERS)

    async def _docs(self, request: Request, _csrf: str) -> View:
        """Show the description of the API."""
        about = tag(
            "p",
            "A program sends the token as a bearer (Authorization: Bearer …). The same as ",
            tag("a", "OpenAPI", href="/openapi.json"),
            ".",
        )
        return View("Requests for programs", [about, *reference(openapi(request.app))], {}, list)

    async def svg(self, request: Request, chart: str) -> Response:
        """Return a chart of a question as a file of its own."""
        drawn = standalone(await self._chart(request, chart))
        return download(drawn, "image/svg+xml", f"{chart}.svg")

    async def png(self, request: Request, chart: str) -> Response:
        """Return a chart of a question as a picture."""
        self._access.check_reader(request)
        if not draws_png():
            raise UnrecognizedCollectionJob(
                "PNG needs matplotlib where the service runs: prio-aggregator[plots]"
            )
        found = await self._chart(request, chart)
        drawn = await in_thread(as_png, found, limiter=self._drawing)
        return download(drawn, "image/png", f"{chart}.png")

    async def _chart(self, request: Request, name: str) -> Chart:
        self._access.check_reader(request)
        charts = (await self._read(self._question(request, ""))).charts
        if name not in charts:
            raise UnrecognizedCollectionJob("the question has no such chart")
        return charts[name]

    async def collect(self, request: Request) -> Response:
        """Collect the batch that a form names, or give its collection up; go back to the list."""
        session = self._access.session(request)
        if session is None:
            return to_login(request)
        form = await read_form(request)

        async def collect(asked: Asked) -> str:
            is_meant = form.get("meant") == "yes"
            if ABANDONED not in form:
                named = named_batch(form, self._readings.times)
                await self._begin(asked.task, named, now=is_meant)
            elif is_meant:
                await self._abandon(form[ABANDONED])
            else:
                raise BatchInvalid("a collection is given up only if the form says so")
            return ""

        return await self._done(request, session, form, collect)

    async def hand_in(self, request: Request) -> Response:
        """Hand in the bundle of reports in a form's file, and collect it; go back to the list."""
        session = self._access.session(request)
        if session is None:
            return to_login(request)
        fields = await read_upload(request, MOST_BUNDLE_BYTES)
        reports = fields.pop("reports", b"")
        form = {name: value.decode("utf-8", "replace") for name, value in fields.items()}

        async def hand_in(asked: Asked) -> str:
            told = await self._hand_in(asked.task, form.get("epsilon", ""), reports)
            if not told.refused:
                return ""
            whys = ", ".join(f"{error} {count}" for error, count in told.refused.items())
            return f"{told.reports - told.accepted} of {told.reports} reports ({whys})"

        return await self._done(request, session, form, hand_in)

    async def _done(
        self,
        request: Request,
        session: Session,
        form: Mapping[str, str],
        do: Callable[[Asked], Awaitable[str]],
    ) -> Response:
        """Do what a form asks for, and go back to the list of batches, which says what was refused.

        `do` returns that, or raises `Abort`.
        """
        refused, code = NOT_OWN
        if self._access.is_own_form(session, form):
            try:
                asked = await self._database.read("get task", partial(self._asked, request))
                refused, code = await do(asked), status.HTTP_200_OK
            except Abort as error:
                refused, code = why_and_code(error)
            else:
                if not refused:
                    to = f"{asked.path}/batches"
                    return RedirectResponse(to, status.HTTP_303_SEE_OTHER, HEADERS)
        view = await self._read(self._batches(request, self._access.csrf(session), refused))
        return self._access.shown(session, view, code)

    def _overview(self, _request: Request, _csrf: str) -> Read:
        return lambda tx: overview(tx, self._readings)

    def _question(self, request: Request, _csrf: str) -> Read:
        chosen = dict(request.query_params)
        return lambda tx: question(tx, self._readings, self._asked(request, tx), chosen)

    def _sheet(self, request: Request, _csrf: str) -> Read:
        chosen = dict(request.query_params)
        return lambda tx: sheet(tx, self._readings, self._asked(request, tx), chosen)

    def _about(self, request: Request, _csrf: str) -> Read:
        chosen = dict(request.query_params)
        return lambda tx: about(tx, self._readings, self._asked(request, tx), chosen)

    def _batches(self, request: Request, csrf: str, refused: str = "") -> Read:
        said = self._leaders_word
        return lambda tx: batches(tx, self._asked(request, tx), csrf, said, refused)

    async def _view(self, read: Reader, request: Request, csrf: str) -> View:
        if read == self._batches:  # which says what the leader does
            asked = await self._database.read("get task", partial(self._asked, request))
            await self._leaders_word.refresh(asked.task)
        return await self._read(read(request, csrf))

    def _file(self, read: Reader, ending: str) -> Handler:
        """Return the handler of what a page shows, as a file."""

        async def handle(request: Request) -> Response:
            self._access.check_reader(request)
            view = await self._view(read, request, "")
            # Importing a library or writing 100,000 rows must not block other requests.
            return await in_thread(as_file, view, ending)

        return handle

    async def _read(self, read: Read) -> View:
        return await self._database.read("read a page", read)

    def _asked(self, request: Request, tx: Transaction) -> Asked:
        task_id = task_named(request)
        place = request.query_params.get("part", "")
        asked = self._readings.one(tx, task_id.value, place)
        if asked is None:
            raise UnrecognizedTask("this collector has no such task", task_id)
        return asked
