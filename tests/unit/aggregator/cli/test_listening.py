"""A service's addresses are its own from the moment that it has them."""

import socket

import pytest

from aggregator.cli.service.listening import listen
from aggregator.errors import ConfigurationError
from tests.support.patience import PATIENCE_SECONDS


def test_an_address_takes_connections_before_any_listener_answers() -> None:
    """The health listener says that a service is up, so the others must be reachable by then."""
    with (
        listen("127.0.0.1:0", reuse_port=False) as listening,
        socket.create_connection(listening.getsockname(), timeout=PATIENCE_SECONDS) as connected,
    ):
        assert connected.getpeername() == listening.getsockname()


def test_two_services_cannot_take_one_address() -> None:
    with listen("127.0.0.1:0", reuse_port=False) as listening:
        port = listening.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"listen: 127.0.0.1:{port}"):
            listen(f"127.0.0.1:{port}", reuse_port=False)
