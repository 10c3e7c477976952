"""What a task promises, in a few words."""

from collections.abc import Mapping

import pytest

from aggregator.protocol.budget import promise_of_all
from aggregator.protocol.summary import (
    guarantee_in_short,
    paid_in_short,
    statement_of,
    who_must_be_honest,
)
from tests.support.tasks import LAPLACE, NO_NOISE, TIME_PRECISION, make_task

Settings = Mapping[str, str | int | bool]
GAUSSIAN: Mapping[str, str | int | bool] = {
    "mechanism": "DiscreteGaussian",
    "rho": "1/8",
    "delta": "1/1000000",
}
WEEK = {"window": 7 * 86_400 // TIME_PRECISION}


@pytest.mark.parametrize(
    ("privacy", "said"),
    [
        ({**LAPLACE, "epsilon": "2", **WEEK, "max_releases": 8}, "ε 2 a week, 16 in all"),
        ({**LAPLACE, "epsilon": "2", **WEEK, "budget": "7"}, "ε 2 a week, 6 in all"),
        ({**LAPLACE, "epsilon": "1/3", "max_releases": 2}, "ε 0.333334 a batch, 0.666667 in all"),
        (LAPLACE, "ε 0.5 a batch, with no end"),
        ({**LAPLACE, "window": 2 * 86_400 // TIME_PRECISION}, "ε 0.5 every 2 days, with no end"),
        ({**LAPLACE, "window": 3600 // TIME_PRECISION}, "ε 0.5 an hour, with no end"),
        (NO_NOISE, "No differential privacy"),
    ],
)
def test_a_guarantee_is_said_so_that_a_person_can_read_it(privacy: Settings, said: str) -> None:
    assert guarantee_in_short(make_task(privacy=privacy)) == said


def test_deltas_are_said_and_added_up_where_they_add_up() -> None:
    truncated: Settings = {"mechanism": "TruncatedGeometric", "epsilon": "1", "delta": "1/1000000"}
    task = make_task(privacy={**truncated, **WEEK, "max_releases": 16})
    assert guarantee_in_short(task) == "ε 1 a week, 16 in all (δ 0.000001, 0.0000108 in all)"
    found = guarantee_in_short(make_task(privacy={**GAUSSIAN, **WEEK, "max_releases": 4}))
    once, together = (float(word) for word in (found.split()[1], found.split()[4]))
    assert once < together < 4 * once  # by their rhos
    assert found.endswith("(δ 0.000001)")


def test_what_a_person_pays_for_a_survey_is_that_of_its_task_and_of_each_text_question() -> None:
    survey = make_task(privacy={**LAPLACE, "epsilon": "3", **WEEK, "max_releases": 4})
    text = make_task(privacy={**LAPLACE, "epsilon": "1", **WEEK, "max_releases": 4})
    assert paid_in_short(survey, []) == guarantee_in_short(survey) == "ε 3 a week, 12 in all"
    assert paid_in_short(survey, [text]) == "ε 4 a week, 16 in all, text questions included"
    endless = make_task(privacy={**LAPLACE, "epsilon": "1", **WEEK})
    assert "ε 4 a week, with no end" in paid_in_short(survey, [endless])
    unknown = paid_in_short(survey, [], is_all=False)
    assert unknown == "ε 3 a week, 12 in all; text questions add to it"
    gaussian = make_task(privacy={**GAUSSIAN, **WEEK, "max_releases": 4})
    assert paid_in_short(gaussian, [text]).endswith("; for a text question ε 1 a week, 4 in all")


@pytest.mark.parametrize("is_bound", [True, False])
def test_a_promise_of_a_policy_that_reports_are_not_bound_to_names_who_must_have_it(
    is_bound: bool,  # noqa: FBT001  a parameter
) -> None:
    """The adversary is the other aggregator, if it hands the honest one a weaker policy."""
    task = make_task(privacy={**LAPLACE, "max_releases": 2, "bound": is_bound})
    guarantee = task.policy.mechanism.guarantee(task.prio3.circuit)
    said = (who_must_be_honest(task), statement_of(task, guarantee), str(promise_of_all(task)))
    assert [("given this very policy" in each) for each in said] == [not is_bound] * 3
