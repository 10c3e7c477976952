"""Processes that outlive the tests that started them: found after each module, and killed.

Each process that a run starts has the run's mark in its environment, and so has whatever it starts
in turn. A guard beside the run waits for it to end, however it does, and kills what has the mark
then: services of a test that was killed do not run on, and what they kept in memory goes with them.
Only Linux tells a process's environment.
"""

import os
import secrets
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

_MARK = "PRIO_TEST_RUN"
_PROC = Path("/proc")
_MEMORY = Path("/dev/shm")  # noqa: S108  what is made in it has a name that nobody guesses
_ROOM = 2**32
"""Bytes that have to be free there: all workers share them."""
_GRACE_SECONDS = 120.0
"""How long a process may take to end that was told to: only one that does not is meant."""

_PYTHONS_OWN = "from multiprocessing.resource_tracker import main"
"""What Python itself runs from the first use of `multiprocessing` until the process ends."""

_staying: set[int] = set()


def guard() -> None:
    """Mark what this process starts from now on, and have it killed when this process has ended."""
    if not (_PROC / "self" / "environ").exists():
        return
    unmarked = unmarked_environment()
    mark = secrets.token_hex(8)
    os.environ[_MARK] = mark
    end, _ = os.pipe()  # closed when we have ended; no child inherits our side of it
    silent = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)
    own_file = [sys.executable, "-I", "-S", __file__, mark]
    actions = [(os.POSIX_SPAWN_DUP2, end, 0), silent, (os.POSIX_SPAWN_DUP2, 1, 2)]
    # In a session of its own Ctrl-C is not for it.
    may_stay(os.posix_spawn(own_file[0], own_file, unmarked, file_actions=actions, setsid=True))
    os.close(end)


@contextmanager
def folder_in_memory(prefix: str) -> Iterator[Path]:
    """Give a folder in memory, or where others are if memory has no folder with room."""
    mark = os.environ.get(_MARK)
    has_room = _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _ROOM
    place = _MEMORY if mark and has_room else None
    with tempfile.TemporaryDirectory(prefix=f"{prefix}-{mark}-", dir=place) as folder:
        yield Path(folder)


def unmarked_environment() -> dict[str, str]:
    """Return the environment for what is to outlive the run, such as an engine of containers."""
    return {name: value for name, value in os.environ.items() if name != _MARK}


def may_stay(pid: int) -> None:
    """Let a process, and what it starts, stay until the end of the session."""
    _staying.add(pid)


def left() -> dict[int, str]:
    """Return the command lines of processes that this one has started and that have not ended."""
    parents = dict(_parents())
    mark = os.environ.get(_MARK)

    def is_below(pid: int, tops: set[int]) -> bool:
        while pid in parents and pid not in tops:
            pid = parents[pid]
        return pid in tops

    found = {
        pid: _words(pid, "cmdline")
        for pid in parents
        if pid != os.getpid()
        and (is_below(pid, {os.getpid()}) or (mark is not None and _has(pid, mark)))
        and not is_below(pid, _staying)
    }
    return {pid: words for pid, words in found.items() if not _is_ours(pid, words, parents)}


def _is_ours(pid: int, words: str, parents: Mapping[int, int]) -> bool:
    return _PYTHONS_OWN in words and parents[pid] == os.getpid()


def kill_what_is_left() -> dict[int, str]:
    """Wait for such processes to end; kill and return those that do not."""
    deadline = time.monotonic() + _GRACE_SECONDS
    while (found := left()) and time.monotonic() < deadline:
        time.sleep(0.05)
    for pid in found:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return found


def _parents() -> Iterator[tuple[int, int]]:
    """Yield each process that has not ended, and its parent."""
    for folder in _PROC.glob("[0-9]*"):
        with suppress(OSError):
            state, parent = (folder / "stat").read_text().rpartition(") ")[2].split()[:2]
            if state not in "ZX":
                yield int(folder.name), int(parent)


def _words(pid: int, name: str) -> str:
    try:
        return (_PROC / str(pid) / name).read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _has(pid: int, mark: str) -> bool:
    return f"{_MARK}={mark} " in _words(pid, "environ")


def _main(mark: str) -> None:
    """Be the guard of a run."""
    sys.stdin.read()
    while marked := [pid for pid, _ in _parents() if _has(pid, mark)]:
        for pid in marked:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    for folder in _MEMORY.glob(f"*-{mark}-*"):
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    _main(sys.argv[1])
