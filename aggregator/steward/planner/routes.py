"""The addresses of the planner.

    GET  /plan              the page; the query may fill in fields of its form
    POST /plan              the page for a form, for browsers without scripts
    POST /plan/figures      what stands beside the form, for the script
    POST /plan/survey.toml  the survey file
    POST /plan.json         every figure; also GET, with the fields in the query
    POST /plan.csv          the figures as they would be published; also GET
    GET  /plan/planner.js   the script

Nothing is stored, and nothing in a form is logged.
"""

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import TypeVar
from urllib.parse import parse_qsl

from anyio import CapacityLimiter
from fastapi import APIRouter, Request, Response, status
from starlette.exceptions import HTTPException

from aggregator.clock import Clock
from aggregator.collector.results.csv_rows import as_csv
from aggregator.dap.problems import InvalidMessage, UnsupportedMediaType
from aggregator.entropy import Entropy
from aggregator.errors import ParameterError
from aggregator.failures import in_thread
from aggregator.service.web.messages import read_bytes
from aggregator.service.web.pages.frame import HEADERS, page
from aggregator.service.web.pages.host_page import Admit, Visit
from aggregator.service.web.pages.html import Html, tag
from aggregator.service.web.site import is_of_another_site
from aggregator.steward.planner.form import DEFAULTS, Draft
from aggregator.steward.planner.models import AS_CSV, AS_JSON, IN_BODY, IN_QUERY
from aggregator.steward.planner.page import STYLE, form
from aggregator.steward.planner.proposal import Proposal, propose
from aggregator.steward.planner.rehearsal import rehearse
from aggregator.steward.planner.result_view import figures, published, refused
from aggregator.steward.planner.script import SCRIPT
from aggregator.steward.planning.output import to_json

PATH = "/plan"
NAME = "Planner"

MAX_FORM_SIZE = 64 * 2**10
"""The largest form, in bytes."""

_MOST_FIELDS = 64
_FORM = "application/x-www-form-urlencoded"
_AT_ONCE = 2
"""How many forms are computed at a time: each takes about a processor second, ten at most."""

T = TypeVar("T")
Answer = Callable[[Request, Visit, Mapping[str, str]], Awaitable[Response]]

_propose = lru_cache(maxsize=256)(propose)


class Planner:
    """The handlers.

    The clock tells on which Monday a survey may begin, and `admit` decides who may look.
    """

    def __init__(self, entropy: Entropy, clock: Clock, admit: Admit) -> None:
        self._entropy = entropy
        self._clock = clock
        self._admit = admit
        self._at_work = CapacityLimiter(_AT_ONCE)

    def router(self) -> APIRouter:
        """Return the routes."""
        hidden, shown = APIRouter(include_in_schema=False), APIRouter()
        hidden.get(PATH)(self._handler(self._page))
        hidden.post(PATH)(self._handler(self._page))
        hidden.post(f"{PATH}/figures")(self._handler(self._figures))
        hidden.post(f"{PATH}/survey.toml")(self._handler(self._survey))
        hidden.get(f"{PATH}/planner.js")(self._handler(self._script))
        for ending, answer, said in (("json", self._document, AS_JSON), ("csv", self._csv, AS_CSV)):
            handle, path = self._handler(answer), f"{PATH}.{ending}"
            handle.__doc__ = f"What {PATH} shows of a question; also as .json and .csv."
            shown.get(path, **said, openapi_extra=IN_QUERY)(handle)
            shown.post(path, **said, openapi_extra=IN_BODY)(handle)
        both = APIRouter()
        both.include_router(shown)
        both.include_router(hidden)
        return both

    def warm_up(self) -> None:
        """Compute the page's initial figures: the first computation takes seconds."""
        rehearse(_propose(self._draft({})), self._entropy)

    def _handler(self, answer: Answer) -> Callable[[Request], Awaitable[Response]]:
        async def handle(request: Request) -> Response:
            if is_of_another_site(request) and not _is_followed(request):
                raise HTTPException(
                    status.HTTP_403_FORBIDDEN, "Pages of other sites are not answered"
                )
            visit = self._admit(request)
            if isinstance(visit, Response):
                return visit
            return await answer(request, visit, await _fields(request))

        return handle

    async def _page(self, _request: Request, visit: Visit, fields: Mapping[str, str]) -> Response:
        beside, code, followed = await self._beside(fields)
        is_refused = code != status.HTTP_200_OK
        return page(
            "What will it cost, and what will it say?",
            tag(
                "p",
                "Fill in a question and who will be asked. Beside the form you see what would be "
                "published, and what it costs each person. Nothing you write here is kept.",
            ),
            # On a narrow screen the part beside the form is below it, and would not be seen.
            tag("div", beside, id="refused") if is_refused else None,
            tag(
                "div",
                form({**DEFAULTS, **fields, **followed}, PATH),
                tag("div", None if is_refused else beside, id="figures"),
                class_="planner",
            ),
            links=visit.links,
            aside=visit.aside,
            status=code,
            style=STYLE,
            script=f"{PATH}/planner.js",
        )

    async def _figures(
        self, _request: Request, _visit: Visit, fields: Mapping[str, str]
    ) -> Response:
        beside, code, _ = await self._beside(fields)
        return Response(beside, code, HEADERS, "text/html; charset=utf-8")

    async def _survey(
        self, _request: Request, _visit: Visit, fields: Mapping[str, str]
    ) -> Response:
        proposal = await self._proposed(fields)
        attached = {"Content-Disposition": 'attachment; filename="survey.toml"'}
        return Response(
            proposal.text, headers={**HEADERS, **attached}, media_type="application/toml"
        )

    async def _document(
        self, _request: Request, _visit: Visit, fields: Mapping[str, str]
    ) -> Response:
        proposal = await self._proposed(fields)
        text = await self._in_thread(lambda: to_json(proposal.document()))
        return Response(text, headers=HEADERS, media_type="application/json")

    async def _csv(self, _request: Request, _visit: Visit, fields: Mapping[str, str]) -> Response:
        proposal = await self._proposed(fields)
        made = await self._in_thread(lambda: published(rehearse(proposal, self._entropy)))
        attached = {"Content-Disposition": 'attachment; filename="published.csv"'}
        content = as_csv(list(made[0]), made)
        return Response(content, headers={**HEADERS, **attached}, media_type="text/csv")

    async def _script(
        self, _request: Request, _visit: Visit, _fields: Mapping[str, str]
    ) -> Response:
        return Response(SCRIPT, headers=HEADERS, media_type="text/javascript; charset=utf-8")

    async def _beside(self, fields: Mapping[str, str]) -> tuple[Html, int, Mapping[str, str]]:
        """Return what stands beside a form, the answer's status, and the fields that follow."""
        try:
            proposal, shown = await self._in_thread(lambda: self._computed(fields))
        except ParameterError as error:
            return refused(str(error)), 422, {}  # the error's name depends on starlette
        return shown, status.HTTP_200_OK, dict([proposal.follows])

    def _computed(self, fields: Mapping[str, str]) -> tuple[Proposal, Html]:
        proposal = _propose(self._draft(fields))
        return proposal, figures(proposal, rehearse(proposal, self._entropy), PATH)

    async def _proposed(self, fields: Mapping[str, str]) -> Proposal:
        """Return the plan for a form, or raise `InvalidMessage`."""
        try:
            return await self._in_thread(lambda: _propose(self._draft(fields)))
        except ParameterError as error:
            raise InvalidMessage(str(error)) from error

    def _draft(self, fields: Mapping[str, str]) -> Draft:
        return Draft.of(fields, datetime.fromtimestamp(self._clock.now(), UTC).date())

    async def _in_thread(self, compute: Callable[[], T]) -> T:
        return await in_thread(compute, limiter=self._at_work)


def _is_followed(request: Request) -> bool:
    """Return whether a browser navigates to the page itself, by a link."""
    is_shown = request.headers.get("sec-fetch-dest") == "document"
    return request.method == "GET" and request.url.path == PATH and is_shown


async def _fields(request: Request) -> dict[str, str]:
    """Return the fields of a request's form, or of its query."""
    if request.method == "GET":
        text = request.url.query
    else:
        declared = request.headers.get("content-type", "").split(";")[0].strip().lower()
        if declared != _FORM:
            raise UnsupportedMediaType(f"the media type must be {_FORM}")
        text = (await read_bytes(request, MAX_FORM_SIZE)).decode("utf-8", "replace")
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise InvalidMessage(f"a form may have {_MOST_FIELDS} fields") from None
    return {name: value for name, value in pairs if name in DEFAULTS}
