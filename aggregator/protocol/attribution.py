"""What a collection of attribution asks for: the epsilon of its noise, and what each report pays.

Both are `min_dp_budget`, which the collector binds into both aggregate shares: neither aggregator
can be told another one than the collector asked for.

Source: draft-thomson-ppm-dap-attribution.
"""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import TYPE_CHECKING

from aggregator.dap.attribution import MILLION, asked_budget
from aggregator.dap.problems import BatchInvalid, InvalidExtension, TaskRefused
from aggregator.dp.discrete_laplace import PureDpDiscreteLaplace
from aggregator.dp.rationals import format_rational
from aggregator.dp.release import check_no_wrap
from aggregator.errors import ParameterError

if TYPE_CHECKING:
    from aggregator.dap.messages import CollectionJobReq
    from aggregator.protocol.batches import BatchTotals
    from aggregator.protocol.task import Task


def least_budget(task: Task, request: CollectionJobReq) -> int | None:
    """Return what each report of a collection is to pay, in millionths; None if none pays.

    Raises `InvalidExtension` if the collection does not say it, or says no budget.
    """
    if task.attribution is None:
        return None
    try:
        return asked_budget(request.extensions)
    except ParameterError as error:
        raise InvalidExtension(str(error), task.task_id) from None


def as_collected(task: Task, request: CollectionJobReq) -> Task:
    """Return the task with the noise of a collection, which is its own in a task of attribution.

    Raises `InvalidExtension` and `TaskRefused` as `least_budget` and `with_budget` do.
    """
    return with_budget(task, least_budget(task, request))


def with_budget(task: Task, budget: int | None) -> Task:
    """Return the task with the noise of a collection whose reports pay `budget` millionths each.

    Raises `TaskRefused` as `with_epsilon` does.
    """
    return task if budget is None else with_epsilon(task, Fraction(budget, MILLION))


def with_epsilon(task: Task, epsilon: Fraction) -> Task:
    """Return the task with another epsilon; one without noise, where it changes nothing, as it is.

    Raises `TaskRefused` if it is larger than the task's, which is the most that we agreed to.
    """
    mechanism = task.policy.mechanism
    if not isinstance(mechanism, PureDpDiscreteLaplace):
        return task
    if epsilon > mechanism.epsilon:
        raise TaskRefused(
            f"min_dp_budget: epsilon may be {format_rational(mechanism.epsilon)} here, "
            f"not {format_rational(epsilon)}",
            task.task_id,
        )
    own = dataclasses.replace(mechanism, epsilon=epsilon)
    return dataclasses.replace(task, policy=dataclasses.replace(task.policy, mechanism=own))


def check_noise(task: Task, request: CollectionJobReq) -> None:
    """Refuse a collection whose noise might wrap around the field; raises as `as_collected`."""
    collected = as_collected(task, request)
    if collected is task:
        return  # its noise was checked when it was made
    try:
        check_no_wrap(task.prio3.circuit, collected.policy.mechanism, task.max_reports)
    except ParameterError as error:
        raise InvalidExtension(f"min_dp_budget: {error}", task.task_id) from None


def check_budgets(task: Task, request: CollectionJobReq, totals: BatchTotals) -> None:
    """Refuse, as `BatchInvalid`, a batch with a report that pays less than its collection asks.

    A helper learns what is asked only here. A leader that knows it when reports come refuses those
    that pay too little, so an honest one never makes such a batch.
    """
    asked, found = least_budget(task, request), totals.least_budget
    if asked is not None and found is not None and found < asked:
        raise BatchInvalid(
            f"a report of the batch has a privacy_budget of {found}, and min_dp_budget is {asked}",
            task.task_id,
        )
