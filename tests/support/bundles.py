"""A site that gathers reports and hands them in below collection jobs."""

import dataclasses
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from urllib.parse import urljoin

import httpx
from sqlalchemy import func, select

from aggregator.codec import decode, encode
from aggregator.collector.results.result import Result
from aggregator.dap.extensions import Extension
from aggregator.dap.messages import CollectionJobReq, Report, UploadErrors, UploadRequest
from aggregator.protocol.task import Task
from aggregator.service.config import HelperSettings, LeaderSettings
from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.ledger.charges import list_ledger
from tests.support.pair import COLLECTOR_TOKEN, LEASE_SECONDS, Answer, Died, Pair, Service
from tests.support.tasks import LEADER_URL, NO_NOISE, make_task

SIZE = 4
LINGER_SECONDS = 10


def bundle_task(size: int = SIZE, **settings: str | int) -> Task:
    """Return a task of counts whose collector selects the batches."""
    kind = {"type": "Prio3Count"}
    mode = {"batch_mode": "collector_selected", "min_batch_size": size}
    return make_task(kind, NO_NOISE, **{**mode, **settings})


@dataclasses.dataclass
class Site:
    """What a site does with one pair of aggregators; where an answer is lost, it asks again."""

    pair: Pair

    @classmethod
    async def of(
        cls,
        folder: Path,
        task: Task | None = None,
        job_size: int = 100,
        helper_settings: HelperSettings | None = None,
    ) -> "Site":
        """Return a site of a new pair."""
        pair = Pair(
            folder,
            task or bundle_task(),
            job_size=job_size,
            leader_settings=LeaderSettings(database="none", bundle_linger_seconds=LINGER_SECONDS),
            helper_settings=helper_settings,
        )
        await pair.provision()
        return cls(pair)

    async def try_to_begin(self, name: str = "") -> Answer:
        """Ask for a collection job, which the site may name."""
        url = self.pair.url_of("collection_jobs")
        method, url = ("PUT", f"{url}/{name}") if name else ("POST", url)
        body = encode(self.pair.request())
        return await self._send(method, url, CollectionJobReq.message, body, COLLECTOR_TOKEN)

    async def begin(self, name: str = "") -> str:
        """Return the path of a job that the leader has made."""
        answer = await self.try_to_begin(name)
        assert answer.status == 201, answer.problem
        return answer.headers.get("location", f"{self.pair.url_of('collection_jobs')}/{name}")

    async def try_to_hand_in(self, job: str, reports: Sequence[Report]) -> Answer:
        """Upload reports below a job."""
        url = f"{self.pair.url_of('reports')}/{job.rsplit('/', 1)[-1]}"
        body = encode(UploadRequest(tuple(reports)))
        return await self._send("POST", url, UploadRequest.message, body)

    async def hand_in(self, job: str, reports: Sequence[Report]) -> list[str]:
        """Upload reports below a job; return the errors of those that were refused."""
        answer = await self.try_to_hand_in(job, reports)
        assert answer.status == 200, answer.problem
        errors = decode(UploadErrors, answer.body).status if answer.body else ()
        profile = self.pair.task.profile
        return [profile.report_error(each.error).draft_name for each in errors]

    async def look(self, job: str) -> Answer:
        """Ask for the result of a job."""
        return await self._send("GET", urljoin(LEADER_URL, job), token=COLLECTOR_TOKEN)

    async def delete(self, job: str) -> int:
        """Delete a job; return the status of the answer."""
        url = urljoin(LEADER_URL, job)
        return (await self._send("DELETE", url, token=COLLECTOR_TOKEN)).status

    async def close(self, job: str) -> None:
        """Hand in nothing more, and ask."""
        self.pair.clock.advance(LINGER_SECONDS)
        await self.look(job)

    async def collect(self, job: str) -> Answer:
        """Wait until a job has ended, and return what the leader says of it then."""
        await self.close(job)
        await self.work()
        return await self.look(job)

    async def result(self, job: str) -> Result:
        """Return the result of a job."""
        answer = await self.collect(job)
        assert answer.status == 200, answer.problem
        return self.pair.open(answer.body)

    async def failure(self, job: str) -> str:
        """Return why a job has failed."""
        return (await self.collect(job)).problem_type

    async def work(self) -> None:
        """Drive the jobs; a party that dies is started again, and leases expire."""
        idle = 0
        for _ in range(60):
            try:
                idle = 0 if await self.pair.work() else idle + 1
            except* Died:
                self.pair.leader.restart()
                self.pair.helper.restart()
                idle = 0
            if idle > 1:
                return
            self.pair.clock.advance(LEASE_SECONDS + 1)
        raise AssertionError("the workers never came to rest")

    async def _send(
        self,
        method: str,
        url: str,
        message: str | None = None,
        body: bytes = b"",
        token: str | None = None,
    ) -> Answer:
        for _ in range(20):  # by chance the leader may die at several in a row
            try:
                return await self.pair.send(method, url, message, body, token)
            except httpx.TransportError:
                continue
        raise AssertionError("the leader never answered")


async def bound(service: Service) -> int:
    """Return how many ids are bound at an aggregator."""

    def count(tx: Transaction) -> int:
        query = select(func.count()).select_from(tables.bound_reports)
        return int(tx.connection.execute(query).scalar_one())

    return await service.database.read("bound", count)


async def dropped(service: Service) -> list[bool]:
    """Return of each closed batch of an aggregator whether it was dropped."""
    closed = tables.closed_batches.c
    query = select(closed.dropped).order_by(closed.id)
    return await service.database.read(
        "dropped", lambda tx: [bool(each) for each in tx.connection.execute(query).scalars()]
    )


async def sums(service: Service) -> int:
    """Return how many un-noised sums an aggregator has."""
    query = select(func.count()).select_from(tables.bucket_keys)
    return await service.database.read(
        "sums", lambda tx: int(tx.connection.execute(query).scalar_one())
    )


def with_extensions(report: Report, *extensions: Extension) -> Report:
    metadata = dataclasses.replace(report.report_metadata, public_extensions=extensions)
    return dataclasses.replace(report, report_metadata=metadata)


def charged(service: Service) -> list[Fraction | None]:
    entries = service.database.read_sync("list", list_ledger)
    return [None if each.charge.cost is None else each.charge.cost.epsilon for each in entries]
