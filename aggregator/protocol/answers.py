"""What the Leader does with what its Helper answers: decided here, done by the Leader's drivers.

| The Helper | an aggregation job | a collection job |
| --- | --- | --- |
| cannot be reached, or says to come again | ask again | ask again |
| gives an answer that cannot be used | ask again; hold it after `max_attempts` | ask again |
| no longer has the job at its location | ask again, with the request | the same |
| refuses, and may have processed a request | ask again, but see the next row | see the next rows |
| refuses a request that is too large | split it if it can be, else as below | as below |
| refuses otherwise | ask again; after `max_attempts` with a new request | fail if it is final |
| has refused for `refusal_seconds` | the same | fail |

"Again" is with the same bytes: the Helper may have counted the reports of a request of which we do
not know. Only one that it has refused each time, so that it surely has not, is made anew or split.
But who has processed a request must answer it when it comes again: so a Helper that finds the same
bytes too large `max_attempts` times has not, whatever broke before it could say so. Whoever stands
before a Helper and says so in its place could as well refuse the reports for ever.
A collection job that fails reopens its batch, which is no harm even if the Helper has released its
share: it counts no report of the batch any more, so the batch stays the same, and whoever asks for
it again makes the same request and gets that share.

Source: DAP, "Verifying and Aggregating Reports", "Obtaining Aggregate Shares" and "Asynchronous
Request Handling".
"""

import dataclasses
from collections.abc import Callable
from enum import Enum, auto
from http import HTTPStatus
from typing import Final

from aggregator.dap.problems import (
    BatchInvalid,
    BatchMismatch,
    BatchOverlap,
    CollectionFailed,
    InvalidBatchSize,
    Problem,
    UnrecognizedAggregateShare,
    UnrecognizedAggregationJob,
    is_final,
)

LONGEST_DELAY_SECONDS: Final = 60

_FAULTS_OF_A_BATCH: Final = (BatchInvalid, BatchMismatch, BatchOverlap, InvalidBatchSize)
"""Refusals that would come again for the same batch: a Leader that selects takes the next one."""


@dataclasses.dataclass(frozen=True, slots=True)
class Refusal:
    """A refusal by the Helper.

    Attributes:
        problem: Its problem document.
        status: The HTTP status code.
    """

    problem: Problem
    status: int

    @property
    def is_gone(self) -> bool:
        """Whether the Helper no longer has what we asked for by its location."""
        unknown = (UnrecognizedAggregationJob, UnrecognizedAggregateShare)
        return isinstance(self.problem, unknown) or self.status in (
            HTTPStatus.NOT_FOUND,
            HTTPStatus.GONE,
        )


class Then(Enum):
    """What becomes of an aggregation job."""

    ASK_AGAIN = auto()
    """Later, with the same bytes."""
    ASK_ANEW = auto()
    """Later, with a new request of the same reports."""
    SPLIT = auto()
    """At once, each half with a request of its own."""
    HOLD = auto()
    """Until an operator decides."""


def retry_delay(attempts: int, asked: int | None = None) -> int:
    """Return the seconds to wait before the next attempt: doubling, or as long as we were asked to.

    Args:
        attempts: How many have failed in a row, at least 1.
        asked: What the Helper's `Retry-After` said.
    """
    backoff = min(LONGEST_DELAY_SECONDS, 1 << min(attempts - 1, 6))
    return backoff if asked is None else max(backoff, asked)


def after_refused_aggregation(
    refusal: Refusal,
    *,
    reports: Callable[[], int],
    failures: int,
    unanswered: int,
    max_attempts: int,
) -> Then:
    """Return what becomes of an aggregation job that was refused.

    Args:
        refusal: The refusal.
        reports: Counts the reports of the job; asked only if it matters.
        failures: How often its request was refused, or its answer unusable, this time included.
        unanswered: How many of its requests the Helper may have processed.
        max_attempts: After how many failures the same request is no longer tried.
    """
    is_too_large = refusal.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    if is_too_large and (not unanswered or failures >= max_attempts) and reports() > 1:
        return Then.SPLIT
    if unanswered:
        return Then.ASK_AGAIN
    return Then.ASK_ANEW if failures >= max_attempts else Then.ASK_AGAIN


def after_unusable_answer(failures: int, max_attempts: int) -> Then:
    """Return what becomes of an aggregation job whose answer cannot be used.

    Args:
        failures: As for a refusal.
        max_attempts: After how many of them the job is held, as DAP has it abandoned.
    """
    return Then.HOLD if failures >= max_attempts else Then.ASK_AGAIN


@dataclasses.dataclass(frozen=True, slots=True)
class Failure:
    """How a collection job ends that its Helper has refused.

    Attributes:
        problem: What the Collector is told.
        is_of_the_batch: Whether the same batch would be refused again.
    """

    problem: Problem
    is_of_the_batch: bool


def after_refused_collection(
    refusal: Refusal, *, was_located: bool, refused_for: int, refusal_seconds: int
) -> Failure | None:
    """Return how a collection job ends that was refused; None if it is asked for again.

    Args:
        refusal: The refusal.
        was_located: Whether we asked for the job by the location that the Helper named.
        refused_for: For how many seconds it has refused.
        refusal_seconds: For how long it may.
    """
    problem = refusal.problem
    is_lost = was_located and refusal.is_gone
    if not is_final(problem) or is_lost:
        if refused_for < refusal_seconds:
            return None
        # The Collector has to hear whose problem it is.
        detail = f"the helper has refused for {refused_for} seconds, with status {refusal.status}"
        problem = CollectionFailed(f"{detail}: {problem}", problem.task_id)
    return Failure(problem, isinstance(problem, _FAULTS_OF_A_BATCH))
