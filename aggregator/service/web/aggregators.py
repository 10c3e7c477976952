"""What the leader's and the helper's resources share: looking up tasks, reading, deleting."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from fastapi import Request, Response

from aggregator.dap.ids import Identifier
from aggregator.dap.problems import NotNamedByCaller, Problem, UnrecognizedTask
from aggregator.dap.profile import Role
from aggregator.dap.resources import Resource, resources_of
from aggregator.protocol.in_band import HEADER, configuration_in
from aggregator.service.runtime import Runtime, ServedTask
from aggregator.service.runtime.in_band import check_id
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.telemetry.tracing import note
from aggregator.service.web.at_once import AtOnce
from aggregator.service.web.auth import check_token, note_known
from aggregator.service.web.fast_route import Handler
from aggregator.service.web.messages import (
    empty_response,
    encoded_response,
    id_of,
    recorded,
    task_id_of,
)

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class Kind:
    """A kind of resource that can be read and deleted: its name, id type and missing problem.

    Spans name one unless its id is a secret.
    """

    name: str
    identifier: type[Identifier]
    unknown: type[Problem]
    is_secret: bool = False

    def id_of(self, request: Request) -> bytes:
        """Return the id in the request's path."""
        parameter = self.name.replace(" ", "_") + "_id"
        resource_id = id_of(request, self.identifier, parameter, self.unknown).value
        if not self.is_secret:
            note(resource=resource_id.hex())
        return resource_id

    def missing(self, served: ServedTask) -> Problem:
        """Return the problem that the task has no such resource."""
        return self.unknown(f"no such {self.name}", served.task.task_id)


class AggregatorResources:
    """The part of an aggregator's resources that is the same for both roles."""

    def __init__(self, runtime: Runtime, hpke_cache_seconds: int) -> None:
        """Answer for `runtime`; clients may cache our configurations for `hpke_cache_seconds`."""
        self._runtime = runtime
        self._hpke_cache_seconds = hpke_cache_seconds

    def _fast(
        self, role: Role, handlers: Mapping[tuple[str, str], Handler]
    ) -> dict[Resource, Handler]:
        """Return resources of `role` by method and name, which bypass the framework's layers."""
        return {
            resource: recorded(resource, handlers[resource.method, resource.name])
            for resource in resources_of(role)
            if (resource.method, resource.name) in handlers
        }

    def at_once(self) -> dict[Resource, AtOnce]:
        """Return what needs no task for each request; nothing unless a role says otherwise."""
        return {}

    async def hpke_config(self, _request: Request) -> Response:
        """Advertise our HPKE configurations."""
        max_age = f"max-age={self._hpke_cache_seconds}"
        return encoded_response(await self._runtime.configs(), {"Cache-Control": max_age})

    async def _authorised(self, request: Request) -> ServedTask:
        """Return the task of a request whose sender has shown a valid token for it.

        If the request brings the task, that is the token which was agreed on with its partner.
        """
        task_id, given, in_band = task_id_of(request), self._given(request), self._runtime.in_band

        def check(stored: Sequence[bytes]) -> None:
            hashes = stored
            if not stored and in_band is not None:
                hashes = in_band.caller_hashes(given)
            check_token(request, hashes)
            if given is not None:
                check_id(task_id, given)

        served = await self._runtime.callers_task(task_id, check)
        note_known(request)
        if served is None:
            if given is None or in_band is None:
                raise UnrecognizedTask("no such task here", task_id)
            await in_band.add(task_id, given, by_upload=False)
            # A task that we have may have other tokens, or none that are valid.
            served = await self._runtime.callers_task(task_id, partial(check_token, request))
            if served is None:
                raise UnrecognizedTask("no such task here", task_id)
        return served

    def _given(self, request: Request) -> bytes | None:
        """Return the configuration that a request brings, if tasks may come in band."""
        if self._runtime.in_band is None:
            return None
        return configuration_in(request.headers.getlist(HEADER))

    async def _named(
        self, request: Request, kind: Kind, *, where_collectors_select: bool = False
    ) -> tuple[ServedTask, bytes]:
        """Return the task of a request to create a resource, and the id that its sender chose."""
        served = await self._authorised(request)
        selects = where_collectors_select and served.task.batching.collector_selects
        if not (served.task.profile.creator_names or selects):
            raise NotNamedByCaller("use POST", served.task.task_id)
        return served, kind.id_of(request)

    async def _found(
        self, request: Request, kind: Kind, get: Callable[[Transaction, bytes, bytes], T | None]
    ) -> tuple[ServedTask, T]:
        """Return a request's task and the resource that it names, or raise its problem."""
        served = await self._authorised(request)
        resource_id = kind.id_of(request)
        found = await self._runtime.database.read(
            f"get {kind.name}", lambda tx: get(tx, served.task.task_id.value, resource_id)
        )
        if found is None:
            raise kind.missing(served)
        return served, found

    async def _deleted(
        self, request: Request, kind: Kind, delete: Callable[[Transaction, bytes, bytes], bool]
    ) -> Response:
        """Delete the resource that a request names, or raise its problem."""
        served = await self._authorised(request)
        resource_id = kind.id_of(request)
        was_there = await self._runtime.database.run(
            f"delete {kind.name}", lambda tx: delete(tx, served.task.task_id.value, resource_id)
        )
        if not was_there:
            raise kind.missing(served)
        return empty_response()
