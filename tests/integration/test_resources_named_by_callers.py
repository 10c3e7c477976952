"""Tasks of a profile in which callers name what they ask for: `PUT` where others `POST`.

Who could gain is a leader that asks twice for one release, to average its noise away, or for the
reports of one job under two names, to count them twice.
"""

import dataclasses
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from aggregator.codec import decode, encode
from aggregator.collector.collect import Pending, TaskCollector
from aggregator.collector.results.result import Result
from aggregator.dap.ids import (
    AggregateShareId,
    AggregationJobId,
    CollectionJobId,
    Identifier,
    TaskId,
)
from aggregator.dap.messages import (
    AggregateShareReq,
    AggregationJobInitReq,
    AggregationJobResp,
    CollectionJobReq,
)
from aggregator.dap.problems import BatchInvalid
from aggregator.dap.profile import DAP_18
from aggregator.dap.resources import path
from aggregator.protocol.batches import BatchTotals
from aggregator.protocol.collection import aggregate_share_request, check_collection_request
from aggregator.service.transport.interpretation import PeerRefused, PeerUnreachable
from tests.support.pair import COLLECTOR_TOKEN, LEADER_TOKEN, NOW, Answer, Pair
from tests.support.tasks import HELPER_URL, LAPLACE, LEADER_URL, collector_keypair, make_task

FIRST, SECOND = b"1" * 16, b"2" * 16
COUNT = {"type": "Prio3Count"}

both_modes = pytest.mark.parametrize("batch_mode", ["time_interval", "leader_selected"])
each_profile = pytest.mark.parametrize("profile", ["janus", "janus-2026-08-20"])


@pytest.fixture(name="profile")
def _profile() -> str:
    return "janus"


@pytest.fixture(name="batch_mode")
def _batch_mode() -> str:
    return "time_interval"


@pytest.fixture(name="pair")
async def _pair(tmp_path: Path, profile: str, batch_mode: str) -> AsyncIterator[Pair]:
    privacy = {**LAPLACE, "bound": False, "max_releases": 10}
    task = make_task(
        COUNT,
        privacy,
        profile=profile,
        token_header="DAP-Auth-Token",  # noqa: S106  a header's name
        batch_mode=batch_mode,
        min_batch_size=3,
    )
    async with Pair(tmp_path, task) as made:
        yield made


async def put(pair: Pair, resource: str, name: Identifier, message: str, body: bytes) -> Answer:
    named: dict[str, Identifier] = {"task_id": pair.task.task_id, f"{resource}_id": name}
    is_collection = resource == "collection_job"
    base, token = (LEADER_URL, COLLECTOR_TOKEN) if is_collection else (HELPER_URL, LEADER_TOKEN)
    url = base.rstrip("/") + path(resource, **named)
    return await pair.send("PUT", url, message, body, token)


async def job_body(pair: Pair, count: int = 3) -> bytes:
    """Return the request of a leader about some new reports."""
    return await pair.job(await pair.reports([1] * count))


async def put_job(pair: Pair, name: bytes, body: bytes) -> Answer:
    message = AggregationJobInitReq.message
    return await put(pair, "aggregation_job", AggregationJobId(name), message, body)


async def ask(pair: Pair, name: bytes) -> Answer:
    message = CollectionJobReq.message
    return await put(pair, "collection_job", CollectionJobId(name), message, encode(pair.request()))


async def collect(pair: Pair, name: bytes) -> Result:
    """Collect as our collector does, under a name of its own."""
    collector = TaskCollector(pair.task, collector_keypair(), COLLECTOR_TOKEN, pair.http)
    collection, state = await collector.start(pair.request(), name)
    assert isinstance(state, Pending)
    await pair.work_until_idle()
    result = await collector.poll(collection)
    assert isinstance(result, Result)
    return result


@each_profile
@both_modes
async def test_reports_come_out_and_every_request_has_the_callers_name_and_its_header(
    pair: Pair,
) -> None:
    seen: list[httpx.Request] = []

    async def see(request: httpx.Request) -> None:
        seen.append(request)

    await pair.upload(await pair.reports([1, 1, 0]))
    pair.http.event_hooks = {"request": [see]}
    result = await collect(pair, FIRST)
    assert result.report_count == 3
    shown = {
        (request.method, request.url.path.split("/")[3], len(request.url.path.split("/")))
        for request in seen
    }
    assert shown == {
        ("PUT", "aggregation_jobs", 5),
        ("PUT", "aggregate_shares", 5),
        ("PUT", "collection_jobs", 5),
        ("GET", "collection_jobs", 5),
    }
    assert sum("aggregate_shares" in request.url.path for request in seen) == 1
    assert {request.headers["dap-auth-token"] for request in seen} == {
        LEADER_TOKEN,
        COLLECTOR_TOKEN,
    }
    assert not any("authorization" in request.headers for request in seen)
    assert str(CollectionJobId(FIRST)) in seen[-1].url.path


async def test_the_same_job_has_one_answer_under_any_name_and_counts_once(pair: Pair) -> None:
    body = await job_body(pair)
    answers = [await put_job(pair, name, body) for name in (FIRST, FIRST, SECOND)]
    assert [each.status for each in answers] == [201] * 3
    assert len({each.body for each in answers}) == 1
    assert "location" not in answers[0].headers
    assert pair.helper.counts(pair.task) == {"aggregated": 3}


async def test_a_name_is_for_one_request_for_ever_and_of_one_task(pair: Pair) -> None:
    assert (await put_job(pair, FIRST, await job_body(pair))).status == 201
    refused = await put_job(pair, FIRST, await job_body(pair))
    assert (refused.status, refused.problem_type) == (409, "name-taken")
    url = HELPER_URL.rstrip("/") + path(
        "aggregation_job", task_id=pair.task.task_id, aggregation_job_id=AggregationJobId(FIRST)
    )
    assert (await pair.send("DELETE", url, token=LEADER_TOKEN)).status == 200
    assert (await put_job(pair, FIRST, await job_body(pair))).status == 409

    pair.task = make_task(COUNT, id=str(TaskId(b"o" * 32)), profile="janus")
    await pair.provision()
    assert (await put_job(pair, FIRST, await job_body(pair))).status == 409
    assert (await put_job(pair, SECOND, await job_body(pair))).status == 201


async def test_who_asks_for_a_share_under_another_name_gets_the_same_noise(pair: Pair) -> None:
    body = await job_body(pair)
    request = decode(AggregationJobInitReq, body)
    await put_job(pair, FIRST, body)
    asked = pair.request(pair.interval())
    batch = check_collection_request(pair.task, asked, NOW)
    assert batch is not None
    found = [init.report_share.report_metadata for init in request.verify_inits]
    totals = BatchTotals.of(
        [each.report_id.value for each in found], [each.time.units for each in found]
    )
    wanted = encode(aggregate_share_request(pair.task, asked, batch, totals))

    async def share(name: bytes) -> Answer:
        message = AggregateShareReq.message
        return await put(pair, "aggregate_share", AggregateShareId(name), message, wanted)

    answers = [await share(name) for name in (FIRST, FIRST, SECOND)]
    assert [each.status for each in answers] == [200] * 3
    assert len({hashlib.sha256(each.body).digest() for each in answers}) == 1


async def test_a_task_of_the_draft_takes_no_name_from_a_caller(pair: Pair) -> None:
    pair.task = make_task(COUNT, id=str(TaskId(b"o" * 32)))
    await pair.provision()
    refused = await put_job(pair, FIRST, await job_body(pair))
    assert (refused.status, refused.problem_type) == (405, "not-named-by-caller")
    assert (await ask(pair, FIRST)).status == 405


async def test_a_collection_is_read_where_its_collector_put_it(pair: Pair) -> None:
    await pair.upload(await pair.reports([1, 1, 0]))
    for _ in range(2):
        asked = await ask(pair, FIRST)
        assert (asked.status, asked.body) == (201, b"")
    location = path(
        "collection_job", task_id=pair.task.task_id, collection_job_id=CollectionJobId(FIRST)
    )
    waits = await pair.poll(location)
    assert (waits.status, waits.body) == (200, b"")
    assert "retry-after" in waits.headers
    await pair.work_until_idle()
    assert pair.open((await pair.poll(location)).body).report_count == 3
    again = await ask(pair, SECOND)
    assert (again.status, again.problem_type) == (400, "batchOverlap")


@pytest.mark.parametrize("batch_mode", ["leader_selected"])
async def test_another_name_asks_for_the_next_batch(pair: Pair) -> None:
    await pair.upload(await pair.reports([1] * 6))
    results = [await collect(pair, name) for name in (FIRST, SECOND)]
    assert [each.report_count for each in results] == [3, 3]
    assert results[0].release != results[1].release


@pytest.mark.parametrize("batch_mode", ["leader_selected"])
async def test_a_leader_that_has_no_full_batch_is_asked_again(pair: Pair) -> None:
    """Janus' refuses at once, with what would end a collection for good elsewhere."""
    document = {"type": BatchInvalid.type_uri}
    headers = {"content-type": "application/problem+json"}
    refusing = httpx.MockTransport(lambda _: httpx.Response(400, json=document, headers=headers))
    async with httpx.AsyncClient(transport=refusing) as http:
        collector = TaskCollector(pair.task, collector_keypair(), COLLECTOR_TOKEN, http)
        with pytest.raises(PeerUnreachable, match="no batch that is full"):
            await collector.start(pair.request(), FIRST)
        task = dataclasses.replace(pair.task, profile=DAP_18)
        collector = TaskCollector(task, collector_keypair(), COLLECTOR_TOKEN, http)
        with pytest.raises(PeerRefused):
            await collector.start(pair.request(), FIRST)


@pytest.mark.parametrize("profile", ["janus-2026-08-20"])
async def test_a_job_that_is_framed_wrongly_is_refused_as_a_whole(pair: Pair) -> None:
    drafted = await job_body(pair)
    framing = pair.task.profile.framing
    refused = await put_job(pair, FIRST, drafted)
    assert (refused.status, refused.problem_type) == (400, "invalidMessage")
    answer = await put_job(pair, FIRST, framing.request(drafted))
    assert answer.status == 201
    decode(AggregationJobResp, framing.read_answer(answer.body))
