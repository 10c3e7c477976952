"""`pytest --quick`: every test that needs no compiler, process or server.

Nobody keeps a list of them. Kernels are not compiled, and a test that asks for more is found when
it does so: an operation on lanes that it has not asked to be interpreted, a process, a bound
socket, an aggregator's service. Such a test is left to `make test` and counted at the end. The
longest tests are named there, too, and are to be marked `slow`. Folders in which most tests need
more are not even read, unless they are named on the command line.
"""

import os
import sys
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from Crypto.Hash import TurboSHAKE128

if TYPE_CHECKING:
    from aggregator.vdaf.xof import ByteRows
    from field.lanes import LaneWidth

LEFT_OUT = ("slow", "statistical", "compose", "bench")
"""Marks of tests that are not tried; without kernels many draws take long."""

TESTS = Path(__file__).parents[1]

FOLDERS = (
    "browser",
    "browser_module",
    "end_to_end",
    "integration",
    "interop",
    "load",
    "statistical",
)
"""Folders of tests that are not read: whole services, browsers, many reports and draws."""

EVENTS = {
    "os.fork": "a process",
    "os.posix_spawn": "a process",
    "os.system": "a process",
    "subprocess.Popen": "a process",
    "socket.bind": "a socket",
    "tests.service": "a service",
}
"""The events that audit hooks are told of, by Python and by our services, and what each needs."""


class NeedsMore(pytest.skip.Exception):
    """A test needs more than a quick test may have."""


def _turboshake128(messages: "ByteRows", domain: int, output_size: int) -> "ByteRows":
    """Hash with another library, for which the fast tests of Prio3 need no kernel."""
    hashes = [
        TurboSHAKE128.new(domain=domain, data=message.tobytes()).read(output_size)
        for message in messages
    ]
    return np.frombuffer(b"".join(hashes), np.uint8).reshape(len(messages), output_size).copy()


def _is_on_server(item: pytest.Item) -> bool:
    case = getattr(item, "callspec", None)
    return case is not None and case.params.get("engine") == "postgresql"


class Quick:
    """The plugin that `--quick` registers, before anything imports numba."""

    def __init__(self) -> None:
        assert "numba" not in sys.modules, "numba has already read whether to compile"
        os.environ["NUMBA_DISABLE_JIT"] = "1"
        from aggregator.vdaf import xof  # noqa: PLC0415  not before the line above
        from field.lanes import operations  # noqa: PLC0415  as above

        self._is_watching = False
        self._needed: str | None = None
        self._interpret = operations._interpret
        operations._interpret = self._interpret_if_asked
        xof.turboshake128 = _turboshake128
        sys.addaudithook(self._audit)

    def _interpret_if_asked(
        self, body: object, kinds: object, width: "LaneWidth", given: object
    ) -> None:
        """Interpret an operation for tests of interpreted kernels; others take too long so."""
        if self._is_watching and not width.is_interpreted:
            self._refuse("compiled kernels")
        self._interpret(body, kinds, width, given)

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._is_watching and event in EVENTS:
            if event == "socket.bind":
                arguments[0].close()
            self._refuse(EVENTS[event])

    def _refuse(self, what: str) -> None:
        self._needed = f"needs {what}: make test"
        raise NeedsMore(self._needed)

    @pytest.hookimpl
    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Leave out whole folders: importing their files takes longer than finding out."""
        is_left_out = collection_path.parent == TESTS and collection_path.name in FOLDERS
        return True if is_left_out else None

    @pytest.hookimpl
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Leave out tests that are marked, or whose store is on a server."""
        left_out = [
            item
            for item in items
            if any(map(item.get_closest_marker, LEFT_OUT)) or _is_on_server(item)
        ]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self) -> Generator[None, Any, Any]:
        """Watch fixtures being made."""
        self._needed = None
        return (yield from self._watched())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Generator[None, Any, Any]:
        """Watch the test."""
        return (yield from self._watched())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self) -> Generator[None, Any, Any]:
        """Forgive the fixtures of a test that was cut short."""
        try:
            return (yield)
        except BaseException:
            if self._needed is None:
                raise

    def _watched(self) -> Generator[None, Any, Any]:
        self._is_watching = True
        try:
            result = yield
        except BaseException:
            if self._needed is None:
                raise
        finally:
            self._is_watching = False
        # Even if the test handled the refusal, it has not tested what it should.
        if self._needed is not None:
            pytest.skip(self._needed)
        return result
