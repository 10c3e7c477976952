"""Serves only pages on which surveys are answered: to try them, or behind a proxy.

    GET /        the only page, or links to all
    GET /NAME    the page with this name
    GET /module/VERSION/prio.js    the module, for other pages; also its parts

Anybody may see a page, so the site asks nobody who they are.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Final
from urllib.parse import quote

import anyio
from anyio import to_thread
from fastapi import APIRouter, Response, status
from fastapi.responses import HTMLResponse, PlainTextResponse
from starlette.types import ASGIApp

from aggregator.cli.client.module_route import module_router
from aggregator.cli.local.folder import public_files
from aggregator.cli.service.running import run_services
from aggregator.client.text import DESCRIPTION, TEXTS
from aggregator.errors import ConfigurationError, ParameterError
from aggregator.service.config import read_text
from aggregator.service.web.app import create_app
from aggregator.service.web.pages.frame import page as framed
from aggregator.service.web.pages.html import tag
from aggregator.steward.survey.beside import SURVEY_FILE
from aggregator.steward.survey.form.page import policy_of

_MAX_CONNECTIONS = 128
_HEADERS: Final = MappingProxyType(
    {
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
        "Cache-Control": "no-store",
    }
)

Pages = Callable[[], Mapping[str, Callable[[], str]]]
"""Finds the current pages, by name: each makes its page, or raises a `ParameterError`."""


def form_site(pages: Pages, only: str | None = None) -> ASGIApp:
    """Return an application that serves the current pages; `only` is the one shown at the root."""
    router = APIRouter(include_in_schema=False)

    @router.api_route("/", methods=["GET", "HEAD"])
    async def home() -> Response:
        return await to_thread.run_sync(_links, pages) if only is None else await survey(only)

    @router.api_route("/{name}", methods=["GET", "HEAD"])
    async def survey(name: str) -> Response:
        return await to_thread.run_sync(_answer, pages, name)

    return create_app("form", [router, module_router()])


async def serve_forms(pages: Pages, address: str, only: str | None = None) -> None:
    """Serve pages at `host:port` until a signal comes.

    Raises `ConfigurationError` if the address cannot be listened on.
    """

    async def announce(_stop: anyio.Event) -> None:
        await anyio.lowlevel.checkpoint()
        print(f"the page is at http://{address}/ (Ctrl-C ends it)", flush=True)

    await run_services([(form_site(pages, only), address)], [announce], _MAX_CONNECTIONS)


def surveys_in(folder: Path, page_of: Callable[[Path], str]) -> dict[str, Callable[[], str]]:
    """Return the pages of the surveys in a folder; surveys may be added while they are served.

    `page_of` makes the page of a task's file.
    """

    def maker(file: Path) -> Callable[[], str]:
        def made() -> str:
            texts = sorted((file.parent / TEXTS).glob("*/*.toml"))
            descriptions = [each.parent / DESCRIPTION for each in texts]
            wording = [each for each in [file.with_name(SURVEY_FILE)] if each.exists()]
            contents = map(read_text, (file, *wording, *texts, *descriptions))
            return _made(page_of, file, tuple(contents))

        return made

    return {file.parent.name: maker(file) for file in public_files(folder)}


@lru_cache(maxsize=64)
def _made(page_of: Callable[[Path], str], file: Path, _contents: tuple[str, ...]) -> str:
    return page_of(file)


def _answer(pages: Pages, name: str) -> Response:
    made = pages().get(name)
    if made is None:
        return _refusal("there is no survey of this name")
    try:
        page = made()
    except ParameterError as error:
        # The cause says the same without the name of a file, which visitors have no use for.
        is_named = isinstance(error.__cause__, ParameterError | ConfigurationError)
        return _refusal(str(error.__cause__ if is_named else error))
    policy = f"{policy_of(page)}; frame-ancestors 'none'"
    return HTMLResponse(page, headers={**_HEADERS, "Content-Security-Policy": policy})


def _refusal(why: str) -> Response:
    return PlainTextResponse(
        f"{why}\n", status_code=status.HTTP_404_NOT_FOUND, headers=dict(_HEADERS)
    )


def _links(pages: Pages) -> Response:
    links = [tag("li", tag("a", name, href=f"/{quote(name)}")) for name in pages()]
    content = tag("ul", *links) if links else tag("p", "No survey is asked here yet.")
    return framed("Surveys to answer", content)
