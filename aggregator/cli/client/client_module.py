"""`prio client-module`: the browser's module in one file."""

import sys
from typing import Annotated

import typer

from aggregator.cli.options import OutFile
from aggregator.errors import ParameterError


def client_module(
    out: OutFile = None,
    survey: Annotated[
        bool, typer.Option("--survey", help="The part for surveys, which imports ./prio.js.")
    ] = False,
    links: Annotated[
        bool, typer.Option("--links", help="The part for personal links, which imports ./prio.js.")
    ] = False,
    signed: Annotated[
        bool,
        typer.Option(
            "--signed", help="The part for an application's permits, which imports ./prio.js."
        ),
    ] = False,
    text: Annotated[
        bool, typer.Option("--text", help="The part for text questions, which imports ./prio.js.")
    ] = False,
) -> None:
    """Write the module for browsers as one file, and its hash to standard error.

    The hash is for the integrity attribute of the element that loads it.
    """
    from aggregator.client import module as browser

    parts = {
        browser.joined_survey: survey,
        browser.joined_text: text,
        browser.joined_links: links,
        browser.joined_signed: signed,
    }
    asked = [part for part, is_asked in parts.items() if is_asked]
    if len(asked) > 1:
        raise ParameterError(
            "survey: each part is a file of its own, so give one of this, --text, --links and "
            "--signed"
        )
    module = (asked or [browser.joined_module])[0]()
    if out is None:
        print(module, end="")
    else:
        out.write_text(module, encoding="utf-8")
    print(browser.integrity_of(module), file=sys.stderr)
