"""Tasks that count only reports with a permit, and the permits of ten people."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aggregator.dap.ids import TaskId, encode_base64url
from aggregator.dap.messages import Report, UploadErrors
from aggregator.protocol.permit_lists import listed
from aggregator.protocol.permits import Permits
from aggregator.protocol.task import Task
from aggregator.service.storage.operator.permits import WindowCount, add_permits, count_permits
from tests.support.pair import NOW, Pair, Service
from tests.support.tasks import NO_NOISE, TASK_ID, make_task

DOMAIN = bytes(range(7, 39))
PERMITS = Permits(DOMAIN)
SECRETS = [bytes([n]) * 16 for n in range(1, 11)]
OTHER_ID = TaskId(bytes(range(64, 96)))
WINDOW_SECONDS = 200


def permitted(
    task_id: TaskId = TASK_ID,
    domain: bytes = DOMAIN,
    window: int | None = 2,
    **settings: Any,  # noqa: ANN401  a task's
) -> Task:
    """Return a task of one domain, with windows of two units unless said otherwise."""
    privacy = {**NO_NOISE, **settings.pop("privacy", {})}
    if window is not None:
        privacy["window"] = window
    permits = {"domain": encode_base64url(domain)}
    return make_task(privacy=privacy, permits=permits, id=str(task_id), **settings)


def window_at(task: Task, seconds: int = NOW) -> int:
    return task.permit_window_at(task.time(seconds))


def openings(task: Task, secrets: Sequence[bytes], seconds: int = NOW) -> list[bytes]:
    window = window_at(task, seconds)
    return [PERMITS.opening(each, window) for each in secrets]


def given(service: Service, task: Task, *moments: int, secrets: Sequence[bytes] = SECRETS) -> None:
    """Give permits out for the windows of some moments, at one aggregator."""
    windows = {
        window: [PERMITS.entry_of(each, window) for each in secrets]
        for window in (window_at(task, seconds) for seconds in moments or (NOW,))
    }
    add_permits(service.database, listed(DOMAIN, windows))


@asynccontextmanager
async def permitted_pair(
    folder: Path,
    task: Task | None = None,
    **settings: Any,  # noqa: ANN401  a pair's
) -> AsyncIterator[Pair]:
    """Run a pair with permits for the windows of now and after."""
    made = Pair(folder, task or permitted(), **settings)
    try:
        await made.provision()
        moments = (NOW,) if made.task.policy.window is None else (NOW, NOW + WINDOW_SECONDS)
        for service in (made.leader, made.helper):
            given(service, made.task, *moments)
        yield made
    finally:
        await made.close()


async def reports_of(
    pair: Pair,
    secrets: Sequence[bytes],
    measurements: Sequence[int],
    seconds: int = NOW,
    task: Task | None = None,
) -> list[Report]:
    """Make reports of people with their own permits."""
    made_for = pair.task if task is None else task
    permits = openings(made_for, secrets, seconds)
    return await pair.reports(measurements, seconds, made_for, permits)


def names(pair: Pair, errors: UploadErrors) -> list[str]:
    return [pair.task.profile.report_error(each.error).draft_name for each in errors.status]


def windows(service: Service, domain: bytes = DOMAIN) -> list[WindowCount]:
    return service.database.read_sync("permits", lambda tx: count_permits(tx, domain))


def spent(service: Service) -> int:
    return sum(each.spent for each in windows(service))
