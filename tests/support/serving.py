"""Serves an application on a loopback port, from a thread of the test's own process."""

import asyncio
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
import uvloop
from starlette.types import ASGIApp

from aggregator.service.web.handshakes import connections
from tests.support.patience import PATIENCE_SECONDS


@contextmanager
def serving(
    app: ASGIApp,
    max_connections: int = 64,
    port: int = 0,
    *,
    lives: bool = False,
    tls: ssl.SSLContext | None = None,
    dates: bool = True,
) -> Iterator[str]:
    """Serve an application as services do; yield its address, without a slash at the end.

    With `lives` it is told of its beginning and its end; with `tls` it speaks TLS, in an event loop
    such as services have. Without `dates`, the application says what time it is.
    """
    config = uvicorn.Config(
        app,
        http=connections(max_connections, tls),
        ws="none",
        lifespan="on" if lives else "off",
        log_config=None,
        access_log=False,
        date_header=dates,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    run = asyncio.run if tls is None else uvloop.run
    with socket.create_server(("127.0.0.1", port)) as listening:
        thread = threading.Thread(target=lambda: run(server.serve([listening])))
        thread.start()
        try:
            deadline = time.monotonic() + PATIENCE_SECONDS
            while not server.started:
                assert thread.is_alive(), "the server ended"
                assert time.monotonic() < deadline, "the server does not start"
                time.sleep(0.01)
            yield f"http{'s' if tls else ''}://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(PATIENCE_SECONDS)
            assert not thread.is_alive(), "the server does not end"
