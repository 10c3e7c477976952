"""`prio survey sheet`: the link of a survey's page on paper, with a QR code."""

from pathlib import Path
from typing import Annotated

import typer

from aggregator.cli.options import Up
from aggregator.cli.steward.survey_tasks import MaybeTaskFile, answerable
from aggregator.errors import ParameterError

_TEXT = "Scan the code with a phone, or type the address:"


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
    text: Annotated[str, typer.Option(help="What the sheet says above the code.")] = _TEXT,
    up: Up = None,
) -> None:
    """Make a sheet to print: the survey's title, its link and the link as a QR code.

    Nothing is fetched, and the sheet loads nothing.
    """
    from aggregator.cli.local.folder import public_file
    from aggregator.dap.urls import read_resource
    from aggregator.steward.survey.qr_codes import printed_links, qr_code

    public, folder = public_file(file, up)
    _, meaning = answerable(public)
    if out is None:
        raise ParameterError("out: missing")
    if link is None:
        if folder is None:
            raise ParameterError("link: missing; it is where the survey's page is hosted")
        link = folder.form_url(public.parent.name)
    read_resource(link, "link")
    code = qr_code(link)
    is_code = out.suffix == ".svg"
    out.write_text(code if is_code else printed_links(meaning.title, text, [link]), "utf-8")
