"""What a driver does with a job whose step fails through our own fault: it waits, and says why.

A missing key, a task below our floor or a full disk is for an operator to mend. Until then the job
backs off like one whose helper does not answer, and does not hold up any other.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from aggregator.errors import AggregatorError
from aggregator.storage.leases import Leased, LeaseLost

J = TypeVar("J")


def or_wait(
    step: Callable[[Leased[J]], Awaitable[None]],
    release: Callable[[Leased[J], str], Awaitable[None]],
) -> Callable[[Leased[J]], Awaitable[None]]:
    """Return a step that gives its job back for later when it fails, and raises all the same.

    Args:
        step: Moves one job; may raise anything.
        release: Gives a job back with the reason why it waits.
    """

    async def step_or_wait(leased: Leased[J]) -> None:
        try:
            await step(leased)
        except LeaseLost:
            raise
        except Exception as error:
            # Only our own messages are known to hold no secret.
            reason = str(error) if isinstance(error, AggregatorError) else type(error).__name__
            with suppress(AggregatorError):  # then the lease runs out
                await release(leased, reason)
            raise

    return step_or_wait
