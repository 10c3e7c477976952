"""Access to pages: for a session that was begun with the service's token, or for the token itself.

    GET  /login            asks for the service's token, and then leads to where `to` says
    POST /login, /logout   begin and end a session
    GET  /login.js         logs in with the token of a link, `/login#token=…`

A form carries a value that only this session's pages know. A browser sends our cookie with no link
from another site, a message or a file, so such a visit is redirected once more, from a page here.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from urllib.parse import quote

import anyio
from fastapi import APIRouter, Request, Response, status
from fastapi.responses import RedirectResponse
from starlette.exceptions import HTTPException

from aggregator.collector.pages.forms import read_form
from aggregator.collector.pages.session import CSRF_FIELD, Session, Sessions
from aggregator.collector.pages.view import View
from aggregator.dap.auth import hash_token, token_matches
from aggregator.errors import Abort
from aggregator.service.telemetry.lines import log
from aggregator.service.web.auth import require_token
from aggregator.service.web.pages.frame import HEADERS, Link, page
from aggregator.service.web.pages.host_page import Visit
from aggregator.service.web.pages.html import Html, tag
from aggregator.service.web.problems import abort_response, http_error_response

_PAGE = re.compile(
    r"/(plan|docs|questions/[A-Za-z0-9_-]{1,64}(/about|/batches|/sheet|/words|/synthetic)?"
    r"(\?[A-Za-z0-9_=&-]{1,200})?)?"
)
"""Where a login may lead: only to pages of ours, since anyone may have made the link."""

_SCRIPT = """
"use strict";
// What follows the # is sent to no server: it is taken out of the address, and into the form.
const token = new URLSearchParams(location.hash.slice(1)).get("token");
if (token) {
  history.replaceState(null, "", location.pathname + location.search);
  const field = document.getElementById("token");
  field.value = token;
  field.form.requestSubmit();
}
"""
_SCRIPT_PATH = "/login.js"

Handler = Callable[[Request], Awaitable[Response]]

NOT_OWN = "This form is not of your session: try again.", status.HTTP_403_FORBIDDEN
"""The words and the status of a form that was not made for a session."""

FREE_REFUSALS = 5
"""How many wrong tokens in a row are answered without a delay."""
LONGEST_WAIT_SECONDS = 8


class Refusals:
    """Counts wrong tokens in a row, from all callers: the more, the later they are answered."""

    def __init__(self) -> None:
        """Begin with none."""
        self._in_a_row = 0

    async def wait(self) -> None:
        """Log one more, and wait if there were many; a right token never waits."""
        self._in_a_row += 1
        log.warning("login refused", in_a_row=self._in_a_row)
        if self._in_a_row > FREE_REFUSALS:
            await anyio.sleep(min(2 ** (self._in_a_row - FREE_REFUSALS - 1), LONGEST_WAIT_SECONDS))

    def forget(self) -> None:
        """Reset the count."""
        self._in_a_row = 0


class Access:
    """Lets in people and programs that know the service's token.

    `token_hashes` returns, for each request, the SHA-256 of each token that begins a session.
    `check` refuses a request for or from another site. Every page has `links` in its navigation.
    """

    def __init__(
        self,
        sessions: Sessions,
        token_hashes: Callable[[], Sequence[bytes]],
        check: Callable[[Request], None],
        links: Sequence[Link],
        where_to_look: str,
    ) -> None:
        self._sessions = sessions
        self._token_hashes = token_hashes
        self._check = check
        self._links = links
        self._where_to_look = where_to_look
        self._refusals = Refusals()

    def router(self) -> APIRouter:
        """Return the routes."""
        router = APIRouter(include_in_schema=False)
        router.get("/login")(self.login)
        router.post("/login")(self.begin_session)
        router.get(_SCRIPT_PATH)(self.script)
        router.post("/logout")(self.end_session)
        return router

    def session(self, request: Request) -> Session | None:
        """Return the session of a request for this site; None without one."""
        self._check(request)
        session = self._sessions.of(request)
        if session is None or not self._sessions.is_known(session, self._token_hashes()):
            return None
        return session

    def check_reader(self, request: Request) -> None:
        """Refuse a request that has neither a session nor a token."""
        if self.session(request) is None:
            require_token(request, self._token_hashes())

    def admit(self, request: Request) -> Visit | Response:
        """Admit a request for a guest's page if it has a session or shows the token."""
        session = self.session(request)
        if session is not None:
            return Visit(self._links, self._leave(session))
        is_page = "." not in request.url.path
        if is_page and "authorization" not in request.headers:
            return to_login(request)
        require_token(request, self._token_hashes())
        return Visit(self._links)

    def csrf(self, session: Session) -> str:
        """Return the value that this session's forms carry."""
        return self._sessions.csrf(session)

    def is_own_form(self, session: Session, form: Mapping[str, str]) -> bool:
        """Return whether a form was made for this session."""
        return self._sessions.is_own_form(session, form.get(CSRF_FIELD, ""))

    def page_of(self, view_of: Callable[[Request, str], Awaitable[View]]) -> Handler:
        """Return the handler of a page, whose forms carry the value that `view_of` gets.

        What `view_of` refuses with an `Abort` is a page that says why.
        """

        async def handle(request: Request) -> Response:
            session = self.session(request)
            if session is None:
                return to_login(request)
            try:
                view = await view_of(request, self.csrf(session))
            except Abort as error:
                return self._refused(session, error)
            return self.shown(session, view)

        return handle

    def shown(self, session: Session, view: View, code: int = status.HTTP_200_OK) -> Response:
        """Return a page of a session."""
        return self._page(session, view.title, view.content, code)

    def _page(
        self, session: Session, title: str, content: Sequence[Html | None], code: int
    ) -> Response:
        return page(title, *content, links=self._links, aside=self._leave(session), status=code)

    def _refused(self, session: Session, error: Abort) -> Response:
        """Return a page of a session that says why another is not shown."""
        why, code = why_and_code(error)
        return self._page(session, "Not here", [tag("p", f"{why[:1].upper()}{why[1:]}.")], code)

    async def not_served(self, request: Request, error: Exception) -> Response:
        """Answer requests that HTTP itself refuses; a person at an unknown address gets a page."""
        if not isinstance(error, HTTPException):
            raise error
        is_unknown = error.status_code == status.HTTP_404_NOT_FOUND and request.method == "GET"
        if is_unknown and "text/html" in request.headers.get("accept", ""):
            try:
                session = self.session(request)
            except HTTPException as refused:
                error = refused
            else:
                nothing = tag("p", "There is no page at this address.")
                if session is None:
                    return to_login(request)
                return self._page(session, "Not here", [nothing], error.status_code)
        return http_error_response(error.status_code, error.detail, error.headers)

    async def login(self, request: Request) -> Response:
        """Show the form that asks for the token."""
        self._check(request)
        return self._login_page(request, "", status.HTTP_200_OK)

    async def script(self, request: Request) -> Response:
        """Hand out what takes a token from a link."""
        self._check(request)
        return Response(_SCRIPT, headers=HEADERS, media_type="text/javascript; charset=utf-8")

    async def begin_session(self, request: Request) -> Response:
        """Begin a session for somebody who knows the token."""
        self._check(request)
        form = await read_form(request)
        before = self._sessions.of(request)
        if before is None or not self.is_own_form(before, form):
            why = "This form is too old, or your browser refuses cookies: try again."
            return self._login_page(request, why, status.HTTP_403_FORBIDDEN)
        token = form.get("token", "")
        if not token_matches(token, self._token_hashes()):
            await self._refusals.wait()
            why = "This is not the token of this service."
            return self._login_page(request, why, status.HTTP_401_UNAUTHORIZED)
        response = RedirectResponse(_wanted(request), status.HTTP_303_SEE_OTHER, HEADERS)
        self._refusals.forget()
        self._sessions.begin(request, response, hash_token(token))
        return response

    async def end_session(self, request: Request) -> Response:
        """End the session in this browser."""
        session, form = self.session(request), await read_form(request)
        response = _redirect("/login")
        if session is not None and self.is_own_form(session, form):
            self._sessions.end(session)
            self._sessions.begin(request, response)
        return response

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
            tag(
                "p",
                "The results of a collector: what was counted about many people, with noise, and "
                "how exact it is. Nobody's own answer is here.",
            ),
            tag("p", why, role="alert", class_="bad") if why else None,
            tag(
                "form",
                self._csrf_field(session),
                tag("label", "The token of this service", for_="token"),
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
                action=_login(_wanted(request)),
                class_="row",
            ),
            tag(
                "p",
                f"Whoever runs the collector has the token: it is in {self._where_to_look}, on the "
                "machine of the collector.",
                class_="soft",
            ),
            status=code,
            script=_SCRIPT_PATH,
        )
        shown.headers["set-cookie"] = response.headers["set-cookie"]
        return shown

    def _csrf_field(self, session: Session) -> Html:
        return tag("input", type="hidden", name=CSRF_FIELD, value=self.csrf(session))


def to_login(request: Request) -> Response:
    """Redirect to the login page, and from there to the page that was asked for."""
    query = request.url.query if request.method == "GET" else ""
    asked = f"{request.url.path}?{query}" if query else request.url.path
    is_led_here = request.method == "GET" and request.headers.get("sec-fetch-site") == "cross-site"
    if is_led_here and _PAGE.fullmatch(asked):
        # Ask once more from a page of ours, so that the browser sends the session's cookie.
        again = tag("meta", http_equiv="refresh", content=f"0;url={asked}")
        return page("One moment", again, tag("p", tag("a", "On to the page", href=asked)))
    return _redirect(_login(asked))


def _wanted(request: Request) -> str:
    """Return the page to which a login leads."""
    to = request.query_params.get("to", "")
    return to if _PAGE.fullmatch(to) else "/"


def _login(to: str) -> str:
    is_told = to != "/" and _PAGE.fullmatch(to)
    return f"/login?to={quote(to)}" if is_told else "/login"


def _redirect(path: str) -> Response:
    return RedirectResponse(path, status.HTTP_303_SEE_OTHER, HEADERS)


def why_and_code(error: Abort) -> tuple[str, int]:
    """Return the words and the status of a refusal."""
    return str(getattr(error, "detail", error)), abort_response(error).status_code
