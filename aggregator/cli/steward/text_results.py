"""`prio text results`: which strings of some lists people wrote, and how many each."""

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aggregator.cli.steward.text_files import QuestionFolder, read_question

if TYPE_CHECKING:
    from aggregator.steward.text.decode import Decoded


def results(
    folder: QuestionFolder,
    lists: Annotated[
        list[Path], typer.Argument(metavar="LIST…", help="Candidates: files, a string a line.")
    ],
    released: Annotated[
        list[Path],
        typer.Option(
            "--results",
            help="What `prio collect --json` printed of the tasks, all of one window; repeatable.",
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Print which strings of some lists people wrote, with intervals.

    It asks nobody and costs nobody anything: other lists can be tried on the same results at any
    time. Who tries lists until a string passes has tried them all, though.
    """
    from aggregator.cli.files import named
    from aggregator.service.config import read_text
    from aggregator.steward.text.candidates import Listed
    from aggregator.steward.text.decode import decode
    from aggregator.steward.text.released import documents_in, released_tables

    question, tasks = read_question(folder)
    documents: list[object] = []
    for file in released:
        text = read_text(file)
        with named(file):
            documents += documents_in(text)
    tables = released_tables(tasks, documents)
    strings = [line for file in lists for line in read_text(file).splitlines()]
    decoded = decode(question.hashes, tables, Listed(strings, question.meaning))
    if as_json:
        print(json.dumps({"version": 1, "title": question.title, **_document(decoded)}))
    else:
        _print(question.title, decoded)


def _document(decoded: "Decoded") -> dict[str, object]:
    return {
        "confidence": "19/20",
        "found": [dataclasses.asdict(each) for each in decoded.found],
        "candidates": decoded.candidates,
        "threshold": decoded.threshold,
        "expected_false": decoded.expected_false,
        "no_answer": decoded.no_answer,
        "unexplained": decoded.unexplained,
    }


def _print(title: str, decoded: "Decoded") -> None:
    from aggregator.words import escaped

    print(escaped(title))
    for each in decoded.found:
        names = " or ".join(each.names)
        print(f"  {escaped(names)}: {each.count:,.0f} ({each.low:,.0f} to {each.high:,.0f}, 95 %)")
    print(
        f"{len(decoded.found)} found of {decoded.candidates:,} candidates; of these "
        f"{decoded.expected_false:.2g} expected that nobody wrote"
    )
    print(f"no answer: {decoded.no_answer:,.0f}; answers not explained: {decoded.unexplained:,.0f}")
