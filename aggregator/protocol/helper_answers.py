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

"Again" is with the same bytes: the Helper may have counted the reports of a request without our
knowing. Only a request that it has refused each time, and so surely not counted, is made anew or
split.

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
"""Refusals that are final for a batch: a Leader that selects batches goes on to the next."""


@dataclasses.dataclass(frozen=True, slots=True)
class Refusal:
    """A refusal by the Helper: its problem document and the HTTP status code."""

    problem: Problem
    status: int

    @property
    def is_gone(self) -> bool:
        """Whether the Helper no longer has the resource that we asked for by its location."""
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

    `attempts`, at least 1, have failed in a row.
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

    Its request was refused, or its answer unusable, `failures` times, this one included, and the
    Helper may have processed `unanswered` requests. The reports are counted only if it matters.
    """
    is_too_large = refusal.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    # A Helper that has processed a request must answer it when it comes again. So one that finds
    # the same bytes too large so often has not processed them, even if an earlier attempt broke
    # before it could say so. A proxy that lies about this could just as well refuse for ever.
    if is_too_large and (not unanswered or failures >= max_attempts) and reports() > 1:
        return Then.SPLIT
    if unanswered:
        return Then.ASK_AGAIN
    return Then.ASK_ANEW if failures >= max_attempts else Then.ASK_AGAIN


def after_unusable_answer(failures: int, max_attempts: int) -> Then:
    """Return what becomes of an aggregation job whose answer cannot be used.

    After `max_attempts` failures the job is held, where DAP abandons it.
    """
    return Then.HOLD if failures >= max_attempts else Then.ASK_AGAIN


@dataclasses.dataclass(frozen=True, slots=True)
class Failure:
    """What the Collector is told of a collection job that the Helper has refused.

    `is_of_the_batch` says whether the same batch would be refused again.
    """

    problem: Problem
    is_of_the_batch: bool


def after_refused_collection(
    refusal: Refusal, *, was_located: bool, refused_for: int, refusal_seconds: int
) -> Failure | None:
    """Return the outcome of a refused collection job; None if it is asked for again.

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
        # Tell the Collector that the problem is the Helper's.
        detail = f"the helper has refused for {refused_for} seconds, with status {refusal.status}"
        problem = CollectionFailed(f"{detail}: {problem}", problem.task_id)
    # The batch reopens. That does no harm even if the Helper has released its share: it counts no
    # more reports for the batch, so the next job for it makes the same request and gets that share.
    return Failure(problem, isinstance(problem, _FAULTS_OF_A_BATCH))
