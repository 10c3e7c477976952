"""`prio plan text`: which written answers would be found without a list of answers."""

from pathlib import Path
from typing import Annotated

import typer

from aggregator.cli.faults import reported
from aggregator.cli.steward.plan_options import Json, print_answer
from aggregator.steward.text import GUESSED_STRINGS


def text(
    epsilon: Annotated[
        str, typer.Option(help="The epsilon of a person, whichever task they are in.")
    ],
    reports: Annotated[
        int | None,
        typer.Option(
            help="How many people answer, in all tasks together; with --found, by default as many "
            "as in that window.",
            show_default=False,
        ),
    ] = None,
    buckets: Annotated[
        int,
        typer.Option(
            help="How many buckets each task's histogram has; each takes 16 bytes of an upload, "
            "or 32 with --amount, or 16 for each of --labels."
        ),
    ] = 1024,
    tasks: Annotated[
        int | None,
        typer.Option(
            help="How many tasks there are, of which each person is in one; if not "
            "given, the best number."
        ),
    ] = None,
    strings: Annotated[
        int, typer.Option(help="How many different strings people hold, as a guess of the tail.")
    ] = GUESSED_STRINGS,
    exponent: Annotated[
        str, typer.Option(help="The k-th most frequent is held in proportion to k^-exponent.")
    ] = "1",
    candidates: Annotated[
        int, typer.Option(help="How many strings are tried; all fingerprints if not given.")
    ] = 2**32,
    found: Annotated[
        Path | None,
        typer.Option(
            help="What `prio survey results --words … --json` printed: the tail is estimated from "
            "the text question's last window instead of guessed."
        ),
    ] = None,
    amount: Annotated[
        str | None,
        typer.Option(
            help="How far the largest number that people give beside a string is from the least; "
            "without it, none is asked for.",
            show_default=False,
        ),
    ] = None,
    labels: Annotated[
        int | None,
        typer.Option(
            help="How many labels the choice has by whose answers strings are counted, if by any.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Which written answers would be found that nobody listed beforehand.

    For histograms of hashes in several tasks, of which each person is in one. Prints how many
    people must hold a string for it to be found, with what error and how many bytes, for a guessed
    tail or for that of an earlier window; beside it, the error of a listed choice. With a number
    beside each string, or by another answer, also the errors of means, or of counts of labels.
    """
    from aggregator.service.config import read_text
    from aggregator.steward.planning import answers_text

    with reported():
        last = None if found is None else read_text(found)
        answer = answers_text.text(
            epsilon, reports, buckets, tasks, strings, exponent, candidates, last, amount, labels
        )
        print_answer(answer, json=json)
