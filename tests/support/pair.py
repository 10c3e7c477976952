"""A leader and a helper in one process: two stores, two applications, HTTP in memory between them.

A service can be made to die at a moment of a transaction. Its callers see a broken connection; then
it is restarted on the same file, with nothing of the old process in memory.
"""

import dataclasses
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urljoin

import httpx
import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aggregator.codec import decode, encode
from aggregator.collector.results.result import Result, open_result
from aggregator.dap.attribution import min_dp_budget
from aggregator.dap.auth import bearer_header, hash_token
from aggregator.dap.extensions import Extensions
from aggregator.dap.hpke import HpkeConfig, HpkeConfigList
from aggregator.dap.messages import (
    CollectionJobReq,
    CollectionJobResp,
    Report,
    TimeIntervalQuery,
    UploadErrors,
    UploadRequest,
)
from aggregator.dap.profile import Role
from aggregator.dap.resources import media_type, path, resources_of
from aggregator.dap.times import Interval
from aggregator.protocol.aggregation import VerificationKey, leader_init
from aggregator.protocol.hpke_rotation import HpkeRotation
from aggregator.protocol.requirements import Requirements
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import task_to_toml
from aggregator.service.config import HelperSettings, LeaderSettings
from aggregator.service.helper.deferring import DeferredJobs
from aggregator.service.helper.routes import HelperResources
from aggregator.service.leader.collections import CollectionDriver
from aggregator.service.leader.job_creator import JobCreator
from aggregator.service.leader.job_driver import JobDriver
from aggregator.service.leader.routes import LeaderResources
from aggregator.service.runtime import Runtime
from aggregator.service.runtime.endpoint_paths import EndpointPaths
from aggregator.service.runtime.in_band import InBand
from aggregator.service.storage.backup.reconciliation import reconcile
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.ledger.journal_file import JournalFile
from aggregator.service.storage.reports.counters import Stage, report_counts
from aggregator.service.storage.secrets.crypter import Crypter
from aggregator.service.storage.tasks.caller_tokens import put_caller_token
from aggregator.service.storage.tasks.tasks import TaskRecord, put_task
from aggregator.service.transport.driver import DriverSettings
from aggregator.service.web.app import create_app
from aggregator.service.web.cross_origin import CrossOrigin
from tests.support.clock import ManualClock
from tests.support.commands import service_file
from tests.support.empty_store import upgraded, url_of
from tests.support.entropy import SeededEntropy
from tests.support.patience import PATIENCE_SECONDS
from tests.support.reports import columns, make_reports
from tests.support.tasks import HELPER_URL, LEADER_URL, collector_keypair, make_task

if TYPE_CHECKING:
    from aggregator.protocol.agreements import Agreements
    from aggregator.service.leader.uploads import Grouping
    from aggregator.service.storage.engine.objects import Objects

NOW = 1_700_000_050
LEADER_TOKEN = "shown by the leader".replace(" ", "-")
COLLECTOR_TOKEN = "shown by the collector".replace(" ", "-")
VERIFY_KEY = bytes(range(100, 132))
LEASE_SECONDS = 30
LEADER_SETTINGS = LeaderSettings(database="none")
HELPER_SETTINGS = HelperSettings(database="none")


class Died(BaseException):
    """The process was killed here; no handler of the program may catch it."""


OnMoment = Callable[[str, str], None]


def nothing_happens(_transaction: str, _moment: str) -> None:
    """Leave every transaction alone."""


class Service:
    """One aggregator: a store that outlives its processes, and the process that runs now."""

    def __init__(
        self,
        role: Role,
        folder: Path,
        clock: ManualClock,
        *,
        requirements: Requirements,
        settings: LeaderSettings | HelperSettings,
        rotation: HpkeRotation,
    ) -> None:
        self.role = role
        self.url = url_of(folder / f"{role.name.lower()}.sqlite")
        self.journal = JournalFile(folder / f"{role.name.lower()}.sqlite.journal")
        self.clock = clock
        self.requirements = requirements
        self.settings = settings
        self.grouping: Grouping | None = None
        self.agreements: Agreements | None = None
        self.rotation = rotation
        self.on_moment: OnMoment = nothing_happens
        self.entropy = SeededEntropy(role.name.encode())
        self.starts = 0
        self.store_keys = [bytes(32)]
        self.make_objects: Callable[[], Objects] | None = None
        upgraded(self.url)
        self.start()

    def start(self) -> None:
        """Start a process over the store."""
        sys.audit("tests.service")  # quick tests run none, though this one binds no socket
        self.starts += 1
        self.is_open = False
        self.database = Database.open(
            self.url,
            Crypter(self.store_keys),
            self.clock,
            self._report_moment,
            SeededEntropy(b"store %d" % self.starts + self.role.name.encode()),
            None if self.make_objects is None else self.make_objects(),
        )
        try:
            reconcile(self.database, self.role.name.lower(), self.journal, may_be_damaged=True)
        except BaseException:
            self.database.close()
            raise
        self.is_open = True
        self.runtime = Runtime(
            self.role,
            self.database,
            self.clock,
            self.entropy,
            self.journal,
            requirements=self.requirements,
            in_band=None
            if self.agreements is None
            else InBand(self.role, self.database, self.journal, self.agreements, self.requirements),
            rotation=self.rotation,
            verification_threads=1,
        )
        name, resources = self.role.name.lower(), resources_of(self.role)
        below = resources, EndpointPaths(self.runtime)
        if isinstance(self.settings, LeaderSettings):
            leader = LeaderResources(self.runtime, self.settings, self.grouping)
            routes = leader.fast_routes()
            app = create_app(
                name,
                [leader.router()],
                fast_routes=routes,
                at_once=leader.at_once(),
                below=below,
            )
        else:
            helper = HelperResources(self.runtime, self.settings)
            routes = helper.fast_routes()
            app = create_app(name, [helper.router()], fast_routes=routes, below=below)
        self.app: ASGIApp = CrossOrigin(app, resources)

    def _report_moment(self, transaction: str, moment: str) -> None:
        if self.is_open:  # the journal is read while a process starts, when nobody waits for it
            self.on_moment(transaction, moment)

    def restart(self) -> None:
        """Lose everything in memory."""
        self.database.close()
        self.journal = JournalFile(Path(self.journal.name))
        self.start()

    def counts(self, task: Task, stage: Stage = Stage.AGGREGATION) -> dict[str, int]:
        """Return what became of a task's reports, and of how many."""
        task_id = task.task_id.value
        return self.database.read_sync("counts", lambda tx: report_counts(tx, task_id, stage))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request; if the process dies, the connections of all its callers break."""
        process = self.starts

        async def answer(message: Message) -> None:
            if self.starts != process:  # another request was its death
                raise httpx.ReadError("the connection broke")
            await send(message)

        try:
            await self.app(scope, receive, answer)
        except Died as death:
            if self.starts == process:
                self.restart()
            raise httpx.ReadError("the connection broke") from death


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request."""

    status: int
    body: bytes
    headers: httpx.Headers
    problem: dict[str, object]

    @property
    def problem_type(self) -> str:
        """The last word of the problem's type."""
        return str(self.problem.get("type", "")).rsplit(":", 1)[-1]


def _unreachable(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError(f"nobody is at {request.url}", request=request)


class Pair:
    """Both aggregators, and a client and a collector that speak to them."""

    def __init__(
        self,
        folder: Path,
        task: Task,
        *,
        leader_requirements: Requirements | None = None,
        helper_requirements: Requirements | None = None,
        leader_settings: LeaderSettings | None = None,
        helper_settings: HelperSettings | None = None,
        rotation: HpkeRotation = HpkeRotation(),  # noqa: B008  frozen
        job_size: int = 100,
    ) -> None:
        self.task = task
        self.clock = ManualClock(NOW)
        self.job_size = job_size
        self.leader = Service(
            Role.LEADER,
            folder,
            self.clock,
            requirements=leader_requirements or Requirements(),
            settings=leader_settings or LEADER_SETTINGS,
            rotation=rotation,
        )
        self.helper = Service(
            Role.HELPER,
            folder,
            self.clock,
            requirements=helper_requirements or Requirements(),
            settings=helper_settings or HELPER_SETTINGS,
            rotation=rotation,
        )
        self.client_entropy = SeededEntropy(b"client")
        self.min_dp_budget: int | None = None
        self.http = httpx.AsyncClient(
            transport=httpx.MockTransport(_unreachable),
            mounts={
                LEADER_URL.rstrip("/"): httpx.ASGITransport(self.leader),
                HELPER_URL.rstrip("/"): httpx.ASGITransport(self.helper),
            },
            timeout=PATIENCE_SECONDS,
        )

    async def provision(self, *tasks: Task) -> None:
        """Give both aggregators the task, or others of one file, and a first HPKE key pair."""
        given = [(each.task_id.value, task_to_toml(each)) for each in tasks or (self.task,)]
        for service, role, token in (
            (self.leader, "leader", COLLECTOR_TOKEN),
            (self.helper, "helper", LEADER_TOKEN),
        ):
            peer_token = LEADER_TOKEN if role == "leader" else None

            def put(
                tx: Transaction,
                role: str = role,
                token: str = token,
                peer_token: str | None = peer_token,
            ) -> None:
                for task_id, definition in given:
                    put_task(tx, TaskRecord(task_id, role, definition, VERIFY_KEY, 0, peer_token))
                    put_caller_token(tx, task_id, hash_token(token))

            await service.database.run("provision", put)
            await service.runtime.ensure_keypair()

    async def __aenter__(self) -> Self:
        """Provision the pair with its task."""
        await self.provision()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close what is open."""
        await self.http.aclose()
        self.leader.database.close()
        self.helper.database.close()

    async def send(
        self,
        method: str,
        url: str,
        message: str | None = None,
        body: bytes = b"",
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a request, and read a problem document if the answer is one."""
        headers = dict(headers or {})
        if message is not None:
            headers["content-type"] = media_type(message)
        if token is not None:
            headers["authorization"] = bearer_header(token)
        response = await self.http.request(method, url, content=body, headers=headers)
        is_problem = response.headers.get("content-type") == "application/problem+json"
        problem = response.json() if is_problem else {}
        return Answer(response.status_code, response.content, response.headers, problem)

    async def configs(self) -> tuple[HpkeConfig, HpkeConfig]:
        """Return the leader's and the helper's current HPKE configurations."""
        leader, helper = [
            decode(HpkeConfigList, (await self.send("GET", f"{url}hpke_config")).body).preferred()
            for url in (LEADER_URL, HELPER_URL)
        ]
        return leader, helper

    async def reports(
        self,
        measurements: Sequence[int | list[int]],
        seconds: int = NOW,
        task: Task | None = None,
        openings: Sequence[bytes] | None = None,
        budget: int | None = None,
    ) -> list[Report]:
        """Make a report of each measurement, under the aggregators' current configurations."""
        configs = await self.configs()
        made_for = self.task if task is None else task
        time = made_for.time(seconds)
        entropy = self.client_entropy
        return make_reports(made_for, *configs, measurements, time, entropy, openings, None, budget)

    async def job(
        self,
        reports: Sequence[Report],
        seconds: int = NOW,
        extensions: Extensions = (),
        key_id: int = 0,
        task: Task | None = None,
    ) -> bytes:
        """Return the encoded request of a leader that has these reports, stored or not."""
        task, key = task or self.task, VerificationKey(key_id, VERIFY_KEY)
        keypairs, stored = await self.leader.runtime.keypairs(), columns(task, reports)
        init = leader_init(task, key, keypairs, stored, seconds, extensions=extensions)
        assert init.request is not None
        return init.request

    def url_of(self, resource: str, task: Task | None = None) -> str:
        """Return the URL of a resource of which a task has only one."""
        base = HELPER_URL if resource.startswith("agg") else LEADER_URL
        return base.rstrip("/") + path(resource, task_id=(task or self.task).task_id)

    async def upload(self, reports: Sequence[Report], task: Task | None = None) -> UploadErrors:
        """Upload reports in one request."""
        body = encode(UploadRequest(tuple(reports)))
        url = self.url_of("reports", task)
        answer = await self.send("POST", url, UploadRequest.message, body)
        assert answer.status == 200, answer.problem
        return decode(UploadErrors, answer.body)

    def interval(self, seconds: int = NOW, units: int = 1) -> Interval:
        """Return the interval of `units` units that begins with the unit of `seconds`."""
        return Interval.of(self.task.time(seconds).units, units)

    def request(self, interval: Interval | None = None) -> CollectionJobReq:
        """Return the collector's request for an interval, or for the next batch."""
        asked = () if self.min_dp_budget is None else min_dp_budget(self.min_dp_budget)
        if self.task.batching.has_ids:
            query = self.task.batching.query({}, self.task.time_precision)
            return CollectionJobReq(query, extensions=asked)
        return CollectionJobReq(TimeIntervalQuery(interval or self.interval()), extensions=asked)

    async def ask(self, interval: Interval | None = None) -> Answer:
        """Ask for a collection, as the collector."""
        request = self.request(interval)
        url = self.url_of("collection_jobs")
        message = CollectionJobReq.message
        return await self.send("POST", url, message, encode(request), COLLECTOR_TOKEN)

    async def poll(self, location: str) -> Answer:
        """Ask for the state of a collection."""
        return await self.send("GET", urljoin(LEADER_URL, location), token=COLLECTOR_TOKEN)

    async def forget(self, location: str, *, may_be_gone: bool = False) -> None:
        """Delete a collection, whose result is safe, and which a repeated request finds gone."""
        url = urljoin(LEADER_URL, location)
        status = (await self.send("DELETE", url, token=COLLECTOR_TOKEN)).status
        assert status < 300 or (may_be_gone and status == 404)

    def open(self, body: bytes, interval: Interval | None = None) -> Result:
        """Open a collection's result."""
        response = decode(CollectionJobResp, body)
        return open_result(self.task, collector_keypair(), self.request(interval), response)

    async def work(self) -> int:
        """Let the leader's workers do one round; return how much there was to do."""
        settings = DriverSettings(
            concurrency=2, lease_seconds=LEASE_SECONDS, max_attempts=5, peer_attempts=1
        )
        runtime = self.leader.runtime
        creator = JobCreator(runtime, job_size=self.job_size, linger_seconds=0)
        done = await creator.run_once()
        done += await JobDriver(runtime, self.http, settings).run_once()
        done += await self.work_as_helper()
        return done + await CollectionDriver(runtime, self.http, settings).run_once()

    async def work_as_helper(self) -> int:
        """Let a helper that defers answer what waits; return how many jobs."""
        settings, runtime = self.helper.settings, self.helper.runtime
        if not (isinstance(settings, HelperSettings) and settings.defer_jobs):
            return 0
        deferred = DeferredJobs(
            runtime, settings.max_report_age_seconds, at_once=2, lease_seconds=LEASE_SECONDS
        )
        return await deferred.run_once()

    async def work_until_idle(self, rounds: int = 20) -> None:
        """Let the workers work, with time passing between rounds, until there is nothing to do."""
        for _ in range(rounds):
            if not await self.work():
                return
            self.clock.advance(LEASE_SECONDS + 1)
        raise AssertionError("the workers never came to rest")

    async def collect(self, interval: Interval | None = None) -> Result:
        """Ask for a collection, work, and open its result."""
        answer = await self.ask(interval)
        assert answer.status == 201, answer.problem
        await self.work_until_idle()
        answer = await self.poll(answer.headers["location"])
        assert answer.body, answer.status
        assert not answer.problem, answer.problem
        return self.open(answer.body, interval)


def pair_of(*, job_size: int = 100, **settings: Any) -> Any:  # noqa: ANN401  a task's; a fixture
    """Return the fixture `pair` of a module's tests: a pair with a task of these settings."""

    @pytest.fixture
    async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
        async with Pair(tmp_path, make_task(**settings), job_size=job_size) as made:
            yield made

    return pair


def leader_file(folder: Path) -> Path:
    """Write the settings of the pair's leader, for commands."""
    key = folder / "leader.key"
    key.write_text("A" * 43)  # 32 zero bytes, the key of the pair's stores
    key.chmod(0o600)
    return service_file(folder, "leader", 'service.release_journal = "leader.sqlite.journal"\n')
