"""`prio plan selection` and `keep`: which private buckets may be shown."""

import csv
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from aggregator.cli.faults import reported
from aggregator.cli.steward.plan_options import Epsilon, Json, print_answer
from aggregator.entropy import SystemEntropy
from aggregator.errors import ParameterError

Delta = Annotated[str, typer.Option(help="Chance of a failure, from 0 to 1.")]
Kappa = Annotated[int, typer.Option(help="The most buckets that one person is in.")]


class NeighbourChoice(StrEnum):
    """Which data sets a guarantee compares."""

    ADD_REMOVE = "add-remove"
    REPLACEMENT = "replacement"


Neighbours = Annotated[NeighbourChoice, typer.Option(help="add-remove or replacement.")]

_COLUMNS = 2
"""Fields per line of a file of bucket counts: the name and the number of persons."""


def selection(
    epsilon: Epsilon,
    delta: Delta,
    count: Annotated[int, typer.Option(help="How many people are in the bucket in question.")],
    kappa: Kappa = 1,
    neighbours: Neighbours = NeighbourChoice.ADD_REMOVE,
    public_threshold: Annotated[
        int | None,
        typer.Option(help="The threshold for buckets of a public list, over the same noise."),
    ] = None,
    json: Json = False,
) -> None:
    """Which private buckets may be shown: the optimal rule, its rivals, and the one to take."""
    from aggregator.steward.planning import answers_selection

    with reported():
        found = answers_selection.selection(
            epsilon, delta, count, kappa, neighbours, public_threshold
        )
        print_answer(found, json=json)


def keep(
    epsilon: Epsilon,
    delta: Delta,
    counts: Annotated[
        Path, typer.Option(help="A CSV file with one bucket and its number of people per line.")
    ],
    kappa: Kappa = 1,
    neighbours: Neighbours = NeighbourChoice.ADD_REMOVE,
    json: Json = False,
) -> None:
    """Draw which private buckets are shown, by the optimal rule.

    Draw only once: showing the names of two draws spends epsilon and delta twice. Publish nothing
    but the names, neither the counts nor how many buckets were left out.
    """
    from aggregator.service.config import read_text
    from aggregator.steward.planning import answers_selection

    with reported():
        buckets = _bucket_counts(read_text(counts))
        found = answers_selection.keep(buckets, epsilon, delta, kappa, neighbours, SystemEntropy())
        print_answer(found, json=json)


def _bucket_counts(text: str) -> dict[str, int]:
    """Return the persons in each bucket; error messages name lines, not their contents."""
    buckets: dict[str, int] = {}
    for number, row in enumerate(csv.reader(text.splitlines()), start=1):
        if len(row) != _COLUMNS or not row[1].strip().isdecimal() or not row[1].isascii():
            raise ParameterError(f"counts: line {number} is not a name, a comma and a whole number")
        if row[0] in buckets:
            raise ParameterError(f"counts: line {number} has a name that stood there before")
        buckets[row[0]] = int(row[1])
    return buckets
