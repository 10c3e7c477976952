"""A helper that stores aggregation jobs, asks their leader to come again, and answers them later.

Who could gain is a leader that has the reports of one job counted twice while it waits, or whose
many jobs fill a helper's disk; and who loses if nobody sees to it is everybody whose report waits
with a worker that died.
"""

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urljoin

import pytest

from aggregator.collector.collect import TaskCollector
from aggregator.collector.results.result import Result
from aggregator.dap.ids import AggregationJobId, encode_base64url
from aggregator.dap.messages import AggregationJobInitReq, AggregationJobResp
from aggregator.dap.resources import path
from aggregator.errors import StoreError
from aggregator.protocol.aggregation import VerificationKey, leader_init
from aggregator.service.config import HelperSettings
from aggregator.service.helper import aggregation
from aggregator.service.helper.aggregation import AggregationJobs
from aggregator.service.helper.deferring import DeferredJobs
from aggregator.service.runtime.status import read_aggregator_health
from aggregator.service.storage.engine.presence import Duty
from aggregator.service.storage.operator.job_lists import (
    AGGREGATION,
    DEFERRED,
    ListedJob,
    find_job,
    list_waiting,
)
from aggregator.service.storage.tasks.forgetting import forget
from aggregator.service.storage.tasks.garbage import collect_garbage
from aggregator.service.storage.tasks.tasks import end_task
from tests.support.engines import ON_SQLITE
from tests.support.helper_jobs import send_job
from tests.support.pair import (
    COLLECTOR_TOKEN,
    LEADER_TOKEN,
    LEASE_SECONDS,
    NOW,
    VERIFY_KEY,
    Answer,
    Died,
    Pair,
)
from tests.support.reports import columns
from tests.support.tasks import HELPER_URL, LAPLACE, collector_keypair, make_task

pytestmark = pytest.mark.usefixtures("engine")

COUNT = {"type": "Prio3Count"}
NAME = b"n" * 16
DEFERRING = HelperSettings(database="none", defer_jobs=True)

each_profile = pytest.mark.parametrize("profile", ["dap-18", "dap-19", "janus"])
of_janus = pytest.mark.parametrize("profile", ["janus"])


@pytest.fixture(name="profile")
def _profile() -> str:
    return "dap-18"


@pytest.fixture(name="batch_mode")
def _batch_mode() -> str:
    return "time_interval"


@pytest.fixture(name="settings")
def _settings() -> HelperSettings:
    return DEFERRING


@pytest.fixture(name="pair")
async def _pair(
    tmp_path: Path, profile: str, batch_mode: str, settings: HelperSettings
) -> AsyncIterator[Pair]:
    privacy = {**LAPLACE, "bound": False, "max_releases": 10}
    task = make_task(COUNT, privacy, profile=profile, batch_mode=batch_mode, min_batch_size=3)
    async with Pair(tmp_path, task, job_size=2, helper_settings=settings) as made:
        yield made


async def job_body(pair: Pair, count: int = 3, key_id: int = 0) -> bytes:
    """Return the request of a leader about some new reports."""
    keypairs = await pair.leader.runtime.keypairs()
    key = VerificationKey(key_id, VERIFY_KEY)
    reports = columns(pair.task, await pair.reports([1] * count))
    request = leader_init(pair.task, key, keypairs, reports, NOW).request
    assert request is not None
    return request


async def send(pair: Pair, body: bytes, name: bytes = NAME) -> Answer:
    """Ask for a job, by whichever method the profile has."""
    if not pair.task.profile.creator_names:
        return await send_job(pair, body)
    message = AggregationJobInitReq.message
    named = path(
        "aggregation_job", task_id=pair.task.task_id, aggregation_job_id=AggregationJobId(name)
    )
    return await pair.send("PUT", HELPER_URL.rstrip("/") + named, message, body, LEADER_TOKEN)


async def at(pair: Pair, method: str, location: str) -> Answer:
    return await pair.send(method, urljoin(HELPER_URL, location), token=LEADER_TOKEN)


def assert_waits(answer: Answer, status: int) -> None:
    assert (answer.status, answer.body) == (status, b"")
    assert int(answer.headers["retry-after"]) > 0


def workers(pair: Pair) -> DeferredJobs:
    """Return workers of the helper, of a process of their own."""
    return DeferredJobs(
        pair.helper.runtime, DEFERRING.max_report_age_seconds, lease_seconds=LEASE_SECONDS
    )


@ON_SQLITE
@each_profile
@pytest.mark.parametrize("batch_mode", ["time_interval", "leader_selected"])
async def test_a_batch_comes_out_of_a_pair_whose_helper_defers(pair: Pair) -> None:
    await pair.upload(await pair.reports([1, 1, 0]))
    collector = TaskCollector(pair.task, collector_keypair(), COLLECTOR_TOKEN, pair.http)
    collection, _ = await collector.start(pair.request(), NAME)
    await pair.work_until_idle()
    result = await collector.poll(collection)
    assert isinstance(result, Result)
    assert result.report_count == 3
    assert pair.helper.counts(pair.task) == {"aggregated": 3}


@pytest.mark.parametrize("profile", ["dap-18", "janus"])
async def test_the_same_bytes_find_the_job_that_waits_and_then_its_answer(
    pair: Pair, profile: str
) -> None:
    body = await job_body(pair)
    created, waiting = (200, 200) if profile == "janus" else (201, 202)
    first, again = await send(pair, body), await send(pair, body)
    location = first.headers["location"]
    assert_waits(first, created)
    assert_waits(again, created)
    assert location.endswith("?step=0")
    assert again.headers["location"] == location
    assert_waits(await at(pair, "GET", location), waiting)
    assert pair.helper.counts(pair.task) == {}

    assert await pair.work_as_helper() == 1
    answer = await at(pair, "GET", location)
    assert answer.status == 200
    assert answer.headers["content-type"].endswith(AggregationJobResp.message)
    later = await send(pair, body)
    assert later.status == 201
    assert later.body == answer.body
    assert await pair.work_as_helper() == 0
    assert pair.helper.counts(pair.task) == {"aggregated": 3}


@ON_SQLITE
@of_janus
async def test_other_bytes_under_the_name_of_a_job_that_waits_are_refused(pair: Pair) -> None:
    assert_waits(await send(pair, await job_body(pair)), 200)
    refused = await send(pair, await job_body(pair))
    assert (refused.status, refused.problem_type) == (409, "name-taken")


@ON_SQLITE
async def test_what_is_refused_as_a_whole_is_refused_at_once(pair: Pair) -> None:
    answer = await send(pair, (await job_body(pair))[:-1])
    assert (answer.status, answer.problem_type) == (400, "invalidMessage")
    assert await pair.work_as_helper() == 0


@ON_SQLITE
async def test_what_a_front_has_let_pass_is_refused_when_it_is_sent_again(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = await job_body(pair, key_id=1)
    with monkeypatch.context() as patch:
        patch.setattr(aggregation, "check_job", lambda *_: None)
        location = (await send(pair, body)).headers["location"]
    assert await pair.work_as_helper() == 1
    assert (await at(pair, "GET", location)).status == 404
    assert (await send(pair, body)).problem_type == "invalidMessage"
    assert pair.helper.counts(pair.task) == {}


@ON_SQLITE
@of_janus
async def test_a_job_that_is_deleted_while_it_waits_is_not_counted(pair: Pair) -> None:
    body = await job_body(pair)
    location = (await send(pair, body)).headers["location"]
    assert (await at(pair, "DELETE", location)).status == 200
    for method in ("GET", "DELETE"):
        assert (await at(pair, method, location)).problem_type == "unrecognizedAggregationJob"
    assert await pair.work_as_helper() == 0
    assert (await send(pair, body)).problem_type == "name-taken"
    assert_waits(await send(pair, body, b"m" * 16), 200)  # nothing of it was counted
    assert await pair.work_as_helper() == 1
    assert pair.helper.counts(pair.task) == {"aggregated": 3}


async def test_a_job_that_is_deleted_while_it_is_verified_is_not_counted(pair: Pair) -> None:
    location = (await send(pair, await job_body(pair))).headers["location"]
    verify = pair.helper.runtime.verify

    async def verify_slowly(*arguments: object) -> object:
        assert (await at(pair, "DELETE", location)).status == 200
        return await verify(*arguments)  # type: ignore[arg-type]  # as they came

    pair.helper.runtime.verify = verify_slowly  # type: ignore[assignment, method-assign]  # stand-in
    assert await pair.work_as_helper() == 1
    assert pair.helper.counts(pair.task) == {}


@pytest.mark.parametrize("moment", ["before commit", "committed"])
@pytest.mark.parametrize("transaction", ["lease deferred jobs", "commit aggregation job"])
async def test_the_job_of_a_worker_that_dies_is_answered_once_by_another(
    pair: Pair, transaction: str, moment: str
) -> None:
    location = (await send(pair, await job_body(pair))).headers["location"]
    deaths = 0

    def die(name: str, when: str) -> None:
        nonlocal deaths
        if (name, when) == (transaction, moment) and not deaths:
            deaths += 1
            raise Died

    pair.helper.on_moment = die
    with pytest.raises(BaseException) as died:  # noqa: PT011  a group around it, or it alone
        await workers(pair).run_once()
    assert deaths == 1
    assert died.group_contains(Died) or died.type is Died
    pair.helper.restart()
    is_leased = (transaction, moment) != ("lease deferred jobs", "before commit")
    is_answered = (transaction, moment) == ("commit aggregation job", "committed")
    if is_leased and not is_answered:
        assert await workers(pair).run_once() == 0
        pair.clock.advance(LEASE_SECONDS)
    assert await workers(pair).run_once() == (not is_answered)
    assert (await at(pair, "GET", location)).body
    assert pair.helper.counts(pair.task) == {"aggregated": 3}


async def test_a_worker_whose_lease_ran_out_stores_nothing(pair: Pair) -> None:
    location = (await send(pair, await job_body(pair))).headers["location"]
    verify, others = pair.helper.runtime.verify, workers(pair)
    answered = []

    async def sleep_through_it(*arguments: object) -> object:
        pair.helper.runtime.verify = verify  # type: ignore[method-assign]  # the other is awake
        pair.clock.advance(LEASE_SECONDS)
        assert await others.run_once() == 1
        answered.append((await at(pair, "GET", location)).body)
        return await verify(*arguments)  # type: ignore[arg-type]  # as they came

    pair.helper.runtime.verify = sleep_through_it  # type: ignore[assignment, method-assign]  # stand-in
    assert await workers(pair).run_once() == 1
    assert answered == [(await at(pair, "GET", location)).body]
    assert answered[0]
    assert pair.helper.counts(pair.task) == {"aggregated": 3}


@pytest.mark.parametrize(
    "settings", [DEFERRING.model_copy(update={"max_bytes_in_flight": 1})], ids=["one byte"]
)
async def test_a_task_has_so_many_bytes_waiting_and_no_more(pair: Pair) -> None:
    bodies = [await job_body(pair) for _ in range(2)]
    assert_waits(await send(pair, bodies[0]), 201)  # of which one always may
    refused = await send(pair, bodies[1])
    assert (refused.status, refused.problem_type) == (429, "too-many-requests")
    assert_waits(await send(pair, bodies[0]), 201)
    assert await pair.work_as_helper() == 1
    assert_waits(await send(pair, bodies[1]), 201)


@ON_SQLITE
async def test_nobody_but_the_leader_has_a_job_put_off(pair: Pair) -> None:
    url, body = pair.url_of("aggregation_jobs"), await job_body(pair)
    for token in (None, "a stranger's".replace(" ", "-")):
        answer = await pair.send("POST", url, AggregationJobInitReq.message, body, token)
        assert answer.status in (401, 403)
    assert await pair.work_as_helper() == 0


@ON_SQLITE
async def test_what_was_put_off_is_answered_though_the_helper_defers_no_more(pair: Pair) -> None:
    body = await job_body(pair)
    assert_waits(await send(pair, body), 201)
    pair.helper.settings = HelperSettings(database="none")
    pair.helper.restart()
    assert_waits(await send(pair, body), 201)
    assert await workers(pair).run_once() == 1
    assert (await send(pair, body)).body
    assert (await send(pair, await job_body(pair))).body
    assert pair.helper.counts(pair.task) == {"aggregated": 6}


@ON_SQLITE
async def test_jobs_that_nobody_answers_are_a_stall_that_says_what_to_run(pair: Pair) -> None:
    await send(pair, await job_body(pair))
    for seconds, is_stalled in ((10, False), (111, True)):
        pair.clock.advance(seconds)
        health = await pair.helper.database.read(
            "health", lambda tx: read_aggregator_health(tx, pair.helper.role, 120)
        )
        assert health.document["deferred_jobs"]["unfinished"] == 1
        assert any("prio helper work" in each for each in health.stalls) == is_stalled
    here = pair.helper.database.presence([Duty.WORK])
    here.keep()  # somebody has begun to work
    health = await pair.helper.database.read(
        "health", lambda tx: read_aggregator_health(tx, pair.helper.role, 120)
    )
    here.close()
    assert health.is_ready


@ON_SQLITE
async def test_jobs_that_wait_leave_with_their_task_and_with_time(pair: Pair) -> None:
    location = (await send(pair, await job_body(pair))).headers["location"]
    pair.clock.advance(100)
    database, task_id = pair.helper.database, pair.task.task_id.value
    assert await database.run("garbage", lambda tx: collect_garbage(tx, 100)) == 0
    assert await database.run("garbage", lambda tx: collect_garbage(tx, 99)) == 1
    assert (await at(pair, "GET", location)).status == 404

    await send(pair, await job_body(pair))
    await database.run("end", lambda tx: end_task(tx, task_id))
    forget(database, task_id)
    assert await workers(pair).run_once() == 0


async def test_who_runs_a_helper_sees_each_job_that_it_has_put_off_and_why_it_waits(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = await job_body(pair)
    location = (await send(pair, body)).headers["location"]
    digest = hashlib.sha256(body).digest()

    async def listed() -> list[ListedJob]:
        return await pair.helper.database.read("list", list_waiting)

    (job,) = await listed()
    assert (job.kind, job.state, job.reason, job.is_driven) == (AGGREGATION, DEFERRED, None, False)
    assert f"/{encode_base64url(job.job_id)}?" in location
    assert job.request_sha256 == digest

    async def fail(*_: object) -> None:
        raise StoreError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(AggregationJobs, "answer_deferred", fail)
        await workers(pair).run_once()
    (waiting,) = await listed()
    assert (waiting.reason, waiting.attempts) == ("the disk is full", 1)
    assert waiting.next_at == pair.clock.now() + 1
    pair.clock.advance(1)
    assert await workers(pair).run_once() == 1
    assert await listed() == []
    for name in (job.job_id, digest):
        found = await pair.helper.database.read("find", lambda tx, name=name: find_job(tx, name))
        assert found is not None
        assert found.state != DEFERRED
