"""`prio survey spell`: makes tasks that ask for letters of the strings that no list explains."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aggregator.cli.options import NewFolder, parse_time
from aggregator.cli.steward.survey_tasks import TaskFile, answerable
from aggregator.cli.steward.survey_texts import public_files
from aggregator.client.text import SPELLED_ALPHABET, SPELLING, TASKS, TASKS_OF_PAGES
from aggregator.clock import SystemClock
from aggregator.entropy import SystemEntropy
from aggregator.errors import ParameterError
from aggregator.untrusted_text import meant
from aggregator.written_times import utc_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aggregator.protocol.task import Task

_NOT_ALL = "found: not what `prio survey results --all --json` prints"


def spell(
    file: TaskFile,
    found: Annotated[
        Path,
        typer.Option(
            help="What `prio survey results --all --json` printed. Of the question's latest window "
            "in it, the fingerprints without a name are spelled, the most frequent first, as many "
            "as there is room for."
        ),
    ],
    window: Annotated[
        str,
        typer.Option(
            help="The window in which letters are asked for, by a time in it (ISO 8601, UTC "
            "without a zone, or seconds since 1970). In all others it is what people write."
        ),
    ],
    out: NewFolder,
    question: Annotated[
        str | None,
        typer.Option(
            help="The text question; not needed if there is one only.", show_default=False
        ),
    ] = None,
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
) -> None:
    """Make the tasks that ask for the letters of what no list explains, for one window.

    In that window clients, pages and `prio survey upload` that have this folder (--spelled) send a
    report to these tasks and not to the question's: from the place that a person has tossed for, of
    the same size, whatever they wrote, so a person pays for one report as ever. Parties take part
    as in the question. Collected with --spelled, the letters tell which strings they are.
    """
    from aggregator.cli.files import named
    from aggregator.cli.service.task_making import write_folder
    from aggregator.client.text.spelling import LETTERS, Spelling, most_spelled
    from aggregator.dap.ids import TaskId
    from aggregator.protocol.provisioning import provision_all
    from aggregator.protocol.task_file import task_from_table, task_to_table
    from aggregator.service.config import read_text

    asked, _ = answerable(file)
    name = _only(list(asked.texts), question)
    of, tasks = asked.texts[name]
    interval = _interval(tasks[0], window)
    text = read_text(found)
    with named(found):
        prints = _unnamed(text, name)[: most_spelled(of.entries, alphabet)]
    count = min(LETTERS, of.tasks) if letters is None else letters
    spelling = Spelling(of, tuple(sorted(prints)), alphabet, count)
    entropy = SystemEntropy()
    made = [
        task_from_table(
            task_to_table(task)
            | {"id": str(TaskId(entropy.bytes(TaskId.size))), "task_info": spelling.info(place)}
            | {"interval": interval}
        )
        for place, task in enumerate(tasks)
    ]
    spelling.check(made)
    write_folder(out, public_files(spelling, made, SPELLING), provision_all(made, entropy))
    print(
        f"{len(made)} tasks that ask for {count} letters of {len(prints)} strings, of those with "
        f"no name; a person is in the place of each that they have in {name}"
    )
    print(
        f"wrote {SPELLING}, {TASKS} and {TASKS_OF_PAGES} (public), and leader.toml, helper.toml, "
        f"collector.toml (secret) to {out}",
        file=sys.stderr,
    )


def _only(names: "Sequence[str]", named: str | None) -> str:
    """Return the text question that is named, or the only one."""
    if not names:
        raise ParameterError("question: the survey has no text question")
    if named is None and len(names) > 1:
        raise ParameterError(f"question: name one of {', '.join(names)}")
    if named is not None and named not in names:
        raise ParameterError(
            f"question: the survey has no text question {named!r}{meant(named, names)}"
        )
    return names[0] if named is None else named


def _interval(task: "Task", window: str) -> dict[str, int]:
    """Return the `interval` of tasks that take reports of one window only.

    Raises `ParameterError` if it is over, or the question is not asked in it.
    """
    windows, unit = task.policy.window, task.time_precision
    assert windows is not None  # noqa: S101  as a survey's tasks have
    first = windows.first_unit((parse_time(window, "window") or 0) // unit)
    start, over = first * unit, (first + windows.length) * unit
    if task.closes is not None and over > task.closes:
        raise ParameterError(
            f"window: the question is asked until {utc_text(task.closes)}, and letters in one of "
            "its windows: what was found in the last one cannot be spelled"
        )
    if start < task.opens:
        raise ParameterError(f"window: the question is not asked before {utc_text(task.opens)}")
    if over <= SystemClock().now():
        raise ParameterError(f"window: it ended at {utc_text(over)}")
    return {"start": first, "duration": windows.length}


def _unnamed(text: str, name: str) -> list[int]:
    """Return the fingerprints without a name, those held by most people first."""
    from aggregator.steward.text.last_window import newest_windows

    window = newest_windows(text, [name])[name]
    try:
        known = [
            (float(each["count"]), int(each["fingerprint"]))
            for each in window["found"]
            if not each["names"]
        ]
    except (ValueError, TypeError, KeyError, OverflowError):
        raise ParameterError(_NOT_ALL) from None
    if not known:
        raise ParameterError(
            "found: every string that was found has a name, so there is nothing to spell"
        )
    return [each for _, each in sorted(known, reverse=True)]
