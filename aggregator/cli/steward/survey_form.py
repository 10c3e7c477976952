"""`prio survey form`: the page on which people answer, and whether a page that is served is it."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aggregator.cli import faults
from aggregator.cli.options import EnvironmentProxy, InsecureHttp
from aggregator.cli.steward.survey_tasks import TaskFile, task_of_survey
from aggregator.errors import PeerError

if TYPE_CHECKING:
    import httpx


def form(
    file: TaskFile,
    out: Annotated[
        Path | None, typer.Option(help="The file to write; without it, standard output.")
    ] = None,
    words: Annotated[
        Path | None,
        typer.Option(
            help="A JSON file of the page's strings in another language; what it leaves out stays "
            "English."
        ),
    ] = None,
    print_words: Annotated[
        bool, typer.Option("--print-words", help="Print all strings in English, to translate.")
    ] = False,
    check: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Write nothing; say whether the page at this address is this one."
        ),
    ] = None,
    insecure_http: InsecureHttp = False,
    environment_proxy: EnvironmentProxy = False,
) -> None:
    """Make the page on which a survey is answered: one file, hosted anywhere.

    It splits and seals answers in the visitor's browser and talks to both aggregators only. Its
    fingerprint is printed to standard error, to be published: whoever makes the page from the same
    task with the same version has the same. With --check, the status is 1 if a page is another.
    """
    import json

    import anyio

    from aggregator.service.config import read_text
    from aggregator.service.transport.client import open_client
    from aggregator.steward.survey.form.page import fingerprint, form_page
    from aggregator.steward.survey.form.words import WORDS, words_of

    if print_words:
        print(json.dumps(dict(WORDS), indent=1, ensure_ascii=False))
        return
    page = form_page(*task_of_survey(file), WORDS if words is None else words_of(read_text(words)))
    if check is not None:
        http = open_client(insecure_http=insecure_http, environment_proxy=environment_proxy)
        served = anyio.run(_served, http, check, len(page.encode()))
        if served == page.encode():
            print(f"the same page: SHA-256 {fingerprint(page)}")
            return
        print(f"another page than this one, of SHA-256 {fingerprint(page)}")
        raise SystemExit(faults.PARTLY)
    if out is None:
        print(page, end="")
    else:
        out.write_text(page, encoding="utf-8")
    print(f"SHA-256 {fingerprint(page)}", file=sys.stderr)


async def _served(client: "httpx.AsyncClient", url: str, size: int) -> bytes:
    """Return what a URL answers, no more than one byte beyond `size`.

    Raises:
        PeerError: It cannot be asked, or answers with something else than a page.
    """
    import httpx

    content = b""
    async with client as http:
        try:
            async with http.stream("GET", url) as answer:
                if answer.status_code != httpx.codes.OK:
                    raise PeerError(f"check: {url} answers with status {answer.status_code}")
                async for part in answer.aiter_bytes():
                    content += part
                    if len(content) > size:
                        break
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise PeerError(f"check: {url}: {error}") from error
    return content
