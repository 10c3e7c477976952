"""What the releases of several tasks cost a person who is in all of them.

Tasks that declare one population ask the same people, so their costs add up. The tasks may differ
in mechanism and in epsilon, so fewer theorems speak than about the releases of one task
(`dp.composition`); for one task alone both say the same.
"""

import dataclasses
from collections.abc import Sequence
from fractions import Fraction

from aggregator.dp import accounting, pld
from aggregator.dp.certified import exp, ln, round_up, sqrt
from aggregator.dp.composition import Bound, parts
from aggregator.dp.discrete_gaussian import DiscreteGaussian
from aggregator.dp.mechanisms import Mechanism, PureDpDiscreteLaplace
from aggregator.dp.truncated_geometric import TruncatedGeometric
from aggregator.dp.zcdp import implied_epsilon
from aggregator.errors import ParameterError
from aggregator.vdaf.circuits import Circuit


@dataclasses.dataclass(frozen=True, slots=True)
class TaskReleases:
    """Some releases of one task that one person is in.

    Attributes:
        mechanism: The task's.
        circuit: The task's.
        releases: How many, at least 1.
    """

    mechanism: Mechanism
    circuit: Circuit
    releases: int


@dataclasses.dataclass(frozen=True, slots=True)
class _Pieces:
    """Independent mechanisms of equal epsilon, each (epsilon, delta)-DP."""

    epsilon: Fraction
    count: int
    delta: Fraction


def joint_bounds(
    tasks: Sequence[TaskReleases],
    delta: Fraction,
    *,
    is_fixed: bool = False,
    with_pld: bool = False,
) -> list[Bound]:
    """Return every bound that is valid for all these releases together, the smallest first.

    Args:
        tasks: Whose releases; tasks that have nothing to protect cost nothing.
        delta: At which to compare; a bound may come with a smaller one.
        is_fixed: Whether all mechanisms, numbers of releases and delta were fixed before the first
            release.
        with_pld: Whether to ask `dp-accounting` too, if `is_fixed`.

    Returns:
        Empty where a task promises nothing, or where none holds with so small a delta.

    Raises:
        ConfigurationError: `with_pld` without `dp-accounting`.
        ParameterError: delta is out of range.
    """
    if not 0 < delta < 1:
        raise ParameterError(f"delta must be between 0 and 1, not {delta}")
    if any(not task.mechanism.is_noisy for task in tasks):
        return []
    counted = [task for task in tasks if task.mechanism.scale(task.circuit) > 0]
    if not counted:
        return [Bound("nothing to protect", Fraction(0), Fraction(0), is_fixed=False)]
    found = [
        _basic(counted),
        _advanced(counted, delta),
        _zcdp(counted, delta),
        _optimal(counted, delta) if is_fixed else None,
        _pld(counted, delta) if is_fixed and with_pld else None,
    ]
    valid = [bound for bound in found if bound is not None and bound.delta <= delta]
    return sorted(valid, key=lambda bound: bound.epsilon)


def _basic(tasks: Sequence[TaskReleases]) -> Bound:
    epsilon, delta = Fraction(0), Fraction(0)
    for task in tasks:
        match task.mechanism:
            case DiscreteGaussian(rho=rho, delta=stated):
                epsilon += implied_epsilon(task.releases * rho, stated)
                delta += stated
            case TruncatedGeometric():
                epsilon += task.releases * task.mechanism.epsilon
                delta += task.releases * task.mechanism.exact_delta(task.circuit)
            case _:
                epsilon += task.releases * _epsilon(task)
    return Bound("basic", epsilon, delta, is_fixed=False)


def _advanced(tasks: Sequence[TaskReleases], delta: Fraction) -> Bound | None:
    """Bound independent mechanisms of any epsilons.

    The loss of one lies within -epsilon to epsilon and is (e^epsilon - 1) epsilon on average at
    most, so by Azuma's inequality all together pass the sum of these by t with a probability of
    e^(-t^2 / (2 sum of epsilon^2)) at most.

    Source:
        [DR14], Theorem 3.20, whose proof does not need equal epsilons.
    """
    pieces = _pieces(tasks)
    if pieces is None or any(piece.delta for piece in pieces):
        return None
    squares = sum((piece.count * piece.epsilon**2 for piece in pieces), Fraction(0))
    epsilon = round_up(
        lambda digits: sum(
            (piece.count * piece.epsilon * (exp(piece.epsilon, digits) - 1) for piece in pieces),
            start=sqrt(2 * squares * ln(1 / delta, digits), digits),
        )
    )
    return Bound("advanced", epsilon, delta, is_fixed=False)


def _zcdp(tasks: Sequence[TaskReleases], delta: Fraction) -> Bound | None:
    rho = Fraction(0)
    for task in tasks:
        match task.mechanism:
            case DiscreteGaussian():
                rho += task.releases * task.mechanism.rho
            case PureDpDiscreteLaplace():
                for piece in _pieces([task]) or ():
                    rho += piece.count * piece.epsilon**2 / 2
            case _:
                return None
    return Bound("zCDP", implied_epsilon(rho, delta), delta, is_fixed=False)


def _optimal(tasks: Sequence[TaskReleases], delta: Fraction) -> Bound | None:
    """Bound all pieces by the optimum for as many of the largest epsilon and delta among them."""
    pieces = _pieces(tasks)
    if pieces is None:
        return None
    count = sum(piece.count for piece in pieces)
    if count > accounting.MAX_RELEASES:
        return None
    epsilon = accounting.optimal(
        max(piece.epsilon for piece in pieces), count, delta, max(piece.delta for piece in pieces)
    )
    return None if epsilon is None else Bound("optimal (KOV)", epsilon, delta, is_fixed=True)


def _pld(tasks: Sequence[TaskReleases], delta: Fraction) -> Bound | None:
    epsilon = pld.epsilon_together(
        [(task.mechanism, task.circuit, task.releases) for task in tasks], delta
    )
    return None if epsilon is None else Bound("PLD", Fraction(epsilon), delta, is_fixed=True)


def _pieces(tasks: Sequence[TaskReleases]) -> list[_Pieces] | None:
    """Return into what the releases divide; None if one of them has no epsilon of its own."""
    found = []
    for task in tasks:
        match task.mechanism:
            case PureDpDiscreteLaplace(epsilon=epsilon):
                number = parts(task.circuit, task.mechanism.max_reports_per_person)
                found.append(_Pieces(epsilon / number, number * task.releases, Fraction(0)))
            case TruncatedGeometric(epsilon=epsilon):
                edge = task.mechanism.coordinate_delta(task.circuit)
                found.append(_Pieces(epsilon / 2, 2 * task.releases, edge))
            case _:
                return None
    return found


def _epsilon(task: TaskReleases) -> Fraction:
    epsilon = task.mechanism.guarantee(task.circuit).epsilon
    if epsilon is None:
        raise ParameterError(f"the mechanism {task.mechanism.name} has no epsilon to add up")
    return epsilon
