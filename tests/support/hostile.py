"""What a stranger sends: requests as bytes over sockets, whole, cut short or endless."""

import os
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from aggregator.codec import encode
from aggregator.dap.hpke import generate_keypair
from aggregator.dap.ids import ReportId
from aggregator.entropy import SystemEntropy
from aggregator.protocol.task import task_from_toml
from tests.support.reports import make_reports

CHUNK = 2**16


def connect(url: str, seconds: float = 10) -> socket.socket:
    """Open a connection to the server of a URL."""
    parts = urlsplit(url)
    return socket.create_connection((parts.hostname, parts.port), seconds)


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
    config = generate_keypair(0, SystemEntropy()).config
    (report,) = make_reports(
        task, config, config, [0], task.time(int(time.time())), SystemEntropy()
    )
    rest = encode(report)[ReportId.size :]
    return b"".join(os.urandom(ReportId.size) + rest for _ in range(count))


def verify_init_of_extensions() -> bytes:
    """Return a report of an aggregation job, its metadata nothing but empty extensions."""
    report = report_of_extensions()
    return report[:-9] + struct.pack(">I", 1) + b"x"


def seconds_to_answer(url: str) -> float:
    """Return how long an honest request waits for its answer."""
    began = time.monotonic()
    for _ in range(100):
        with suppress(httpx.TransportError):
            if httpx.get(url, timeout=10, trust_env=False).is_success:
                break
        time.sleep(0.1)
    return time.monotonic() - began


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
