"""What the processes that tests start inherit, whoever started the run."""

import os
import signal

_TAKEN = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)


def give_children_defaults() -> None:
    """Let signals that this process ignores do to its children what they do by default.

    `nohup` ignores SIGHUP, and a shell SIGINT for what runs in its background; children inherit
    that. A handler is not inherited: this process goes on as if it ignored them. Containers often
    ask Python not to buffer; a child of a test that is to do so is told by the test.
    """
    os.environ.pop("PYTHONUNBUFFERED", None)
    for number in _TAKEN:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
