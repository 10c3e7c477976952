"""Compiles kernels in a separate process, so that no service waits for the compiler.

The process reads what to compile from standard input, as one line of JSON, and leaves compiled code
in the cache. It gives way to other work, and gets none of the service's secrets or sockets. It ends
when its standard input does, and so with the service, however that ends.
"""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Sequence

from aggregator.dap.profile import Role
from aggregator.service.runtime.kernels import exercise, is_kept
from aggregator.service.runtime.niceness import give_way
from aggregator.service.telemetry.compiling import kernel_folder, one_at_a_time
from aggregator.vdaf.instances import prio3_from_configuration
from field.lanes import compile_here

_PASSED_ON = ("HOME", "PATH", "TMPDIR", "VIRTUAL_ENV", "LD_LIBRARY_PATH")
_PASSED_ON_FAMILIES = ("NUMBA_", "OMP_", "OPENBLAS_", "PYTHON", "LC_", "LANG")
_LAST_WORDS = 300

_PROGRAM = (
    # `give_way` comes before the other imports, which take seconds
    f"from {give_way.__module__} import give_way; give_way(); from {__name__} import main; main()"
)


@dataclasses.dataclass(frozen=True, slots=True)
class Kind:
    """What kernels are made for: a type of VDAF with its parameters, at one aggregator."""

    role: Role
    vdaf_type: int
    configuration: bytes

    @property
    def vdaf(self) -> str:
        """The type's name."""
        prio3 = prio3_from_configuration(self.vdaf_type, self.configuration)
        return f"Prio3{prio3.circuit.name}"


def kinds_to_bytes(kinds: Iterable[Kind]) -> bytes:
    """Return kinds as one line, for another process."""
    given = [[each.role.name, each.vdaf_type, each.configuration.hex()] for each in kinds]
    return json.dumps(given).encode() + b"\n"


def kinds_of_bytes(line: bytes) -> list[Kind]:
    """Return the kinds of a line of `kinds_to_bytes`."""
    return [Kind(Role[role], vdaf, bytes.fromhex(hexed)) for role, vdaf, hexed in json.loads(line)]


def compile_apart(kinds: Sequence[Kind]) -> str | None:
    """Compile kernels in another process, and wait for it; return what went wrong, if anything."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name in _PASSED_ON or name.startswith(_PASSED_ON_FAMILIES)
    }
    try:
        process = subprocess.Popen(  # noqa: S603  our own interpreter on our own module
            # -P: nothing is imported from the folder in which the service was started.
            [sys.executable, "-P", "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,  # Ctrl-C in a terminal is for the service, which ends this.
        )
    except OSError as error:
        return f"no process could be started: {error}"
    with process:
        assert process.stdin is not None  # noqa: S101  asked for above
        assert process.stderr is not None  # noqa: S101  asked for above
        try:
            process.stdin.write(kinds_to_bytes(kinds))
            process.stdin.flush()
        except OSError:
            pass  # The process has ended already; its standard error says why.
        said = process.stderr.read().decode(errors="replace").strip()
        status = process.wait()
    if status == 0:
        return None
    if status < 0:
        return f"the process that compiled was killed by {signal.Signals(-status).name}"
    last = said.splitlines()[-1][:_LAST_WORDS] if said else f"exit status {status}"
    return f"the process that compiled failed: {last}"


def main() -> None:
    """Compile the kinds that standard input lists."""
    kinds = kinds_of_bytes(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with, args=(sys.stdin.fileno(),), daemon=True).start()
    folder = kernel_folder()
    if folder is None or not is_kept():
        sys.exit("no folder for compiled kernels can be written")
    compile_here()
    with one_at_a_time(folder, sorted({each.vdaf for each in kinds})):
        for kind in kinds:
            exercise(prio3_from_configuration(kind.vdaf_type, kind.configuration), kind.role)


def _end_with(descriptor: int) -> None:
    """End this process at once when standard input ends."""
    # Unbuffered: Python aborts at exit if a thread is waiting inside a buffered file.
    while os.read(descriptor, 1024):
        pass
    os._exit(1)  # even in the middle of a compilation: files in the cache are always whole
