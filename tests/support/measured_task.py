"""A histogram task of running services: its measurements, upload, collection and truth."""

import dataclasses
import random
import time
import tomllib
from collections import Counter
from contextlib import closing
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
import httpx

from aggregator.cli.service.parties import open_aggregator, open_collector
from aggregator.client import Outbox, Outcome, Reason, Reporter, State, bulk
from aggregator.codec import decode, encode
from aggregator.collector.keys import keypair_of
from aggregator.collector.results.result import open_result
from aggregator.dap.auth import bearer_header
from aggregator.dap.ids import TaskId
from aggregator.dap.messages import (
    CollectionJobReq,
    CollectionJobResp,
    LeaderSelectedQuery,
    TimeIntervalQuery,
)
from aggregator.dap.resources import media_type, path
from aggregator.dap.times import Interval
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import task_from_toml
from aggregator.service.storage.engine.states import LedgerState
from aggregator.service.storage.ledger.charges import list_ledger
from aggregator.service.storage.reports.counters import Stage, report_counts
from tests.support.balance import check_books
from tests.support.bounds import assert_near
from tests.support.processes import Processes
from tests.support.through_http import ThroughHttp

HOUR = 3600


@dataclasses.dataclass(frozen=True)
class MeasuredTask:
    """A task and its measurements, as its clients and its collector know them.

    Attributes:
        services: Who runs it.
        task_id: Its name.
        task_file: Its public file.
        token: The collector's, for the leader.
        start: When all was measured, in seconds: the beginning of an hour.
        measurements: Indices of buckets.
        length: How many buckets there are.
    """

    services: Processes
    task_id: str
    task_file: Path
    token: str = dataclasses.field(repr=False)
    start: int
    measurements: list[int]
    length: int

    @property
    def task(self) -> Task:
        return task_from_toml(self.task_file.read_text())

    @property
    def request(self) -> CollectionJobReq:
        if self.task.batching.leader_selects:
            return CollectionJobReq(LeaderSelectedQuery())
        return CollectionJobReq(TimeIntervalQuery(Interval.of(self.start // HOUR, 1)))

    @property
    def truth(self) -> list[int]:
        counts = Counter(self.measurements)
        return [counts[bucket] for bucket in range(self.length)]

    async def upload(self, http: httpx.AsyncClient, reports_per_request: int) -> None:
        """Upload everything, however long an aggregator is away; no report may be refused."""
        sender = ThroughHttp(http)

        def send() -> None:
            with closing(Outbox(None)) as outbox:
                task = self.task
                reporter = Reporter(
                    task, outbox, sender=sender, reports_per_request=reports_per_request
                )
                reporter.put_many(self.measurements, seconds=self.start)
                outcomes = bulk.Counts()
                while reporter.waiting():
                    found = bulk.upload(reporter, outbox, (), sleep=lambda _: time.sleep(0.2))
                    assert found.reason in (None, *Reason)
                    outcomes += found.outcomes
                counted = task.task_id.value, Outcome(State.COUNTED)
                assert outcomes == {counted: len(self.measurements)}

        await anyio.to_thread.run_sync(send, abandon_on_cancel=True)

    async def collect(self, http: httpx.AsyncClient) -> bytes:
        """Ask for the batch until it is there; return the leader's answer as it came."""
        leader = self.task.configuration.leader_aggregator_endpoint.rstrip("/")
        headers = {
            "authorization": bearer_header(self.token),
            "content-type": media_type(CollectionJobReq.message),
        }
        created = await http.post(
            leader + path("collection_jobs", task_id=self.task.task_id),
            content=encode(self.request),
            headers=headers,
        )
        assert created.is_success, created.text
        body = created.content
        while not body:
            await anyio.sleep(0.2)
            answer = await http.get(leader + created.headers["location"], headers=headers)
            assert answer.is_success, answer.text
            body = answer.content
        return body

    def open(self, body: bytes) -> list[int]:
        """Return the values of the leader's answer, which must count every report."""
        with open_collector(self.services.configs["collector"]) as party:
            result = open_result(
                self.task, keypair_of(party.database), self.request, decode(CollectionJobResp, body)
            )
        assert result.report_count == len(self.measurements)
        values = [value for value in result.values if value is not None]
        assert len(values) == self.length
        return values

    def assert_right(self, values: list[int]) -> None:
        """Check that the values are as near to the true counts as the noise allows."""
        if self.task.policy.mechanism.is_noisy:
            assert_near(values, self.truth, self.task_file.read_text())
        else:
            assert values == self.truth

    def aggregated(self, party: str) -> dict[str, int]:
        """Return how many reports an aggregator took or refused, by reason."""
        with open_aggregator(self.services.configs[party]) as opened:
            return dict(
                opened.database.read_sync(
                    "count reports",
                    lambda tx: report_counts(tx, self.task.task_id.value, Stage.AGGREGATION),
                )
            )

    def assert_counted_once(self) -> None:
        """Check that each aggregator added up every report once, and released once."""
        for party in ("leader", "helper"):
            assert self.aggregated(party) == {"aggregated": len(self.measurements)}, party
            with open_aggregator(self.services.configs[party]) as opened:
                task_id = TaskId.parse(self.task_id).value
                entries = opened.database.read_sync("list ledger", list_ledger)
                states = [each.state for each in entries if each.task_id == task_id]
                if party == "leader":
                    opened.database.read_sync("books", partial(check_books, task_id=task_id))
            assert states == [LedgerState.CHARGED], party


def make_measured_task(
    services: Processes, name: str, reports: int, length: int, start: int, *options: str
) -> MeasuredTask:
    """Make a histogram task, and draw its measurements.

    Args:
        services: Who runs it.
        name: The name of its folder; it also seeds the measurements.
        reports: How many measurements; also the fewest that a batch may have.
        length: How many buckets.
        start: When all is measured, in seconds: the beginning of an hour.
        options: Of `prio task new`, for its privacy, such as `--epsilon=1`, and its batch mode.
    """
    task_id, task_file = services.make_task(
        name,
        *("--vdaf", "Prio3Histogram", "--length", str(length), *options),
        *("--min-batch-size", str(reports), "--max-reports", "1000000"),
    )
    secrets = tomllib.loads(task_file.with_name("collector.toml").read_text())["secrets"]
    draw = random.Random(name)  # noqa: S311 - no secret
    measurements = [min(draw.randrange(length), draw.randrange(length)) for _ in range(reports)]
    return MeasuredTask(
        services, task_id, task_file, secrets["collector_token"], start, measurements, length
    )
