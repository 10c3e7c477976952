"""No request waits for ever: what takes too long is answered 503, and may be sent again."""

import asyncio
import threading
from functools import partial

import anyio
import httpx
import pytest
from anyio import to_thread

from aggregator.codec import encode
from aggregator.dap.auth import bearer_header
from aggregator.dap.messages import AggregationJobInitReq, UploadRequest
from aggregator.dap.resources import media_type
from aggregator.service.helper.routes import HelperResources
from aggregator.service.leader.routes import LeaderResources
from aggregator.service.storage.reports.counters import Stage
from aggregator.service.web.app import create_app
from tests.support.pair import (
    HELPER_SETTINGS,
    LEADER_SETTINGS,
    LEADER_TOKEN,
    Pair,
    Service,
    pair_of,
)
from tests.support.patience import PATIENCE_SECONDS
from tests.support.tasks import LAPLACE

SECONDS = 1.0


pair = pair_of(privacy=LAPLACE)


class Store:
    """A store whose transactions of one name wait, after they began, until it is released."""

    def __init__(self, service: Service, held: str) -> None:
        self.is_held, self.released = threading.Event(), threading.Event()
        self._held = held
        service.on_moment = self._wait

    def _wait(self, transaction: str, moment: str) -> None:
        if (transaction, moment) == (self._held, "begin"):
            self.is_held.set()
            self.released.wait(PATIENCE_SECONDS)


async def test_uploads_behind_a_store_that_is_held_are_sent_away_and_lost_to_nobody(
    pair: Pair,
) -> None:
    leader = LeaderResources(pair.leader.runtime, LEADER_SETTINGS)
    app = create_app(
        "leader", [leader.router()], answer_seconds=SECONDS, fast_routes=leader.fast_routes()
    )
    bodies = [encode(UploadRequest(tuple(await pair.reports([0])))) for _ in range(5)]
    store = Store(pair.leader, "upload")
    answers: list[httpx.Response] = []
    headers = {"content-type": media_type(UploadRequest.message)}
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://leader") as http:

        async def upload(body: bytes) -> None:
            url = pair.url_of("reports")
            answers.append(await http.post(url, content=body, headers=headers))

        async with anyio.create_task_group() as group:
            for body in bodies:
                group.start_soon(upload, body)
            with anyio.fail_after(PATIENCE_SECONDS):
                while len(answers) < 4:  # noqa: ASYNC110 - the fifth is in the transaction
                    await anyio.sleep(0.01)
            store.released.set()
        assert {answer.status_code for answer in answers[:4]} == {503}
        assert {answer.headers["retry-after"] for answer in answers[:4]} == {"1"}
        answers.clear()
        in_time = create_app("leader", [leader.router()], fast_routes=leader.fast_routes())
        http._transport = httpx.ASGITransport(in_time)  # nothing is held any more
        for body in bodies:
            await upload(body)
    assert {answer.status_code for answer in answers} == {200}
    counts = pair.leader.counts(pair.task, Stage.UPLOAD)
    assert counts["stored"] == 5


async def test_what_a_helper_has_verified_is_there_when_the_leader_comes_again(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = await pair.job(await pair.reports([0, 1, 2]))
    router = HelperResources(pair.helper.runtime, HELPER_SETTINGS).router()
    app = create_app("helper", [router], answer_seconds=PATIENCE_SECONDS)
    store = Store(pair.helper, "commit aggregation job")
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://helper") as http:
        ask = partial(
            http.post,
            pair.url_of("aggregation_jobs"),
            content=body,
            headers={
                "content-type": media_type(AggregationJobInitReq.message),
                "authorization": bearer_header(LEADER_TOKEN),
            },
        )
        loop = asyncio.get_running_loop()
        now = loop.time
        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            await to_thread.run_sync(store.is_held.wait, PATIENCE_SECONDS)
            with monkeypatch.context() as patch:  # for the loop, all its time is over
                patch.setattr(loop, "time", lambda: now() + PATIENCE_SECONDS)
                await anyio.sleep(0.01)
            store.released.set()
        counts = pair.helper.counts(pair.task)
        assert counts == {"aggregated": 3}
        assert (await ask()).status_code == 201
