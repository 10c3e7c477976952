"""Runs `prio`, and forks itself where that starts `prio` again, so that nothing is loaded twice.

    python -m tests.support.forking up FOLDER

Started by `warm_start.Warm`, it has loaded everything, and so has each of its services. A fork is
what a new process would be in all that `Popen` is asked for, but for its command line, which is
that of the interpreter that has loaded everything.
"""

import atexit
import os
import runpy
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NoReturn
from unittest.mock import patch

from tests.support.warm_start import new_streams

_OURS = [sys.executable, "-P", "-m", "aggregator.cli"]
_STANDARD = 3
"""How many descriptors every process has."""


class Forking(subprocess.Popen[Any]):
    """A process of ours that is forked from this one."""

    def __init__(self, args: Sequence[Any], **options: Any) -> None:  # noqa: ANN401  as of `Popen`
        words = [os.fspath(each) for each in args]
        if words[: len(_OURS)] == _OURS and options.get("env") is None:
            sys.stdout.flush()
            before, kept = options.get("preexec_fn"), options.get("pass_fds", ())
            options["preexec_fn"] = lambda: _run(words[len(_OURS) :], before, kept)
        super().__init__(args, **options)


def _run(
    words: Sequence[str], before: Callable[[], object] | None, kept: Sequence[int]
) -> NoReturn:
    """Be the new process, at the point where it would load its program."""
    status: object = 1
    try:
        if before is not None:
            before()
        for number in signal.valid_signals():
            if callable(signal.getsignal(number)):
                is_usual = number is signal.SIGINT
                signal.signal(number, signal.default_int_handler if is_usual else signal.SIG_DFL)
        begin = _STANDARD
        for each in [*sorted(kept), os.sysconf("SC_OPEN_MAX")]:
            os.closerange(begin, each)
            begin = each + 1
        new_streams()
        atexit._clear()
        sys.argv[1:] = words
        runpy.run_module("aggregator.cli", run_name="__main__", alter_sys=True)
        status = 0
    except SystemExit as end:
        status = end.code
    except BaseException:  # noqa: BLE001  printed, as at the end of any program
        traceback.print_exc()
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    os._exit(status if isinstance(status, int) else int(status is not None))


if __name__ == "__main__":
    with patch("subprocess.Popen", Forking):
        runpy.run_module("aggregator.cli", run_name="__main__", alter_sys=True)
