"""Serves an application on a loopback port, from a thread of the test's own process."""

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from aggregator.service.web.connections import BoundedConnection
from tests.support.patience import PATIENCE_SECONDS


@contextmanager
def serving(
    app: ASGIApp, max_connections: int = 64, port: int = 0, *, lives: bool = False
) -> Iterator[str]:
    """Serve an application as services do; yield its address, without a slash at the end.

    With `lives` it is told of its beginning and its end.
    """
    config = uvicorn.Config(
        app,
        http=BoundedConnection.limited_to(max_connections),
        ws="none",
        lifespan="on" if lives else "off",
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", port)) as listening:
        thread = threading.Thread(target=lambda: asyncio.run(server.serve([listening])))
        thread.start()
        try:
            deadline = time.monotonic() + PATIENCE_SECONDS
            while not server.started:
                assert thread.is_alive(), "the server ended"
                assert time.monotonic() < deadline, "the server does not start"
                time.sleep(0.01)
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(PATIENCE_SECONDS)
            assert not thread.is_alive(), "the server does not end"
