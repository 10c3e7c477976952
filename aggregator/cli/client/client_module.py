"""`prio client-module`: the browser's module in one file."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from aggregator.errors import ParameterError


def client_module(
    out: Annotated[
        Path | None, typer.Option(help="The file to write; without it, standard output.")
    ] = None,
    survey: Annotated[
        bool, typer.Option("--survey", help="The part for surveys, which imports ./prio.js.")
    ] = False,
    text: Annotated[
        bool, typer.Option("--text", help="The part for text questions, which imports ./prio.js.")
    ] = False,
) -> None:
    """Write the module for browsers as one file, and its hash to standard error.

    The hash is for the integrity attribute of the element that loads it.
    """
    from aggregator.client.module import integrity_of, joined_module, joined_survey, joined_text

    if survey and text:
        raise ParameterError("survey: each part is a file of its own, so give this or --text")
    module = joined_survey() if survey else joined_text() if text else joined_module()
    if out is None:
        print(module, end="")
    else:
        out.write_text(module, encoding="utf-8")
    print(integrity_of(module), file=sys.stderr)
