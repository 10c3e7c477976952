"""A bucket on this machine, of which an S3 client is given as much as it needs."""

import dataclasses
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@dataclasses.dataclass
class Bucket:
    """What the server holds, by path, and how it behaves.

    Attributes:
        objects: The objects.
        requests: Methods and paths of all requests.
        status: Answers all requests, if set.
        forgets: Whether what is put is not kept.
        hides: Whether it does not say of an object that it is not there, but refuses it.
        lie: What it answers instead of an object, if it lies; None for one that is not there.
    """

    objects: dict[str, bytes] = dataclasses.field(default_factory=dict)
    requests: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    status: int | None = None
    forgets: bool = False
    hides: bool = False
    lie: Callable[[bytes], bytes | None] | None = None
    url: str = ""

    def environment(self) -> dict[str, str]:
        """Return what an operator sets for S3's clients."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "nowhere",
            "AWS_ACCESS_KEY_ID": "who",
            "AWS_SECRET_ACCESS_KEY": "a secret that nobody may see",
        }


class _Handler(BaseHTTPRequestHandler):
    bucket: Bucket
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def _answer(self, status: int, body: bytes = b"") -> None:
        self.send_response(self.bucket.status or status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", '"an object"')
        self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
        self.end_headers()
        self.wfile.write(body)

    @property
    def _length(self) -> int:
        return int(self.headers["Content-Length"])

    def _noted(self) -> str:
        path = self.path.partition("?")[0]
        self.bucket.requests.append((self.command, path))
        return path

    def do_PUT(self) -> None:
        content = self.rfile.read(self._length)
        path = self._noted()
        if self.bucket.status is None and not self.bucket.forgets:
            self.bucket.objects[path] = content
        self._answer(200)

    def do_GET(self) -> None:
        found = self.bucket.objects.get(self._noted())
        if found is not None and self.bucket.lie is not None:
            found = self.bucket.lie(found)
        if self.bucket.status is not None or found is None:
            self._answer(403 if self.bucket.hides else 404)
        else:
            self._answer(200, found)

    def do_POST(self) -> None:  # of several to be deleted
        path = self._noted()
        names = re.findall(r"<Key>(.*?)</Key>", self.rfile.read(self._length).decode())
        for name in names:
            self.bucket.objects.pop(f"{path}/{name}", None)
        deleted = "".join(f"<Deleted><Key>{name}</Key></Deleted>" for name in names)
        self._answer(200, f"<DeleteResult>{deleted}</DeleteResult>".encode())


@contextmanager
def bucket_server() -> Iterator[Bucket]:
    """Yield a bucket that is served on loopback."""
    bucket = Bucket()

    handler = type("Handler", (_Handler,), {"bucket": bucket})
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    bucket.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield bucket
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
