"""`prio survey synthetic`: writes rows of nobody, drawn from what was released of a survey."""

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from aggregator.cli.options import Config, Up
from aggregator.cli.steward.survey_results import place_of, start_of
from aggregator.cli.steward.survey_tasks import MaybeTaskFile, survey_of
from aggregator.errors import ParameterError
from aggregator.untrusted_text import escaped


def synthetic(
    file: MaybeTaskFile = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The file to write; its name ends in .synthetic.csv or .synthetic.parquet. What "
            "must be known of the rows is written beside it, to ….about.json."
        ),
    ] = None,
    window: Annotated[
        list[str] | None,
        typer.Option(
            help='The window that contains this time, ISO 8601, or "now"; the last one if not '
            "given. Repeatable: all people of these windows are taken together."
        ),
    ] = None,
    rows: Annotated[
        int | None, typer.Option(help="How many rows; by default as many as there are reports.")
    ] = None,
    seed: Annotated[
        str | None,
        typer.Option(help="Draw other rows: without it, one release gives one table."),
    ] = None,
    although_noise: Annotated[
        bool,
        typer.Option(
            "--although-noise",
            help="Make the table even if nothing between questions stands out from the noise.",
        ),
    ] = False,
    config: Config = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what must be known as one JSON document.")
    ] = False,
    up: Up = None,
) -> None:
    """Write a synthetic table of a survey: rows of nobody, drawn from its released pairs.

    Nobody is asked again and it costs nobody anything. No interval and no test follows from rows.
    The exit status is 2, and nothing is written, if nothing between the questions stands out from
    the noise.
    """
    from aggregator.collector import Collector, survey_results
    from aggregator.steward.survey.synthetic.synthetic import ENDINGS, check_ending

    if out is None:
        raise ParameterError("out: missing")
    check_ending(out, *ENDINGS)
    public, config = place_of(file, config, up)
    asked, meaning = survey_of(public)
    if asked.task is None:
        raise ParameterError("the survey has text questions only, of which there is no table")
    moment, windows = datetime.now(UTC), meaning.windows
    with Collector.open(config) as collector:
        found = survey_results(collector.results(asked.task))
    if not found.windows:
        raise ParameterError("window: nothing was collected yet; see `prio survey collect`")
    starts = [start_of(windows, each, moment) for each in window or ()]
    chosen = [windows.describe(each) for each in starts]
    made = found.synthetic(rows=rows, seed=seed, windows=chosen, although_noise=although_noise)
    write = made.to_csv if out.name.endswith(ENDINGS[0]) else made.to_parquet
    write(out)
    if as_json:
        print(json.dumps(made.about()))
        return
    for line in made.lines():
        print(escaped(line))
    print(f"wrote {out} and what must be known of it beside it", file=sys.stderr)
