"""File descriptors: what a service needs, what the system allows, and what is done without.

At the start a process raises its soft limit to what its bounds on connections need, because many
systems begin with few (256, 1024). If the hard limit is below, it takes fewer connections. So
connections alone never use descriptors up; something else may, such as another program if the whole
system is short. `Shortage` then says so once a minute, newcomers displace others
(`web.connections`), and with no descriptor left a server pauses (`cli.service.listening`).
"""

import errno
import os
import resource
import sys
import time
from collections.abc import Callable
from contextlib import suppress

from aggregator.errors import ConfigurationError
from aggregator.service.telemetry.lines import log

HEALTH_CONNECTIONS = 16
"""The most connections at a health listener, where a few monitors ask."""

SPARE = 32
"""Connections leave so many descriptors free, for the store, the log and health."""

_OWN = 24
"""Standard streams, listening sockets, and what event loops hold."""

_STORES = 2 * 24
"""Connections to the store and the journal, twice while a service is replaced: 12 connections to a
server or 9 to SQLite, of two files each, and single files beside them."""

BURST = 2048
"""How many newcomers may be accepted at once before they are refused: as many as a socket's queue
holds. The limit is raised by so many more where the system allows it."""

LEAST_CONNECTIONS = 16
"""A service that may have no more connections than these is refused at the start."""

_OPEN_MAX = 10_240
"""What macOS allows a process though it says that there is no limit, at least."""

_FULL = (errno.EMFILE, errno.ENFILE)

_TELL_SECONDS = 60.0


def needed(connections: int, outgoing: int) -> int:
    """Return how many descriptors a process may use.

    Args:
        connections: Its bound on connections. From a proxy there may be twice as many, of which
            half have not sent their headers.
        outgoing: The most connections to other parties.
    """
    return 2 * (connections + HEALTH_CONNECTIONS) + outgoing + _STORES + _OWN + SPARE


def fitting(connections: int, outgoing: int, limit: int) -> int:
    """Return how many of these connections fit into a limit of descriptors."""
    return max(0, min(connections, (limit - needed(0, outgoing)) // 2))


def make_room(connections: int, outgoing: int) -> int:
    """Raise the soft limit if necessary; return how many of these connections fit."""
    limit = _raise_limit(needed(connections, outgoing) + BURST)
    return fitting(connections, outgoing, limit)


def refuse_too_few(connections: int, most: int, outgoing: int) -> None:
    """Refuse to run if `most` is less than `LEAST_CONNECTIONS`, and fewer than were asked for.

    A service with so few would seem to run, and turn most people away. Raises
    `ConfigurationError`.
    """
    least = min(connections, LEAST_CONNECTIONS)
    if most < least:
        raise ConfigurationError(
            f"max_connections: {connections:,} connections need {needed(connections, outgoing):,} "
            f"file descriptors, this process may have {_limits()[0]:,}, and below "
            f"{needed(least, outgoing):,} it does not start: raise the hard limit (ulimit -Hn, "
            "LimitNOFILE= of a unit, ulimits of a container)"
        )


def tell_if_fewer(connections: int, most: int, outgoing: int) -> None:
    """Log that a service takes fewer connections than its settings say, if it does."""
    if most < connections:
        log.warning(
            "fewer connections than max_connections: too few file descriptors",
            max_connections=connections,
            connections=most,
            limit=_limits()[0],
            needed=needed(connections, outgoing),
            remedy="raise the hard limit (ulimit -Hn, LimitNOFILE=), or lower max_connections",
        )


def _raise_limit(wanted: int) -> int:
    """Raise the soft limit to `wanted` as far as the system lets us; return what it is."""
    soft, hard = _limits()
    if soft >= wanted:
        return soft
    for limit in (min(wanted, hard), min(wanted, hard, _OPEN_MAX)):
        if limit > soft:
            # macOS refuses more than it allows, whatever the hard limit says.
            with suppress(ValueError, OSError):
                resource.setrlimit(
                    resource.RLIMIT_NOFILE, (limit, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
                )
                break
    return _limits()[0]


def _limits() -> tuple[int, int]:
    """Return the soft and the hard limit; no limit is a large number."""
    soft, hard = (
        sys.maxsize if each == resource.RLIM_INFINITY else each
        for each in resource.getrlimit(resource.RLIMIT_NOFILE)
    )
    return soft, hard


class Shortage:
    """Whether this process was short of descriptors lately; any thread may note and ask.

    `now` is a clock that is never set back.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._noted = self._told = -float("inf")

    def note(self) -> None:
        """Note that a descriptor was missing, or nearly; the log says so once a minute."""
        self._noted = self._now()
        if self._noted - self._told >= _TELL_SECONDS:
            self._told = self._noted
            log.error("short of file descriptors", reason=self.reason)

    @property
    def faults(self) -> list[str]:
        """What health says of it, until a minute after it was over."""
        return [self.reason] if self._now() - self._noted < _TELL_SECONDS else []

    @property
    def reason(self) -> str:
        """What is missing, and what to do about it."""
        return (
            f"file descriptors are used up: this process may have {_limits()[0]:,}, and some "
            "connections are closed or refused; raise the hard limit (ulimit -Hn, LimitNOFILE=) "
            "and fs.file-max, or lower max_connections, and start it again"
        )


SHORTAGE = Shortage()


def is_high(descriptor: int) -> bool:
    """Return whether a new descriptor shows that few are left: each is the lowest that is free."""
    return descriptor >= _limits()[0] - SPARE


def are_left(count: int) -> bool:
    """Return whether so many descriptors can be opened, and note it if not."""
    opened: list[int] = []
    try:
        for _ in range(count):
            opened.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))  # noqa: PERF401  closed
    except OSError as error:
        if error.errno not in _FULL:
            return True  # as far as this can tell
        SHORTAGE.note()
    finally:
        for each in opened:
            os.close(each)
    return len(opened) == count
