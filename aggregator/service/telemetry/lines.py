"""`log`, on which every module writes its lines; it loads structlog with the first of them.

A command that has nothing to log starts without it, and without what it brings (rich, asyncio).
"""

import logging
from collections.abc import Callable
from typing import Any

from typing_extensions import override

SetUp = Callable[[], None]


class _Log:
    """A logger of structlog's, once somebody uses it."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  structlog's own
        import structlog

        _begin()
        return getattr(structlog.get_logger(), name)


class _FirstLine(logging.Handler):
    """Sets logs up when a library has a line, and hands the line on to them."""

    @override
    def emit(self, record: logging.LogRecord) -> None:
        _begin()
        logging.getLogger().handle(record)


log: Any = _Log()

_waiting: list[SetUp] = []


def set_up_with_first_line(set_up: SetUp) -> None:
    """Have logs set up by `set_up`, unless that is done before, when there is a line to write."""
    _waiting[:] = [set_up]
    root = logging.getLogger()
    root.handlers = [_FirstLine()]


def set_up_now() -> None:
    """Forget what waits for the first line: logs are being set up."""
    _waiting.clear()


def _begin() -> None:
    if _waiting:
        _waiting.pop()()
