"""`prio survey form`: the page on which people answer; serves it, or checks one that is served."""

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aggregator.cli import faults
from aggregator.cli.files import named
from aggregator.cli.options import EnvironmentProxy, InsecureHttp, OutFile, Up
from aggregator.cli.steward.survey_tasks import MaybeTaskFile, Spelled, answerable
from aggregator.clock import SystemClock
from aggregator.errors import ParameterError, PeerError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    import httpx

    from aggregator.client.survey.asked_survey import AskedSurvey
    from aggregator.steward.survey.wording import Wording


def form(
    file: MaybeTaskFile = None,
    out: OutFile = None,
    print_words: Annotated[
        bool,
        typer.Option(
            "--print-words",
            help="Write nothing; print the page's own strings in English, to be translated in the "
            "survey file.",
        ),
    ] = False,
    check: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Write nothing; check whether the page at this address is this one."
        ),
    ] = None,
    serve: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS:PORT",
            help="Write nothing; serve only this page, at this address, until Ctrl-C. With "
            "--up, serve all surveys of the folder, each under its name. Browsers split answers "
            "only on this machine's own addresses, or behind a proxy with https.",
        ),
    ] = None,
    spelled: Spelled = None,
    insecure_http: InsecureHttp = False,
    environment_proxy: EnvironmentProxy = False,
    up: Up = None,
) -> None:
    """Make the page on which a survey is answered: one file, hosted anywhere.

    It splits and seals answers in the visitor's browser and talks to both aggregators only. Who
    asks, and what the page says in other languages, is read from the survey.toml beside the task.
    The page's fingerprint is printed to standard error, to be published: anybody who makes the page
    from the same files with the same version has the same. With --check, the status is 1 if a page
    is another.
    """
    from aggregator.cli.local.folder import LocalFolder, public_file
    from aggregator.steward.survey.form.page import fingerprint
    from aggregator.steward.survey.form.translations import text_of_words

    if print_words:
        print(f"[words.xx]  # the language, such as el\n{text_of_words()}", end="")
        return
    if serve is not None and (out or check):
        raise ParameterError("serve: goes neither with --out nor with --check")
    if serve is not None and file is None and up is not None:
        if spelled:
            raise ParameterError("spelled: with --serve, name one task.toml")
        _serve_all(LocalFolder.at(up).surveys, serve)
        return
    public, _ = public_file(file, up)
    page = page_of(public, spelled or (), say_unbound)
    if check is not None:
        import anyio

        from aggregator.dap.urls import read_resource
        from aggregator.service.transport.client import open_client

        read_resource(check, "check")
        http = open_client(insecure_http=insecure_http, environment_proxy=environment_proxy)
        served = anyio.run(_served, http, check, len(page.encode()))
        if served == page.encode():
            print(f"the same page: SHA-256 {fingerprint(page)}")
            return
        print(f"another page than this one, of SHA-256 {fingerprint(page)}")
        raise SystemExit(faults.PARTLY)
    if serve is not None:
        _serve_one(page, serve)
        return
    if out is None:
        print(page, end="")
    else:
        out.write_text(page, encoding="utf-8")
    print(f"SHA-256 {fingerprint(page)}", file=sys.stderr)


def page_of(
    public: Path,
    spelled: "Sequence[Path]" = (),
    say: "Callable[[Sequence[str]], None]" = lambda _: None,
) -> str:
    """Return the page of a survey, with the text questions whose files lie beside its own.

    `spelled` are folders of windows in which letters are asked for; `say` is called with the
    languages to which the tasks are not bound. Raises `ParameterError` as
    `form_page` does, or if the file has no survey, or several tasks, or the survey file beside it
    does not belong to it.
    """
    from aggregator.cli.local.folder import DRAFT
    from aggregator.client.survey.texts import spelled_of
    from aggregator.service.config import read_text
    from aggregator.steward.survey.beside import unbound
    from aggregator.steward.survey.form.page import form_page

    asked, _ = answerable(public)
    wording = wording_beside(public, asked)
    if wording is not None:
        say(unbound(wording, asked))
    with named(public):
        windows = spelled_of(asked.texts, spelled)
        draft = public.with_name(DRAFT)
        number = read_text(draft).strip() if draft.exists() else ""
        return form_page(asked, wording, windows, number)


def wording_beside(public: Path, asked: "AskedSurvey") -> "Wording | None":
    """Return what the survey file beside a survey's public one says besides what is asked.

    None if there is no such file; raises `ParameterError` if it does not belong to the survey.
    """
    from aggregator.service.config import read_text
    from aggregator.steward.survey.beside import SURVEY_FILE, wording_of

    beside = public.with_name(SURVEY_FILE)
    if not beside.exists():
        return None
    with named(beside):
        now = datetime.fromtimestamp(SystemClock().now(), UTC)
        return wording_of(read_text(beside), asked, now)


def say_unbound(languages: "Sequence[str]") -> None:
    """Say, to standard error, which languages the tasks are not bound to, if there are any."""
    if languages:
        print(
            f"{', '.join(languages)}: added after the task was made, which is not bound to it: "
            "only the page's fingerprint shows whether labels there are swapped",
            file=sys.stderr,
        )


def _serve_one(page: str, address: str) -> None:
    from aggregator.cli.steward.form_site import serve_forms

    _serve(lambda: serve_forms(lambda: {"form": lambda: page}, address, only="form"))


def _serve_all(surveys: Path, address: str) -> None:
    from aggregator.cli.steward.form_site import serve_forms, surveys_in

    _serve(lambda: serve_forms(lambda: surveys_in(surveys, page_of), address))


def _serve(run: "Callable[[], Coroutine[None, None, None]]") -> None:
    import anyio

    from aggregator.service.telemetry.logs import LogFormat, configure_logs

    configure_logs(LogFormat.CONSOLE, "warning", "form")
    anyio.run(run, backend_options={"use_uvloop": True})


async def _served(client: "httpx.AsyncClient", url: str, size: int) -> bytes:
    """Return the answer of a URL, up to one byte beyond `size`, or raise `PeerError`."""
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
