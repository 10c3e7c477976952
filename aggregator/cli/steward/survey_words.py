"""The results of a survey's text questions for some lists of strings, window by window."""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from aggregator.cli.steward.text_files import strings_in, texts_of
from aggregator.cli.steward.text_results import print_decoded
from aggregator.errors import ParameterError

if TYPE_CHECKING:
    from datetime import datetime

    from aggregator.collector import Collected
    from aggregator.protocol.task import Task
    from aggregator.steward.survey import Meaning


def show_words(
    place: Path,
    meaning: "Meaning",
    lists: Sequence[Path],
    results_of: "Callable[[Task], Sequence[Collected]]",
    *,
    as_json: bool,
) -> None:
    """Print which strings people wrote, in every window that was collected completely.

    The strings are in files, one on each line. `results_of` returns all collected results of a
    task. Raises `ParameterError` if the survey has no text question.
    """
    from aggregator.steward.text.candidates import Listed
    from aggregator.steward.text.decode import decode
    from aggregator.steward.text.found_strings import decoded_document
    from aggregator.steward.text.released import released_tables

    texts = texts_of(place)
    if not texts:
        raise ParameterError("words: the survey has no text question")
    strings = strings_in(lists)
    documents = []
    for name, (question, tasks) in texts.items():
        windows: dict[datetime, list[object]] = {}
        for task in tasks:
            for each in results_of(task):
                windows.setdefault(each.start, []).append(each.document)
        for start, collected in sorted(windows.items()):
            window = meaning.windows.describe(start)
            if len(collected) < len(tasks):
                print(
                    f"prio: {name}, {window}: {len(collected)} of {len(tasks)} tasks are "
                    "collected, and all are needed",
                    file=sys.stderr,
                )
                continue
            tables = released_tables(tasks, collected)
            decoded = decode(question.hashes, tables, Listed(strings, question.meaning))
            if as_json:
                head = {"name": name, "start": start.isoformat()}
                documents.append(head | decoded_document(decoded))
            else:
                print_decoded(f"{name}, {window}", decoded)
    if as_json:
        print(json.dumps({"version": 2, "texts": documents}))
