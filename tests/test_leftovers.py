"""No process outlives the tests that started it, and children take signals as by default."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.leftovers import _MEMORY
from tests.support.patience import PATIENCE_SECONDS, wait_until

ROOT = Path(__file__).parents[1]
WAITING = "import time; time.sleep(3600)"

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/environ").exists(), reason="only Linux tells a process's environment"
)


def gone(pid: int) -> bool:
    """Return whether a process ends in time, or has been dead and unburied."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        try:
            if " Z " in Path(f"/proc/{pid}/stat").read_text():
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.02)
    return False


def run_tests(folder: Path, source: str) -> subprocess.CompletedProcess[str]:
    """Run a module of tests in a run of its own, which has our fixtures."""
    (folder / "conftest.py").write_text(
        "from tests.conftest import *  # noqa: F403\n"
        "from tests.support import leftovers\n"
        "from tests.conftest import _no_process_is_left\n"
        "leftovers._GRACE_SECONDS = 1.0\n"
        "leftovers._ROOM = 0\n"
    )
    (folder / "test_some.py").write_text(source)
    return subprocess.run(  # noqa: S603  a fixed command
        [
            *(sys.executable, "-m", "pytest", "-p", "anyio", "-p", "no:cacheprovider"),
            *("-c", str(ROOT / "pyproject.toml"), f"--rootdir={folder}", str(folder)),
        ],
        cwd=ROOT,
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},  # it begins sooner
        capture_output=True,
        text=True,
        check=False,
    )


SOURCE = f"""
import os, pathlib, subprocess, sys
from tests.support.leftovers import _MEMORY
from tests.support.patience import PATIENCE_SECONDS, wait_until

def begin():
    # A grandchild whose parent has ended, in a session of its own.
    middle = "import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', {WAITING!r}], "
    middle += "start_new_session=True, "
    middle += "stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).pid)"
    done = subprocess.run([sys.executable, "-c", middle], capture_output=True, check=True)
    pathlib.Path(__file__).with_name("pid").write_bytes(done.stdout)
"""


def test_a_module_that_leaves_a_process_fails_and_the_process_is_killed(tmp_path: Path) -> None:
    done = run_tests(tmp_path, f"{SOURCE}\ndef test_it():\n    begin()\n")
    assert re.search("1 passed, 1 error", done.stdout), done.stdout
    assert f"{WAITING}" in done.stdout
    assert gone(int((tmp_path / "pid").read_text()))


def test_what_a_killed_run_has_started_is_killed(tmp_path: Path) -> None:
    done = run_tests(
        tmp_path, f"{SOURCE}\ndef test_it():\n    begin()\n    os.kill(os.getpid(), 9)\n"
    )
    assert done.returncode == -signal.SIGKILL
    assert gone(int((tmp_path / "pid").read_text()))


def test_what_a_killed_run_has_kept_in_memory_is_removed(tmp_path: Path) -> None:
    source = """
import os, pathlib
from tests.support.leftovers import folder_in_memory

def test_it():
    with folder_in_memory("prio-left") as folder:
        (folder / "a file").touch()
        pathlib.Path(__file__).with_name("place").write_text(str(folder))
        os.kill(os.getpid(), 9)
"""
    assert run_tests(tmp_path, source).returncode == -signal.SIGKILL
    place = Path((tmp_path / "place").read_text())
    assert place.parent == _MEMORY
    wait_until(lambda: not place.exists())


def test_children_take_signals_that_whoever_started_the_run_ignores() -> None:
    shell = 'trap "" HUP INT QUIT TERM; exec "$0" -c "$1"'
    ours = (
        "import subprocess; from tests.support.dispositions import give_children_defaults; "
        "give_children_defaults(); subprocess.run(['grep', 'SigIgn', '/proc/self/status'])"
    )
    done = subprocess.run(  # noqa: S603  our own words
        ["sh", "-c", shell, sys.executable, ours],  # noqa: S607  any shell
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    ignored = int(done.stdout.split()[1], 16)
    taken = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
    assert [number for number in taken if ignored >> (number - 1) & 1] == []
