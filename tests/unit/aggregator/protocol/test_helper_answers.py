"""What follows each answer of a helper, exhaustively: every problem, status and state of a job."""

import itertools

import pytest

from aggregator.dap.problems import PROBLEM_TYPES, CollectionFailed, OtherProblem, Problem, is_final
from aggregator.protocol.helper_answers import (
    LONGEST_DELAY_SECONDS,
    Refusal,
    Then,
    after_refused_aggregation,
    after_refused_collection,
    after_unusable_answer,
    retry_delay,
)

STATUSES = (400, 401, 403, 404, 405, 409, 410, 413, 415, 422, 429, 500, 503)
PROBLEMS = [Problem("bare"), OtherProblem("urn:x", "of another kind", "", None)] + [
    kind("a detail", None) for kind in PROBLEM_TYPES.values()
]
REFUSALS = [Refusal(problem, status) for problem in PROBLEMS for status in STATUSES]
MAX_ATTEMPTS = 3


def test_a_job_is_gone_if_the_helper_says_so_by_its_problem_or_its_status() -> None:
    gone = {(each.problem.title, each.status) for each in REFUSALS if each.is_gone}
    by_name = {
        title for title in {title for title, _ in gone} if all((title, s) in gone for s in STATUSES)
    }
    assert {
        each.problem.type_uri.rpartition(":")[2]
        for each in REFUSALS
        if each.problem.title in by_name
    } == {
        "unrecognizedAggregationJob",
        "unrecognized-aggregate-share",
    }
    others = {status for title, status in gone if title not in by_name}
    assert others == {404, 410}


@pytest.mark.parametrize("status", STATUSES)
def test_a_refused_aggregation_job(status: int) -> None:
    for problem, reports, failures, unanswered in itertools.product(
        PROBLEMS, (1, 2, 500), range(1, 6), (0, 1, 2)
    ):
        refusal = Refusal(problem, status)
        then = after_refused_aggregation(
            refusal,
            reports=lambda: reports,  # noqa: B023  asked at once
            failures=failures,
            unanswered=unanswered,
            max_attempts=MAX_ATTEMPTS,
        )
        can_change = unanswered == 0  # the helper has surely processed nothing
        is_too_large = refusal.status == 413
        is_refused_for_good = can_change or failures >= MAX_ATTEMPTS
        assert (then is Then.SPLIT) == (is_refused_for_good and is_too_large and reports > 1)
        assert (then is Then.ASK_ANEW) == (
            can_change and failures >= MAX_ATTEMPTS and not (is_too_large and reports > 1)
        )
        assert then is not Then.HOLD


def test_what_may_have_been_processed_is_only_ever_asked_for_again() -> None:
    """But where it was too large each time: who has processed it must answer the same bytes."""
    thens = {
        refusal.status: after_refused_aggregation(
            refusal, reports=lambda: 500, failures=10**6, unanswered=1, max_attempts=1
        )
        for refusal in REFUSALS
    }
    assert thens.pop(413) is Then.SPLIT
    assert set(thens.values()) == {Then.ASK_AGAIN}


def test_an_unusable_answer_is_asked_for_again_and_then_held() -> None:
    thens = [after_unusable_answer(failures, MAX_ATTEMPTS) for failures in range(1, 6)]
    assert thens == [Then.ASK_AGAIN] * 2 + [Then.HOLD] * 3


@pytest.mark.parametrize("status", STATUSES)
def test_a_refused_collection_job(status: int) -> None:
    for problem, was_located, refused_for in itertools.product(
        PROBLEMS, (False, True), (0, 599, 600, 10**6)
    ):
        refusal = Refusal(problem, status)
        failure = after_refused_collection(
            refusal, was_located=was_located, refused_for=refused_for, refusal_seconds=600
        )
        decides = is_final(refusal.problem) and not (was_located and refusal.is_gone)
        if decides:
            assert failure is not None
            assert failure.problem is refusal.problem
        elif refused_for < 600:
            assert failure is None
        else:
            assert failure is not None
            assert isinstance(failure.problem, CollectionFailed)
            assert f"refused for {refused_for} seconds, with status {refusal.status}" in str(
                failure.problem
            )
            assert not failure.is_of_the_batch


def test_which_refusals_are_of_the_batch() -> None:
    found = {
        problem.type_uri.rpartition(":")[2]
        for problem in PROBLEMS
        if (
            failure := after_refused_collection(
                Refusal(problem, 400), was_located=False, refused_for=0, refusal_seconds=1
            )
        )
        and failure.is_of_the_batch
    }
    assert found == {"batchInvalid", "batchMismatch", "batchOverlap", "invalidBatchSize"}


def test_delays_double_up_to_a_minute_and_respect_what_the_helper_asks() -> None:
    assert [retry_delay(attempts) for attempts in range(1, 9)] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert retry_delay(10**6) == LONGEST_DELAY_SECONDS
    assert retry_delay(1, 30) == 30
    assert retry_delay(9, 30) == 60
    assert retry_delay(9, 600) == 600
