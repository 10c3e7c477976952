"""Once a request is answered, nothing of its body is in memory, whatever the answer was.

If a frame had it that only the collector of garbage frees, one connection could fill a service's
memory with what it refuses.
"""

import asyncio
import itertools
import re
import threading
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

import pytest
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message

from aggregator.cli.steward.plan_serve import planner_guest
from aggregator.codec import encode
from aggregator.collector.pages.word_lists import MOST_PASTED
from aggregator.collector.pages.written_page import PASTED
from aggregator.dap.auth import bearer_header
from aggregator.dap.messages import (
    AggregateShareReq,
    AggregationJobContinueReq,
    AggregationJobInitReq,
    TimeIntervalSelector,
    UploadRequest,
)
from aggregator.dap.profile import Role
from aggregator.dap.resources import Resource, media_type, resources_of
from aggregator.errors import Abort, StoreError
from aggregator.service.config import HelperSettings, LeaderSettings
from aggregator.service.helper.routes import HelperResources
from aggregator.service.leader import upload_group
from aggregator.service.leader.routes import LeaderResources
from aggregator.service.leader.upload_checks import MAX_REPORTS
from aggregator.service.runtime.verification import VerificationThreads
from aggregator.service.storage.engine.backends import Busy, Damaged, DiskFull, Unreachable
from aggregator.service.storage.ledger.journal import JournalError
from aggregator.service.storage.reports.id_memory import IdsForgotten
from aggregator.service.storage.secrets.key_file import KeyGone, KeysMissing
from aggregator.service.web import app as web_app
from aggregator.service.web import body_budget
from aggregator.service.web.app import create_app
from aggregator.service.web.messages import MAX_SHORT_MESSAGE
from aggregator.steward.planner.routes import PATH as PLANNER
from tests.support import hostile, raw_requests
from tests.support.bundles import Site
from tests.support.collector_service import BEARER, TOKEN, CollectorService
from tests.support.look import Page
from tests.support.pair import COLLECTOR_TOKEN, LEADER_TOKEN, NOW, Pair, Service, nothing_happens
from tests.support.patience import PATIENCE_SECONDS
from tests.support.raw_requests import Request
from tests.support.remains import remains
from tests.support.tasks import TIME_PRECISION, make_task

LIMIT = 2**20
"""The most bytes of an upload or a job here."""

FORM = "application/x-www-form-urlencoded"
LEAVING: Message = {"type": "http.disconnect"}

TROUBLES: Mapping[type[Exception], Callable[[], Exception]] = {
    Busy: lambda: Busy("x"),
    Damaged: lambda: Damaged("x"),
    DiskFull: lambda: DiskFull("x"),
    Unreachable: lambda: Unreachable("x"),
    IdsForgotten: lambda: IdsForgotten(bytes(32), 1, 0),
    JournalError: lambda: JournalError("x"),
    KeyGone: lambda: KeyGone("x"),
    KeysMissing: lambda: KeysMissing("x"),
    StoreError: lambda: StoreError("x"),
    RuntimeError: lambda: RuntimeError("a mistake of ours"),
}
"""What the store may fail by."""

OF_REQUESTS = {Abort, HTTPException, RequestValidationError, ClientDisconnect}
"""What a request itself may be refused by; every way to make us do so is below."""


class Knock(NamedTuple):
    """A request, and how it is answered."""

    why: str
    status: int
    request: Request
    end: Message | None = raw_requests.END


@pytest.fixture(autouse=True)
def _no_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile none in the background, which takes memory too."""
    monkeypatch.setattr(VerificationThreads, "warm_up", lambda _self, _task: None)


def test_each_class_of_error_that_is_answered_is_tried() -> None:
    assert {*web_app._ON} == OF_REQUESTS | (TROUBLES.keys() - {StoreError, RuntimeError})


async def left_by(app: ASGIApp, knock: Knock, when_whole: Callable[[], None] = lambda: None) -> str:
    """Return what a request leaves behind; it must be answered as it says."""

    async def knocked() -> None:
        answer = await raw_requests.send(app, knock.request, when_whole, knock.end)
        assert answer.status == knock.status, (knock.why, answer)

    size = sum(map(len, knock.request.body))
    return await remains(knocked, max(size // 2, 2**16))


class Aggregator:
    """A party's resource of which a body is read, with its task, its token and a good request."""

    def __init__(self, pair: Pair, resource: Resource) -> None:
        (role,) = resource.servers
        self.pair, self.resource = pair, resource
        self.service = pair.leader if role is Role.LEADER else pair.helper
        self.token = COLLECTOR_TOKEN if role is Role.LEADER else LEADER_TOKEN
        path = resource.template.replace("{task_id}", str(pair.task.task_id))
        self.path = re.sub("{[a-z_]+}", "A" * 22, path)
        self.more: list[Knock] = []
        self.good = b""

    @property
    def most(self) -> int:
        """The most bytes of its body."""
        is_large = self.resource.request in (UploadRequest.message, AggregationJobInitReq.message)
        return LIMIT if is_large else MAX_SHORT_MESSAGE

    def app(self, max_bytes_in_flight: int = 64 * 2**20, answer_seconds: float = 30) -> ASGIApp:
        """Return its application."""
        runtime = self.service.runtime
        limits = {"max_bytes_in_flight": max_bytes_in_flight, "answer_seconds": answer_seconds}
        if self.service is self.pair.leader:
            leader = LeaderResources(runtime, LeaderSettings(database="x", max_body_size=LIMIT))
            return create_app(
                "leader", [leader.router()], fast_routes=leader.fast_routes(), **limits
            )
        helper = HelperResources(runtime, HelperSettings(database="x", max_body_size=LIMIT))
        return create_app("helper", [helper.router()], fast_routes=helper.fast_routes(), **limits)

    def request(
        self,
        body: bytes,
        token: str | None = None,
        path: str | None = None,
        **headers: str,
    ) -> Request:
        """Return a request with a body that comes in pieces of 64 KiB."""
        assert self.resource.request is not None
        named = {
            "content_type": media_type(self.resource.request),
            "authorization": bearer_header(token or self.token),
        } | headers
        return Request(
            self.resource.method,
            path or self.path,
            b"",
            [(name.replace("_", "-").encode(), text.encode()) for name, text in named.items()],
            [body[start : start + 2**16] for start in range(0, len(body), 2**16)],
        )

    async def prepare(self) -> None:
        """Make a good request, and those that only this resource refuses."""
        pair, framing = self.pair, self.pair.task.profile.framing
        name = self.resource.name
        if self.resource.request == UploadRequest.message:
            if name == "reports_of_job":
                self.path = urlsplit(await Site(pair).begin()).path
                self.path = self.path.replace("collection_jobs", "reports")
            reports = await pair.reports([0] * 40)
            whole = [encode(each) for each in reports]
            self.good = b"".join(whole)
            tiny = hostile.small_report()
            self.more = [
                Knock("too many reports", 413, self.request(tiny * (MAX_REPORTS + 1))),
                Knock("reports of other sizes", 200, self.request(tiny * 1000)),
                Knock("a phone's, cut short", 400, self.request(whole[0][:-1])),
                Knock("reports twice", 200, self.request(self.good * 2)),
            ]
        elif self.resource.request == AggregationJobInitReq.message:
            job = await pair.job(await pair.reports([0] * 40))
            self.good = framing.request(job)
        elif self.resource.request == AggregationJobContinueReq.message:
            job = await pair.job(await pair.reports([0]))
            url = pair.url_of("aggregation_jobs")
            answer = await pair.send("POST", url, AggregationJobInitReq.message, job, self.token)
            self.path = urlsplit(answer.headers["location"]).path
            self.good = encode(AggregationJobContinueReq(1, ()))
        else:
            await pair.upload(await pair.reports([0, 1, 2]))
            if not pair.task.profile.creator_names:
                await pair.collect()
                both = encode(pair.request(pair.interval(NOW, 2)))
                self.more = [Knock("a part of it was collected", 400, self.request(both))]
            later = pair.interval(NOW + TIME_PRECISION)
            asked = pair.request(later)
            share = AggregateShareReq(asked, TimeIntervalSelector(later), 99, bytes(32))
            self.good = encode(asked if name.startswith("collection") else share)

    def knocks(self) -> Iterator[Knock]:
        """Return requests that are refused, for one reason after the other."""
        junk = b"\xff" * self.most
        good, request = self.good, self.request
        yield Knock("not a message", 400, request(junk))
        yield Knock("cut short", 400, request(good[:-1]))
        yield Knock("too long", 413, request(junk + b"\xff"))
        yield Knock("said to be too long", 413, request(junk, content_length=str(self.most + 1)))
        yield Knock("another media type", 415, request(junk, content_type="application/json"))
        yield Knock("packed", 415, request(junk, content_encoding="gzip"))
        yield Knock("gone before its end", 400, request(junk), LEAVING)
        other = self.path.replace(str(self.pair.task.task_id), "A" * 43)
        is_public = self.resource.caller is None
        yield Knock("of no task", 404 if is_public else 401, request(junk, path=other))
        if not is_public:
            yield Knock("a wrong token", 401, request(junk, token="wrong"))  # noqa: S106  it is none
        yield from self.more


WITH_BODIES = [
    each for role in (Role.LEADER, Role.HELPER) for each in resources_of(role) if each.request
]


@pytest.fixture(params=WITH_BODIES, ids=lambda each: f"{each.method} {each.name}")
async def knocked(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Aggregator]:
    resource: Resource = request.param
    profile = {"profile": "janus"} if resource.method == "PUT" else {}
    vdaf = {"type": "Prio3Histogram", "length": 256, "chunk_length": 16}
    mode = {"batch_mode": "collector_selected"} if resource.name == "reports_of_job" else {}
    pair = Pair(tmp_path, make_task(vdaf, max_reports=100_000, **profile, **mode))
    await pair.provision()
    made = Aggregator(pair, resource)
    await made.prepare()
    yield made
    await pair.close()


async def test_a_refused_request_of_an_aggregator_leaves_nothing_behind(
    knocked: Aggregator,
) -> None:
    app = knocked.app()
    left = {each.why: await left_by(app, each) for each in knocked.knocks()}
    room = knocked.app(max_bytes_in_flight=2**10)
    crowded = Knock("no room", 429, knocked.request(b"\xff" * knocked.most))
    left["no room"] = await left_by(room, crowded)
    assert {why: found for why, found in left.items() if found} == {}


@contextmanager
def failing(
    service: Service, error: Callable[[], Exception], spared: int
) -> Iterator[Callable[[], None]]:
    """Have the transactions of a request fail, from one on; yield what says that it was read."""
    seen: list[str] | None = None

    def begin() -> None:
        nonlocal seen
        seen = []

    def fail(transaction: str, moment: str) -> None:
        if seen is None or moment != "before commit":
            return
        if transaction not in seen:
            seen.append(transaction)
        if seen.index(transaction) >= spared:
            raise error()

    service.on_moment = fail
    try:
        yield begin
    finally:
        service.on_moment = nothing_happens
        # A store that was found damaged takes nothing more.
        service.database._backend.note_damage(None)


async def test_a_request_that_the_store_fails_leaves_nothing_behind(knocked: Aggregator) -> None:
    """Each transaction that comes after the body, and each way to fail."""
    app, left = knocked.app(), dict[str, str]()
    request = knocked.request(knocked.good)
    for spared in itertools.count():
        with failing(knocked.service, TROUBLES[Busy], spared) as begin:
            status = (await raw_requests.send(app, request, begin)).status
        if status != 503:
            break
        for kind, error in TROUBLES.items():
            knock = Knock(kind.__name__, 503 if kind in web_app._ON else 500, request)
            with failing(knocked.service, error, spared) as begin:
                left[f"{kind.__name__}, {spared}"] = await left_by(app, knock, begin)
    assert status < 500
    assert left or knocked.resource.request == AggregationJobContinueReq.message
    left["answered"] = await left_by(app, Knock("answered", status, request))
    assert {why: found for why, found in left.items() if found} == {}


async def test_a_request_that_is_answered_too_late_leaves_nothing_behind(
    knocked: Aggregator,
) -> None:
    released, is_read = threading.Event(), threading.Event()
    seconds = 0.05

    def begin() -> None:
        is_read.set()
        asyncio.get_running_loop().call_later(4 * seconds, released.set)

    def hold(_transaction: str, moment: str) -> None:
        if is_read.is_set() and moment == "before commit":
            released.wait(PATIENCE_SECONDS)

    app, request = knocked.app(answer_seconds=seconds), knocked.request(knocked.good)

    async def late() -> None:
        released.clear()
        is_read.clear()
        await raw_requests.send(app, request, begin)

    knocked.service.on_moment = hold
    try:
        assert await remains(late, LIMIT // 8) == ""
    finally:
        released.set()
        knocked.service.on_moment = nothing_happens


async def test_a_body_that_stops_leaves_nothing_behind(
    knocked: Aggregator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(body_budget, "GRACE_SECONDS", 0.05)
    monkeypatch.setattr(body_budget, "PACE", 2**30)
    stopped = Knock("it stops", 408, knocked.request(b"\xff" * knocked.most), None)
    assert await left_by(knocked.app(), stopped) == ""


async def test_an_upload_whose_terms_change_again_and_again_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (uploads,) = (each for each in WITH_BODIES if each.name == "reports")
    pair = Pair(tmp_path, make_task())
    await pair.provision()
    knocked = Aggregator(pair, uploads)
    await knocked.prepare()
    versions = itertools.count(1000)
    monkeypatch.setattr(upload_group, "settings_version", lambda _tx: next(versions))
    changed = Knock("its terms change", 503, knocked.request(knocked.good))
    assert await left_by(knocked.app(), changed) == ""
    await pair.close()


class Desk:
    """A collector's service, with a session and the token of its forms."""

    def __init__(self, folder: Path) -> None:
        self.task = make_task()
        self.service = CollectorService(folder, self.task, guests=[planner_guest()])
        self._cookies = self._csrf = ""

    @property
    def paths(self) -> set[str]:
        """Every path to which one can post."""
        return {*_posted(self.service.app.router)}

    async def log_in(self) -> None:
        async with self.service.client() as client:
            page = Page((await client.get("/login")).text)
            answer = await client.post("/login", data=page.form("/login") | {"token": TOKEN})
            assert answer.status_code == 303
            self._cookies = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
            self._csrf = Page((await client.get("/")).text).form("/logout")["csrf"]

    def form(self, **fields: str) -> bytes:
        """Return a form of the session."""
        return urlencode({"csrf": self._csrf, "token": TOKEN} | fields).encode()

    def request(self, path: str, body: bytes, **headers: str) -> Request:
        """Return a request of somebody who may do everything."""
        is_for_programs = path.startswith("/api/")
        named = {
            "host": "127.0.0.1",
            "content_type": "application/json" if is_for_programs else FORM,
            "cookie": self._cookies,
        }
        if is_for_programs:
            named |= BEARER
        named |= headers
        path = path.replace("{task_id}", str(self.task.task_id)).replace("{collection_id}", "00")
        return Request(
            "POST",
            path,
            b"",
            [(name.replace("_", "-").encode(), text.encode()) for name, text in named.items()],
            [body[start : start + 2**16] for start in range(0, len(body), 2**16)],
        )


def _posted(router: Any) -> Iterator[str]:  # noqa: ANN401  a router, or what a version has for one
    for each in router.routes:
        inner = getattr(each, "original_router", None)
        if inner is not None:
            yield from _posted(inner)
        elif "POST" in (getattr(each, "methods", None) or ()):
            yield each.path


async def test_a_refused_request_of_a_collector_leaves_nothing_behind(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    strings = "\n".join(map(str, range(MOST_PASTED + 1)))
    left, statuses = dict[str, str](), defaultdict[str, set[int]](set)
    for path in sorted(desk.paths):
        await desk.log_in()
        bodies = {
            "junk": b"\xff" * 1000,
            "many fields": b"&".join(b"f%d=" % number for number in range(100)),
            "too long": b"x" * (2**21 + 1),
        }
        if not path.startswith(PLANNER):  # which takes any form, and calculates long
            bodies |= {
                "not of the session": b"csrf=x",
                "nothing more": desk.form(),
                "a batch that is none": desk.form(start="x", meant="yes"),
                "a batch of the future": desk.form(start="9999999900", end="9999999999"),
                "too many strings": desk.form(**{PASTED: strings}),
                "a query": b'{"start": 1, "end": 2}',
                "no query": b'{"start": "x"}',
                "deep": b"[" * 900,
            }
        requests = {why: desk.request(path, body) for why, body in bodies.items()}
        packed = desk.request(path, desk.form(), content_encoding="gzip")
        requests |= {
            "packed": packed,
            "another media type": desk.request(path, desk.form(), content_type="text/plain"),
            "of another site": desk.request(path, desk.form(), origin="http://x.example"),
            "of nobody": desk.request(path, desk.form(), cookie="", authorization="x"),
        }
        for why, request in requests.items():

            async def knock(path: str = path, request: Request = request) -> None:
                answer = await raw_requests.send(desk.service.app, request)
                statuses[path].add(answer.status)

            left[f"{path}: {why}"] = await remains(knock, 2**19)
        if not path.endswith("/abandon"):  # whose body nobody reads
            answer = await raw_requests.send(desk.service.app, packed)
            assert answer.status == 415, path
    desk.service.database.close()
    assert {why: found for why, found in left.items() if found} == {}
    assert {path for path, found in statuses.items() if max(found) < 400} == set()
    assert {each for found in statuses.values() for each in found if each >= 500} == set()
