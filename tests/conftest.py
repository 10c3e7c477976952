"""What holds for every test: Hypothesis profiles, uncompiled kernels, measurements on demand."""

import fcntl
import gc
import logging
import os
import sys
from collections.abc import Generator, Iterator

import numpy as np
import pytest
import structlog
from hypothesis import settings

from aggregator.service.storage.engine import locks
from tests.support import leftovers, open_stores, postgresql
from tests.support.dispositions import give_children_defaults
from tests.support.empty_store import SERVER, dropped_afterwards, make_by_copy
from tests.support.quick import Quick

# No deadline anywhere: the first call of a kernel compiles it.
settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, database=None)
settings.register_profile("quick", deadline=None, max_examples=10)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))

# By default, rich takes a second or more to print each traceback.
structlog.configure(
    [structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--quick",
        action="store_true",
        help="only tests that need no compiler, no process, no server and no second",
    )


def pytest_configure(config: pytest.Config) -> None:
    give_children_defaults()
    leftovers.guard()
    open_stores.watch()
    make_by_copy()
    locks.IS_CHECKED = True
    if config.getoption("quick"):
        config.pluginmanager.register(Quick())
        settings.load_profile("quick")
        # A test that is left out when it opens a socket leaves that socket to the collector.
        left = r"ignore:Exception ignored in. <socket\.socket"
        config.addinivalue_line("filterwarnings", f"{left}:pytest.PytestUnraisableExceptionWarning")
    from field.lanes import compile_here  # noqa: PLC0415  numba is asked first whether to compile

    compile_here()


@pytest.fixture(scope="session", autouse=True)
def _kernels_are_compiled_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Let one of several workers compile what most tests use, and the others wait and load it."""
    is_compiling = os.environ.get("NUMBA_DISABLE_JIT") != "1"
    if not (is_compiling and "PYTEST_XDIST_WORKER" in os.environ):
        return
    from aggregator.cli.service.warm import warm  # noqa: PLC0415  numba is asked first whether to compile

    with (tmp_path_factory.getbasetemp().parent / "kernels.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        warm()


@pytest.fixture(scope="module", autouse=True)
def _no_process_is_left() -> Iterator[None]:
    """Fail a module that leaves a process behind, and kill that."""
    yield
    left = leftovers.kill_what_is_left()
    assert not left, f"processes have outlived their tests, and were killed: {left}"


@pytest.fixture(scope="module", autouse=True)
def _stores_of_modules_are_closed() -> Iterator[None]:
    with open_stores.closed_afterwards():
        yield


@pytest.fixture(autouse=True)
def _stores_are_closed() -> Iterator[None]:
    with open_stores.closed_afterwards():
        yield


@pytest.fixture(autouse=True)
def _logging_is_put_back() -> Iterator[None]:
    """Undo what a service that runs in this process does to logging: its loggers keep it."""
    root, before = logging.getLogger(), structlog.get_config()
    level = root.level
    yield
    if not structlog.get_config()["cache_logger_on_first_use"]:
        return
    structlog.configure(**before)
    root.handlers = [each for each in root.handlers if type(each) is not logging.StreamHandler]
    root.setLevel(level)
    for name, module in list(sys.modules.items()):
        if name.startswith("aggregator."):
            getattr(getattr(module, "log", None), "__dict__", {}).pop("bind", None)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """Run asynchronous tests on asyncio, as the services do, also where Trio is installed."""
    return "asyncio"


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    """The URL of a PostgreSQL server, started once; the test is skipped if none is installed."""
    with postgresql.new_server() as server:
        server.make()
        server.start()
        leftovers.may_stay(server.pid)
        yield server.url


@pytest.fixture(params=["sqlite", "postgresql"], scope="module")
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    """Keep the stores of the module's tests in SQLite's files, then on a PostgreSQL server."""
    name: str = request.param
    with pytest.MonkeyPatch.context() as patch:
        if name == "postgresql":
            patch.setenv(SERVER, request.getfixturevalue("postgresql_server"))
        yield name


@pytest.fixture(autouse=True)
def _databases_are_dropped() -> Iterator[None]:
    with dropped_afterwards():
        yield


@pytest.fixture(autouse=True)
def _words_wrap_around() -> Iterator[None]:
    """Let uncompiled kernels count modulo 2^64, which numpy would warn of."""
    over = "ignore" if os.environ.get("NUMBA_DISABLE_JIT") == "1" else None
    with np.errstate(over=over):
        yield


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for garbage once all tests are there, and never again among what they are made of.

    There are 700,000 such objects, which stay; looking through them takes half a second.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip measurements unless they are asked for."""
    if "bench" in config.getoption("markexpr"):
        return
    on_demand = pytest.mark.skip(reason="a measurement, on demand: -m bench")
    for item in items:
        if item.get_closest_marker("bench") is not None:
            item.add_marker(on_demand)
