"""How a command fails: with one line that names the fault, and an exit status (`STATUSES`)."""

import errno
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from aggregator.cli.process import leave_output
from aggregator.errors import (
    Abort,
    AggregatorError,
    ConfigurationError,
    ParameterError,
    PeerError,
    StoreError,
)
from aggregator.untrusted_text import escaped

_FAULTS = (AggregatorError, OSError, UnicodeDecodeError, ModuleNotFoundError)

PARTLY = 1
BAD_INPUT = 2
PEER = 3

STATUSES: Final = {
    0: "done",
    PARTLY: "done in part (some reports refused, some files failed, an ε refuted), or our own "
    "fault",
    BAD_INPUT: "bad input: an argument, a file, a setting; or a person is needed: a store, its key "
    "or its journal cannot be used as it is; nothing was changed",
    PEER: "another party could not be reached, or refused; or the store's server could not be "
    "reached",
}
"""What each exit status means."""


def status_of(error: BaseException) -> int:
    """Return the exit status for a fault."""
    match error:
        case ParameterError() | ConfigurationError() | Abort() | OSError() | UnicodeDecodeError():
            return BAD_INPUT
        case PeerError():
            return PEER
        case StoreError():
            return _status_of_store(error)
        case _:
            return PARTLY


def _status_of_store(error: StoreError) -> int:
    # Imported here because only parties with a store have a database library, and help is quick.
    from aggregator.service.storage.engine.backends import Conflict, Damaged, Unreachable
    from aggregator.service.storage.engine.schema import SchemaMismatch
    from aggregator.service.storage.ledger.journal import JournalError
    from aggregator.service.storage.secrets.crypter import CrypterError
    from aggregator.service.storage.secrets.key_file import KeysAhead, KeysMissing

    match error:
        case Conflict() | Damaged() | SchemaMismatch() | JournalError():
            return BAD_INPUT
        case CrypterError() | KeysAhead() | KeysMissing():
            return BAD_INPUT
        case Unreachable():
            return PEER
        case _:
            return PARTLY


@contextmanager
def reported(status: Callable[[BaseException], int] = status_of) -> Iterator[None]:
    """Turn a fault into a line on standard error and an exit status, which `status` returns."""
    # Not `except*`: on Python 3.11.2, an exception raised in it for a group comes out as a group.
    try:
        yield
    except ExceptionGroup as group:
        if group.split(_FAULTS)[1] is not None:  # the group holds something else, too
            raise
        raise SystemExit(_told(_first(group), status)) from None
    except _FAULTS as fault:
        raise SystemExit(_told(fault, status)) from None


def _told(fault: BaseException, status: Callable[[BaseException], int]) -> int:
    """Print the fault and return the exit status; raise the fault again if it is our own."""
    if isinstance(fault, ModuleNotFoundError):
        name = str(fault.name or "").partition(".")[0]
        if name in ("", "aggregator", "field"):
            raise fault
        print(f"prio: this needs {name}: pip install 'prio-aggregator[all]'", file=sys.stderr)
        return BAD_INPUT
    if isinstance(fault, BrokenPipeError):  # as for `prio … | head -1`, which reads no further
        leave_output()
        return PARTLY
    print(f"prio: {escaped(_text(fault))}", file=sys.stderr)
    return status(fault)


def _text(fault: BaseException) -> str:
    match fault:
        case UnicodeDecodeError():
            # The offending bytes are not shown: they may belong to a secret.
            return "a file is not UTF-8 text"
        case FileExistsError(filename=str() | Path() as path):
            return f"{path}: exists already; give a name that is free"
        case OSError(filename=str() | Path() as path, strerror=str(reason)):
            return f"{path}: {reason}"
        case OSError(filename=None, errno=errno.ENOSPC | errno.EDQUOT | errno.EIO):
            # Any other write names its file in the error.
            leave_output()
            return f"standard output: {fault.strerror}"
        case _:
            return str(fault)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first fault in nested groups: task groups wrap what fails inside them."""
    fault: BaseException = group
    while isinstance(fault, BaseExceptionGroup):
        fault = fault.exceptions[0]
    return fault
