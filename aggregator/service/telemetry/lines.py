"""`log`, which every module writes its log lines to; the first line loads structlog.

A command that has nothing to log starts without structlog and its dependencies (rich, asyncio).
"""

import logging
from collections.abc import Callable
from typing import Any

from typing_extensions import override

SetUp = Callable[[], None]


class _Log:
    """A structlog logger that is made on first use."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  structlog's own
        import structlog

        _begin()
        return getattr(structlog.get_logger(), name)


class _FirstLine(logging.Handler):
    """Sets up logging when a library logs its first line, and passes the line on."""

    @override
    def emit(self, record: logging.LogRecord) -> None:
        _begin()
        logging.getLogger().handle(record)


log: Any = _Log()

_waiting: list[SetUp] = []


def set_up_with_first_line(set_up: SetUp) -> None:
    """Have `set_up` called before the first line is written, unless logs are set up earlier."""
    _waiting[:] = [set_up]
    root = logging.getLogger()
    root.handlers = [_FirstLine()]


def set_up_now() -> None:
    """Cancel the pending set-up: logs are being set up now."""
    _waiting.clear()


def _begin() -> None:
    if _waiting:
        _waiting.pop()()
