"""`prio issuer`: the keys by which an application signs the permits of its people."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from aggregator.cli.steward.survey_making import new_issuer_keys, survey_in

app = typer.Typer(no_args_is_help=True, help="Make the keys that sign permits in an application.")


@app.callback()
def _group() -> None:
    """Keep `new` a command of its own, although it is the only one."""


@app.command(epilog="Example: prio issuer new survey.toml --out issuer")
def new(
    file: Annotated[Path, typer.Argument(metavar="SURVEY.toml", help="The survey file.")],
    out: Annotated[Path, typer.Option(help="The folder for the keys, which must not exist yet.")],
) -> None:
    """Make an issuer's keys for a survey that counts answers by application.

    There is one key for each window. Whoever runs the application's server makes them, keeps
    issuer.keys, which is secret, and gives issuer-keys.json to whoever makes the survey with `prio
    survey new --issuer-keys`. An aggregator's operator should not have issuer.keys.
    """
    from aggregator.collector.results.whole_files import folder_made_whole
    from aggregator.protocol.issuer_key_file import ISSUER_KEYS, issuer_keys_to_json
    from aggregator.service.config import read_text

    keys = new_issuer_keys(survey_in(file, read_text(file)))
    with folder_made_whole(out) as folder:
        keys.write(folder / "issuer.keys")
        (folder / ISSUER_KEYS).write_text(issuer_keys_to_json(keys.public), encoding="utf-8")
    print(
        f"wrote issuer.keys (secret: whoever has it can make any number of permits) and "
        f"{ISSUER_KEYS} (public, for `prio survey new --issuer-keys`) to {out}",
        file=sys.stderr,
    )
