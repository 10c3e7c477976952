"""Whether an aggregator's work moves, and what waits: read from its store.

A leader is ready while no work waits, or work that waits is done: something that has waited for
longer than `STALLED_SECONDS`, while nothing has finished for as long, is a stall, whatever its
reason. What has waited because nobody worked is none for as long again once somebody does, unless
it was tried in vain. A helper does what it is asked, so it is ready while its store can be used,
unless jobs that it has put off stall in the same way.
"""

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache

from aggregator.dap.ids import TaskId
from aggregator.dap.profile import Role
from aggregator.dp.rationals import format_rational
from aggregator.errors import ParameterError
from aggregator.protocol.budget import horizon
from aggregator.protocol.hpke_rotation import HpkeRotation
from aggregator.protocol.task_file import task_from_toml
from aggregator.service.config import STALLED_SECONDS, AggregatorSettings
from aggregator.service.runtime.key_rotation import newest_keys
from aggregator.service.storage.engine.condition import (
    SHOWN_JOBS,
    common_details,
    common_metrics,
    disk_faults,
    no_worker,
    running_details,
    try_who_is_present,
)
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.presence import Duty, Present
from aggregator.service.storage.engine.states import AggregationJobState
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.ledger.journal import Journal, journal_faults
from aggregator.service.storage.operator.job_lists import (
    COLLECTION,
    TOO_EARLY,
    ListedJob,
    list_blocked_jobs,
)
from aggregator.service.storage.operator.progress import (
    JobProgress,
    TaskProgress,
    aggregation_progress,
    collection_progress,
    deferred_progress,
    last_finished_at,
    oldest_deferred_at,
    task_progress,
)
from aggregator.service.storage.reports.counters import AGGREGATED, STORED
from aggregator.service.storage.reports.generations import bodies_held
from aggregator.service.storage.reports.unreadable import Unreadable, unreadable_reports
from aggregator.service.storage.tasks.hpke_keys import list_hpke_configs
from aggregator.service.storage.tasks.tasks import undecryptable_tasks
from aggregator.service.telemetry.health import Document, Health, Metric
from aggregator.written_times import utc_text

_VAIN_ATTEMPTS = 3
"""Whoever takes a job so often has not begun lately: its workers may die of it, one by one. A
worker that was killed leaves a job that is leased a second time."""


def examine_aggregator(
    settings: AggregatorSettings,
    role: Role,
    database: Database,
    journal: Journal,
    sums: Callable[[], Sequence[str]] = tuple,
    up_seconds: float = math.inf,
) -> Health:
    """Look at an aggregator's store, its object storage and its journal of releases.

    Args:
        settings: The aggregator's.
        role: LEADER or HELPER.
        database: The store.
        journal: Its journal.
        sums: Returns what is known of sums that nobody can read.
        up_seconds: How long the process that looks has served or worked, if it does.
    """
    faults = [*journal_faults(journal), *database.object_faults(), *sums()]
    return database.read_sync(
        "health",
        lambda tx: read_aggregator_health(
            tx, role, STALLED_SECONDS, faults, settings.rotation, up_seconds
        ),
    )


def read_aggregator_health(
    tx: Transaction,
    role: Role,
    stalled_seconds: int,
    journal: Sequence[str] = (),
    rotation: HpkeRotation = HpkeRotation(),  # noqa: B008  frozen
    up_seconds: float = math.inf,
) -> Health:
    """Return the state of an aggregator.

    Args:
        tx: A transaction on its store.
        role: LEADER or HELPER.
        stalled_seconds: How long work may wait while none is finished.
        journal: What is wrong with its journal of releases, or else outside the database.
        rotation: When its HPKE keys change.
        up_seconds: How long the process that looks has served or worked, if it does.
    """
    seen, untold = try_who_is_present(tx)
    present = seen or {}
    is_beginning = _working_seconds(present, up_seconds) <= stalled_seconds
    tasks, broken = task_progress(tx), undecryptable_tasks(tx)
    jobs, collecting = aggregation_progress(tx), collection_progress(tx)
    deferred, deferred_at = deferred_progress(tx), oldest_deferred_at(tx)
    blocked = list_blocked_jobs(tx, SHOWN_JOBS)
    collections = [each for each in blocked if each.kind == COLLECTION]
    finished_at = last_finished_at(tx)
    oldest_at = min((task.oldest_at for task in tasks if task.oldest_at is not None), default=None)
    # A collection whose batch is yet to be selected waits for clients.
    ours = [each.created_at for each in collections if each.batch is not None]
    since = ours if oldest_at is None else [oldest_at, *ours]
    stalled = _age(tx.now, min(since, default=None)) > stalled_seconds and (
        finished_at is None or tx.now - finished_at > stalled_seconds
    )
    early = sum(each.reports or 0 for each in blocked if each.state == TOO_EARLY)
    if is_beginning and not early and _is_untried(jobs):
        stalled = False
    waiting = sum(task.waiting for task in tasks)
    stalls = [*journal, *untold]
    unreadable = unreadable_reports(tx)
    if unreadable is not None:
        stalls.append(_unreadable(unreadable))
    if jobs.held:
        held = AggregationJobState.HELD
        reasons = (f", one because: {each.reason}" for each in blocked if each.state == held)
        reason = next(reasons, "")
        stalls.append(f"{jobs.held:,} jobs are held until you decide (`prio job list`){reason}")
    elif stalled:
        stalls.append(
            f"{waiting:,} reports and {collecting.unfinished:,} collections wait, the oldest for "
            f"{tx.now - min(since):,} s, and nothing was finished lately: "
            f"{_cause(jobs, collecting, blocked, early, present)}"
        )
    if (
        _age(tx.now, deferred_at or tx.now) > stalled_seconds
        and (finished_at is None or tx.now - finished_at > stalled_seconds)
        and not (is_beginning and _is_untried(deferred))
    ):
        stalls.append(
            f"{deferred.unfinished:,} aggregation jobs wait for an answer, the oldest for "
            f"{_age(tx.now, deferred_at):,} s, and nothing was finished lately: "
            + (
                f"workers have {deferred.driven:,} of them"
                if deferred.driven
                else _no_driver(present, role)
            )
        )
    if tasks and len(broken) == len(tasks):
        stalls.append(f"no task can be served: {next(iter(broken.values()))}")
    keys = list_hpke_configs(tx)
    newest = min((key.created_at for key in newest_keys(keys, rotation).values()), default=None)
    if newest is not None and rotation.is_overdue(newest, tx.now):
        stalls.append(
            f"the newest HPKE key of a suite is {tx.now - newest:,} s old, twice what it may be "
            f"({rotation.age_seconds:,} s), and {len(keys):,} are kept: the log says why none is "
            "made, `prio hpke list` what each is kept for"
        )
    faults = [*disk_faults(tx), *stalls]
    document: Document = {
        **common_details(tx, role.name.lower()),
        "running": running_details(seen, list(Duty)),
        "waiting_reports": waiting,
        "oldest_report_seconds": _since(tx.now, oldest_at),
        "unreadable_reports": 0 if unreadable is None else unreadable.reports,
        "last_finished_job_seconds": _since(tx.now, finished_at),
        "aggregation_jobs": dataclasses.asdict(jobs),
        "collection_jobs": dataclasses.asdict(collecting),
        "deferred_jobs": dataclasses.asdict(deferred),
        "oldest_deferred_job_seconds": _since(tx.now, deferred_at),
        "waiting_jobs": [_job_document(each, tx.now) for each in blocked],
        "tasks": [_task_document(task, broken.get(task.task_id), tx.now) for task in tasks],
        "hpke_keys": len(keys),
        "newest_hpke_key_seconds": None if newest is None else tx.now - newest,
    }
    metrics = [
        *common_metrics(tx),
        *_task_metrics(tasks),
        Metric(
            "prio_report_bodies",
            "About how many groups of reports have bodies, by the table that holds them.",
            "gauge",
            [({"generation": str(each)}, held) for each, held in sorted(bodies_held(tx).items())],
        ),
        Metric(
            "prio_unreadable_reports",
            "Stored reports that wait because their bodies cannot be read.",
            "gauge",
            [({}, 0 if unreadable is None else unreadable.reports)],
        ),
        Metric(
            "prio_oldest_report_seconds",
            "Age of the oldest report that is not aggregated.",
            "gauge",
            [({}, _age(tx.now, oldest_at))],
        ),
        Metric(
            "prio_last_finished_job_timestamp_seconds",
            "When a job last finished; 0 if none did.",
            "gauge",
            [({}, finished_at or 0)],
        ),
        _job_metric("prio_aggregation_jobs", "Aggregation jobs that have not ended.", jobs),
        _job_metric("prio_collection_jobs", "Collection jobs that have not ended.", collecting),
        _job_metric("prio_deferred_jobs", "Aggregation jobs to be answered later.", deferred),
        Metric(
            "prio_job_attempts_max",
            "Most attempts in a row that a job has needed.",
            "gauge",
            [
                ({"kind": "aggregation"}, jobs.attempts),
                ({"kind": "collection"}, collecting.attempts),
            ],
        ),
        Metric(
            "prio_oldest_collection_seconds",
            "Age of the oldest collection that has not ended.",
            "gauge",
            [({}, _age(tx.now, min((each.created_at for each in collections), default=None)))],
        ),
        Metric("prio_hpke_keys", "HPKE keys that are kept.", "gauge", [({}, len(keys))]),
        Metric(
            "prio_hpke_key_age_seconds",
            "Age of the newest HPKE key; of several suites, the oldest of these.",
            "gauge",
            [({}, 0 if newest is None else tx.now - newest)],
        ),
    ]
    return Health(faults, document, metrics, stalls)


def _unreadable(unreadable: Unreadable) -> str:
    """Return what an operator is told of reports that cannot be read."""
    return (
        f"{unreadable.reports:,} reports in {unreadable.bodies:,} bodies cannot be read, the first "
        f"since {utc_text(unreadable.since)}: {unreadable.named} is not there, or not what was "
        "stored. They wait, and are tried again every few minutes: put back what is missing; if it "
        "is lost for good, `prio store give-up-bodies --dry-run`"
    )


def _working_seconds(present: Present, up_seconds: float) -> float:
    """Return for how long somebody has worked, or could have begun to beside us."""
    return present.get(Duty.WORK, up_seconds)


def _is_untried(jobs: JobProgress) -> bool:
    """Return whether no job was tried in vain, as far as one can see."""
    return not (jobs.held or jobs.postponed) and jobs.attempts < _VAIN_ATTEMPTS


def _no_driver(present: Present, role: Role) -> str:
    """Return why no worker has a job that is due."""
    if Duty.WORK in present:
        return "workers run, and none has taken one of them: the log says why"
    return no_worker(role.name.lower())


def _cause(
    jobs: JobProgress,
    collecting: JobProgress,
    blocked: Sequence[ListedJob],
    early: int,
    present: Present,
) -> str:
    """Return what an operator should look at first."""
    driven, postponed = jobs.driven + collecting.driven, jobs.postponed + collecting.postponed
    why = next((f", one because: {each.reason}" for each in blocked if each.reason), "")
    if driven:
        return f"workers drive {driven:,} jobs"
    if postponed:
        attempts = max(jobs.attempts, collecting.attempts)
        return f"{postponed:,} jobs wait for another try (attempt {attempts}){why}"
    if early:
        return f"{early:,} reports are too early for the clock of one of the aggregators: set it"
    return _no_driver(present, Role.LEADER)


def _since(now: int, moment: int | None) -> int | None:
    return None if moment is None else now - moment


def _age(now: int, since: int | None) -> int:
    return 0 if since is None else now - since


def _rejected(task: TaskProgress) -> Counter[str]:
    """Return how many reports of a task were refused, by reason."""
    refused: Counter[str] = Counter()
    for reasons in task.counts.values():
        refused.update({why: n for why, n in reasons.items() if why not in (STORED, AGGREGATED)})
    return refused


def _task_document(task: TaskProgress, trouble: str | None, now: int) -> Document:
    terms, fault = _terms(task.definition)
    return {
        "task_id": str(TaskId(task.task_id)),
        "ended": task.ended_at is not None,
        "trouble": trouble or fault,
        "waiting_reports": task.waiting,
        "oldest_report_seconds": _since(now, task.oldest_at),
        "pending_collections": task.collections,
        "aggregated": task.aggregated,
        "rejected": dict(_rejected(task)),
        "reports": {stage: dict(reasons) for stage, reasons in task.counts.items()},
        "releases": task.releases,
        **terms,
        "last_release_seconds": _since(now, task.last_release_at),
    }


def _job_document(job: ListedJob, now: int) -> Document:
    return {
        "kind": job.kind,
        "task_id": str(TaskId(job.task_id)),
        "job": job.job_id.hex(),
        "state": job.state,
        "seconds": now - job.created_at,
        "reason": job.reason,
        "is_driven": job.is_driven,
        "next_seconds": None if job.next_at is None else max(0, job.next_at - now),
    }


# Every look asks for all tasks in the same order, so a cache of fewer would be of no use at all.
@lru_cache(maxsize=2**16)
def _terms(definition: str) -> tuple[Document, str | None]:
    """Return what a task's file says for ever, and why it cannot be read if it cannot.

    The fingerprint is compared with the partner's.
    """
    try:
        task = task_from_toml(definition)
    except ParameterError as error:
        names = ("most_releases", "budget", "population", "task_info", "fingerprint")
        return dict.fromkeys(names), str(error)
    budget = task.policy.budget
    return {
        "most_releases": horizon(task),
        "budget": None if budget is None else format_rational(budget),
        "population": task.policy.population,
        "task_info": task.info,
        "fingerprint": task.fingerprint,
    }, None


def _task_metrics(tasks: Sequence[TaskProgress]) -> list[Metric]:
    named = [(str(TaskId(task.task_id)), task) for task in tasks]
    return [
        Metric(
            "prio_waiting_reports",
            "Stored reports that are not aggregated.",
            "gauge",
            [({"task": name}, task.waiting) for name, task in named],
        ),
        Metric(
            "prio_reports_total",
            "Reports by the stage and the reason of their outcome.",
            "counter",
            [
                ({"task": name, "stage": stage, "reason": reason}, reports)
                for name, task in named
                for stage, reasons in task.counts.items()
                for reason, reports in reasons.items()
            ],
        ),
        Metric(
            "prio_last_release_timestamp_seconds",
            "When a batch of the task was last released; 0 if none was.",
            "gauge",
            [({"task": name}, task.last_release_at or 0) for name, task in named],
        ),
    ]


def _job_metric(name: str, explained: str, jobs: JobProgress) -> Metric:
    due = jobs.unfinished - jobs.driven - jobs.postponed - jobs.held
    states = {"driven": jobs.driven, "postponed": jobs.postponed, "held": jobs.held, "due": due}
    return Metric(name, explained, "gauge", [({"state": each}, n) for each, n in states.items()])
