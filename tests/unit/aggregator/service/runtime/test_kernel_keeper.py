"""A service verifies without compiled kernels until another process has compiled them."""

import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from aggregator.dap.profile import Role
from aggregator.service.runtime import kernel_keeper
from aggregator.service.runtime.compilation import Kind, compile_apart
from aggregator.service.runtime.kernel_keeper import KernelKeeper
from aggregator.service.runtime.niceness import NICENESS
from aggregator.service.telemetry.compiling import (
    AWAITED,
    compiling_on_this_machine,
    said_of_compiling,
)
from aggregator.vdaf.instances import TYPES
from tests.support.patience import PATIENCE_SECONDS, wait_until

COUNT = Kind(Role.HELPER, TYPES["Prio3Count"].algorithm_id, b"")


def compilers(process: int) -> list[int]:
    """Return the processes that compile for a process."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            is_compiler = (
                b"aggregator.service.runtime.compilation" in (folder / "cmdline").read_bytes()
            )
        except OSError:  # It has ended.
            continue
        if parent == process and is_compiler:
            found.append(int(folder.name))
    return found


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of compiled kernels of processes that are started from here."""
    folder = tmp_path / "cache"
    folder.mkdir()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(folder))
    return folder


class Compiled:
    """Stands for the cache and the compiling process of a keeper."""

    def __init__(self, problems: Sequence[str | None]) -> None:
        self.problems = list(problems)
        self.is_there = False
        self.may_end = threading.Event()
        self.calls = 0

    def compile(self, _kinds: Sequence[Kind]) -> str | None:
        self.may_end.wait(PATIENCE_SECONDS)
        self.calls += 1
        problem = self.problems.pop(0)
        self.is_there = problem is None
        return problem


@pytest.fixture
def awaited() -> Iterator[None]:
    yield
    AWAITED.ready(COUNT.vdaf)


def keeper_with(compiled: Compiled, monkeypatch: pytest.MonkeyPatch) -> KernelKeeper:
    monkeypatch.setattr(kernel_keeper, "_are_compiled", lambda _kind: compiled.is_there)
    monkeypatch.setattr(kernel_keeper, "RETRY_SECONDS", 0.01)
    return KernelKeeper(compiled.compile)


@pytest.mark.usefixtures("awaited")
def test_missing_kernels_are_awaited_until_they_are_compiled_and_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled = Compiled([None])
    keeper = keeper_with(compiled, monkeypatch)
    with capture_logs() as logs:
        keeper.want(COUNT)
        keeper.want(COUNT)
        wait_until(AWAITED.records)
        (record,) = AWAITED.records()
        assert isinstance(record["compiling_seconds"], int)
        assert record == {"vdaf": "Prio3Count", "problem": None} | {
            "compiling_seconds": record["compiling_seconds"]
        }
        compiled.may_end.set()
        wait_until(lambda: not AWAITED.records())
    assert compiled.calls == 1
    said = [entry["event"] for entry in logs]
    assert "compiling kernels in a process of its own" in said[0]
    assert said[-1] == "kernels ready"


@pytest.mark.usefixtures("awaited")
def test_kernels_that_are_there_are_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = Compiled([])
    compiled.is_there = True
    with capture_logs() as logs:
        keeper_with(compiled, monkeypatch).want(COUNT)
        wait_until(lambda: logs)
    assert [entry["event"] for entry in logs] == ["kernels are cached"]
    assert AWAITED.records() == []


@pytest.mark.usefixtures("awaited")
def test_a_compiler_that_failed_is_said_and_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = Compiled(["killed", None, None])
    keeper = keeper_with(compiled, monkeypatch)
    compiled.may_end.set()
    seen = []
    real = AWAITED.failed

    def failed(vdaf: str, problem: str) -> None:
        real(vdaf, problem)
        seen.extend(AWAITED.records())

    monkeypatch.setattr(AWAITED, "failed", failed)
    with capture_logs() as logs:
        keeper.want(COUNT)
        wait_until(lambda: compiled.calls == 2 and not AWAITED.records())
    assert [record["problem"] for record in seen] == ["killed"]
    (warning,) = [entry for entry in logs if entry["log_level"] == "warning"]
    assert warning["reason"] == "killed"
    assert "verifying without them" in warning["event"]


def test_what_one_look_could_not_find_is_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = Compiled([None])
    compiled.may_end.set()
    keeper = keeper_with(compiled, monkeypatch)
    looked_at = 0

    def look(_kind: Kind) -> bool:
        nonlocal looked_at
        looked_at += 1
        if looked_at == 1:
            raise MemoryError
        return compiled.is_there

    monkeypatch.setattr(kernel_keeper, "_are_compiled", look)
    with capture_logs() as logs:
        keeper.want(COUNT)
        wait_until(lambda: compiled.calls == 1 and not AWAITED.records())
    assert [each["reason"] for each in logs if each["log_level"] == "warning"] == ["MemoryError()"]


REFUSED = """
import io, os, sys
from aggregator.service.runtime import compilation
def refused(_increment):
    raise PermissionError(1, "Operation not permitted")
os.nice = refused
class Given:
    buffer = io.BytesIO(b"[]\\n")
    fileno = staticmethod(lambda: os.pipe()[0])
sys.stdin = Given
exec(compilation._PROGRAM)
"""


@pytest.mark.slow
@pytest.mark.usefixtures("empty_cache")
def test_kernels_are_compiled_where_a_process_may_not_change_its_niceness() -> None:
    done = subprocess.run(  # noqa: S603  our own interpreter
        [sys.executable, "-c", REFUSED], check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.usefixtures("empty_cache")
def test_a_compiling_process_imports_nothing_from_the_folder_it_is_started_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('another json')")
    monkeypatch.chdir(tmp_path)
    assert compile_apart([]) is None


HOLDER = """
import sys
from pathlib import Path
from aggregator.service.telemetry.compiling import one_at_a_time
with one_at_a_time(Path(sys.argv[1]), ["Prio3Count"]):
    print("inside", flush=True)
    sys.stdin.read()
"""


@pytest.mark.slow
def test_one_process_of_a_machine_compiles_at_a_time_and_others_see_what(empty_cache: Path) -> None:
    def started() -> subprocess.Popen[str]:
        return subprocess.Popen(  # noqa: S603  our own interpreter
            [sys.executable, "-c", HOLDER, empty_cache],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    assert compiling_on_this_machine() == []
    with started() as first, started() as second:
        assert first.stdout is not None
        assert second.stdout is not None
        ready, _, _ = select.select([first.stdout, second.stdout], [], [], PATIENCE_SECONDS)
        (is_inside,) = ready  # and the other one is not
        holder, waiter = (first, second) if is_inside is first.stdout else (second, first)
        assert waiter.stdout is not None
        (record,) = compiling_on_this_machine()
        assert record["vdaf"] == "Prio3Count"
        assert "kernels of Prio3Count are being compiled here" in said_of_compiling()
        assert not select.select([waiter.stdout], [], [], 0.5)[0]
        holder.kill()  # The system releases its lock.
        assert waiter.stdout.readline() == "inside\n"
        waiter.communicate()
    assert said_of_compiling() == ""


@pytest.mark.slow
@pytest.mark.usefixtures("empty_cache")
def test_a_compiling_process_has_no_secret_and_no_terminal_and_its_death_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PRIO_STORE_KEY", "a secret")
    said: list[str | None] = []
    thread = threading.Thread(target=lambda: said.append(compile_apart([COUNT])))
    thread.start()
    wait_until(lambda: compilers(os.getpid()))
    (child,) = compilers(os.getpid())
    assert b"PRIO_STORE_KEY" not in Path(f"/proc/{child}/environ").read_bytes()
    assert os.getsid(child) != os.getsid(0)  # Ctrl-C does not reach it.
    os.kill(child, signal.SIGKILL)
    thread.join(PATIENCE_SECONDS)
    assert said == ["the process that compiled was killed by SIGKILL"]


@pytest.mark.slow
@pytest.mark.usefixtures("empty_cache")
def test_a_compiling_process_gives_way_to_the_service_even_as_a_session_of_its_own() -> None:
    with ThreadPoolExecutor(1) as pool:
        said = pool.submit(compile_apart, [COUNT])
        wait_until(lambda: compilers(os.getpid()))
        (child,) = compilers(os.getpid())
        ours = os.getpriority(os.PRIO_PROCESS, 0)
        wait_until(lambda: os.getpriority(os.PRIO_PROCESS, child) == min(19, ours + NICENESS))
        group = Path(f"/proc/{child}/autogroup")
        if group.exists():  # Sessions are groups of processes to this system's scheduler.
            wait_until(lambda: group.read_text().split()[-1] == str(min(19, ours + NICENESS)))
        os.kill(child, signal.SIGKILL)
        assert said.result(PATIENCE_SECONDS) == "the process that compiled was killed by SIGKILL"


@pytest.mark.slow
@pytest.mark.usefixtures("empty_cache")
def test_a_compiling_process_ends_with_the_service_that_started_it() -> None:
    script = (
        "from tests.unit.aggregator.service.runtime.test_kernel_keeper import COUNT\n"
        "from aggregator.service.runtime.compilation import compile_apart\n"
        "compile_apart([COUNT])"
    )
    service = subprocess.Popen([sys.executable, "-c", script])  # noqa: S603  our own interpreter
    wait_until(lambda: compilers(service.pid))
    (child,) = compilers(service.pid)
    service.kill()
    service.wait()
    wait_until(lambda: not is_alive(child))


@pytest.mark.slow
def test_a_cache_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file" / "cache"))
    problem = compile_apart([COUNT])
    assert problem is not None
    assert "no folder for compiled kernels can be written" in problem


CHANGEOVER = """
from aggregator.service.runtime import compilation
from aggregator.service.runtime.kernel_keeper import kernel_keeper
from aggregator.service.runtime.kernels import are_compiled
from aggregator.service.telemetry.compiling import AWAITED
from aggregator.vdaf.instances import prio3_from_configuration
from aggregator.vdaf.kernels import dispatch
from field.lanes import jit
from tests.support.patience import wait_until
from tests.support.kernel_runs import all_values, queried, shares_of
from tests.unit.aggregator.service.runtime.test_kernel_keeper import COUNT

# So that a busy machine compiles soon, too.
compilation._PROGRAM = compilation._PROGRAM.replace("give_way();", "")
prio3 = prio3_from_configuration(COUNT.vdaf_type, COUNT.configuration)
shares = shares_of(prio3, [0, 1, 1], 1)
kernel_keeper().want(COUNT)
first = all_values(queried(prio3, shares))
wait_until(AWAITED.records)
assert not are_compiled(prio3, COUNT.role)
wait_until(lambda: not AWAITED.records())
missing = []
real = jit._Kernel.__call__
def watched(kernel, *arguments):
    try:
        return real(kernel, *arguments)
    except jit.KernelMissing:
        missing.append(kernel)
        raise
jit._Kernel.__call__ = watched
dispatch.query(prio3, shares, dispatch.new_outputs(prio3, len(shares)))
assert not missing, missing
assert all_values(queried(prio3, shares)) == first
"""


@pytest.mark.slow
@pytest.mark.usefixtures("empty_cache")
def test_a_report_is_verified_before_kernels_are_there_and_the_next_one_with_them() -> None:
    done = subprocess.run(  # noqa: S603  our own interpreter
        [sys.executable, "-c", CHANGEOVER], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
