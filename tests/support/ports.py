"""Ports on loopback that nobody else takes before those who asked for them listen.

They lie between those of `prio up` and those of outgoing connections, and each worker of a run has
its own, which it gives away in turn.
"""

import os
import random
import socket
from collections.abc import Iterator, Sequence
from itertools import cycle, islice

_FIRST, _PER_WORKER, _WORKERS = 30_000, 330, 8


def free_ports(count: int) -> Sequence[int]:
    """Return loopback ports that nobody listens on."""
    return list(islice(filter(_is_free, _next_ports), count))


def _is_free(port: int) -> bool:
    try:
        with socket.create_server(("127.0.0.1", port)):
            return True
    except OSError:
        return False


def _own_ports() -> Iterator[int]:
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _WORKERS
    own = range(_FIRST + worker * _PER_WORKER, _FIRST + (worker + 1) * _PER_WORKER)
    begin = random.SystemRandom().randrange(_PER_WORKER)  # another run may go on beside this one
    return cycle([*own[begin:], *own[:begin]])


_next_ports = _own_ports()
