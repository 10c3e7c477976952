"""What a stranger sends: requests as bytes over sockets, whole, cut short or endless."""

import gzip
import os
import random
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from functools import cache
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Self
from urllib.parse import urljoin, urlsplit

import httpx

from aggregator.codec import decode, encode
from aggregator.dap.auth import bearer_header
from aggregator.dap.hpke import HpkeConfigList, generate_keypair
from aggregator.dap.ids import ReportId
from aggregator.entropy import SystemEntropy
from aggregator.protocol.task_file import task_from_toml
from tests.support.patience import PATIENCE_SECONDS
from tests.support.reports import make_reports

CHUNK = 2**16


def connect(url: str, seconds: float = 10) -> socket.socket:
    """Open a connection to the server of a URL; sending and receiving may take `seconds`."""
    parts = urlsplit(url)
    # With hundreds at once, one may have to ask several times before it is taken.
    connection = socket.create_connection((parts.hostname, parts.port), PATIENCE_SECONDS)
    connection.settimeout(seconds)
    return connection


def head(method: str, url: str, *headers: str) -> bytes:
    """Return the beginning of a request, without the empty line that ends its headers."""
    parts = urlsplit(url)
    lines = (f"{method} {parts.path or '/'} HTTP/1.1", f"Host: {parts.netloc}", *headers)
    return "".join(f"{line}\r\n" for line in lines).encode()


def post(url: str, message: str, size: int, *headers: str) -> bytes:
    """Return the head of a POST of `size` bytes."""
    media_type = f"Content-Type: application/ppm-dap;message={message}"
    return head("POST", url, media_type, f"Content-Length: {size}", *headers) + b"\r\n"


def send(connection: socket.socket, data: Iterator[bytes]) -> int:
    """Send until the data ends or the peer takes no more; return the bytes sent."""
    sent = 0
    with suppress(OSError):
        for chunk in data:
            connection.sendall(chunk)
            sent += len(chunk)
    return sent


def status_of(connection: socket.socket) -> int | None:
    """Return the status of the answer on a connection; None if it is closed without one."""
    try:
        answer = connection.recv(CHUNK)
    except OSError:
        return None
    return int(answer.split()[1]) if answer else None


def repeated(unit: bytes, size: int) -> Iterator[bytes]:
    """Yield chunks of `unit` over and over, `size` bytes together."""
    block = unit * (CHUNK // len(unit) + 1)
    left = size
    while left > 0:
        chunk = block[: min(len(block), left)]
        yield chunk
        left -= len(chunk)


def report_of_extensions() -> bytes:
    """Return a report whose metadata is nothing but empty extensions, 65 kB of them."""
    extensions = b"".join(struct.pack(">HH", kind, 0) for kind in range(16_383))
    metadata = bytes(16) + bytes(8) + struct.pack(">H", len(extensions)) + extensions
    ciphertext = b"\0" + struct.pack(">H", 1) + b"x" + struct.pack(">I", 1) + b"x"
    return metadata + struct.pack(">I", 0) + ciphertext + ciphertext


def small_report() -> bytes:
    """Return the smallest possible report; its sizes are no task's."""
    ciphertext = b"\0" + struct.pack(">H", 1) + b"x" + struct.pack(">I", 1) + b"x"
    return bytes(26) + struct.pack(">I", 0) + ciphertext + ciphertext


def undecryptable_reports(task_file: Path, count: int) -> bytes:
    """Return reports of now whose sizes are right for a task, and that nobody can open."""
    task = task_from_toml(task_file.read_text())
    config = generate_keypair(_leader_config_id(task_file), SystemEntropy()).config
    (report,) = make_reports(
        task, config, config, [0], task.time(int(time.time())), SystemEntropy()
    )
    rest = encode(report)[ReportId.size :]
    return b"".join(os.urandom(ReportId.size) + rest for _ in range(count))


@cache
def _leader_config_id(task_file: Path) -> int:
    """Return the id of a running leader's key, without which it takes no report."""
    leader = task_from_toml(task_file.read_text()).configuration.leader_aggregator_endpoint
    answer = httpx.get(urljoin(leader, "hpke_config"), timeout=PATIENCE_SECONDS, trust_env=False)
    return decode(HpkeConfigList, answer.content).preferred().id


def verify_init_of_extensions() -> bytes:
    """Return a report of an aggregation job, its metadata nothing but empty extensions."""
    report = report_of_extensions()
    return report[:-9] + struct.pack(">I", 1) + b"x"


def answers(url: str) -> bool:
    """Return whether an honest request is answered."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        with suppress(httpx.TransportError):
            if httpx.get(url, timeout=10, trust_env=False).status_code in (200, 404):
                return True
        time.sleep(0.1)
    return False


def is_open(connection: socket.socket) -> bool:
    """Return whether the peer keeps a connection."""
    connection.settimeout(0)
    try:
        while connection.recv(CHUNK):
            pass
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


def slow_beginnings(url: str) -> tuple[bytes, ...]:
    """Return how requests begin that then stop: before, in and after their headers."""
    return (
        b"",
        head("GET", url),
        post(url, "upload-req", 5000) + b"x",
        head("POST", url, "Transfer-Encoding: chunked") + b"\r\n5\r\nab",
    )


class Flood:
    """Requests to one resource that somebody sends who means ill, by eight connections at a time.

    Attributes:
        statuses: How often each was answered; 0 stands for a connection that broke.
    """

    THREADS = 8
    KINDS = 997
    MESSAGES = (
        "upload-req",
        "aggregation-job-init-req",
        "aggregate-share-req",
        "collection-job-req",
        "aggregation-job-continue-req",
    )

    def __init__(self, method: str, url: str, token: str, count: int) -> None:
        self.statuses: Counter[int] = Counter()
        self._parts = urlsplit(url)
        self._kinds = list(self._requests(method, token))
        self._left = iter(range(count))
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._send) for _ in range(self.THREADS)]

    @property
    def faults(self) -> dict[int, int]:
        """How often we were answered what says that the service failed."""
        return {code: count for code, count in self.statuses.items() if code >= 500 and code != 503}

    @property
    def is_over(self) -> bool:
        """Whether all are answered."""
        return not any(thread.is_alive() for thread in self._threads)

    def __str__(self) -> str:
        return ", ".join(f"{code}: {count}" for code, count in sorted(self.statuses.items()))

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._left = iter(())
        self.wait()

    def wait(self) -> None:
        """Wait until all are answered."""
        for thread in self._threads:
            thread.join()

    def _requests(
        self, method: str, token: str
    ) -> Iterator[tuple[str, str, bytes, dict[str, str]]]:
        """Yield requests that have more or less to do with the resource, and the token or none."""
        bodies = (
            b"",
            b"{}",
            b"\xff" * 100,
            small_report(),
            bytes(5000),
            b"[" * 900,
            gzip.compress(bytes(10**6)),
        )
        path = self._parts.path
        paths = (path, path, path, f"{path}/{'x' * 500}", f"{path}?now=%ff")
        types = [f"application/ppm-dap;message={each}" for each in self.MESSAGES]
        chosen = random.Random(1)  # noqa: S311 - a mixture, not a secret
        for _ in range(self.KINDS):
            headers = {"Content-Type": chosen.choice([*types, *types, "application/json"])}
            if bearer := chosen.choice((None, token, token, token[:-1])):
                headers["Authorization"] = bearer_header(bearer)
            body = chosen.choice(bodies)
            if body.startswith(b"\x1f"):
                headers["Content-Encoding"] = "gzip"
            verb = chosen.choice((method, method, method, "POST", "PATCH"))
            yield verb, chosen.choice(paths), body, headers

    def _take(self) -> int | None:
        with self._lock:
            return next(self._left, None)

    def _send(self) -> None:
        while (number := self._take()) is not None:
            connection = HTTPConnection(self._parts.netloc, timeout=30)
            with closing(connection), suppress(OSError, HTTPException):
                for _ in range(100):
                    method, path, body, headers = self._kinds[number % len(self._kinds)]
                    self.statuses[0] += 1
                    connection.request(method, path, body, headers)
                    answer = connection.getresponse()
                    answer.read()
                    with self._lock:
                        self.statuses[0] -= 1
                        self.statuses[answer.status] += 1
                    if (following := self._take()) is None:
                        return
                    number = following
