"""What signals do to the processes that tests start, whoever started the run."""

import signal

_TAKEN = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)


def give_children_defaults() -> None:
    """Let signals that this process ignores do to its children what they do by default.

    `nohup` ignores SIGHUP, and a shell SIGINT for what runs in its background; children inherit
    that. A handler is not inherited: this process goes on as if it ignored them.
    """
    for number in _TAKEN:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
