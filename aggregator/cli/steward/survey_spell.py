"""`prio text spell`: makes the tasks that ask for the letters of strings that no list explains."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aggregator.cli.options import parse_time
from aggregator.cli.steward.text_files import public_files
from aggregator.client.text import SPELLED_ALPHABET, SPELLING, TASKS, TASKS_OF_PAGES
from aggregator.clock import SystemClock
from aggregator.entropy import SystemEntropy
from aggregator.errors import ParameterError
from aggregator.written_times import utc_text

if TYPE_CHECKING:
    from aggregator.protocol.task import Task

_NOT_ONE = "found: not what `prio text results --all --json` prints of one window"


def spell(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="The folder that `prio text tasks` made.")
    ],
    found: Annotated[
        Path,
        typer.Option(
            help="What `prio text results --all --json` printed for a window. Its "
            "fingerprints without a name are spelled, the most frequent first, as many as there "
            "is room for."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The folder for the files, which must not exist yet.")],
    alphabet: Annotated[
        str,
        typer.Option(
            help="The letters that are told apart, in normal form; all others count as one."
        ),
    ] = SPELLED_ALPHABET,
    letters: Annotated[
        int | None,
        typer.Option(
            help="How many positions are asked for; if not given, 16, or the number of the "
            "question's tasks if that is less. A longer string is not named."
        ),
    ] = None,
    window: Annotated[
        str | None,
        typer.Option(
            help="The window that holds this time (ISO 8601, UTC without a zone, or seconds since "
            "1970): the tasks take reports of no other. Applications and pages need it: they ask "
            "for letters in this window, and for what people write in all others."
        ),
    ] = None,
) -> None:
    """Make the tasks that ask for the letters of what no list explains, for one window.

    In that window people upload to this folder and not to the question's: they are in the place
    that they have tossed for, and send a report of the same size, whatever they wrote, so a person
    pays for one report as ever. Parties take part as in the question. Then `prio text collect` and
    `prio text results` say which strings they are.
    """
    from aggregator.cli.files import named
    from aggregator.cli.service.task_making import write_folder
    from aggregator.cli.steward.text_files import read_question
    from aggregator.client.text.spelling import LETTERS, Spelling, most_spelled
    from aggregator.dap.ids import TaskId
    from aggregator.protocol.provisioning import provision_all
    from aggregator.protocol.task_file import task_from_table, task_to_table
    from aggregator.service.config import read_text

    question, tasks = read_question(folder)
    if tasks[0].policy.window is None:
        raise ParameterError(
            "FOLDER: the question has no windows, so people answer it once and for ever, and there "
            "is no next window in which they could be asked for letters"
        )
    text = read_text(found)
    with named(found):
        prints = _unnamed(text)[: most_spelled(question.length, alphabet)]
    count = min(LETTERS, question.tasks) if letters is None else letters
    spelling = Spelling(question, tuple(sorted(prints)), alphabet, count)
    entropy, interval = SystemEntropy(), {} if window is None else _interval(tasks[0], window)
    made = [
        task_from_table(
            task_to_table(task)
            | {"id": str(TaskId(entropy.bytes(TaskId.size))), "task_info": spelling.info(place)}
            | interval
        )
        for place, task in enumerate(tasks)
    ]
    spelling.check(made)
    write_folder(out, public_files(spelling, made, SPELLING), provision_all(made, entropy))
    print(
        f"{len(made)} tasks that ask for {count} letters of {len(prints)} strings, of those with "
        f"no name; a person is in the place of each that they have in {question.meaning.hex()}"
    )
    print(
        f"wrote {SPELLING}, {TASKS} and {TASKS_OF_PAGES} (public), and leader.toml, helper.toml, "
        f"collector.toml (secret) to {out}",
        file=sys.stderr,
    )


def _interval(task: "Task", window: str) -> dict[str, dict[str, int]]:
    """Return the `interval` of tasks that take reports of one window only, which is not over."""
    windows, unit = task.policy.window, task.time_precision
    assert windows is not None  # noqa: S101  as `spell` has seen
    first = windows.first_unit((parse_time(window, "window") or 0) // unit)
    over = (first + windows.length) * unit
    if over <= SystemClock().now():
        raise ParameterError(f"window: it ended at {utc_text(over)}")
    return {"interval": {"start": first, "duration": windows.length}}


def _unnamed(text: str) -> list[int]:
    """Return the fingerprints without a name, those held by most people first."""
    try:
        found = json.loads(text)["found"]
        known = [
            (float(each["count"]), int(each["fingerprint"])) for each in found if not each["names"]
        ]
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
        raise ParameterError(_NOT_ONE) from None
    if not known:
        raise ParameterError(
            "found: every string that was found has a name, so there is nothing to spell"
        )
    return [each for _, each in sorted(known, reverse=True)]
