"""`prio status`: in ten lines, whether a party's work moves, and which work waits."""

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from aggregator.cli import faults
from aggregator.cli.options import AsJson, Config, not_yet
from aggregator.errors import ParameterError
from aggregator.untrusted_text import escaped
from aggregator.written_times import duration

if TYPE_CHECKING:
    from aggregator.service.storage.engine.transaction import Transaction
    from aggregator.service.telemetry.health import Health

SHOWN = 3
"""How many tasks and jobs are shown; `--json` shows more."""

Details = Mapping[str, Any]


def status(
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Print whether this party runs and its work moves, what waits and why; status 1 if not.

    It reads the store, as a service's health listener does, and keeps nobody from it.
    """
    from aggregator.cli.service.parties import AggregatorParty, open_party
    from aggregator.clock import SystemClock
    from aggregator.service.telemetry.compiling import compiling_on_this_machine
    from aggregator.service.transport.certificates import with_files

    more: dict[str, object] = {"compiling": compiling_on_this_machine()}
    with open_party(config, may_make=False) as party:
        if isinstance(party, AggregatorParty):
            from aggregator.service.runtime.lost_sums import sum_faults
            from aggregator.service.runtime.status import examine_aggregator

            sums = partial(sum_faults, party.database)
            health = examine_aggregator(
                party.settings, party.role, party.database, party.journal, sums
            )
            titles = party.database.read_sync("list all tasks", _titles)
            found: Details = health.whole_document
            more["tasks"] = [
                {**each, "title": titles.get(each["task_id"], "")} for each in found["tasks"]
            ]
        else:
            from aggregator.collector.status import examine_collector

            health = examine_collector(party.database)
        health = with_files(_with_absence(health), party.settings, SystemClock().now())
    health = dataclasses.replace(health, document={**health.document, **more})
    if as_json:
        print(json.dumps(health.whole_document))
    else:
        print("\n".join(_lines(health)))
    if not health.is_ready:
        raise SystemExit(faults.PARTLY)


def _titles(tx: "Transaction") -> dict[str, str]:
    """Return the titles of all tasks that can be read, by their ids."""
    from aggregator.dap.ids import TaskId
    from aggregator.protocol.task_file import stored_task
    from aggregator.service.storage.tasks.tasks import list_all_tasks

    found = {}
    for each in list_all_tasks(tx):
        with suppress(ParameterError):
            found[str(TaskId(each.task_id))] = stored_task(each.definition).title
    return found


def _with_absence(health: "Health") -> "Health":
    """Return a party's health with what nobody does; a service's own knows that it runs."""
    from aggregator.service.storage.engine.condition import no_worker

    found: Details = health.document
    role, running = found["role"], found["running"]
    faults = list(health.faults)
    if running is None:
        return health
    if not any(running.values()):
        start = f"`prio {role} serve --work`" if role == "leader" else f"`prio {role} serve`"
        faults.insert(0, f"no process of this {role} runs: start {start}")
    elif not running["serve"]:
        faults.insert(0, f"nobody answers requests; `prio {role} serve` must run")
    elif not running.get("work", True) and not any(no_worker(role) in each for each in faults):
        faults.insert(0, no_worker(role))
    return dataclasses.replace(health, faults=faults)


def _lines(health: "Health") -> Iterator[str]:
    """Return the lines of text for a person."""
    found: Details = health.whole_document
    yield f"{found['role']}: {found['status']}  ({found['store']}, prio {found['prio']})"
    yield from (f"  why          {fault}" for fault in health.faults)
    for each in found["compiling"]:
        yield (
            f"compiling    kernels of {each['vdaf']}, since {each['compiling_seconds']:,} s; "
            "reports are verified without them meanwhile, more slowly"
        )
    if found["role"] == "collector":
        yield f"collections  {found['pending_collections']:,} pending" + _oldest(
            found["oldest_collection_seconds"]
        )
        collections: Sequence[Details] = found["waiting_collections"]
        for each in collections[:SHOWN]:
            reason = each["reason"] or "the batch is not ready yet"
            yield f"  {each['collection']}, since {each['seconds']:,} s: {reason}"
        yield from _left_out(found["pending_collections"], "prio status --json")
        if found["untold_collections"]:
            yield f"  {found['untold_collections']:,} given up, of which the leader has not heard"
    else:
        yield from _work_lines(found)
        yield from _task_lines(found["tasks"])
        yield (
            f"HPKE keys    {found['hpke_keys']}, the newest made "
            f"{_ago(found['newest_hpke_key_seconds'])}"
        )
    for each in found.get("certificates", ()):
        days = each["seconds_left"] // (24 * 3600)
        soon = ": renew it" if each["ends_soon"] else ""
        yield f"certificate  {each['setting']}, {days:,} days left, until {each['not_after']}{soon}"
    free = found["free_bytes"]
    room = "on a server" if free is None else f"{free / 1e9:,.1f} GB free"
    yield f"store        {found['store_bytes'] / 1e6:,.1f} MB, {room}"


def _work_lines(found: Details) -> Iterator[str]:
    if found["role"] == "leader":
        yield f"reports      {found['waiting_reports']:,} wait" + _oldest(
            found["oldest_report_seconds"]
        )
        for name, kind in (("aggregation", "aggregation_jobs"), ("collection", "collection_jobs")):
            jobs: Details = found[kind]
            yield (
                f"{name:12} {jobs['unfinished']:,} jobs: {jobs['driven']:,} under way, "
                f"{jobs['postponed']:,} wait for another try, {jobs['held']:,} held, "
                f"at most {jobs['attempts']} attempts"
            )
        waiting: Sequence[Details] = found["waiting_jobs"]
        for each in waiting[:SHOWN]:
            name = each["job"] or f"of {each['task_id']}"
            yield (
                f"  {each['kind']} {name}, {each['state']}, since {each['seconds']:,} s: "
                f"{each['reason'] or not_yet(is_driven=each['is_driven'])}"
            )
        yield from _left_out(len(waiting), "prio job list")
    elif found["deferred_jobs"]["unfinished"]:
        jobs = found["deferred_jobs"]
        yield (
            f"deferred     {jobs['unfinished']:,} jobs: {jobs['driven']:,} under way, "
            f"{jobs['postponed']:,} wait for another try, at most {jobs['attempts']} attempts"
            + _oldest(found["oldest_deferred_job_seconds"])
        )
    yield f"last job     finished {_ago(found['last_finished_job_seconds'])}"


def _task_lines(tasks: Sequence[Details]) -> Iterator[str]:
    from aggregator.service.storage.jobs.collection_room import MOST_PENDING

    ended = sum(task["ended"] for task in tasks)
    yield f"tasks        {len(tasks):,}, {ended:,} of them ended"
    broken = [task for task in tasks if task["trouble"]]
    yield from (
        f"  {task['task_id']} stands still: {task['trouble']}{_title(task)}"
        for task in broken[:SHOWN]
    )
    yield from _left_out(len(broken), "prio status --json")
    for task in tasks:
        if task["pending_collections"] >= MOST_PENDING:
            yield (
                f"  {task['task_id']} takes no more collections: {MOST_PENDING} have not ended"
                f"{_title(task)}"
            )
    for task in sorted(tasks, key=_passes_and_waits)[:SHOWN]:
        refused: Mapping[str, int] = task["rejected"]
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(refused.items()))
        yield (
            f"  {task['task_id']} {task['waiting_reports']:,} wait, "
            f"{task['aggregated']:,} aggregated, refused: {reasons or 'none'}{_title(task)}"
        )
    yield from _left_out(len(tasks), "prio task list")


def _title(task: Details) -> str:
    """Return what a task is for, to end its line."""
    return f"  {escaped(task['title'])}" if task["title"] else ""


def _left_out(count: int, command: str) -> Iterator[str]:
    """Yield how many items of a list are not shown, if any, and the command that shows them."""
    if count > SHOWN:
        yield f"  and {count - SHOWN:,} more: {command}"


def _passes_and_waits(task: Details) -> tuple[bool, int]:
    """Return a sort key: tasks whose reports all fail come first, then those with a backlog."""
    return bool(task["aggregated"] or not task["rejected"]), -task["waiting_reports"]


def _oldest(seconds: int | None) -> str:
    return "" if seconds is None else f", the oldest for {duration(seconds)}"


def _ago(seconds: int | None) -> str:
    return "never" if seconds is None else f"{duration(seconds)} ago"
