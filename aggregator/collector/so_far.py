"""How many answers windows have so far, by their leaders' word, as pages show it."""

from collections.abc import Awaitable, Callable

import anyio

from aggregator.clock import Clock
from aggregator.errors import PeerError
from aggregator.protocol.answers_so_far import SECONDS_BETWEEN, AnswersSoFar
from aggregator.protocol.task import Task
from aggregator.service.telemetry.lines import log
from aggregator.service.transport.interpretation import PeerRefused
from aggregator.written_times import Times

PATIENCE_SECONDS = 3
"""How long a page waits for a leader."""

_AGAIN_SECONDS = 60

Ask = Callable[[Task], Awaitable[AnswersSoFar]]


class LeadersWord:
    """Asks leaders once an hour, as they count no more often; keeps what they say in memory."""

    def __init__(self, ask: Ask, clock: Clock, times: Times) -> None:
        self._ask, self._clock, self._times = ask, clock, times
        self._said: dict[bytes, tuple[int, AnswersSoFar | str]] = {}

    async def refresh(self, task: Task) -> None:
        """Ask the leader of a task if that is due."""
        now = self._clock.now()
        until, _ = self._said.get(task.task_id.value, (0, ""))
        if now < until or task.policy.window is None or task.batching.has_ids:
            return
        found: AnswersSoFar | str = "the leader does not say how many answers it has"
        with anyio.move_on_after(PATIENCE_SECONDS):
            try:
                found = await self._ask(task)
            except PeerRefused:
                found = ""  # another program than ours, which has no such resource
            except PeerError as error:
                log.info("the leader does not say its answers", reason=str(error))
        until = now + _AGAIN_SECONDS
        if not isinstance(found, str):
            # By its clock, which may be ahead by any time.
            until = max(until, min(found.counted_at, now) + SECONDS_BETWEEN)
        self._said[task.task_id.value] = until, found

    def of(self, task: Task, start: int) -> tuple[int | None, str]:
        """Return the answers in a window, None if they are not said; and a sentence about them.

        `start` is the window's first second. The sentence is empty if the leader was not asked.
        """
        _, said = self._said.get(task.task_id.value, (0, ""))
        if isinstance(said, str):
            return None, said
        if not said.counted_at:
            return None, "the leader counts its answers for the first time within an hour"
        answers, at = said.of_window(start), self._times.moment(said.counted_at)
        number = f"fewer than {said.least:,}" if answers is None else f"{answers:,}"
        return answers, f"{number} answers so far: the leader's word at {at}"
