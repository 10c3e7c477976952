"""Small jobs of many tasks share transactions, and what befalls one touches no other."""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextvars import Context
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
import pytest
from sqlalchemy import select, update

from aggregator.dap.ids import TaskId
from aggregator.dap.problems import NameTaken
from aggregator.protocol.reports import MAX_AGE_SECONDS
from aggregator.protocol.task import Task
from aggregator.service.helper import aggregation
from aggregator.service.helper.aggregation import AggregationJobs
from aggregator.service.leader import job_driver, small_jobs
from aggregator.service.runtime import ServedTask
from aggregator.service.storage.engine import locks, tables
from aggregator.service.storage.engine.backends import Unreachable
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.reports.counters import Stage, report_counts
from tests.support.pair import LEASE_SECONDS, Died, Pair, Service
from tests.support.permitted import SECRETS, given, openings, permitted
from tests.support.tasks import make_task

pytestmark = pytest.mark.usefixtures("engine")

TASKS = [make_task(id=str(TaskId(bytes([number]) * 32))) for number in range(1, 6)]
OTHER = TASKS[2].task_id.value
REPORTS = 3
ALL = [{"leader": REPORTS, "helper": REPORTS}] * len(TASKS)
ALL_BUT_ONE = [*ALL[:2], {"leader": 0, "helper": 0}, *ALL[3:]]


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    async with Pair(tmp_path, TASKS[0]) as made:
        await made.provision(*TASKS[1:])
        for task in TASKS:
            await made.upload(await made.reports([1] * REPORTS, task=task), task)
        yield made


def committed(service: Service) -> Counter[str]:
    """Return what will count the transactions that the service commits, by name."""
    names: Counter[str] = Counter()

    def note(transaction: str, moment: str) -> None:
        names[transaction] += moment == "committed"

    service.on_moment = note
    return names


async def work(pair: Pair) -> None:
    """Let the workers come to rest; a party that dies is started again."""
    for _ in range(20):
        try:
            if not await pair.work():
                return
        except* (Died, Unreachable):
            pair.leader.restart()
            pair.helper.restart()
        pair.clock.advance(LEASE_SECONDS + 1)
    raise AssertionError("the workers never came to rest")


async def aggregated(pair: Pair) -> list[dict[str, int]]:
    """Return how many reports of each task each aggregator has aggregated."""

    def of(service: Service, task_id: bytes) -> int:
        counts = service.database.read_sync(
            "counts", lambda tx: report_counts(tx, task_id, Stage.AGGREGATION)
        )
        assert counts.keys() <= {"aggregated"}
        return counts.get("aggregated", 0)

    parties = (("leader", pair.leader), ("helper", pair.helper))
    return [{name: of(service, task.task_id.value) for name, service in parties} for task in TASKS]


async def test_jobs_of_several_tasks_begin_in_one_transaction(pair: Pair) -> None:
    names = committed(pair.leader)
    await pair.work()
    one = ("create aggregation jobs", "lease aggregation jobs", "reports of job")
    assert [names[each] for each in (*one, "store aggregation request")] == [1, 1, 1, 1]
    assert await aggregated(pair) == ALL


def is_of_other(*given: object) -> bool:
    """Return whether a step of a job, called with these, is of `OTHER`."""
    for each in given:
        task = getattr(getattr(each, "served", getattr(each, "verified", each)), "task", each)
        if isinstance(task, Task):
            return task.task_id.value == OTHER
    return False


@pytest.mark.parametrize(
    ("where", "name"),
    [
        (small_jobs, "begin_job"),
        (small_jobs, "store_begun"),
        (small_jobs, "finish_job"),
        (small_jobs, "commit_job"),
        (aggregation, "helper_init"),
        (aggregation, "aggregate_verified"),
    ],
)
async def test_what_fails_beside_others_is_done_again_alone(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, where: ModuleType, name: str
) -> None:
    usual = getattr(where, name)
    failures: list[str] = []

    def fail_once(*given: object, **named: object) -> object:
        if is_of_other(*given, *named.values()) and not failures:
            failures.append(name)
            raise RuntimeError("a fault of ours")
        return usual(*given, **named)

    monkeypatch.setattr(where, name, fail_once)
    await pair.work()  # if that job is not beside others now, nothing fails
    assert await aggregated(pair) == ALL


@pytest.mark.parametrize("name", ["begin_job", "finish_job"])
async def test_a_job_that_cannot_be_done_keeps_no_other_from_being_done(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    usual = getattr(job_driver, name)

    def fail(served: ServedTask, *others: object) -> object:
        if served.task.task_id.value == OTHER:
            raise RuntimeError("a fault of ours")
        return usual(served, *others)

    for where in (small_jobs, job_driver):
        monkeypatch.setattr(where, name, fail)
    await pair.work()
    found = await aggregated(pair)
    assert [each["leader"] for each in found] == [each["leader"] for each in ALL_BUT_ONE]


@pytest.mark.parametrize(
    ("party", "transaction"), [("leader", "reports of job"), ("helper", "commit aggregation job")]
)
async def test_a_lease_that_is_lost_costs_no_other_job_anything(
    pair: Pair, party: str, transaction: str
) -> None:
    """Another driver takes one of the jobs after that transaction."""
    job, task = tables.aggregation_jobs, tables.tasks.c
    key = select(task.id).where(task.task_id == OTHER).scalar_subquery()
    taking = update(job).where(job.c.task == key).values(lease_token=bytes(16))
    taken: list[str] = []

    def take(name: str, moment: str) -> None:
        if (name, moment) == (transaction, "committed") and not taken:
            taken.append(name)
            pair.leader.database.run_sync("take", lambda tx: tx.connection.execute(taking))

    getattr(pair, party).on_moment = take
    await pair.work()
    assert taken
    found = await aggregated(pair)
    assert [each["leader"] for each in found] == [each["leader"] for each in ALL_BUT_ONE]
    pair.clock.advance(LEASE_SECONDS + 1)
    await work(pair)
    assert await aggregated(pair) == ALL


async def test_transactions_of_several_tasks_lock_them_in_one_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two that lock them in different orders would wait for each other."""
    with_permits = permitted(TaskId(b"\x30" * 32))  # of a domain that comes before the next task
    tasks = [with_permits, make_task(id=str(TaskId(b"\x20" * 32))), *reversed(TASKS)]
    order = [each.task_id.value for each in (*TASKS, *tasks[:2])]
    taken: dict[int, tuple[Transaction, list[bytes]]] = {}
    usual = locks._take

    def take(tx: Transaction, subject: str, task_id: bytes = b"", *, shared: bool = False) -> None:
        _, locked = taken.setdefault(id(tx), (tx, []))
        if task_id in order and task_id not in locked:
            locked.append(task_id)
        usual(tx, subject, task_id, shared=shared)

    async with Pair(tmp_path, with_permits) as pair:
        await pair.provision(*tasks[1:])
        reports = [(await pair.reports([1] * REPORTS, task=task), task) for task in tasks[1:]]
        secrets = SECRETS[:REPORTS]
        for service in (pair.leader, pair.helper):
            given(service, with_permits)
        of_people = await pair.reports([1] * REPORTS, openings=openings(with_permits, secrets))
        monkeypatch.setattr(locks, "_take", take)
        async with anyio.create_task_group() as group:
            for each in ((of_people, with_permits), *reports):
                group.start_soon(pair.upload, *each)
        await pair.work()
        assert await aggregated(pair) == ALL
    several = [locked for _, locked in taken.values() if len(locked) > 1]
    assert order in several
    assert several == [sorted(each, key=order.index) for each in several]


@pytest.mark.parametrize("moment", ["before commit", "committed"])
@pytest.mark.parametrize(
    ("party", "transaction"),
    [
        ("leader", "lease aggregation jobs"),
        ("leader", "store aggregation request"),
        ("leader", "finish aggregation job"),
        ("helper", "commit aggregation job"),
    ],
)
@pytest.mark.parametrize("end", [Died, Unreachable])
async def test_each_report_counts_once_whenever_a_party_dies_or_loses_its_store(
    pair: Pair, party: str, transaction: str, moment: str, end: type[BaseException]
) -> None:
    deaths: list[str] = []

    def die(name: str, at: str) -> None:
        if (name, at) == (transaction, moment) and not deaths:
            deaths.append(name)
            raise end("nobody knows whether it was committed")

    getattr(pair, party).on_moment = die
    await work(pair)
    assert deaths
    assert await aggregated(pair) == ALL


@pytest.mark.parametrize("is_before", [True, False], ids=["before", "beside"])
async def test_a_request_named_as_another_costs_no_others_their_transaction(
    pair: Pair, *, is_before: bool
) -> None:
    jobs = AggregationJobs(pair.helper.runtime, MAX_AGE_SECONDS)
    refused: list[int] = []

    async def ask(served: ServedTask, body: bytes, number: int) -> None:
        try:
            await jobs.answer(served, body, bytes([number]) * 16)
        except NameTaken:
            refused.append(number)

    async def asked(task: Task, number: int) -> tuple[ServedTask, bytes, int]:
        body = await pair.job(await pair.reports([1], task=task), task=task)
        return await pair.helper.runtime.task(task.task_id), body, number

    if is_before:
        await ask(*await asked(TASKS[0], 2))
    numbers = [0, 1, 2, 3, 4] if is_before else [0, 2, 2, 3, 4]
    requests = [await asked(*each) for each in zip(TASKS, numbers, strict=True)]
    names = committed(pair.helper)
    async with anyio.create_task_group() as group:
        for each in requests:
            group.start_soon(ask, *each)
    assert refused == [2]
    assert names["commit aggregation job"] == 1


async def test_a_job_of_long_vectors_is_not_small_at_the_helper_either(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its request is short, but to verify it takes as long as the leader's shares are."""
    vdaf = {"type": "Prio3Histogram", "length": 1000, "chunk_length": 32}
    long = [make_task(vdaf=vdaf, id=str(TaskId(bytes([number]) * 32))) for number in (11, 12)]
    await pair.provision(*long)
    jobs = AggregationJobs(pair.helper.runtime, MAX_AGE_SECONDS)
    together: list[int] = []
    usual = jobs._small._work

    def work(some: Sequence[Any], contexts: Sequence[Context]) -> Sequence[Any]:
        together.append(len(some))
        return usual(some, contexts)

    monkeypatch.setattr(jobs._small, "_work", work)
    for tasks, groups in ((TASKS[:2], [2]), (long, [])):
        requests = [
            (await pair.helper.runtime.task(task.task_id), await pair.job(reports, task=task))
            for task in tasks
            for reports in (await pair.reports([1, 1], task=task),)
        ]
        largest = max(len(body) for _, body in requests)
        monkeypatch.setattr(aggregation, "SMALL_BYTES", 2 * largest)
        async with anyio.create_task_group() as group:
            for each in requests:
                group.start_soon(jobs.answer, *each)
        assert together == groups
        together.clear()
