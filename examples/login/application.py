"""An application with a login whose people answer a survey, each once: see README.md.

python application.py FOLDER --add ada     # prints the password of a new account
python application.py FOLDER               # serves at http://127.0.0.1:8010
"""

import argparse
from html import escape
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import uvicorn
from accounts import Accounts
from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.concurrency import run_in_threadpool

from aggregator.client.module import joined_module, joined_signed, joined_survey
from aggregator.client.survey.asked_survey import read_survey
from aggregator.clock import Clock
from aggregator.codec import DecodeError
from aggregator.errors import ParameterError
from aggregator.issuer import AlreadyIssued, Issuer, read_keys

HERE = Path(__file__).parent
COOKIE = "login"
MOST_BYTES = 65_536
TYPES = {".js": "text/javascript", ".css": "text/css", ".json": "application/json"}


def application(folder: Path, accounts: Accounts, clock: Clock | None = None) -> FastAPI:
    """Return the application for the survey in a folder, beside which `issuer.keys` lies."""
    intranet = Intranet(folder, accounts, clock)
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.get("/")(intranet.home)
    app.get("/survey")(intranet.survey)
    app.get("/files/{name}")(intranet.file)
    app.post("/login")(intranet.log_in)
    app.post("/logout")(intranet.log_out)
    app.post("/permits")(intranet.permits)
    return app


class Intranet:
    """What the application answers."""

    def __init__(self, folder: Path, accounts: Accounts, clock: Clock | None) -> None:
        survey = read_survey(folder / "task.toml")
        keys = read_keys(folder / "issuer.keys")
        self.accounts = accounts
        self.issuer = Issuer(keys, survey.tasks, accounts, clock=clock)
        accounts.forget(self.issuer.first_windows())  # a service that runs for long does so daily
        parties = survey.first.configuration
        origins = {
            "{0.scheme}://{0.netloc}".format(urlsplit(each))
            for each in (parties.leader_aggregator_endpoint, parties.helper_aggregator_endpoint)
        }
        self.headers = {
            "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
            f"connect-src 'self' {' '.join(sorted(origins))}; img-src data:; form-action 'self'; "
            "frame-ancestors 'none'; base-uri 'none'",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "no-store",
        }
        self.files = {
            "prio.js": joined_module(),
            "prio-signed.js": joined_signed(),
            "prio-survey.js": joined_survey(),
            **{each: _text(HERE / each) for each in ("home.js", "survey.js", "page.css")},
            **{each: _text(folder / each) for each in ("task.json", "issuer-keys.json")},
        }

    def home(self, request: Request) -> Response:
        """Show the login, or the page after it."""
        who = self._who(request)
        return self._page("login") if who is None else self._page("home", *who)

    def survey(self, request: Request) -> Response:
        """Show the questions to whoever is logged in."""
        who = self._who(request)
        return RedirectResponse("/", 303) if who is None else self._page("survey", *who)

    def file(self, name: str) -> Response:
        """Return a script or a public document, which anybody may have."""
        if name not in self.files:
            return Response(status_code=404)
        kind = TYPES[Path(name).suffix]
        return Response(self.files[name], headers=self.headers, media_type=kind)

    async def log_in(self, request: Request) -> Response:
        """Take a name and a password."""
        given = parse_qs((await _body(request))[:MOST_BYTES].decode("utf-8", "replace"))
        name, password = (given.get(each, [""])[0] for each in ("name", "password"))
        token = await run_in_threadpool(self.accounts.log_in, name, password)
        if token is None:
            return self._page("login", said="This name and password do not match.", status=403)
        answer = RedirectResponse("/", 303)
        is_secure = request.url.scheme == "https"
        answer.set_cookie(COOKIE, token, httponly=True, samesite="strict", secure=is_secure)
        return answer

    def log_out(self, request: Request) -> Response:
        """End the login; permits stay on the device, for the next one."""
        self.accounts.log_out(request.cookies.get(COOKIE, ""))
        answer = RedirectResponse("/", 303)
        answer.delete_cookie(COOKIE)
        return answer

    async def permits(self, request: Request) -> Response:
        """Let the issuer answer whoever is logged in; pages of other sites send no cookie."""
        body = await _body(request)
        who = await run_in_threadpool(self._who, request)
        if who is None:
            return Response(status_code=401)
        if len(body) > MOST_BYTES:
            return Response(status_code=413)
        try:
            answer = await run_in_threadpool(self.issuer.issue, who[0], body)
        except AlreadyIssued:
            return Response(status_code=409)
        except (DecodeError, ParameterError) as error:
            return Response(str(error), 400, media_type="text/plain")
        return Response(answer, headers=self.headers, media_type="application/octet-stream")

    def _who(self, request: Request) -> tuple[str, str] | None:
        return self.accounts.of_login(request.cookies.get(COOKIE, ""))

    def _page(
        self, page: str, account: str = "", name: str = "", *, said: str = "", status: int = 200
    ) -> Response:
        text = _text(HERE / f"{page}.html").replace("{{SAID}}", said)
        text = text.replace("{{ACCOUNT}}", account).replace("{{NAME}}", escape(name))
        return HTMLResponse(text, status, self.headers)


async def _body(request: Request) -> bytes:
    """Read a body to its end, and keep no more of it than shows that it is too large.

    A server may end a connection whose body was answered before it was read.
    """
    body = bytearray()
    async for chunk in request.stream():
        body += chunk[: MOST_BYTES + 1 - len(body)]
    return bytes(body)


def _text(file: Path) -> str:
    return file.read_text("utf-8")


def main() -> None:
    """Add an account, or serve."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path, help="the survey's, with issuer.keys in it")
    parser.add_argument("--add", metavar="NAME", help="add an account, and print its password")
    parser.add_argument("--port", type=int, default=8010)
    given = parser.parse_args()
    accounts = Accounts(given.folder / "accounts.sqlite")
    if given.add is not None:
        try:
            print(accounts.add(given.add))
        except ValueError as error:
            parser.error(str(error))
        return
    uvicorn.run(application(given.folder, accounts), host="127.0.0.1", port=given.port)


if __name__ == "__main__":
    main()
