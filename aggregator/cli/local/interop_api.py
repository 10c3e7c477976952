"""The interoperability test API, by which a test runner gives orders to a party.

Every request is a POST of JSON to `/internal/test/…`; every answer is 200, and its `status` gives
the outcome. Only for tests: anybody who reaches the API can make us do anything. Browsers are
refused, or any page that the operator looks at could give orders.
Source: draft-dcook-ppm-dap-interop-test-design.
"""

import dataclasses
import json
from collections.abc import Awaitable, Callable, Mapping

import httpx
from anyio import to_thread
from fastapi import APIRouter, Request, Response

from aggregator.cli.local.interop_tasks import Members, number_of, optional, task_of, text_of
from aggregator.cli.service.parties import AggregatorParty
from aggregator.cli.service.taking_part import take_part
from aggregator.cli.service.task_making import collector_config_of
from aggregator.client import AsyncClient
from aggregator.codec import encode
from aggregator.collector.collect import Collection, Pending, TaskCollector
from aggregator.collector.results.result import Result, collection_request
from aggregator.dap.auth import TokenHeader
from aggregator.dap.hpke import HpkeKeypair, generate_keypair
from aggregator.dap.ids import TaskId, encode_base64url
from aggregator.dap.messages import CollectionJobReq
from aggregator.dap.profile import Profile, Role
from aggregator.entropy import SystemEntropy
from aggregator.errors import AggregatorError, ParameterError
from aggregator.protocol.provisioning import provision_text
from aggregator.protocol.task import Task
from aggregator.service.web.messages import read_bytes

PREFIX = "/internal/test/"
MAX_BODY = 2**22
Answer = dict[str, object]
Handler = Callable[[Members], Awaitable[Answer]]


@dataclasses.dataclass(frozen=True, slots=True)
class Habits:
    """Settings that the API cannot express for a task."""

    profile: Profile
    token_header: TokenHeader


def interop_router(handlers: Mapping[str, Handler]) -> APIRouter:
    """Return the routes of one party, from the function for each order by its name."""
    router = APIRouter()
    for name, handler in {"ready": _ready, **handlers}.items():
        router.add_api_route(PREFIX + name, _route(handler), methods=["POST"])
    return router


def _route(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        try:
            if "origin" in request.headers:  # browsers send it with a POST, test runners never
                raise ParameterError("Origin: no web page may give orders")
            made = await handler(await _members(request))
        except (AggregatorError, OSError) as error:
            made = {"status": "error", "error": str(error)}
        return Response(json.dumps(made), media_type="application/json")

    return answer


async def _members(request: Request) -> Members:
    body = await read_bytes(request, MAX_BODY)
    try:
        members = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        members = None
    if not isinstance(members, dict):
        raise ParameterError("the request is no JSON object")
    return members


async def _ready(_members: Members) -> Answer:
    return {}


class InteropAggregator:
    """Takes tasks for a leader or a helper."""

    def __init__(self, party: AggregatorParty, habits: Habits) -> None:
        """Add tasks to the store of `party`."""
        self._party = party
        self._habits = habits

    def router(self) -> APIRouter:
        """Return its routes."""
        return interop_router(
            {"add_task": self.add_task, "endpoint_for_task": self.endpoint_for_task}
        )

    async def endpoint_for_task(self, _members: Members) -> Answer:
        """Return where the resources are: beside the API."""
        return {"status": "success", "endpoint": "/"}

    async def add_task(self, members: Members) -> Answer:
        """Take part in a task."""
        role = text_of(members, "role").lower()
        if role != self._party.role.name.lower():
            raise ParameterError(f"role: this is the {self._party.role.name.lower()}, not {role}")
        config = collector_config_of(text_of(members, "collector_hpke_config"))
        task = task_of(members, config, self._habits.profile, self._habits.token_header)
        collector_token = optional(members, "collector_authentication_token")
        secrets = {
            "verify_key": text_of(members, "vdaf_verify_key"),
            "leader_token": text_of(members, "leader_authentication_token"),
            "collector_token": None if collector_token is None else str(collector_token),
        }
        text = provision_text(task, self._party.role, secrets)
        await to_thread.run_sync(take_part, self._party, text)
        return {"status": "success"}


class InteropClient:
    """Uploads the measurements it is told to."""

    def __init__(self, http: httpx.AsyncClient, habits: Habits) -> None:
        """Send over `http`."""
        self._http = http
        self._habits = habits

    def router(self) -> APIRouter:
        """Return its routes."""
        return interop_router({"upload": self.upload})

    async def upload(self, members: Members) -> Answer:
        """Upload one measurement."""
        nobody = generate_keypair(0, SystemEntropy()).config  # no client seals to the collector
        task = task_of(members, nobody, self._habits.profile, self._habits.token_header)
        when = None if optional(members, "time") is None else number_of(members, "time")
        measurement = _measurement(members)
        async with AsyncClient(task) as client:
            summary = await client.upload([measurement], time=when)
        if summary.refused:
            (reason,) = summary.refused
            raise ParameterError(f"the leader refused the report: {reason}")
        return {"status": "success"}


def _measurement(members: Members) -> int | list[int]:
    value = optional(members, "measurement")
    if isinstance(value, list):
        return [number_of({"measurement": each}, "measurement") for each in value]
    return number_of(members, "measurement")


@dataclasses.dataclass(slots=True)
class _Collecting:
    """A collection with a handle, and its result once there is one."""

    task: Task
    collector: TaskCollector
    collection: Collection
    result: Result | None = None


class InteropCollector:
    """Collects the batches it is told to; everything is in memory only."""

    def __init__(self, http: httpx.AsyncClient, habits: Habits) -> None:
        """Send over `http`."""
        self._http = http
        self._habits = habits
        self._tasks: dict[TaskId, tuple[Task, HpkeKeypair, str]] = {}
        self._collections: dict[str, _Collecting] = {}

    def router(self) -> APIRouter:
        """Return its routes."""
        return interop_router(
            {
                "add_task": self.add_task,
                "collection_start": self.collection_start,
                "collection_poll": self.collection_poll,
                "collect_start": self.collection_start,
                "collect_poll": self.collection_poll,
            }
        )

    async def add_task(self, members: Members) -> Answer:
        """Make a key pair for a task's results."""
        keypair = generate_keypair(len(self._tasks) % 256, SystemEntropy())
        task = task_of(members, keypair.config, self._habits.profile, self._habits.token_header)
        if task.task_id in self._tasks:
            raise ParameterError(f"task_id: {task.task_id} is known already")
        token = text_of(members, "collector_authentication_token")
        self._tasks[task.task_id] = task, keypair, token
        config = encode_base64url(encode(keypair.config))
        return {"status": "success", "collector_hpke_config": config}

    async def collection_start(self, members: Members) -> Answer:
        """Ask the leader for a batch."""
        task_id = TaskId.parse(text_of(members, "task_id"))
        if task_id not in self._tasks:
            raise ParameterError(f"task_id: {task_id} is not known")
        task, keypair, token = self._tasks[task_id]
        if optional(members, "agg_param") not in (None, ""):
            raise ParameterError("agg_param: must be empty for Prio3")
        collector = TaskCollector(task, keypair, token, self._http)
        collection, state = await collector.start(_request(task, members))
        handle = encode_base64url(SystemEntropy().bytes(16))
        collecting = _Collecting(task, collector, collection)
        self._collections[handle] = collecting
        await self._note(collecting, state)
        return {"status": "success", "handle": handle}

    async def collection_poll(self, members: Members) -> Answer:
        """Return how far a collection is."""
        collecting = self._collections.get(text_of(members, "handle"))
        if collecting is None:
            raise ParameterError("handle: is of no collection")
        if collecting.result is None:
            await self._note(collecting, await collecting.collector.poll(collecting.collection))
        result = collecting.result
        if result is None:
            return {"status": "in progress"}
        precision, interval = collecting.task.time_precision, result.interval
        values = [str(value) for value in result.values]
        is_vector = collecting.task.prio3.circuit.output_len > 1
        return {
            "status": "complete",
            "batch_id": None,  # no message names it
            "report_count": result.report_count,
            "interval_start": interval.start.units * precision,
            "interval_duration": interval.duration.units * precision,
            "result": values if is_vector else values[0],
        }

    async def _note(self, collecting: _Collecting, state: Result | Pending) -> None:
        if not isinstance(state, Pending):
            collecting.result = state
            await collecting.collector.forget(collecting.collection)


def _request(task: Task, members: Members) -> CollectionJobReq:
    query = optional(members, "query")
    if not isinstance(query, dict):
        raise ParameterError("query: must be an object")
    mode = number_of(query, "type")
    if mode != task.configuration.batch_mode:
        raise ParameterError(f"query.type: must be {int(task.configuration.batch_mode)}")
    if task.batching.has_ids:
        return collection_request(task, {})
    start = number_of(query, "batch_interval_start")
    return collection_request(
        task, {"start": start, "end": start + number_of(query, "batch_interval_duration")}
    )


ROLES = {
    role.name.lower(): role for role in (Role.CLIENT, Role.LEADER, Role.HELPER, Role.COLLECTOR)
}
"""The roles, by the names that the command has for them."""
