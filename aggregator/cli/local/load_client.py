"""Many clients on one machine: real reports, sealed beforehand, sent over a few connections.

It speaks just enough HTTP for that, because a client library would take longer than the leader.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence

from aggregator.cli.local.load_permits import Given
from aggregator.codec import decode, encode
from aggregator.dap.hpke import HpkeConfig, HpkeConfigList
from aggregator.dap.messages import UploadRequest
from aggregator.dap.resources import media_type, path
from aggregator.dap.times import Time
from aggregator.dap.urls import read_endpoint
from aggregator.entropy import SystemEntropy
from aggregator.errors import PeerError
from aggregator.protocol.reports import prepare_reports, seal_reports
from aggregator.protocol.task import Task
from aggregator.vdaf.circuits.measurements import Measurement

_OK = b"HTTP/1.1 200"


def configs(task: Task) -> tuple[HpkeConfig, HpkeConfig]:
    """Return the HPKE configurations of a task's leader and helper."""
    import httpx

    endpoints = (
        task.configuration.leader_aggregator_endpoint,
        task.configuration.helper_aggregator_endpoint,
    )
    found = []
    for endpoint in endpoints:
        answer = httpx.get(endpoint.rstrip("/") + path("hpke_config"), trust_env=False)
        found.append(decode(HpkeConfigList, answer.raise_for_status().content).preferred())
    return found[0], found[1]


def sealed(
    task: Task,
    keys: tuple[HpkeConfig, HpkeConfig],
    measurements: Sequence[Measurement],
    when: Time,
    per_request: int,
    progress: Callable[[int], None],
    given: Given | None = None,
) -> list[bytes]:
    """Return the bodies of the requests that upload the measurements.

    `given` has a permit for each, if the task needs them.
    """
    bodies = []
    for first in range(0, len(measurements), per_request):
        some = measurements[first : first + per_request]
        mine = given and given.between(first, first + per_request)
        permits = (None, None) if mine is None else (mine.openings, mine.signatures)
        prepared = prepare_reports(task, some, when, SystemEntropy(), *permits)
        reports = tuple(seal_reports(task, prepared, *keys, SystemEntropy()))
        bodies.append(encode(UploadRequest(reports)))
        progress(len(some))
    return bodies


def send(task: Task, bodies: Sequence[bytes], connections: int) -> list[float]:
    """Send requests; return the seconds until each was answered, sorted.

    Raises `PeerError`, with the first line of the answer, if a request or a report was refused.
    """
    return sorted(asyncio.run(_send(task, iter(bodies), min(connections, len(bodies)))))


async def _send(task: Task, bodies: Iterable[bytes], connections: int) -> list[float]:
    seconds: list[float] = []
    await asyncio.gather(*(_connection(task, bodies, seconds) for _ in range(connections)))
    return seconds


async def _connection(task: Task, bodies: Iterable[bytes], seconds: list[float]) -> None:
    url = read_endpoint(task.configuration.leader_aggregator_endpoint, "leader")
    head = (
        f"POST {url.path.rstrip('/')}{path('reports', task_id=task.task_id)} HTTP/1.1\r\n"
        f"host: {url.authority}\r\ncontent-type: {media_type(UploadRequest.message)}\r\n"
    )
    reader, writer = await asyncio.open_connection(url.host, url.port)
    try:
        for body in bodies:
            began = time.perf_counter()
            writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            seconds.append(time.perf_counter() - began)
            if not answer.startswith(_OK) or b"content-length: 0\r\n" not in answer.lower():
                first = answer.partition(b"\r\n")[0].decode("latin-1")
                raise PeerError(f"the leader has refused reports: {first}")
    finally:
        writer.close()
