"""An HTTP proxy: forwards requests to http:// hosts, and opens tunnels to https:// ones."""

import socket
import threading
from contextlib import suppress
from typing import Self
from urllib.parse import urlsplit

_CHUNK = 2**16


class HttpProxy:
    """Listens at a port of this machine, and reaches every host there.

    Attributes:
        heads: The head of each request to it, first line and headers.
    """

    def __init__(self, authorization: str | None = None) -> None:
        self.heads = list[str]()
        self._authorization = authorization
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                caller, _ = self._listening.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self._serve, args=(caller,), daemon=True).start()

    def _serve(self, caller: socket.socket) -> None:
        with caller, suppress(OSError):
            received = b""
            while b"\r\n\r\n" not in received:
                part = caller.recv(_CHUNK)
                if not part:
                    return
                received += part
            head, _, rest = received.partition(b"\r\n\r\n")
            self.heads.append(head.decode())
            if self._authorization is not None and self._authorization not in self.heads[-1]:
                caller.sendall(b"HTTP/1.1 407 Who are you?\r\ncontent-length: 0\r\n\r\n")
                return
            method, target, _ = self.heads[-1].splitlines()[0].split()
            is_tunnel = method == "CONNECT"
            url = urlsplit(f"//{target}" if is_tunnel else target)
            with socket.create_connection(("127.0.0.1", url.port or 80)) as host:
                if is_tunnel:
                    caller.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                    host.sendall(rest)
                else:
                    host.sendall(head.replace(target.encode(), url.path.encode(), 1))
                    host.sendall(b"\r\n\r\n" + rest)
                there = threading.Thread(target=_pass_on, args=(caller, host), daemon=True)
                there.start()
                _pass_on(host, caller)


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while part := source.recv(_CHUNK):
            target.sendall(part)
        target.shutdown(socket.SHUT_WR)
