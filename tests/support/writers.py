"""Processes that write to one batch as fast as they can, as uploads and aggregation jobs do.

`python -m tests.support.writers URL KIND SHARDS SECONDS` is one of them; it prints how many reports
it stored in how many transactions.
"""

import dataclasses
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

import numpy as np
import psycopg

from aggregator.protocol.task import Task
from aggregator.protocol.verified import Verified
from aggregator.service.config import GROUP_REPORTS
from aggregator.service.runtime.aggregating import aggregate_verified
from aggregator.service.storage.engine.backends import Busy
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.postgresql import Postgresql
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.reports.counters import AGGREGATED, Stage, count_reports
from aggregator.service.storage.reports.groups import StoredReport
from aggregator.service.storage.reports.reports import put_reports
from aggregator.service.storage.secrets.crypter import Crypter
from aggregator.vdaf.aggregation_parameter import NO_PARAMETER
from aggregator.vdaf.outcomes import OutShares
from field import Vector
from tests.support.store import STORE_KEY, TASK_ID, unit
from tests.support.tasks import make_task

KINDS = ("upload", "aggregate")
JOB_REPORTS = 512
_BODY = bytes(5464)
_VDAF = {"type": "Prio3Histogram", "length": 256, "chunk_length": 16}
_SAMPLE_SECONDS = 0.02
Work = Callable[[Transaction], None]


@dataclasses.dataclass(frozen=True, slots=True)
class Written:
    """What writers did.

    Attributes:
        reports: By kind, how many they stored per second.
        seconds: By kind, how long a transaction took on average.
        waiting: Which part of their time sessions waited for a lock, from 0 to 1.
    """

    reports: dict[str, float]
    seconds: dict[str, float]
    waiting: float


def write(url: str, kinds: Sequence[str], shards: int, seconds: float) -> Written:
    """Run one process for each of `kinds` at once, over a store with this many shards."""
    with ExitStack() as running:
        programs = [running.enter_context(_started(url, kind, shards, seconds)) for kind in kinds]
        for program in programs:
            assert program.stdout is not None
            assert program.stdout.readline() == "ready\n"
        with _sampled(url) as seen:
            _tell(programs)
            lines = [program.communicate()[0] for program in programs]
    done: dict[str, list[tuple[int, int, float]]] = {kind: [] for kind in kinds}
    for kind, line in zip(kinds, lines, strict=True):
        reports, transactions, took = line.split()
        done[kind].append((int(reports), int(transactions), float(took)))
    return Written(
        {kind: sum(reports / took for reports, _, took in each) for kind, each in done.items()},
        {
            kind: sum(took for _, _, took in each) / sum(times for _, times, _ in each)
            for kind, each in done.items()
        },
        seen[True] / max(1, seen.total()),
    )


@contextmanager
def _started(url: str, kind: str, shards: int, seconds: float) -> Iterator[subprocess.Popen[str]]:
    program = subprocess.Popen(  # noqa: S603  our own command
        [sys.executable, "-m", __name__, url, kind, str(shards), str(seconds)],
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
    )
    with program:
        try:
            yield program
        finally:
            program.kill()


def _tell(programs: Sequence[subprocess.Popen[str]]) -> None:
    """Let all programs begin."""
    for program in programs:
        assert program.stdin is not None
        program.stdin.write("go\n")
        program.stdin.flush()


@contextmanager
def _sampled(url: str) -> Iterator[Counter[bool]]:
    """Count what sessions are seen doing that are in a transaction: do they wait for a lock?"""
    query = (
        "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE state <> 'idle' "
        "AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
    )
    seen: Counter[bool] = Counter()
    is_over = threading.Event()

    def look() -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            while not is_over.wait(_SAMPLE_SECONDS):
                seen.update(bool(waits) for (waits,) in connection.execute(query))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        is_over.set()
        thread.join()


def _upload(task: Task) -> tuple[int, Work]:
    def work(tx: Transaction) -> None:
        ids = [os.urandom(16) for _ in range(GROUP_REPORTS)]
        reports = [StoredReport(each, unit(5), 0, each + _BODY) for each in ids]
        put_reports(tx, TASK_ID, reports, task.max_reports, task.smallest_batch)

    return GROUP_REPORTS, work


def _aggregate(task: Task) -> tuple[int, Work]:
    prio3 = task.prio3
    numbers = np.ones((JOB_REPORTS, prio3.output_len), dtype=np.uint64)
    out_shares = OutShares(shares=Vector.from_array(prio3.field, numbers), rejected={})
    times = np.full(JOB_REPORTS, 5, np.uint64)

    def work(tx: Transaction) -> None:
        ids = [os.urandom(16) for _ in range(JOB_REPORTS)]
        verified = Verified(task, NO_PARAMETER, (), ids, times, out_shares)
        assert not aggregate_verified(tx, verified, os.urandom(32))
        count_reports(tx, TASK_ID, Stage.AGGREGATION, {AGGREGATED: JOB_REPORTS})

    return JOB_REPORTS, work


def main(url: str, kind: str, shards: str, seconds: str) -> None:
    """Write until the time is over."""
    Postgresql.shards = int(shards)
    task = make_task(_VDAF, max_reports=10**9)
    size, work = {"upload": _upload, "aggregate": _aggregate}[kind](task)
    store = Database.open(url, Crypter([STORE_KEY]))
    with suppress(Busy):
        store.run_sync("warm up", work)
    print("ready", flush=True)  # noqa: T201 - what the test that started it waits for
    sys.stdin.readline()
    began, transactions = time.monotonic(), 0
    while time.monotonic() - began < float(seconds):
        with suppress(Busy):  # it was tried several times, for seconds each
            store.run_sync(kind, work)
            transactions += 1
    print(size * transactions, transactions, time.monotonic() - began)  # noqa: T201 - as above
    store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
