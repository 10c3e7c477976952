"""What a party requires of the tasks it takes part in: how much they must protect people.

A task is what its makers agreed on. An aggregator or a client that requires more protection refuses
the task, when it is added and again whenever it is served.
"""

import dataclasses
from fractions import Fraction
from typing import TYPE_CHECKING

from aggregator.dp.rationals import format_rational, parse_probability
from aggregator.errors import ParameterError

if TYPE_CHECKING:
    from aggregator.protocol.task import Task

DEFAULT_MAX_DELTA = Fraction(1, 10**5)

DEFAULT_MAX_EPSILON = Fraction(8)
"""The default limit for a release; no recommendation (see docs/planning.md).

At epsilon 8 an attacker who knows every other report can go from 1 in 3,000 to an even chance about
one answer. Above it, noise is noise in name only.
"""

DEFAULT_MAX_RHO = Fraction(1)
"""The default for Gaussian noise: it implies epsilon 8.4 at delta 10^-6, and 7.8 at 10^-5."""


@dataclasses.dataclass(frozen=True, slots=True)
class Requirements:
    """What a party requires of a task; each largest value applies to one release.

    A given `max_rho` applies to all noise. Without one, Gaussian noise has at most
    `DEFAULT_MAX_RHO` wherever epsilon has a limit.

    Attributes:
        min_batch_size: The smallest `min_batch_size`.
        max_epsilon: The largest epsilon; `DEFAULT_MAX_EPSILON` if none is given.
        any_epsilon: Whether every epsilon is accepted, for data that is nobody's; `max_epsilon` is
            then not given.
        max_delta: The largest delta; None for any.
        max_rho: The largest rho of zero-concentrated differential privacy.
        limit_required: Whether a task must have a budget or `max_releases`.
        exact_results: Whether to take part in tasks without noise, which promise no privacy and say
            so; None: only if neither `max_epsilon` nor `max_rho` is given.
        populations: A task must name one of these; empty for any or none.
    """

    min_batch_size: int = 1
    max_epsilon: Fraction | None = None
    any_epsilon: bool = False
    max_delta: Fraction | None = DEFAULT_MAX_DELTA
    max_rho: Fraction | None = None
    limit_required: bool = False
    exact_results: bool | None = None
    populations: frozenset[str] = frozenset()

    @property
    def takes_exact_results(self) -> bool:
        """Whether we take part in tasks without noise."""
        if self.exact_results is not None:
            return self.exact_results
        return self.max_epsilon is None and self.max_rho is None

    @property
    def largest_epsilon(self) -> Fraction | None:
        """The largest epsilon, given or not; None if any is accepted."""
        if self.any_epsilon:
            return None
        return DEFAULT_MAX_EPSILON if self.max_epsilon is None else self.max_epsilon


def check_requirements(
    task: "Task", requirements: Requirements, who: str = "this aggregator"
) -> None:
    """Refuse, as `ParameterError`, a task that protects people less than we require.

    The message names the setting and the limit, and calls us `who`.
    """
    if task.min_batch_size < requirements.min_batch_size:
        raise ParameterError(
            f"min_batch_size: {who} requires at least {requirements.min_batch_size}, "
            f"not {task.min_batch_size}"
        )
    policy = task.policy
    if requirements.populations and policy.population not in requirements.populations:
        given = f"names {policy.population!r}" if policy.population else "names none"
        raise ParameterError(
            f"population: {who} takes only tasks of {', '.join(sorted(requirements.populations))}, "
            f"and the task {given}"
        )
    if requirements.limit_required and not policy.has_limit:
        raise ParameterError(f"privacy: {who} accepts only tasks with a budget or max_releases")
    if policy.mechanism.is_noisy:
        _check_noise(task, requirements, who)
    elif not requirements.takes_exact_results:
        raise ParameterError(f"privacy: {who} accepts no task without noise: its results are exact")


def _check_noise(task: "Task", requirements: Requirements, who: str) -> None:
    mechanism, circuit = task.policy.mechanism, task.prio3.circuit
    promised, cost = mechanism.guarantee(circuit), mechanism.cost(circuit, 1)
    rho, max_rho = promised.rho, requirements.max_rho
    if max_rho is None and rho is not None and requirements.largest_epsilon is not None:
        max_rho = DEFAULT_MAX_RHO
    # A release whose noise has a delta of its own has no rho: its loss may be infinite.
    if rho is None and cost is not None and cost.delta == 0:
        rho = cost.rho
    for name, largest, value in (
        ("epsilon", requirements.largest_epsilon, promised.epsilon),
        ("delta", requirements.max_delta, promised.delta),
        ("rho", max_rho, rho),
    ):
        if largest is not None and (value is None or value > largest):
            given = f"no bound on {name}" if value is None else f"{name} {format_rational(value)}"
            raise ParameterError(
                f"privacy: {who} accepts at most {name} {format_rational(largest)}; "
                f"the task has {given}"
            )


def parse_max_delta(text: object, name: str) -> Fraction:
    """Return a largest delta; 0 means tasks of pure differential privacy only.

    Raises `ParameterError` if it is no exact rational from 0 to below 1.
    """
    return Fraction(0) if str(text) == "0" else parse_probability(text, name)


def parse_populations(text: str, name: str) -> frozenset[str]:
    """Return the names in a list that is joined by commas; empty text names none.

    Raises `ParameterError` if one is empty: such a list would require nothing.
    """
    names = frozenset(each.strip() for each in text.split(",")) if text else frozenset[str]()
    if "" in names:
        raise ParameterError(f"{name}: must be names joined by commas, none of them empty")
    return names
