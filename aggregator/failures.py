"""Errors that keep nothing alive once they were answered.

An error has the frames that it came through in its traceback, and they have all that they worked
on, such as the body of a request. If one of them has a name for the error too, or for something
that has it, only the collector of garbage frees them: as rarely as it comes, with gigabytes of what
was refused.
"""

from collections.abc import Callable
from typing import TypeVar, TypeVarTuple, Unpack, cast

import anyio
from anyio import to_thread

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


def let_go(error: BaseException) -> None:
    """Free what the frames of an error hold, those of its causes and of a group's errors too.

    What is to be logged of them has to be logged before.
    """
    waiting: list[BaseException | None] = [error]
    seen = set[int]()
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        each.__traceback__ = None
        waiting += (each.__cause__, each.__context__)
        if isinstance(each, BaseExceptionGroup):
            waiting += each.exceptions


async def in_thread(
    work: Callable[[Unpack[Ts]], T],
    *args: *Ts,
    limiter: anyio.CapacityLimiter | None = None,
) -> T:
    """Return `work(*args)`, called in a worker thread; once begun, it is not cancelled.

    anyio would raise its error out of a frame that has the error. Whoever catches it could not free
    what the frames up to there hold.

    Args:
        work: Is called with `args`.
        *args: Its arguments.
        limiter: How many threads there may be; anyio's own limit unless given.
    """
    result, error = await to_thread.run_sync(_outcome, work, args, limiter=limiter)
    if error is None:
        return cast("T", result)
    try:
        raise error
    finally:
        del error


def _outcome(
    work: Callable[[Unpack[Ts]], T], args: tuple[*Ts]
) -> tuple[T | None, BaseException | None]:
    """Return what `work` returns, or what it raises."""
    try:
        return work(*args), None
    except BaseException as error:  # noqa: BLE001  raised by whoever waits for it
        return None, error
