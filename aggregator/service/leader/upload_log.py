"""Tells the log of stored uploads: one line a second at most, whatever the transactions.

Under load a line for each transaction takes longer than a report's share of the transaction. What
is refused, or fails, still has a line of its own each (`web.app`).
"""

import asyncio
from collections.abc import Iterable
from contextvars import Context

from aggregator.service.telemetry.lines import log

PAUSE_SECONDS = 1.0
"""The time between two lines."""


class UploadLog:
    """Counts what was stored since the last line."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._clear()
        self._pausing: asyncio.Task[None] | None = None

    def note(self, reports: int, requests: int, tasks: Iterable[bytes]) -> None:
        """Count a transaction: the first after a pause has its line at once.

        Args:
            reports: How many reports it has stored.
            requests: How many requests they came in.
            tasks: The ids of their tasks.
        """
        self._reports += reports
        self._requests += requests
        self._tasks.update(tasks)
        self._transactions += 1
        if self._pausing is None:
            # Outside the trace of the request that happens to write: the line is about many.
            context = Context()
            context.run(self._say)
            loop = asyncio.get_running_loop()
            self._pausing = loop.create_task(self._pause(), context=context)

    async def _pause(self) -> None:
        try:
            while True:
                await asyncio.sleep(PAUSE_SECONDS)
                if not self._transactions:
                    break
                self._say()
        finally:  # also when the service ends
            self._pausing = None
            if self._transactions:
                self._say()

    def _say(self) -> None:
        log.info(
            "uploads stored",
            reports=self._reports,
            requests=self._requests,
            tasks=len(self._tasks),
            transactions=self._transactions,
        )
        self._clear()

    def _clear(self) -> None:
        self._reports = self._requests = self._transactions = 0
        self._tasks: set[bytes] = set()
