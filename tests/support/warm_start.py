"""Starts our own programs from an interpreter that has loaded everything, and only forks.

`Warm` is a `subprocess.Popen` for `python -m MODULE …`. The process is what it would be otherwise:
a child of this one, with the arguments, environment, folder, files, mask and session that it was
given, and no other file open. Only what a program loads at its start is there already, compiled
kernels included, which is most of what starting a service costs. Whatever is about a start itself
is tested with `subprocess.Popen`: memory, imports, kernels that are missing.

The interpreter is started with the first such process, does nothing but load and fork, and ends
with this process. What it cannot start as asked is started as usual.
"""

import array
import atexit
import ctypes
import functools
import gc
import importlib
import json
import os
import pkgutil
import runpy
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from tests.support import leftovers
from tests.support.patience import PATIENCE_SECONDS

_PR_SET_CHILD_SUBREAPER = 36
_NUMBER = 4
"""Bytes of a number that is sent."""
_STREAMS = ("stdin", "stdout", "stderr")
_BEGINNINGS = ("LANG", "LC_", "LD_", "MALLOC_", "NUMBA_", "OMP_", "OPENBLAS_", "PYTHON", "TZ")
"""What variables begin with that say how an interpreter begins; the path of modules is none."""
_LATE = (
    "alembic.config",
    "alembic.runtime.migration",
    "anyio._backends._asyncio",
    "cryptography.hazmat.backends.openssl.backend",
    "cryptography.hazmat.primitives.asymmetric.x25519",
    "cryptography.hazmat.primitives.ciphers.aead",
    "encodings.ascii",
    "encodings.utf_8_sig",
    "httpcore",
    "pydantic.v1",
    "sqlalchemy.dialects.sqlite.pysqlite",
    "uvicorn.lifespan.off",
    "uvicorn.lifespan.on",
    "uvicorn.protocols.http.h11_impl",
)
"""What services load of others after their beginning."""

_asking = threading.Lock()


class Warm(subprocess.Popen[Any]):
    """A process of ours that need not load anything; see the module."""

    def _execute_child(self, *given: Any) -> None:  # noqa: ANN401  as `Popen` calls it
        args, executable, preexec_fn, _, pass_fds, cwd, env, _, _, shell, *rest = given
        pipes, (_, gid, gids, uid, umask, start_new_session, process_group) = rest[:6], rest[6:]
        words = [os.fspath(each) for each in args]
        environment = dict(os.environ if env is None else env)
        is_special = preexec_fn or pass_fds or shell or process_group >= 0
        has_other_user = not gid is gids is uid is None
        if (
            sys.platform != "linux"
            or is_special
            or has_other_user
            or executable is not None
            or words[:2] != [sys.executable, "-m"]
            or _beginning(environment) != _beginning(_first_environment())
            or "PYTHONUNBUFFERED" in environment
        ):
            super()._execute_child(*given)  # type: ignore[misc]  not of its public face
            return
        asked = {
            "words": words[2:],
            "environment": environment,
            "folder": str(Path.cwd() / os.fspath(cwd or "")),
            "umask": umask if umask >= 0 else _own_umask(),
            "has_own_session": bool(start_new_session),
        }
        streams = (pipes[0], pipes[3], pipes[5])
        with _asking:
            self.pid = _forked(
                asked, [given if given >= 0 else own for own, given in enumerate(streams)]
            )
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]  as above


def run_warm(
    command: Sequence[str | Path], *, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command of ours to its end, as `subprocess.run` would, and return what it has said."""
    with Warm(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env=env,
    ) as process:
        try:
            stdout, stderr = process.communicate(timeout=PATIENCE_SECONDS)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)


def _beginning(environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return the variables that say how an interpreter begins."""
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(_BEGINNINGS) and name != "PYTHONPATH"
    }


@functools.cache
def _first_environment() -> Mapping[str, str]:
    return dict(os.environ)


def _own_umask() -> int:
    mask = os.umask(0o77)
    os.umask(mask)
    return mask


@functools.cache
def _loaded_interpreter() -> socket.socket:
    """Start the interpreter; return where it is asked."""
    ours, its_own = socket.socketpair()
    with its_own:
        process = subprocess.Popen(  # noqa: S603  this module
            [sys.executable, "-m", __name__, str(its_own.fileno())],
            cwd=Path(__file__).parents[2],
            env={
                name: value for name, value in _first_environment().items() if name != "PYTHONPATH"
            },
            pass_fds=[its_own.fileno()],
        )
    leftovers.may_stay(process.pid)

    @atexit.register
    def end() -> None:
        ours.close()
        process.wait()

    return ours


def _forked(asked: Mapping[str, object], files: Sequence[int]) -> int:
    """Ask for a process with these standard streams; return its id once it is our child."""
    interpreter = _loaded_interpreter()
    body = json.dumps(asked).encode()
    _take_orphans(is_taking=True)
    try:
        socket.send_fds(interpreter, [len(body).to_bytes(_NUMBER, "big")], files)
        interpreter.sendall(body)
        answer = _received(interpreter, _NUMBER)
    finally:
        _take_orphans(is_taking=False)
    assert answer, "the interpreter that has loaded everything has ended"
    return int.from_bytes(answer, "big")


def _take_orphans(*, is_taking: bool) -> None:
    """Become the parent of what loses its own below us, and not the system's first process."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(is_taking))


def _received(connection: socket.socket, size: int) -> bytes:
    """Return this many bytes, or none if the other side is gone."""
    received = b""
    while len(received) < size:
        part = connection.recv(size - len(received))
        if not part:
            return b""
        received += part
    return received


def main(descriptor: str) -> None:
    """Load everything, and fork whenever asked, until nobody can; a fork runs its own program."""
    _load()
    asking = socket.socket(fileno=int(descriptor))
    files = array.array("i", [0] * len(_STREAMS))
    while True:
        size, sent, _, _ = asking.recvmsg(_NUMBER, socket.CMSG_SPACE(files.itemsize * len(files)))
        if not size:
            return
        files = array.array("i", sent[0][2])
        asked = json.loads(_received(asking, int.from_bytes(size, "big")))
        reading, writing = os.pipe()
        between = os.fork()
        if between == 0:
            parent = os.getpid()
            child = os.fork()
            if child == 0:
                asking.detach()
                _begin(parent, files, asked)
                return
            os.write(writing, child.to_bytes(_NUMBER, "big"))
            os._exit(0)
        os.waitpid(between, 0)  # whose child has another parent now
        asking.sendall(os.read(reading, _NUMBER))
        for each in (*files, reading, writing):
            os.close(each)


def _load() -> None:
    from aggregator.dap.profile import Role  # noqa: PLC0415  what forks use is loaded here
    from aggregator.service.runtime.kernels import are_compiled  # noqa: PLC0415  as above
    from aggregator.vdaf.instances import TYPES  # noqa: PLC0415  as above

    for package in ("aggregator", "field"):
        folders = importlib.import_module(package).__path__
        for module in pkgutil.walk_packages(folders, f"{package}."):
            if not module.name.endswith("__main__") and ".migrations" not in module.name:
                importlib.import_module(module.name)
    for name in _LATE:
        importlib.import_module(name)
    for row in TYPES.values():
        for role in (Role.LEADER, Role.HELPER):
            are_compiled(row.prio3(row.typical()), role)
    gc.collect()
    gc.freeze()


def _begin(parent: int, files: Sequence[int], asked: Mapping[str, Any]) -> None:
    """Become a process that somebody has started, and run its program."""
    if asked["has_own_session"]:
        os.setsid()
    for own, each in enumerate(files):
        os.dup2(each, own)
    os.closerange(len(_STREAMS), os.sysconf("SC_OPEN_MAX"))
    os.umask(asked["umask"])
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    new_streams()
    paths = os.environ.get("PYTHONPATH", "")
    sys.path[:1] = [asked["folder"], *filter(None, paths.split(os.pathsep))]
    module, *sys.argv[1:] = asked["words"]
    while os.getppid() == parent:
        time.sleep(0.0005)
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def new_streams() -> None:
    """Read and write the first three files anew, with nothing left of what was read or written."""
    for own, name in enumerate(_STREAMS):
        before: IO[str] = getattr(sys, name)
        stream = open(  # noqa: SIM115  open until the end
            own,
            before.mode,
            1 if name == "stderr" else -1,
            encoding=before.encoding,
            errors=before.errors,
            closefd=False,
        )
        stream.buffer.raw.name = f"<{name}>"  # type: ignore[attr-defined]  files have one
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


if __name__ == "__main__":
    main(sys.argv[1])
