"""Drives the Collector's pending collections: asks the Leader, polls and stores the results.

It also tells the Leader which collections were given up (`abandoning`).

A collection is stored before the Leader is asked, and the Leader is told to forget its job only
after the result is stored, so a crash at any point loses nothing: the same request goes on with the
same job. Collections do not wait for each other, only for permits (`transport.permits`).
"""

import json
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

import anyio
import httpx
from anyio.abc import TaskGroup

from aggregator.codec import decode
from aggregator.collector import store
from aggregator.collector.abandoning import tell_leader
from aggregator.collector.bundles import HandedIn, fill
from aggregator.collector.collect import POLL_SECONDS, Collection, Pending, TaskCollector
from aggregator.collector.documents import result_document
from aggregator.collector.results.result import Result, UnusableResult
from aggregator.collector.store import CollectorTask, NewCollection, StoredCollection
from aggregator.dap.hpke import HpkeKeypair
from aggregator.dap.ids import TaskId
from aggregator.dap.messages import CollectionJobReq, Report
from aggregator.dap.problems import is_final, problem_document
from aggregator.dap.urls import origin
from aggregator.errors import AggregatorError, PeerError, StoreError
from aggregator.protocol.answers_so_far import AnswersSoFar
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import task_from_toml
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.states import CollectionState
from aggregator.service.telemetry.lines import log
from aggregator.service.transport.interpretation import PeerRefused, PeerUnreachable
from aggregator.service.transport.permits import Demand, Permits

RETRY_SECONDS = 5
"""How long to wait before asking a silent leader again."""

CONCURRENCY = 16
"""The most collections that are asked for at once."""

LEADER_CONCURRENCY = 4
"""The most of these that may wait for one leader."""

TELL_SECONDS = 60
"""How long to wait before telling a leader again that a collection was given up."""

LOOK_SECONDS = 10
"""How often to look for collections that other processes of this party have begun, such as a
`prio collect` that was stopped before its end."""

UNUSABLE_ANSWERS = 3
"""A collection fails after this many unusable results; a single one may have been garbled."""


class Driver:
    """Finishes pending collections.

    A collection fails if the leader decides so, or if its result stays unusable. Any fault that can
    be repaired, such as a wrong token, makes it wait, with the reason in its row.
    """

    def __init__(self, database: Database, keypair: HpkeKeypair, http: httpx.AsyncClient) -> None:
        self._database = database
        self._keypair = keypair
        self._http = http
        self._permits = Permits(CONCURRENCY, LEADER_CONCURRENCY, time.monotonic)
        self._leaders: dict[bytes, str] = {}
        self._asked: set[bytes] = set()
        self._due_at: dict[bytes, float] = {}
        self._unusable: Counter[bytes] = Counter()

    def wake(self) -> None:
        """Look at the pending collections now, because there is a new one."""
        self._permits.wake()

    async def run(self, stop: anyio.Event) -> None:
        """Finish pending collections until `stop` is set; the rest goes on at the next start."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._drive)
            await stop.wait()
            group.cancel_scope.cancel()

    async def answers_so_far(self, task: Task) -> AnswersSoFar:
        """Return how many answers the leader of a task says that it has, or raise `PeerError`."""
        record = await self._record(task.task_id.value)
        if record is None:
            raise PeerError("the task is not known any more")
        return await self._collector(task, record).answers_so_far()

    async def hand_in(self, task: Task, new: NewCollection, reports: Sequence[Report]) -> HandedIn:
        """Hand in a bundle of reports, whose collection goes on like any other.

        If it breaks off, it is given up until the leader has heard that: its reports may be handed
        in again then.

        Raises `PeerError` if the leader does not take it, or an equal one is under way.
        """
        record, name = await self._record(task.task_id.value), new.collection_id
        if record is None:
            raise PeerError("the task is not known any more")
        collector = self._collector(task, record)
        self._asked.add(name)  # so that nobody asks for the same job while it is filled
        try:
            stored = await self._database.run("put", lambda tx: store.put_collection(tx, new))
            if stored.collection_id != name:
                raise PeerError("another bundle with this epsilon is under way: wait for it")
            try:
                collection, _ = await collector.start(decode(CollectionJobReq, new.request))
                where = collection.location
                await self._database.run("locate", lambda tx: store.set_location(tx, name, where))
                return await fill(collector, collection, reports)
            except BaseException as error:
                why = str(error) if isinstance(error, AggregatorError) else "it was broken off"
                with anyio.CancelScope(shield=True):
                    await self._break_off(name, f"the bundle was not handed in: {why}")
                raise
        finally:
            self._asked.discard(name)
            self.wake()

    async def ask(self, collection_id: bytes) -> float | None:
        """Ask once for a collection, or tell the leader once that it was given up.

        Returns the seconds to wait before the next time; None if nothing is left to do.
        """
        stored = await self._database.read(
            "get collection", lambda tx: store.get_collection(tx, collection_id)
        )
        steps = {CollectionState.PENDING: self._ask, CollectionState.ABANDONED: self._tell}
        if stored is None or stored.state not in steps:
            return None
        try:
            return await steps[stored.state](stored)
        except Exception as error:  # the outermost edge: logged, and asked again
            log.exception("asking failed", collection=collection_id.hex())
            # Only messages of our own errors are known to hold no secret.
            reason = str(error) if isinstance(error, AggregatorError) else type(error).__name__
            with suppress(StoreError):
                await self._note(stored, reason)
            return RETRY_SECONDS

    async def _drive(self) -> None:
        async with anyio.create_task_group() as group:
            while True:
                try:
                    wait = await self._begin(group)
                except StoreError as error:
                    log.exception("the pending collections cannot be read", reason=str(error))
                    wait = RETRY_SECONDS
                await self._permits.wait(wait)

    async def _begin(self, group: TaskGroup) -> float:
        """Begin to ask for collections that are due, as far as permits go.

        Returns:
            The seconds until more may be due.
        """
        unended = await self._database.read(
            "list pending collections",
            lambda tx: [
                *store.list_collections(tx, state=CollectionState.PENDING),
                *store.list_untold_collections(tx),
            ],
        )
        now = anyio.current_time()
        waiting = [each for each in unended if each.collection_id not in self._asked]
        due_at = {each.collection_id: self._due_at.get(each.collection_id, now) for each in waiting}
        self._due_at = due_at
        due = sorted(
            (each for each in waiting if due_at[each.collection_id] <= now),
            key=lambda each: due_at[each.collection_id],
        )
        counts = Counter(each.task_id for each in due)
        shares = self._permits.shares(
            [Demand(task, await self._leader(task), count) for task, count in counts.items()]
        )
        left = False
        for each in due:
            if shares[each.task_id]:
                shares[each.task_id] -= 1
                host = await self._leader(each.task_id)
                self._permits.take(each.task_id, host)
                self._asked.add(each.collection_id)
                group.start_soon(self._hold, each, host)
            else:
                left = True
        later = [at - now for at in due_at.values() if at > now]
        return min([*later, LOOK_SECONDS, *([RETRY_SECONDS] if left else [])])

    async def _hold(self, stored: StoredCollection, host: str) -> None:
        """Ask for a collection, and note when it is due again."""
        try:
            wait = await self.ask(stored.collection_id)
            if wait is not None:
                self._due_at[stored.collection_id] = anyio.current_time() + wait
        finally:
            self._asked.discard(stored.collection_id)
            self._permits.give_back(stored.task_id, host)

    async def _leader(self, task_id: bytes) -> str:
        """Return the host that a task's collections wait for; unknown tasks share one."""
        host = self._leaders.get(task_id)
        if host is None:
            definition = await self._database.read(
                "get task", lambda tx: store.get_definition(tx, task_id)
            )
            if definition is None:
                return ""
            task = task_from_toml(definition)
            host = origin(task.configuration.leader_aggregator_endpoint)
            self._leaders[task_id] = host
        return host

    async def _record(self, task_id: bytes) -> CollectorTask | None:
        return await self._database.read(
            "get task", lambda tx: store.get_collector_task(tx, task_id)
        )

    async def _ask(self, stored: StoredCollection) -> float | None:
        """Ask for one collection; return the seconds to wait, or None if it has ended."""
        record = await self._record(stored.task_id)
        if record is None:
            await self._fail(stored, {"title": "the task is not known any more"})
            return None
        task = task_from_toml(record.definition)
        try:
            with self._permits.asking(origin(task.configuration.leader_aggregator_endpoint)):
                collection, state = await self._start_or_poll(task, record, stored)
        except PeerRefused as error:
            if not is_final(error.problem):
                return await self._wait(stored, str(error))
            await self._fail(stored, problem_document(error.problem, task.task_id))
        except UnusableResult as error:
            return await self._doubt(stored, str(error))
        except PeerError as error:
            asked_for = error.retry_after if isinstance(error, PeerUnreachable) else None
            return await self._wait(stored, str(error), asked_for)
        else:
            if isinstance(state, Pending):
                await self._note(stored, None)
                return float(state.retry_after)
            await self._finish(task, record, stored, collection, state)
        return None

    async def _tell(self, stored: StoredCollection) -> float | None:
        """Tell the leader of a collection that was given up; return what `ask` does."""
        record = await self._record(stored.task_id)
        if record is None:
            return None
        task = task_from_toml(record.definition)
        try:
            with self._permits.asking(origin(task.configuration.leader_aggregator_endpoint)):
                await tell_leader(self._database, self._collector(task, record), stored)
        except PeerError as error:
            asked_for = error.retry_after if isinstance(error, PeerUnreachable) else None
            reason = f"the leader has not heard that it was given up: {error}"
            return await self._wait(stored, reason, max(asked_for or 0, TELL_SECONDS))
        return None

    async def _doubt(self, stored: StoredCollection, reason: str) -> float | None:
        """Ask again after an unusable result, or fail the collection; return what `ask` does."""
        self._unusable[stored.collection_id] += 1
        if self._unusable[stored.collection_id] < UNUSABLE_ANSWERS:
            return await self._wait(stored, reason)
        await self._fail(stored, {"title": "the result cannot be used", "detail": reason})
        return None

    async def _wait(
        self, stored: StoredCollection, reason: str, asked_for: int | None = None
    ) -> float:
        """Note why a collection waits; return how many seconds it will."""
        wait = asked_for or RETRY_SECONDS
        log.info(
            "collection waits",
            task=str(TaskId(stored.task_id)),
            collection=stored.collection_id.hex(),
            reason=reason,
            next_in=f"{wait}s",
        )
        await self._note(stored, reason)
        return float(wait)

    async def _note(self, stored: StoredCollection, reason: str | None) -> None:
        if stored.reason != reason:
            await self._database.run(
                "note why a collection waits",
                lambda tx: store.note_reason(tx, stored.collection_id, reason),
            )

    async def _start_or_poll(
        self, task: Task, record: CollectorTask, stored: StoredCollection
    ) -> tuple[Collection, Result | Pending]:
        collector = self._collector(task, record)
        if stored.location is not None:
            collection = Collection(stored.request, stored.location)
            return collection, await collector.poll(collection)
        request = decode(CollectionJobReq, stored.request)
        collection, state = await collector.start(request, stored.collection_id)
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
        del self._unusable[stored.collection_id]
        document = json.dumps(result_document(task, result))
        if not await self._database.run(
            "finish collection",
            lambda tx: store.finish_collection(tx, stored.collection_id, document),
        ):
            return  # given up meanwhile
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

    async def _break_off(self, name: bytes, title: str) -> None:
        problem = json.dumps({"title": title})
        await self._database.run(
            "break off a bundle", lambda tx: store.abandon_collection(tx, name, problem)
        )
        log.warning("a bundle broke off", collection=name.hex(), reason=title)

    async def _fail(self, stored: StoredCollection, problem: dict[str, object]) -> None:
        del self._unusable[stored.collection_id]
        document = json.dumps(problem)
        if await self._database.run(
            "fail collection", lambda tx: store.fail_collection(tx, stored.collection_id, document)
        ):
            log.info("collection failed", collection=stored.collection_id.hex(), problem=document)

    def _collector(self, task: Task, record: CollectorTask) -> TaskCollector:
        return TaskCollector(task, self._keypair, record.token, self._http)
