"""A process that was forked from an interpreter that is warm is one that was started as usual."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.warm_start import Warm, run_warm

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="`Warm` is `Popen` elsewhere")

SHOWN = """
import json, os, sys
from pathlib import Path
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
streams = (sys.stdin, sys.stdout, sys.stderr)
print("said", file=sys.stderr)
print(json.dumps({
    "words": sys.argv,
    "name": __name__,
    "path": sys.path,
    "folder": os.getcwd(),
    "environment": dict(os.environ),
    "read": sys.stdin.read(),
    "streams": [[each.encoding, each.errors, each.mode, each.name, each.line_buffering]
                for each in streams],
    "files": sorted(int(each) for each in os.listdir("/proc/self/fd"))[:-1],
    "umask": status["Umask"],
    "signals": [int(status[name], 16) % 2**31 for name in ("SigBlk", "SigIgn", "SigCgt")],
    "parent": os.getppid(),
    "group": os.getpgrp() if os.getpgrp() != os.getpid() else "its own",
    "session": os.getsid(0) if os.getsid(0) != os.getpid() else "its own",
    "is_warm": "uvicorn" in sys.modules,
}))
sys.exit(7)
"""


def shown(
    kind: type[subprocess.Popen[Any]], folder: Path, options: dict[str, Any]
) -> tuple[dict[str, Any], str, int]:
    """Return what a process says of itself and on standard error, and its status."""
    (folder / "shown.py").write_text(SHOWN)
    command = [sys.executable, "-m", "shown", "one", "two words", "ü"]
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    given = {"cwd": folder, "env": os.environ, **streams, **options}
    with kind(command, text=True, **given) as process:
        said, also_said = process.communicate("asked")
    return json.loads(said), also_said, process.returncode


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"start_new_session": True},
        {
            "umask": 0o27,
            "env": {
                **{name: value for name, value in os.environ.items() if name != "HOME"},
                "COLUMNS": "99",
                "PYTHONPATH": "/no/modules:/none/either",
            },
        },
    ],
    ids=["plain", "session", "environment"],
)
def test_it_has_all_that_it_was_given_and_nothing_else(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    usual, warm = (shown(kind, tmp_path, options) for kind in (subprocess.Popen, Warm))
    assert [usual[0].pop("is_warm"), warm[0].pop("is_warm")] == [False, True]
    assert warm == usual
    assert warm[0]["parent"] == os.getpid()


@pytest.mark.parametrize(
    "options",
    [
        {"env": os.environ | {"NUMBA_CACHE_DIR": "elsewhere"}},
        {"env": os.environ | {"PYTHONUNBUFFERED": "1"}},
        {"preexec_fn": lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)},
        {"process_group": 0},
    ],
    ids=["cache", "unbuffered", "function", "group"],
)
def test_what_it_cannot_be_is_started_as_usual(tmp_path: Path, options: dict[str, Any]) -> None:
    usual, other = (shown(kind, tmp_path, options) for kind in (subprocess.Popen, Warm))
    assert not other[0]["is_warm"]
    assert other == usual


def test_its_end_is_seen_as_that_of_any_child(tmp_path: Path) -> None:
    (tmp_path / "waits.py").write_text("import time\nprint(flush=True)\ntime.sleep(3600)\n")
    (tmp_path / "fails.py").write_text("raise ValueError('why')\n")
    waiting = Warm([sys.executable, "-m", "waits"], stdout=subprocess.PIPE, cwd=tmp_path)
    with waiting:
        assert waiting.stdout is not None
        assert waiting.stdout.read(1) == b"\n"
        assert waiting.poll() is None
        waiting.send_signal(signal.SIGTERM)
        assert waiting.wait() == -signal.SIGTERM
    failed = run_warm([sys.executable, "-m", "fails"], cwd=tmp_path)
    assert failed.returncode == 1
    assert failed.stdout == ""
    assert failed.stderr.endswith("ValueError: why\n")
    drawn = {
        run_warm([sys.executable, "-m", "draws"], cwd=tmp_path).stdout
        for _ in range(3)
        if (tmp_path / "draws.py").write_text("import random\nprint(random.random())\n")
    }
    assert len(drawn) == 3


def test_it_leaves_no_one_else_without_a_parent() -> None:
    """A process that loses its parent while none is being made goes to the system's first one."""
    orphan = "import os, time; time.sleep(0.2); print(os.getppid())"
    between = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {orphan!r}])"
    done = subprocess.run(  # noqa: S603  our own words
        [sys.executable, "-c", between], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) != os.getpid()
