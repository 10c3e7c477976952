"""A party, or the network before it, that has a fault: one function that answers each request.

It stands in front of a real service, or carries requests to all services of this machine as a
proxy does. What no fault is meant for it passes on. `faults` has many.
"""

import sys
import threading
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

import httpx
from typing_extensions import override

from tests.support.patience import PATIENCE_SECONDS, wait_until

HOP = {"accept-encoding", "connection", "transfer-encoding", "content-length", "date", "server"}


class Call:
    """One request to the party."""

    def __init__(
        self, handler: BaseHTTPRequestHandler, behind: str, ended: threading.Event
    ) -> None:
        self._handler = handler
        self._behind = behind
        self.method: str = handler.command
        self.path: str = handler.path
        self._ended = ended
        self.body = handler.rfile.read(int(handler.headers.get("content-length", 0)))

    def wait(self, seconds: float) -> None:
        """Let time pass, until the party is gone."""
        self._ended.wait(seconds)

    def drip(self, seconds: float) -> None:
        """Begin a good answer, and send one byte of its body at a time."""
        self._handler.send_response(200)
        self._handler.send_header("content-length", "1000")
        self._handler.end_headers()
        while not self._ended.wait(seconds):
            self._handler.wfile.write(b"x")
            self._handler.wfile.flush()

    def answer(
        self, status: int, body: bytes = b"", headers: Iterable[tuple[str, str]] = ()
    ) -> None:
        """Answer with a status, and with nothing else unless it is given."""
        self._handler.send_response(status)
        for name, value in headers:
            self._handler.send_header(name, value)
        self._handler.send_header("content-length", str(len(body)))
        self._handler.end_headers()
        self._handler.wfile.write(body)

    def write(self, data: Iterable[bytes]) -> None:
        """Send bytes as they are, HTTP or not, and end the connection."""
        for each in data:
            self._handler.wfile.write(each)
        self._handler.close_connection = True

    def pass_on(self) -> None:
        """Answer what the service behind answers."""
        self.repeat(self.ask_behind())

    def repeat(self, real: httpx.Response) -> None:
        """Answer what the service behind has answered."""
        self.answer(real.status_code, real.content, _kept(real))

    @staticmethod
    def as_bytes(real: httpx.Response) -> bytes:
        """Return an answer as it is sent."""
        length = ("content-length", str(len(real.content)))
        date = ("date", real.headers.get("date", ""))
        lines = [f"{name}: {value}\r\n" for name, value in (*_kept(real), length, date)]
        begin = f"HTTP/1.1 {real.status_code} {real.reason_phrase}\r\n"
        return (begin + "".join(lines) + "connection: close\r\n\r\n").encode() + real.content

    def ask_behind(self) -> httpx.Response:
        """Return what the service behind answers."""
        handler = self._handler
        headers = {
            name: value for name, value in handler.headers.items() if name.lower() not in HOP
        }
        return httpx.request(
            self.method,
            self._behind.rstrip("/") + self.path,
            content=self.body,
            headers=headers | {"accept-encoding": "identity"},
            timeout=PATIENCE_SECONDS,
            trust_env=False,
        )


def _kept(real: httpx.Response) -> list[tuple[str, str]]:
    return [(name, value) for name, value in real.headers.multi_items() if name not in HOP]


Fault = Callable[[Call], None]


def dripping(seconds: float) -> Fault:
    """Return the fault of one byte at a time, for ever."""
    return lambda call: call.drip(seconds)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    @override
    def handle_error(self, request: object, client_address: object) -> None:
        if not isinstance(sys.exc_info()[1], OSError):  # a caller that has had enough is no fault
            super().handle_error(request, client_address)  # type: ignore[arg-type]  # as it came


class FaultyPeer:
    """A server in a thread; `fault` answers all but requests for HPKE configurations.

    Args:
        behind: The service before which it stands. A proxy, which is asked for whole URLs, has "",
            and its `fault` answers everything.
        fault: What answers.
        prefix: The path below which the service is reached.

    Attributes:
        url: Its endpoint.
        calls: The requests that `fault` has taken so far.
        fault: What answers now.
    """

    def __init__(self, behind: str, fault: Fault, prefix: str = "") -> None:
        self.calls = 0
        self.fault = fault
        ended = self._ended = threading.Event()
        peer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_any(self) -> None:
                try:
                    self._answer()
                except (OSError, httpx.TransportError):  # somebody has had enough, or is away
                    self.close_connection = True

            def _answer(self) -> None:
                assert self.path.startswith(f"/{prefix}" if behind else "http://")
                self.path = self.path.removeprefix(prefix and f"/{prefix}")
                call = Call(self, behind, ended)
                if behind and self.path.endswith("hpke_config"):
                    call.pass_on()
                    return
                peer.calls += 1
                peer.fault(call)

            do_GET = do_POST = do_DELETE = do_OPTIONS = do_any  # noqa: N815 - as it calls them

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = _Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/{prefix}"
        if prefix:
            self.url += "/"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._server.shutdown()
        self._server.server_close()

    def wait_for_calls(self, count: int) -> None:
        """Wait until this many requests have come.

        Raises:
            AssertionError: They have not in time.
        """
        wait_until(lambda: self.calls >= count, count)
