"""Builds an aggregator from its parts, and rebuilds it when it reads its settings again."""

import dataclasses
import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeVar

import anyio
import httpx
from anyio import to_thread
from starlette.types import ASGIApp

from aggregator.cli.garbage import collect_less_often
from aggregator.cli.service.attendance import attendance, duties_of, shown_duties
from aggregator.cli.service.health_checks import SumWatch, repeating, service_of
from aggregator.cli.service.heap import GIVE_BACK_SECONDS, give_back_memory
from aggregator.cli.service.reading import Reading
from aggregator.cli.service.running import Service, Work, leave_out_of_collections
from aggregator.cli.service.starting import start
from aggregator.clock import SystemClock
from aggregator.dap.profile import Role
from aggregator.dap.resources import resources_of
from aggregator.dap.x25519 import LANES
from aggregator.entropy import SystemEntropy
from aggregator.service.config import (
    DEFERRED_LOOK_SECONDS,
    LEFT_LOOK_SECONDS,
    AggregatorSettings,
    HelperSettings,
    LeaderSettings,
)
from aggregator.service.helper.deferring import DeferredJobs
from aggregator.service.helper.routes import HelperResources
from aggregator.service.leader.collections import CollectionDriver
from aggregator.service.leader.job_creator import JobCreator
from aggregator.service.leader.job_driver import JobDriver
from aggregator.service.leader.routes import LeaderResources
from aggregator.service.runtime import Runtime
from aggregator.service.runtime.endpoint_paths import EndpointPaths
from aggregator.service.runtime.in_band import InBand, agreements_of
from aggregator.service.runtime.release_steps import delete_leftovers
from aggregator.service.runtime.report_ages import forget_old_ids
from aggregator.service.runtime.status import examine_aggregator
from aggregator.service.storage.engine.backends import Unreachable
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.presence import Duty
from aggregator.service.storage.engine.store_check import StoreCheck
from aggregator.service.storage.ledger.journal import Journal
from aggregator.service.storage.opening import open_aggregator_store
from aggregator.service.storage.reports.generations import rotate_generations
from aggregator.service.storage.reports.object_check import settle_place
from aggregator.service.storage.tasks.garbage import collect_garbage
from aggregator.service.telemetry.by_minute import ByMinute
from aggregator.service.telemetry.compiling import AWAITED
from aggregator.service.telemetry.health import Health
from aggregator.service.telemetry.lines import log
from aggregator.service.transport.client import client_of
from aggregator.service.transport.driver import DriverSettings
from aggregator.service.web.app import create_app
from aggregator.service.web.cross_origin import CrossOrigin

S = TypeVar("S", LeaderSettings, HelperSettings)

ROTATION_SECONDS = 60
"""How often HPKE keys are checked for rotation."""
GARBAGE_SECONDS = 3600
"""How often to look for data that nobody can ask for any more."""
GENERATIONS_SECONDS = 20
"""How often to look for tables of bodies whose reports have left."""
PLACE_SECONDS = 3600
"""How often an object that shows where reports lie is put anew, well within a bucket's rules."""
WARMING_SECONDS = 1
"""How soon a service that could not read its tasks tries again to compile their kernels."""


def run_leader(
    reading: Reading[LeaderSettings], *, serve: bool = True, work: bool, processes: int | None
) -> None:
    """Run the leader's application, its workers, or both, and its health listener if it has one."""
    start(
        reading,
        lambda read, part, check: _leader(
            read, check=check, **duties_of(part, serve=serve, work=work)
        ),
        processes,
        is_open=serve,
        verifies=work,
    )


def run_helper(
    reading: Reading[HelperSettings], *, serve: bool = True, work: bool, processes: int | None
) -> None:
    """Run the helper's application, its workers, or both, and its health listener if it has one."""
    start(
        reading,
        lambda read, part, check: _helper(
            read, check=check, **duties_of(part, serve=serve, work=work)
        ),
        processes,
        is_open=serve,
    )


def make_runtime(
    role: Role, settings: AggregatorSettings, database: Database, journal: Journal
) -> Runtime:
    """Return an aggregator over its open store, with the system's clock and randomness."""
    agreements = agreements_of(settings)
    in_band = None
    if agreements is not None:
        requirements, insecure = settings.requirements, settings.insecure_http
        in_band = InBand(role, database, journal, agreements, requirements, insecure_http=insecure)
    return Runtime(
        role,
        database,
        SystemClock(),
        SystemEntropy(),
        journal,
        requirements=settings.requirements,
        in_band=in_band,
        rotation=settings.rotation,
        clock_skew_seconds=settings.clock_skew_seconds,
        verification_threads=settings.verification_threads,
    )


def leader_app(runtime: Runtime, settings: LeaderSettings) -> ASGIApp:
    """Return the leader's application."""
    return _app(LeaderResources(runtime, settings), runtime, settings)


def helper_app(runtime: Runtime, settings: HelperSettings) -> ASGIApp:
    """Return the helper's application."""
    return _app(HelperResources(runtime, settings), runtime, settings)


def _app(
    answering: LeaderResources | HelperResources, runtime: Runtime, settings: AggregatorSettings
) -> ASGIApp:
    resources = resources_of(runtime.role)
    app = create_app(
        runtime.role.name.lower(),
        [answering.router()],
        settings.max_bytes_in_flight,
        fast_routes=answering.fast_routes(),
        at_once=answering.at_once(),
        below=(resources, EndpointPaths(runtime)),
    )
    return CrossOrigin(app, resources)


def leader_work(runtime: Runtime, settings: LeaderSettings, http: httpx.AsyncClient) -> list[Work]:
    """Return the leader's workers."""
    driving = DriverSettings(
        concurrency=settings.concurrency,
        lease_seconds=settings.lease_seconds,
        jobs_per_helper=settings.jobs_per_helper,
    )
    creator = JobCreator(
        runtime, job_size=settings.aggregation_job_size, linger_seconds=settings.linger_seconds
    )
    interval = settings.work_interval_seconds
    return [
        repeating(creator.run_turn, interval),
        partial(JobDriver(runtime, http, driving).run, poll_seconds=interval),
        partial(CollectionDriver(runtime, http, driving).run, poll_seconds=interval),
    ]


@asynccontextmanager
async def open_aggregator(settings: AggregatorSettings, role: Role) -> AsyncIterator[Runtime]:
    """Open an aggregator's store, in a thread, because another service may be answering."""
    database, journal = await to_thread.run_sync(open_aggregator_store, settings)
    try:
        await to_thread.run_sync(settle_place, database)
        LANES.when_off = _say_that_lanes_are_off
        runtime = make_runtime(role, settings, database, journal)
        await runtime.ensure_keypair()
        await delete_leftovers(database)
        yield runtime
    finally:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(database.close)
            journal.close()


@asynccontextmanager
async def _leader(
    settings: LeaderSettings,
    *,
    serve: bool,
    work: bool,
    others: frozenset[Duty] = frozenset(),
    began: float = -math.inf,
    check: StoreCheck | None = None,
) -> AsyncIterator[Service]:
    shown = shown_duties(others, serve=serve, work=work)
    async with (
        open_aggregator(settings, Role.LEADER) as runtime,
        attendance(runtime.database, shown) as attending,
        client_of(settings, settings.request_timeout_seconds) as http,
    ):
        sums = SumWatch(runtime.database)
        listeners = [(leader_app(runtime, settings), settings.listen)] if serve else []
        # A client that learns from this process that the leader is up can then reach the others.
        after = settings.listen if Duty.SERVE in others else None
        # The tables of bodies whose reports have left are freed.
        rotate = partial(runtime.database.run, "rotate generations", rotate_generations)
        works = [
            attending,
            *_upkeep(settings, runtime, sums),
            repeating(rotate, GENERATIONS_SECONDS),
        ]
        if settings.report_bodies is not None:
            works.append(_knowing_objects(runtime))
        if work:
            works += [warming_up(runtime), *leader_work(runtime, settings, http)]
        else:
            collect_less_often()
        examine = ByMinute(
            partial(_examine, settings, Role.LEADER, runtime, sums, began),
            lambda: {**_of_kernels(), "helper_answers": http.answers.document()},
        )
        service = await service_of(settings, listeners, works, examine, check)
        yield dataclasses.replace(service, after=after)


@asynccontextmanager
async def _helper(
    settings: HelperSettings,
    *,
    serve: bool,
    work: bool,
    others: frozenset[Duty] = frozenset(),
    began: float = -math.inf,
    check: StoreCheck | None = None,
) -> AsyncIterator[Service]:
    # What was put off before `defer_jobs` was changed is answered.
    works_too = work or not settings.defer_jobs
    shown = shown_duties(others, serve=serve, work=works_too)
    async with (
        open_aggregator(settings, Role.HELPER) as runtime,
        attendance(runtime.database, shown) as attending,
    ):
        sums = SumWatch(runtime.database)
        examine = ByMinute(
            partial(_examine, settings, Role.HELPER, runtime, sums, began),
            _of_kernels,
        )
        works = [attending, *_upkeep(settings, runtime, sums), warming_up(runtime)]
        if works_too:
            look_seconds = DEFERRED_LOOK_SECONDS if work else LEFT_LOOK_SECONDS
            deferred = DeferredJobs(runtime, settings.max_report_age_seconds)
            works.append(partial(deferred.run, poll_seconds=look_seconds))
        listeners = [(helper_app(runtime, settings), settings.listen)] if serve else []
        service = await service_of(settings, listeners, works, examine, check)
        after = settings.listen if Duty.SERVE in others else None
        yield dataclasses.replace(service, after=after)


def _say_that_lanes_are_off(why: str) -> None:
    log.error(
        "exchanges by lanes are off until the next start, and the library computes them; "
        "nothing was rejected, but this processor may be broken",
        reason=why,
    )


def _of_kernels() -> dict[str, object]:
    return {"compiling": AWAITED.records(), "exchange_lanes": LANES.state}


def _examine(
    settings: AggregatorSettings, role: Role, runtime: Runtime, sums: SumWatch, began: float
) -> Health:
    up_seconds = time.monotonic() - began
    return examine_aggregator(
        settings, role, runtime.database, runtime.journal, lambda: sums.faults, up_seconds
    )


def _knowing_objects(runtime: Runtime) -> Work:
    """Return a work that keeps an object in the object storage, to know the place by."""

    async def know() -> int:
        await to_thread.run_sync(runtime.database.know_objects)
        return 0

    return repeating(know, PLACE_SECONDS)


def warming_up(runtime: Runtime) -> Work:
    """Return a work that compiles or loads the kernels of all tasks."""
    from aggregator.service.runtime.kernel_keeper import kernel_keeper

    async def warm_up(stop: anyio.Event) -> None:
        while not stop.is_set():
            try:
                await runtime.warm_up()
            except Unreachable as error:
                log.warning("the store cannot be reached", reason=str(error))
                with anyio.move_on_after(WARMING_SECONDS):
                    await stop.wait()
            else:
                await to_thread.run_sync(leave_out_of_collections)
                kernel_keeper().after_loading = leave_out_of_collections
                return

    return warm_up


def _upkeep(
    settings: LeaderSettings | HelperSettings, runtime: Runtime, sums: SumWatch
) -> list[Work]:
    """Return what every process of an aggregator does besides requests and jobs."""

    async def collect() -> int:
        return await runtime.database.run(
            "collect garbage", lambda tx: collect_garbage(tx, settings.retention_seconds)
        )

    async def give_back() -> int:
        await to_thread.run_sync(give_back_memory)
        return 0

    # Reports are refused for their age before their ids are forgotten.
    forget = partial(forget_old_ids, runtime, settings.max_report_age_seconds)
    return [
        repeating(runtime.key_rotation().run_once, ROTATION_SECONDS),
        repeating(collect, GARBAGE_SECONDS),
        repeating(forget, GARBAGE_SECONDS),
        repeating(give_back, GIVE_BACK_SECONDS),
        sums.watch(),
    ]
