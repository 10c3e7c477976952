"""A TCP proxy in front of a service, which a test can close, or let drop what the service says."""

import socket
import threading
from contextlib import ExitStack, suppress
from typing import Self

_CHUNK = 2**16


class Proxy:
    """Passes bytes on between its callers and the service at a port of this machine.

    Args:
        port: The service's.
    """

    def __init__(self, port: int) -> None:
        self.is_deaf = False
        """Whether what the service answers is dropped; who asked waits in vain."""
        self.dropped = 0
        """Bytes of answers that were dropped."""
        self._service = port
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._is_listening = True
        self._serve()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Break all connections and refuse new ones."""
        if self._is_listening:
            self._is_listening = False
            with suppress(OSError):
                self._listening.shutdown(socket.SHUT_RDWR)
            self._listening.close()
        with self._lock:
            for each in self._open:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def reopen(self) -> None:
        """Take connections again, at the same port."""
        self._listening = socket.create_server(("127.0.0.1", self.port))
        self._is_listening = True
        self._serve()

    def deafen(self) -> None:
        """Drop answers from now on."""
        self.is_deaf = True

    def undeafen(self) -> None:
        """Pass answers on again, over new connections: half an answer is none."""
        self.is_deaf = False
        with self._lock:
            for each in self._open:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def _serve(self) -> None:
        threading.Thread(target=self._accept, args=(self._listening,), daemon=True).start()

    def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                caller, _ = listening.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self._connect, args=(caller,), daemon=True).start()

    def _connect(self, caller: socket.socket) -> None:
        with ExitStack() as stack:
            stack.enter_context(caller)
            try:
                service = stack.enter_context(
                    socket.create_connection(("127.0.0.1", self._service))
                )
            except OSError:  # it is not up: neither are we
                return
            with self._lock:
                self._open |= {caller, service}
            asking = threading.Thread(target=self._pass, args=(caller, service, False), daemon=True)
            asking.start()
            self._pass(service, caller, True)  # noqa: FBT003  as above
            asking.join()
            with self._lock:
                self._open -= {caller, service}

    def _pass(self, source: socket.socket, sink: socket.socket, is_answer: bool) -> None:  # noqa: FBT001  of two directions
        with suppress(OSError):
            while chunk := source.recv(_CHUNK):
                if is_answer and self.is_deaf:
                    self.dropped += len(chunk)
                else:
                    sink.sendall(chunk)
        for each in (source, sink):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
