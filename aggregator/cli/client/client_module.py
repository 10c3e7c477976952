"""`prio client-module`: the browser's module in one file."""

import sys
from pathlib import Path
from typing import Annotated

import typer


def client_module(
    out: Annotated[
        Path | None,
        typer.Option(help="The file to write; without it, standard output."),
    ] = None,
) -> None:
    """Write the module for browsers as one file, and its hash to standard error.

    The hash is for the integrity attribute of the element that loads it.
    """
    from aggregator.client.module import integrity_of, joined_module

    text = joined_module()
    if out is None:
        print(text, end="")
    else:
        out.write_text(text, encoding="utf-8")
    print(integrity_of(text), file=sys.stderr)
