"""`prio permits`: what a task that counts only reports with a permit takes, at one aggregator.

Whoever invites people makes the permits, and gives both operators the same lists.
"""

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aggregator.cli.options import AsJson, Config
from aggregator.errors import ParameterError
from aggregator.written_times import IN_UTC

if TYPE_CHECKING:
    from aggregator.protocol.task import Task
    from aggregator.service.storage.operator.permits import WindowCount

app = typer.Typer(
    no_args_is_help=True, help="Add, count, replace and end the permits of personal links."
)

ListFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="The list, as whoever made the permits wrote it.")
]
TaskFile = Annotated[
    Path, typer.Argument(metavar="TASK_FILE", help="The task file; a survey's has all its tasks.")
]


@app.command()
def add(file: ListFile, config: Config = None) -> None:
    """Add a list of permits, and print the file's SHA-256, which both operators compare.

    A list may come at any time, and adding it again changes nothing. While only one aggregator has
    it, its reports are refused.
    """
    from aggregator.cli.files import named
    from aggregator.cli.service.parties import open_aggregator
    from aggregator.protocol.permit_lists import read_lists
    from aggregator.service.storage.operator.permits import Added, add_permits, check_listed

    data = file.read_bytes()
    with named(file):
        lists = read_lists(data)
    new = ended = 0
    with open_aggregator(config) as party, named(file):
        for each in lists:  # all or none
            party.database.read_sync("find domain", partial(check_listed, domain=each.domain))
        for each in lists:
            added: Added = add_permits(party.database, each)
            new, ended = new + added.new, ended + added.ended
    total = sum(each.count for each in lists)
    print(f"{new:,} of {total:,} permits are new, for {_groups(len(lists))}")
    if ended:
        print(f"{ended:,} are of windows that were ended, and were not added")
    print(f"SHA-256 of the file: {hashlib.sha256(data).hexdigest()}")


@app.command()
def count(
    file: TaskFile,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Print how many permits each window has, and how many were spent.

    The digest is of the window's list: both aggregators have the same one.
    """
    from aggregator.cli.service.parties import open_aggregator
    from aggregator.dap.ids import encode_base64url
    from aggregator.service.storage.operator.permits import count_permits

    tasks = _tasks_of(file)
    with open_aggregator(config, may_make=False) as party:
        found = [
            (task, party.database.read_sync("count", partial(count_permits, domain=domain)))
            for domain, task in tasks
        ]
    if as_json:
        listed = [
            {
                "domain": encode_base64url(domain),
                "task_info": task.title,
                "windows": [
                    dataclasses.asdict(each) | {"from": task.permits_from(each.window)}
                    for each in counted
                ],
            }
            for (domain, _), (task, counted) in zip(tasks, found, strict=True)
        ]
        print(json.dumps({"version": 1, "domains": listed}))
        return
    for task, counted in found:
        print("\n".join(_counted(task, counted)))


@app.command()
def replace(
    file: ListFile,
    config: Config = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the pairs that were replaced here: at the leader, for the helper.",
        ),
    ] = None,
) -> None:
    """Let new permits count in place of leaked ones that nobody has spent.

    Do it at the leader first, and give the helper what --out writes: then one of the two counts. In
    any other order at most one does.
    """
    from aggregator.cli.files import named
    from aggregator.cli.service.parties import open_aggregator
    from aggregator.protocol.permit_lists import read_replacements, write_lists
    from aggregator.service.storage.operator.permits import replace_permits

    if out is not None and out.exists():
        raise ParameterError(f"out: {out} exists already")
    with named(file):
        lists = read_replacements(file.read_bytes())
    with open_aggregator(config) as party, named(file):
        done = [replace_permits(party.database, each) for each in lists]
    asked, made = (sum(each.count for each in some) for some in (lists, done))
    print(f"{made:,} of {asked:,} permits are replaced")
    if made < asked:
        print(f"{asked - made:,} were spent before, or are of windows that were ended: they stay")
    if out is not None:
        out.write_bytes(write_lists(done))


@app.command()
def end(
    file: TaskFile,
    before: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="End the windows before the one that holds this time, such as 2026-12-01.",
        ),
    ],
    config: Config = None,
) -> None:
    """Delete the permits, given and spent, of windows that are over and collected.

    Reports of these windows are refused from then on. Do it at the leader first: what the helper
    has ended it no longer counts, even if the leader took it before.
    """
    from aggregator.cli.service.parties import open_aggregator
    from aggregator.clock import SystemClock
    from aggregator.service.storage.operator.permits import end_permits

    seconds = IN_UTC.read(before, "before")
    tasks = _tasks_of(file)
    with open_aggregator(config) as party:
        latest = SystemClock().now() - party.settings.clock_skew_seconds
        firsts = [(domain, _first_kept(task, seconds, latest)) for domain, task in tasks]
        gone = sum(end_permits(party.database, domain, first) for domain, first in firsts)
    print(f"deleted {gone:,} permits, given and spent, of windows before {before}")


def _first_kept(task: "Task", seconds: int, latest: int) -> int:
    """Return the window of a time, all before which are over; refuse others."""
    if task.policy.window is None:
        raise ParameterError(
            f"before: {task.title!r} has no windows, so its permits are of use until `prio task "
            "forget`"
        )
    first, now = (task.permit_window_at(task.time(each)) for each in (seconds, latest))
    if first > now:
        raise ParameterError(
            f"before: the windows before {IN_UTC.moment(seconds)} are not over yet; the last that "
            f"are began before {IN_UTC.moment(task.permits_from(now))}"
        )
    return first


def _tasks_of(file: Path) -> "list[tuple[bytes, Task]]":
    """Return the domains of a file's tasks, each with its first task."""
    from aggregator.cli.files import read_tasks

    found: dict[bytes, Task] = {}
    for task in read_tasks(file):
        if task.permits is not None:
            found.setdefault(task.permits.domain, task)
    if not found:
        raise ParameterError(f"{file}: no task in it has permits")
    return [*found.items()]


def _counted(task: "Task", counted: "Sequence[WindowCount]") -> Iterator[str]:
    yield f"{task.title}: permits of {len(counted)} windows"
    for each in counted:
        when = "without windows"
        if task.policy.window is not None:
            start = task.permits_from(each.window)
            when = IN_UTC.period(start, start + task.policy.window.length * task.time_precision)
        yield f"  {when}: {each.given:,} given, {each.spent:,} spent, list {each.digest[:16]}"


def _groups(count: int) -> str:
    return "one domain" if count == 1 else f"{count} domains"
