"""Limits of descriptors as systems set them, and what is said of a shortage."""

import errno
import os
import resource
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from aggregator.errors import ConfigurationError
from aggregator.service.web import descriptors
from aggregator.service.web.descriptors import (
    BURST,
    LEAST_CONNECTIONS,
    Shortage,
    are_left,
    fitting,
    make_room,
    needed,
    refuse_too_few,
)

WANTED = needed(512, 20) + BURST


class System:
    """A system's limits; above `allowed` it refuses, whatever the hard limit says."""

    def __init__(self, soft: int, hard: int, allowed: int = 2**20) -> None:
        self.limits = (soft, hard)
        self._allowed = allowed

    def getrlimit(self, _which: int) -> tuple[int, int]:
        return self.limits

    def setrlimit(self, _which: int, limits: tuple[int, int]) -> None:
        assert limits[1] == self.limits[1], "the hard limit could not be raised again"
        if limits[0] > self._allowed:
            raise ValueError("current limit exceeds maximum limit")
        self.limits = limits


@pytest.mark.parametrize(
    ("system", "connections", "limit"),
    [
        pytest.param(System(1024, 524_288), 512, WANTED, id="Linux"),
        pytest.param(System(256, resource.RLIM_INFINITY), 512, WANTED, id="macOS"),
        pytest.param(System(2**20, 2**20), 512, 2**20, id="a container"),
        pytest.param(System(256, 600), fitting(512, 20, 600), 600, id="a low hard limit"),
        pytest.param(
            System(resource.RLIM_INFINITY, resource.RLIM_INFINITY),
            512,
            resource.RLIM_INFINITY,
            id="no limit",
        ),
    ],
)
def test_the_soft_limit_is_raised_as_far_as_needed_and_never_lowered(
    system: System, connections: int, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", system.getrlimit)
    monkeypatch.setattr(resource, "setrlimit", system.setrlimit)
    assert make_room(512, 20) == connections
    assert system.limits[0] == limit
    refuse_too_few(512, connections, 20)


def test_a_system_that_allows_less_than_its_hard_limit_gives_what_it_allows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    system = System(256, resource.RLIM_INFINITY, 10_240)
    monkeypatch.setattr(resource, "getrlimit", system.getrlimit)
    monkeypatch.setattr(resource, "setrlimit", system.setrlimit)
    most = make_room(20_000, 20)
    assert most == fitting(20_000, 20, 10_240) > 4096
    assert system.limits == (10_240, resource.RLIM_INFINITY)
    with capture_logs() as lines:
        descriptors.tell_if_fewer(20_000, most, 20)
    (line,) = lines
    assert (line["max_connections"], line["connections"]) == (20_000, most)
    assert line["needed"] == needed(20_000, 20)


@pytest.mark.parametrize("limit", [100, 156, needed(512, 20) - 1, needed(512, 20), 5000])
def test_what_fits_is_what_the_limit_allows(limit: int) -> None:
    most = fitting(512, 20, limit)
    assert 0 <= most <= 512
    assert most == 0 or needed(most, 20) <= limit
    assert most == 512 or needed(most + 1, 20) > limit


@pytest.mark.parametrize(
    ("asked", "most", "is_refused"),
    [
        (512, LEAST_CONNECTIONS, False),
        (512, LEAST_CONNECTIONS - 1, True),
        (4, 4, False),
        (4, 3, True),
        (0, 0, False),
    ],
)
def test_too_few_connections_are_refused_with_what_is_missing(
    asked: int, most: int, *, is_refused: bool
) -> None:
    if not is_refused:
        refuse_too_few(asked, most, 20)
        return
    with pytest.raises(ConfigurationError, match=rf"max_connections: {asked} .*ulimit -Hn"):
        refuse_too_few(asked, most, 20)


def test_a_shortage_is_said_once_a_minute_and_forgotten_a_minute_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1000.0
    shortage = Shortage(lambda: now)
    monkeypatch.setattr(descriptors, "SHORTAGE", shortage)

    def full(*_: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    assert are_left(3)
    assert shortage.faults == []
    with capture_logs() as lines:
        with monkeypatch.context() as patched:
            patched.setattr(os, "open", full)
            for _ in range(119):
                assert not are_left(3)
                now += 1
        assert len(lines) == 2
        assert lines[0]["reason"] == shortage.faults[0]
        assert "ulimit -Hn" in shortage.faults[0]
        now += 60
        assert shortage.faults == []
        assert are_left(3)


def test_looking_for_descriptors_leaves_none_open() -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    assert are_left(8)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
