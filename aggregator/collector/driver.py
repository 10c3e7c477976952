"""Drives the Collector's pending collections: asks the Leader, polls and stores the results.

A collection is stored before the Leader is asked, and the Leader is told to forget its job only
after the result is stored, so a crash at any point loses nothing: the same request goes on with the
same job.
"""

import json
import math
from fractions import Fraction

import anyio
import httpx
import structlog

from aggregator.codec import decode
from aggregator.collector.collect import POLL_SECONDS, Collection, Collector, Pending
from aggregator.collector.documents import result_document
from aggregator.dap.hpke import HpkeKeypair
from aggregator.dap.messages import CollectionJobReq
from aggregator.dap.problems import problem_document
from aggregator.errors import PeerError
from aggregator.protocol.results import DEFAULT_CONFIDENCE, Result, UnusableResult
from aggregator.protocol.task import Task, task_from_toml
from aggregator.storage import collector as store
from aggregator.storage.collector import CollectorTask, StoredCollection
from aggregator.storage.database import Database
from aggregator.storage.states import CollectionState
from aggregator.transport.peer import PeerRefused, PeerUnreachable

log = structlog.get_logger()

RETRY_SECONDS = 5
"""How long to wait before asking a leader again that did not answer."""


class Driver:
    """Finishes pending collections.

    Args:
        database: The Collector's store.
        keypair: The Collector's HPKE key pair.
        http: Sends the requests.
        confidence: The confidence level of the error bars.

    Attributes:
        trouble: Why the leader did not answer the last request; empty if it did.
    """

    def __init__(
        self,
        database: Database,
        keypair: HpkeKeypair,
        http: httpx.AsyncClient,
        confidence: Fraction = DEFAULT_CONFIDENCE,
    ) -> None:
        self._database = database
        self._keypair = keypair
        self._http = http
        self._confidence = confidence
        self._wake = anyio.Event()
        self.trouble = ""

    def wake(self) -> None:
        """Look at the pending collections now, because there is a new one."""
        self._wake.set()

    async def run(self, stop: anyio.Event) -> None:
        """Finish what is pending until `stop` is set; whatever is left goes on next time."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._drive)
            await stop.wait()
            group.cancel_scope.cancel()

    async def _drive(self) -> None:
        while True:
            # Made before the look, so that the next look sees what is added during this one.
            self._wake = anyio.Event()
            wait = await self.step()
            with anyio.move_on_after(math.inf if wait is None else wait):
                await self._wake.wait()

    async def finish(self, collection_id: bytes) -> None:
        """Poll one collection until it has ended."""
        while (wait := await self.step(collection_id)) is not None:  # noqa: ASYNC110 - it is polled
            await anyio.sleep(wait)

    async def step(self, only: bytes | None = None) -> float | None:
        """Ask once for every pending collection, or for `only` that one.

        Returns:
            The seconds to wait before the next step; None if nothing is pending any more.
        """
        pending = await self._database.read(
            "list pending collections",
            lambda tx: store.list_collections(tx, state=CollectionState.PENDING),
        )
        waits = [
            await self._ask_or_wait(stored)
            for stored in pending
            if only is None or stored.collection_id == only
        ]
        return min((wait for wait in waits if wait is not None), default=None)

    async def _ask_or_wait(self, stored: StoredCollection) -> float | None:
        """Ask for one collection; its failure does not hold up the others."""
        try:
            return await self._ask(stored)
        except Exception:  # the outermost edge: logged, and asked again
            log.exception("asking failed", collection=stored.collection_id.hex())
            return RETRY_SECONDS

    async def _ask(self, stored: StoredCollection) -> float | None:
        """Ask for one collection; return the seconds to wait, or None if it has ended."""
        record = await self._database.read(
            "get task", lambda tx: store.get_collector_task(tx, stored.task_id)
        )
        if record is None:
            await self._fail(stored, {"title": "the task is not known any more"})
            return None
        task = task_from_toml(record.definition)
        try:
            collection, state = await self._start_or_poll(task, record, stored)
        except PeerRefused as error:
            await self._fail(stored, problem_document(error.problem, task.task_id))
        except UnusableResult as error:
            await self._fail(stored, {"title": "the result cannot be used", "detail": str(error)})
        except PeerError as error:
            self.trouble = str(error)
            asked_for = error.retry_after if isinstance(error, PeerUnreachable) else None
            wait = asked_for or RETRY_SECONDS
            log.info(
                "no answer yet",
                task=str(task.task_id),
                collection=stored.collection_id.hex(),
                reason=str(error),
                next_in=f"{wait}s",
            )
            return float(wait)
        else:
            self.trouble = ""
            if isinstance(state, Pending):
                return float(state.retry_after)
            await self._finish(task, record, stored, collection, state)
        return None

    async def _start_or_poll(
        self, task: Task, record: CollectorTask, stored: StoredCollection
    ) -> tuple[Collection, Result | Pending]:
        collector = self._collector(task, record)
        if stored.location is not None:
            collection = Collection(stored.request, stored.location)
            return collection, await collector.poll(collection)
        collection, state = await collector.start(decode(CollectionJobReq, stored.request))
        if await self._database.read(
            "look for location",
            lambda tx: store.is_finished(tx, stored.task_id, collection.location),
        ):
            # An equal request was answered by this job, and the leader was not told to forget it.
            await collector.forget(collection)
            return collection, Pending(POLL_SECONDS)
        await self._database.run(
            "set collection location",
            lambda tx: store.set_location(tx, stored.collection_id, collection.location),
        )
        return collection, state

    async def _finish(
        self,
        task: Task,
        record: CollectorTask,
        stored: StoredCollection,
        collection: Collection,
        result: Result,
    ) -> None:
        document = json.dumps(result_document(task, result))
        await self._database.run(
            "finish collection",
            lambda tx: store.finish_collection(tx, stored.collection_id, document),
        )
        log.info(
            "collection finished",
            collection=stored.collection_id.hex(),
            task=str(task.task_id),
            report_count=result.report_count,
        )
        try:
            await self._collector(task, record).forget(collection)
        except PeerError as error:
            # The leader keeps a job that it could have dropped; the result is safe here.
            log.info("leader keeps the collection job", reason=str(error))

    async def _fail(self, stored: StoredCollection, problem: dict[str, object]) -> None:
        document = json.dumps(problem)
        await self._database.run(
            "fail collection",
            lambda tx: store.fail_collection(tx, stored.collection_id, document),
        )
        log.info("collection failed", collection=stored.collection_id.hex(), problem=document)

    def _collector(self, task: Task, record: CollectorTask) -> Collector:
        return Collector(task, self._keypair, record.token, self._http, confidence=self._confidence)
