"""The addresses of the collector's pages.

    GET  /login                              asks for the service's token
    POST /login, /logout                     begin and end a session
    GET  /                                   the overview; also /overview.json, .csv, .parquet
    GET  /questions/{task_id}                one question; also .json, .csv, .parquet
    GET  /questions/{task_id}/{chart}.svg    a chart of it; also .png
    GET  /questions/{task_id}/about          about one number; also .json, .csv, .parquet
    GET  /questions/{task_id}/batches        its batches; also .json, .csv, .parquet
    POST /questions/{task_id}/batches        collects one, or gives a collection up
    GET  /docs, /openapi.json                what programs can ask for

A page is shown to who has begun a session with the service's token; files also to who shows the
token as a bearer. A form carries what only this session's pages know.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Request, Response, status
from fastapi.responses import JSONResponse, RedirectResponse

from aggregator.collector.models import AboutNumber, Batches, Overview, Question
from aggregator.collector.openapi import described, openapi
from aggregator.collector.pages.about import about
from aggregator.collector.pages.batches import ABANDONED, batches
from aggregator.collector.pages.forms import named_batch, read_form
from aggregator.collector.pages.overview import overview
from aggregator.collector.pages.question import question
from aggregator.collector.pages.readings import Asked, Readings
from aggregator.collector.pages.view import View, as_csv, as_json, as_parquet, writes_parquet
from aggregator.dap.auth import hash_token, token_matches
from aggregator.dap.ids import TaskId
from aggregator.dap.problems import (
    BatchInvalid,
    UnrecognizedCollectionJob,
    UnrecognizedTask,
)
from aggregator.errors import Abort
from aggregator.protocol.task import Task
from aggregator.storage.database import Database, Transaction
from aggregator.web.auth import require_token
from aggregator.web.pages.charts import Chart, standalone
from aggregator.web.pages.frame import HEADERS, Link, page
from aggregator.web.pages.html import Html, tag
from aggregator.web.pages.png import as_png, draws_png
from aggregator.web.pages.reference import reference
from aggregator.web.pages.session import CSRF_FIELD, Session, Sessions
from aggregator.web.pages.visit import Visit
from aggregator.web.problems import abort_response

_HOME = [("/", "Overview"), ("/docs", "For programs")]

Read = Callable[[Transaction], View]
Chosen = Mapping[str, str]


class Begin(Protocol):
    """Starts the collection of a batch."""

    def __call__(self, task: Task, named: Mapping[str, int], *, now: bool) -> Awaitable[object]:
        """Store it; raises `Abort` where that is refused."""


Abandon = Callable[[str], Awaitable[object]]
"""Gives up the collection of this id, hexadecimal; raises `Abort` where that is refused."""


class Pages:
    """The handlers of all pages.

    Args:
        database: The collector's store.
        begin: Starts a collection.
        abandon: Gives one up.
        sessions: Who may look.
        token_hashes: Says, for each request, the SHA-256 of the tokens that begin a session.
        check: Refuses a request for or from another site.
        guests: Pages of others that are shown here: their paths and names.
    """

    def __init__(
        self,
        database: Database,
        begin: Begin,
        abandon: Abandon,
        sessions: Sessions,
        token_hashes: Callable[[], Sequence[bytes]],
        check: Callable[[Request], None],
        guests: Sequence[Link] = (),
    ) -> None:
        self._links = [*_HOME, *guests]
        self._database = database
        self._begin, self._abandon = begin, abandon
        self._sessions = sessions
        self._token_hashes = token_hashes
        self._check = check
        self._readings = Readings()
        self._drawing = CapacityLimiter(1)  # neither matplotlib nor `warnings` is made for threads

    def router(self) -> APIRouter:
        """Return the routes."""
        hidden, shown = APIRouter(include_in_schema=False), APIRouter()
        hidden.get("/login")(self.login)
        hidden.post("/login")(self.begin_session)
        hidden.post("/logout")(self.end_session)
        hidden.get("/docs")(self.docs)
        hidden.get("/openapi.json")(self.openapi)
        question = ("result", "with", "group", "all")
        views: dict[str, tuple[Callable[[Request, str], Read], dict[str, Any]]] = {
            "/overview": (self._overview, described(Overview)),
            "/questions/{task_id}": (
                self._question,
                described(Question, *question, in_path=True),
            ),
            "/questions/{task_id}/about": (
                self._about,
                described(AboutNumber, "result", "value", in_path=True),
            ),
            "/questions/{task_id}/batches": (self._batches, described(Batches, in_path=True)),
        }
        for path, (read, said) in views.items():
            json_file = self._file(read, "json")
            json_file.__doc__ = f"What the page {path} shows; also as .csv and .parquet."
            shown.get(f"{path}.json", **said)(json_file)
            for ending in ("csv", "parquet"):
                hidden.get(f"{path}.{ending}")(self._file(read, ending))
        hidden.get("/questions/{task_id}/{chart}.svg")(self.svg)
        hidden.get("/questions/{task_id}/{chart}.png")(self.png)
        hidden.get("/")(self._page(self._overview))
        for path, (read, _) in list(views.items())[1:]:
            hidden.get(path)(self._page(read))
        hidden.post("/questions/{task_id}/batches")(self.collect)
        both = APIRouter()
        both.include_router(shown)
        both.include_router(hidden)
        return both

    async def openapi(self, request: Request) -> Response:
        """Return the description of the API."""
        self._check_reader(request)
        return JSONResponse(openapi(request.app), headers=HEADERS)

    async def docs(self, request: Request) -> Response:
        """Show the description of the API."""
        self._check(request)
        session = self._known(request)
        if session is None:
            return RedirectResponse("/login", status.HTTP_303_SEE_OTHER, HEADERS)
        about = tag(
            "p",
            "A program shows the token as a bearer, Authorization: Bearer …; the same as ",
            tag("a", "OpenAPI", href="/openapi.json"),
            ".",
        )
        view = View("Requests for programs", [about, *reference(openapi(request.app))], {}, list)
        return self._shown(view, session, status.HTTP_200_OK)

    def admit(self, request: Request) -> Visit | Response:
        """Say who may look at a page of a guest: who has a session, or shows the token."""
        self._check(request)
        session = self._known(request)
        if session is not None:
            return Visit(self._links, self._leave(session))
        if "authorization" not in request.headers:
            return RedirectResponse("/login", status.HTTP_303_SEE_OTHER, HEADERS)
        require_token(request, self._token_hashes())
        return Visit(self._links)

    async def login(self, request: Request) -> Response:
        """Show the form that asks for the token."""
        self._check(request)
        return self._login_page(request, "", status.HTTP_200_OK)

    async def begin_session(self, request: Request) -> Response:
        """Begin a session for who knows the token."""
        self._check(request)
        form = await read_form(request)
        before = self._sessions.of(request)
        if before is None or not self._sessions.is_own_form(before, form.get(CSRF_FIELD, "")):
            why = "This form is too old, or your browser refuses cookies: try again."
            return self._login_page(request, why, status.HTTP_403_FORBIDDEN)
        token = form.get("token", "")
        if not token_matches(token, self._token_hashes()):
            why = "This is not the token of this service."
            return self._login_page(request, why, status.HTTP_401_UNAUTHORIZED)
        response = RedirectResponse("/", status.HTTP_303_SEE_OTHER, HEADERS)
        self._sessions.begin(request, response, hash_token(token))
        return response

    async def end_session(self, request: Request) -> Response:
        """End the session in this browser."""
        self._check(request)
        session, form = self._known(request), await read_form(request)
        response = RedirectResponse("/login", status.HTTP_303_SEE_OTHER, HEADERS)
        if session is not None and self._sessions.is_own_form(session, form.get(CSRF_FIELD, "")):
            self._sessions.begin(request, response)
        return response

    async def svg(self, request: Request, chart: str) -> Response:
        """Return a chart of a question as a file of its own."""
        drawn = standalone(await self._chart(request, chart))
        return _download(drawn, "image/svg+xml", f"{chart}.svg")

    async def png(self, request: Request, chart: str) -> Response:
        """Return a chart of a question as a picture."""
        self._check_reader(request)
        if not draws_png():
            raise UnrecognizedCollectionJob(
                "PNG needs matplotlib where the service runs: prio-aggregator[plots]"
            )
        found = await self._chart(request, chart)
        drawn = await to_thread.run_sync(as_png, found, limiter=self._drawing)
        return _download(drawn, "image/png", f"{chart}.png")

    async def _chart(self, request: Request, name: str) -> Chart:
        self._check_reader(request)
        charts = (await self._read(self._question(request, ""))).charts
        if name not in charts:
            raise UnrecognizedCollectionJob("the question has no such chart")
        return charts[name]

    async def collect(self, request: Request) -> Response:
        """Collect the batch that a form names, or give its collection up; go back to the list."""
        self._check(request)
        session = self._known(request)
        if session is None:
            return RedirectResponse("/login", status.HTTP_303_SEE_OTHER, HEADERS)
        form = await read_form(request)
        refused, code = "This form is not of your session: try again.", status.HTTP_403_FORBIDDEN
        if self._sessions.is_own_form(session, form.get(CSRF_FIELD, "")):
            try:
                asked = await self._database.read("get task", partial(self._asked, request))
                is_meant = form.get("meant") == "yes"
                if ABANDONED not in form:
                    await self._begin(asked.task, named_batch(form), now=is_meant)
                elif is_meant:
                    await self._abandon(form[ABANDONED])
                else:
                    raise BatchInvalid("a collection is given up only if the form says so")
            except Abort as error:
                refused, code = str(getattr(error, "detail", error)), _code(error)
            else:
                return RedirectResponse(f"{asked.path}/batches", status.HTTP_303_SEE_OTHER, HEADERS)
        view = await self._read(self._batches(request, self._sessions.csrf(session), refused))
        return self._shown(view, session, code)

    def _overview(self, _request: Request, _csrf: str) -> Read:
        return lambda tx: overview(tx, self._readings)

    def _question(self, request: Request, _csrf: str) -> Read:
        chosen = dict(request.query_params)
        return lambda tx: question(tx, self._readings, self._asked(request, tx), chosen)

    def _about(self, request: Request, _csrf: str) -> Read:
        chosen = dict(request.query_params)
        return lambda tx: about(tx, self._readings, self._asked(request, tx), chosen)

    def _batches(self, request: Request, csrf: str, refused: str = "") -> Read:
        return lambda tx: batches(tx, self._asked(request, tx), csrf, refused)

    def _page(self, read: Callable[[Request, str], Read]) -> Callable[..., Awaitable[Response]]:
        """Return the handler of a page."""

        async def handle(request: Request) -> Response:
            self._check(request)
            session = self._known(request)
            if session is None:
                return RedirectResponse("/login", status.HTTP_303_SEE_OTHER, HEADERS)
            try:
                view = await self._read(read(request, self._sessions.csrf(session)))
            except Abort as error:
                said = tag("p", str(getattr(error, "detail", error)))
                return page("Not here", said, links=self._links, status=_code(error))
            return self._shown(view, session, status.HTTP_200_OK)

        return handle

    def _file(
        self, read: Callable[[Request, str], Read], ending: str
    ) -> Callable[..., Awaitable[Response]]:
        """Return the handler of what a page shows, as a file."""

        async def handle(request: Request) -> Response:
            self._check_reader(request)
            if ending == "parquet" and not writes_parquet():
                raise UnrecognizedCollectionJob(
                    "Parquet needs polars where the service runs: prio-aggregator[frames]"
                )
            view = await self._read(read(request, ""))
            # A library that is imported, or a hundred thousand rows, must keep nobody waiting.
            return await to_thread.run_sync(_as_file, view, ending)

        return handle

    async def _read(self, read: Read) -> View:
        return await self._database.read("read a page", read)

    def _asked(self, request: Request, tx: Transaction) -> Asked:
        try:
            task_id = TaskId.parse(request.path_params["task_id"])
        except Abort as error:
            raise UnrecognizedTask("the address holds no task identifier") from error
        asked = self._readings.one(tx, task_id.value)
        if asked is None:
            raise UnrecognizedTask("this collector has no such task", task_id)
        return asked

    def _known(self, request: Request) -> Session | None:
        session = self._sessions.of(request)
        if session is None or not self._sessions.is_known(session, self._token_hashes()):
            return None
        return session

    def _check_reader(self, request: Request) -> None:
        """Refuse a request that is of no session and shows no token."""
        self._check(request)
        if self._known(request) is None:
            require_token(request, self._token_hashes())

    def _shown(self, view: View, session: Session, code: int) -> Response:
        return page(
            view.title, *view.content, links=self._links, aside=self._leave(session), status=code
        )

    def _leave(self, session: Session) -> Html:
        return tag(
            "form",
            self._csrf_field(session),
            tag("button", "Leave"),
            method="post",
            action="/logout",
        )

    def _login_page(self, request: Request, why: str, code: int) -> Response:
        response = Response()
        session = self._sessions.begin(request, response)
        shown = page(
            "Log in",
            tag("p", why, role="alert", class_="bad") if why else None,
            tag(
                "form",
                self._csrf_field(session),
                tag("label", "The token of this service ", for_="token"),
                tag(
                    "input",
                    type="password",
                    name="token",
                    id="token",
                    required=True,
                    autocomplete="current-password",
                ),
                tag("button", "Log in"),
                method="post",
                action="/login",
            ),
            tag("p", "Whoever runs the collector has it: its log names the file.", class_="soft"),
            status=code,
        )
        shown.headers["set-cookie"] = response.headers["set-cookie"]
        return shown

    def _csrf_field(self, session: Session) -> Html:
        csrf = self._sessions.csrf(session)
        return tag("input", type="hidden", name=CSRF_FIELD, value=csrf)


def _as_file(view: View, ending: str) -> Response:
    name = f"results.{ending}"
    match ending:
        case "json":
            return Response(as_json(view), headers=HEADERS, media_type="application/json")
        case "csv":
            return _download(as_csv(view.rows()), "text/csv; charset=utf-8", name)
        case _:
            return _download(as_parquet(view.rows()), "application/vnd.apache.parquet", name)


def _download(content: bytes, media_type: str, name: str) -> Response:
    attached = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content, headers={**HEADERS, **attached}, media_type=media_type)


def _code(error: Abort) -> int:
    return abort_response(error).status_code
