"""A network that is slow and tears: a proxy between browsers and this machine's services.

Of requests to some services it tears some before they arrive, and some when they were answered and
half of the answer is through. Everything comes late and in pieces.
"""

import http.client
import random
import socketserver
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

LOST, UNANSWERED = 0.1, 0.25
"""Where the chances end that a request does not arrive, or that its answer does not."""

_LATE_SECONDS = 0.05
_PIECE = 8192
_PIECE_SECONDS = 0.02


class TornNetwork(socketserver.ThreadingTCPServer):
    """Such a proxy.

    Args:
        choose: Says what becomes of a request.
        torn: Ports of the services to which requests are torn.

    Attributes:
        fates: How many requests were lost, were not answered, and came through.
    """

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, choose: random.Random, torn: Collection[int]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.fates = Counter[str]()
        self._choose, self._torn = choose, torn
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        """What a browser is told."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def fate(self, port: int) -> str:
        """Say what becomes of a request."""
        with self._lock:
            chance = self._choose.random() if port in self._torn else 1.0
            fate = "lost" if chance < LOST else "unanswered" if chance < UNANSWERED else "through"
            self.fates[fate] += 1
            return fate


class _Handler(socketserver.StreamRequestHandler):
    """Carries one request; each has a connection of its own."""

    server: TornNetwork

    def handle(self) -> None:
        with suppress(OSError):  # a browser that leaves
            self._carry()

    def _carry(self) -> None:
        method, target, _ = self.rfile.readline().decode().split()
        head = http.client.parse_headers(self.rfile)
        body = self.rfile.read(int(head.get("content-length", 0)))
        parts = urlsplit(target)
        if parts.hostname != "127.0.0.1" or parts.port is None:
            return  # what a browser asks its maker for; a page asks nobody else
        fate = self.server.fate(parts.port)
        time.sleep(_LATE_SECONDS)
        if fate == "lost":
            return
        answer = self._asked(method, parts.port, parts.path, dict(head.items()), body)
        if fate == "unanswered":
            answer = answer[: len(answer) // 2]
        for start in range(0, len(answer), _PIECE):
            self.wfile.write(answer[start : start + _PIECE])
            time.sleep(_PIECE_SECONDS)

    @staticmethod
    def _asked(method: str, port: int, path: str, head: dict[str, str], body: bytes) -> bytes:
        service = http.client.HTTPConnection("127.0.0.1", port)
        try:
            service.request(method, path, body, head)
            answer = service.getresponse()
            content = answer.read()
        finally:
            service.close()
        kept = [
            (name, value)
            for name, value in answer.getheaders()
            if name.lower() not in ("connection", "content-length", "transfer-encoding")
        ]
        lines = [
            f"HTTP/1.1 {answer.status} {answer.reason}",
            *(f"{name}: {value}" for name, value in kept),
            f"Content-Length: {len(content)}",
            "Connection: close",
        ]
        return "\r\n".join([*lines, "", ""]).encode() + content


@contextmanager
def torn_network(seed: int, torn: Collection[int]) -> Iterator[TornNetwork]:
    """Run such a proxy while the block lasts."""
    with TornNetwork(random.Random(seed), torn) as network:  # noqa: S311  chances of a test
        thread = threading.Thread(target=network.serve_forever)
        thread.start()
        try:
            yield network
        finally:
            network.shutdown()
            thread.join()
