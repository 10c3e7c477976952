"""What an aggregator or a client refuses to take part in."""

from collections.abc import Mapping
from fractions import Fraction

import pytest

from aggregator.errors import ParameterError
from aggregator.protocol.requirements import Requirements, check_requirements, parse_max_delta
from tests.support.tasks import LAPLACE, NO_NOISE, make_task

GEOMETRIC = {"mechanism": "TruncatedGeometric", "epsilon": "1/1000", "delta": "1/101"}
GAUSSIAN = {"mechanism": "DiscreteGaussian", "rho": "1/8", "delta": "1e-9"}
LONELY = {"type": "Prio3Histogram", "length": 1, "chunk_length": 1}


@pytest.mark.parametrize(
    ("privacy", "requirements"),
    [
        (LAPLACE, Requirements()),
        (
            LAPLACE,
            Requirements(min_batch_size=3, max_epsilon=Fraction(1, 2), max_delta=Fraction(0)),
        ),
        (LAPLACE, Requirements(max_rho=Fraction(1, 8), exact_results=False)),
        ({**LAPLACE, "budget": "1"}, Requirements(limit_required=True)),
        ({**LAPLACE, "max_releases": 1}, Requirements(limit_required=True)),
        ({**GEOMETRIC, "delta": "1/100000"}, Requirements()),
        (GEOMETRIC, Requirements(max_delta=Fraction(1, 101))),
        (GEOMETRIC, Requirements(max_delta=None)),
        (GAUSSIAN, Requirements(max_epsilon=Fraction(4), max_rho=Fraction(1, 8))),
        (NO_NOISE, Requirements()),
        ({**LAPLACE, "epsilon": "1000"}, Requirements(max_epsilon=Fraction(1000))),
        ({**LAPLACE, "epsilon": "8"}, Requirements()),
        ({**GAUSSIAN, "rho": "10000"}, Requirements(any_epsilon=True)),
        (
            {**LAPLACE, "population": "staff"},
            Requirements(populations=frozenset({"staff", "patients"})),
        ),
        (NO_NOISE, Requirements(max_epsilon=Fraction(1), max_rho=Fraction(1), exact_results=True)),
    ],
)
def test_a_task_that_just_meets_the_requirements_is_taken(
    privacy: Mapping[str, str | int], requirements: Requirements
) -> None:
    check_requirements(make_task(privacy=privacy), requirements)


@pytest.mark.parametrize(
    ("privacy", "requirements", "reason"),
    [
        (LAPLACE, Requirements(min_batch_size=4), "min_batch_size: we requires at least 4, not 3"),
        (
            LAPLACE,
            Requirements(max_epsilon=Fraction(1, 3)),
            "at most epsilon 1/3; the task has epsilon",
        ),
        (LAPLACE, Requirements(max_rho=Fraction(1, 33)), "at most rho 1/33; the task has rho"),
        (LAPLACE, Requirements(limit_required=True), "only tasks with a budget or max_releases"),
        (
            {**LAPLACE, "max_batches_per_person": 4},
            Requirements(limit_required=True),
            "only tasks with a budget or max_releases",
        ),
        # No epsilon is small enough to make up for such a delta.
        (GEOMETRIC, Requirements(), "at most delta 1/100000; the task has delta 1/101"),
        (GEOMETRIC, Requirements(max_epsilon=Fraction(1, 100)), "the task has delta 1/101"),
        (
            GEOMETRIC,
            Requirements(max_delta=Fraction(0)),
            "at most delta 0; the task has delta 1/101",
        ),
        (
            {**GEOMETRIC, "delta": "1e-6"},
            Requirements(max_rho=Fraction(100)),
            "at most rho 100; the task has no bound on rho",
        ),
        (
            GAUSSIAN,
            Requirements(max_epsilon=Fraction(2)),
            "at most epsilon 2; the task has epsilon",
        ),
        (GAUSSIAN, Requirements(max_rho=Fraction(1, 9)), "at most rho 1/9; the task has rho 1/8"),
        (
            {**GAUSSIAN, "delta": "1/1000"},
            Requirements(),
            "at most delta 1/100000; the task has delta",
        ),
        (NO_NOISE, Requirements(max_epsilon=Fraction(10**9)), "no task without noise"),
        # As large as the default, but given.
        (NO_NOISE, Requirements(max_epsilon=Fraction(8)), "no task without noise"),
        (
            {**LAPLACE, "epsilon": "1000"},
            Requirements(),
            "at most epsilon 8; the task has epsilon 1000",
        ),
        ({**GAUSSIAN, "rho": "10000"}, Requirements(), "at most epsilon 8; the task has epsilon"),
        (
            {**GAUSSIAN, "rho": "2", "delta": "1/200"},
            Requirements(max_delta=None),
            "at most rho 1; the task has rho 2",
        ),
        (
            LAPLACE,
            Requirements(populations=frozenset({"staff", "patients"})),
            "population: we takes only tasks of patients, staff, and the task names none",
        ),
        (
            {**LAPLACE, "population": "staff "},
            Requirements(populations=frozenset({"staff"})),
            "takes only tasks of staff, and the task names 'staff '",
        ),
        (NO_NOISE, Requirements(max_rho=Fraction(10**9)), "no task without noise"),
        (NO_NOISE, Requirements(exact_results=False), "no task without noise"),
        (NO_NOISE, Requirements(limit_required=True), "only tasks with a budget or max_releases"),
    ],
)
def test_a_task_that_protects_too_little_is_refused_and_the_limit_is_named(
    privacy: Mapping[str, str | int], requirements: Requirements, reason: str
) -> None:
    with pytest.raises(ParameterError, match=reason):
        check_requirements(make_task(privacy=privacy), requirements, "we")


def test_where_nothing_is_to_be_protected_every_largest_value_is_kept() -> None:
    smallest = Fraction(1, 10**9)
    requirements = Requirements(max_epsilon=smallest, max_delta=Fraction(0), max_rho=smallest)
    check_requirements(make_task(LONELY, GEOMETRIC), requirements)


def test_a_largest_delta_may_be_zero() -> None:
    assert parse_max_delta("0", "max_delta") == parse_max_delta(0, "max_delta") == 0
    assert parse_max_delta("1e-6", "max_delta") == Fraction(1, 10**6)
    for text in ("1", "-1", 1e-6, "0.0.1"):
        with pytest.raises(ParameterError, match="max_delta"):
            parse_max_delta(text, "max_delta")
