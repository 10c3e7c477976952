"""Structured logs, and a processor that keeps secrets out of them.

A log line is an event and a few fields. Fields are numbers, booleans and text meant for a reader.
Bytes, vectors and settings are refused whatever they hold, as is every field whose name says that
it is a key, a token, a seed or a share. A refused field is named, never shown. Text often comes
from others, such as the path of a stranger's request, so terminal control characters are escaped.
"""

import logging
import re
import sys
from enum import Enum, StrEnum
from fractions import Fraction
from functools import lru_cache

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from aggregator.service.telemetry import lines
from aggregator.untrusted_text import escaped

REFUSED = "[refused]"
_SECRET_NAME = re.compile(
    r"(^|_)(token|key|keys|secret|seed|rand|share|shares|measurement|password|authorization)($|_)"
)
_PUBLIC_NAMES = frozenset({"verification_key_id"})
_CHATTY = ("httpx", "uvicorn", "alembic")
"""Libraries whose `info` lines only repeat what our own events say."""
_MEANINGS = {
    "SQLITE_FULL": "the disk is full",
    "SQLITE_IOERR": "the disk failed, or is full",
    "SQLITE_READONLY": "the file or its folder cannot be written",
    "SQLITE_CANTOPEN": "the file cannot be opened",
    "SQLITE_CORRUPT": "the file is damaged",
    "SQLITE_NOTADB": "the file is not a database",
}
"""What SQLite's errors mean for the operator."""

_BEARER = re.compile(r"(?i)\bbearer\s+\S+")


class LogFormat(StrEnum):
    """The format of a line."""

    JSON = "json"
    CONSOLE = "console"


def configure_logs(log_format: LogFormat, level: str, role: str | None = None) -> None:
    """Set up logging for the process: everything to standard error, one line per event.

    Each line names the party that the process belongs to, if any.
    """

    def name_role(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        return event if role is None else {"role": role, **event}

    shared: list[Processor] = [
        name_role,
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        name_exception,
        refuse_secrets,
    ]
    renderer: Processor = (
        structlog.processors.JSONRenderer()
        if log_format is LogFormat.JSON
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        # A logger keeps the configuration of its first use, but the level may change later.
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    lines.set_up_now()
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)


def name_exception(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Replace an exception by its type and the lines of its traceback, without any message.

    The message of an exception that we did not raise may contain anything, such as a statement's
    parameters. For database errors, the error's name is kept.
    """
    given = event.pop("exc_info", None)
    if given is True:
        given = sys.exc_info()[1]
    elif isinstance(given, tuple):
        given = given[1]
    if isinstance(given, BaseException):
        event["exception"] = type(given).__qualname__
        event["raised_at"] = _places(given)
        if database_error := _database_error(given):
            event["database_error"] = database_error
    return event


def refuse_secrets(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Replace every field that is, or may hold, a secret."""
    for name, value in event.items():
        if name.startswith("_"):
            continue  # structlog's own field, removed before the line is written
        if _names_secret(name):
            event[name] = REFUSED
        else:
            event[name] = _fit_to_print(value)
    return event


@lru_cache(maxsize=256)
def _names_secret(name: str) -> bool:
    """Return whether a field's name, which is our own, says that it holds a secret."""
    return _SECRET_NAME.search(name) is not None and name not in _PUBLIC_NAMES


def _fit_to_print(value: object) -> object:
    match value:
        case None | bool() | int() | float():
            return value
        case str():
            shown = _BEARER.sub(REFUSED, value) if "bearer" in value.lower() else value
            return shown if shown.isascii() and shown.isprintable() else escaped(shown)
        case Enum() | Fraction():
            return str(value)
        case list() | tuple() | set() | frozenset():
            return [_fit_to_print(item) for item in value]
        case dict():
            return {
                escaped(str(key)): REFUSED if _SECRET_NAME.search(str(key)) else _fit_to_print(item)
                for key, item in value.items()
            }
        case _:
            return f"{REFUSED} {type(value).__name__}"


def _database_error(error: BaseException | None) -> str | None:
    """Return the name of the database's error below `error`, with its meaning if known."""
    while error is not None:
        name, state = (getattr(error, key, None) for key in ("sqlite_errorname", "sqlstate"))
        if isinstance(name, str):
            meaning = _MEANINGS.get("_".join(name.split("_")[:2]))
            return name if meaning is None else f"{name}: {meaning}"
        if isinstance(state, str):
            return f"SQLSTATE {state}"
        error = error.__cause__ or error.__context__
    return None


def _places(error: BaseException) -> list[str]:
    places: list[str] = []
    traceback = error.__traceback__
    while traceback is not None:
        code = traceback.tb_frame.f_code
        file = "/".join(code.co_filename.split("/")[-3:])
        places.append(f"{file}:{traceback.tb_lineno}")
        traceback = traceback.tb_next
    return places
