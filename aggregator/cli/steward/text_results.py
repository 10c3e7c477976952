"""`prio text results`: which strings of some lists people wrote, and how many wrote each."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aggregator.cli.steward.text_files import QuestionFolder, read_asked, strings_in

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from aggregator.client.text.hashing import TextHashes
    from aggregator.client.text.spelling import Spelling
    from aggregator.steward.text.candidates import Listed
    from aggregator.steward.text.decode import Decoded


def results(
    folder: QuestionFolder,
    released: Annotated[
        list[Path],
        typer.Option(
            "--results",
            help="What `prio text collect` wrote, or what `prio collect --json` printed for "
            "each task, all of one window. Repeatable.",
        ),
    ],
    lists: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[LIST…]", help="Candidates: files with one string per line."),
    ] = None,
    all_fingerprints: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Try all 2^32 fingerprints, on all processors; lists then only name what is "
            "found.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Print which strings of some lists people wrote, with intervals.

    Nobody is asked again and it costs nobody anything: other lists can be tried on the same results
    at any time. But whoever tries lists until a string passes has tried all of them. With --all,
    strings that are in no list are counted too, each without its name; that takes minutes to an
    hour.
    """
    from aggregator.cli.files import named
    from aggregator.client.text.spelling import Spelling
    from aggregator.errors import ParameterError
    from aggregator.service.config import read_text
    from aggregator.steward.text.candidates import Listed
    from aggregator.steward.text.decode import decode
    from aggregator.steward.text.found_strings import decoded_document
    from aggregator.steward.text.released import documents_in, released_tables

    question, tasks = read_asked(folder)
    if isinstance(question, Spelling) == bool(lists or all_fingerprints):
        raise ParameterError(
            "LIST: give no list and no --all: the question in this folder asks for letters"
            if lists or all_fingerprints
            else "LIST: name a list of candidates, or try all with --all"
        )
    documents: list[object] = []
    for file in released:
        text = read_text(file)
        with named(file):
            documents += documents_in(text)
    tables = released_tables(tasks, documents)
    if isinstance(question, Spelling):
        _print_spelled(question, tables, as_json=as_json)
        return
    listed = Listed(strings_in(lists), question.meaning) if lists else None
    if all_fingerprints:
        decoded = _decode_all(question.hashes, tables, listed)
    else:
        assert listed is not None  # noqa: S101  otherwise the command was refused
        decoded = decode(question.hashes, tables, listed)
    if as_json:
        print(json.dumps({"version": 1, "title": question.title, **decoded_document(decoded)}))
    else:
        print_decoded(question.title, decoded)


def _print_spelled(spelling: "Spelling", tables: "npt.NDArray[np.int64]", *, as_json: bool) -> None:
    """Print the strings of a spelling's fingerprints, one on each line."""
    from aggregator.steward.text.spelled import spelled
    from aggregator.untrusted_text import escaped

    named = spelled(spelling, tables)
    if as_json:
        strings = [{"fingerprint": each, "name": name} for each, name in named.names.items()]
        numbers = {"tried": named.tried, "expected_false": named.expected_false}
        print(json.dumps({"version": 1, "title": spelling.title, "spelled": strings, **numbers}))
        return
    print(escaped(spelling.title))
    for each, name in named.names.items():
        print(f"  {each:08x}: {'not named' if name is None else name}")
    names = sum(each is not None for each in named.names.values())
    print(
        f"{names} of {len(named.names)} named; {named.expected_false:.2g} of these are expected "
        "to be names that nobody wrote"
    )


def _decode_all(
    hashes: "TextHashes", tables: "npt.NDArray[np.int64]", listed: "Listed | None"
) -> "Decoded":
    """Decode with all fingerprints, showing a progress bar that starts anew in every pass."""
    from rich.console import Console
    from rich.progress import Progress

    from aggregator.steward.text.candidates import Enumerated
    from aggregator.steward.text.decode import decode

    candidates = Enumerated(listed=listed)
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("pass 1", total=candidates.count)
        tried = 0

        def advance(more: int) -> None:
            nonlocal tried
            tried += more
            passes, rest = divmod(tried, candidates.count)
            progress.update(bar, completed=rest, description=f"pass {passes + 1}")

        return decode(hashes, tables, candidates, progress=advance)


def print_decoded(title: str, decoded: "Decoded") -> None:
    """Print what was found, under a title."""
    from aggregator.dp.utility import PERCENT
    from aggregator.steward.text.found_strings import name_of
    from aggregator.untrusted_text import escaped

    print(escaped(title))
    for each in decoded.found:
        held = f"{each.count:,.0f} ({each.low:,.0f} to {each.high:,.0f}, {PERCENT})"
        print(f"  {name_of(each)}: {held}")
    print(
        f"{len(decoded.found)} found of {decoded.candidates:,} candidates, of which "
        f"{decoded.expected_false:.2g} are expected to be strings that nobody wrote"
    )
    print(f"no answer: {decoded.no_answer:,.0f}; answers not explained: {decoded.unexplained:,.0f}")
