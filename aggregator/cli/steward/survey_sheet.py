"""`prio survey sheet`: the link of a survey's page on paper, with a QR code."""

from pathlib import Path
from typing import Annotated

import typer

from aggregator.cli.options import Up
from aggregator.cli.steward.survey_form import wording_beside
from aggregator.cli.steward.survey_tasks import MaybeTaskFile, answerable
from aggregator.errors import ParameterError
from aggregator.written_times import IN_UTC


def sheet(
    file: MaybeTaskFile = None,
    out: Annotated[
        Path | None, typer.Option(help="The file to write: a page to print, or the code if .svg.")
    ] = None,
    link: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Where the survey's page is; if not given, where the `prio up` serves it.",
        ),
    ] = None,
    text: Annotated[
        str | None,
        typer.Option(
            help="What the sheet says above the code; if not given, what to do with it, in all "
            "languages of the survey."
        ),
    ] = None,
    up: Up = None,
) -> None:
    """Make a sheet to print: the survey's title, its link and the link as a QR code.

    It also says when the survey ends and, if a survey.toml beside the task names the organiser, who
    asks. Nothing is fetched, and the sheet loads nothing.
    """
    from aggregator.cli.local.folder import public_file
    from aggregator.dap.urls import read_resource
    from aggregator.steward.survey.qr_codes import Printed, in_each_language, printed_links, qr_code
    from aggregator.steward.survey.wording import Wording

    public, folder = public_file(file, up)
    asked, meaning = answerable(public)
    if out is None:
        raise ParameterError("out: missing")
    if link is None:
        if folder is None:
            raise ParameterError("link: missing; it is where the survey's page is hosted")
        link = folder.form_url(public.parent.name)
    read_resource(link, "link")
    if out.suffix == ".svg":
        out.write_text(qr_code(link), "utf-8")
        return
    wording, below = wording_beside(public, asked) or Wording(), []
    language = wording.language
    if text is None:
        said = in_each_language(wording, meaning.title, "scan")
    else:
        said = [Printed(meaning.title, text, language, wording.words_of(language)["dir"])]
    if wording.about.organiser:
        below.append(f"{wording.words_of(language)['asked_by']}: {wording.about.organiser}")
    if asked.first.closes is not None:
        until = "Open until" if language.partition("-")[0] == "en" else "→"
        below.append(f"{until} {IN_UTC.moment(asked.first.closes)}")
    page = printed_links(said, [link], below=below)
    out.write_text(page, "utf-8")
