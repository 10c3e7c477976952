"""What n releases of one task cost a person, by every bound that is valid, and the best of them.

One release is itself a composition: it adds independent noise to several coordinates, and a person
moves only so much in each. A histogram's release is two mechanisms of epsilon/2, which composes
better than one of epsilon.
"""

import dataclasses
from fractions import Fraction

from aggregator.dp import accounting, pld
from aggregator.dp.discrete_gaussian import DiscreteGaussian
from aggregator.dp.mechanisms import Mechanism, PureDpDiscreteLaplace
from aggregator.dp.sensitivity import furthest_move
from aggregator.dp.truncated_geometric import TruncatedGeometric
from aggregator.dp.zcdp import implied_epsilon
from aggregator.errors import ParameterError
from aggregator.vdaf.circuits import Circuit


@dataclasses.dataclass(frozen=True, slots=True)
class Bound:
    """A valid bound on what n releases cost together.

    Attributes:
        name: Of the theorem: "basic", "advanced", "zCDP", "optimal (KOV)" or "PLD".
        epsilon: The bound, rounded up.
        delta: With it.
        is_fixed: Whether it holds only if mechanism, number of releases and delta were fixed before
            the first release.
    """

    name: str
    epsilon: Fraction
    delta: Fraction
    is_fixed: bool


def bounds(
    mechanism: Mechanism,
    circuit: Circuit,
    releases: int,
    delta: Fraction,
    *,
    is_fixed: bool = False,
    with_pld: bool = False,
) -> list[Bound]:
    """Return every bound that is valid for `releases` releases of a task, the smallest first.

    Args:
        mechanism: The task's.
        circuit: The task's.
        releases: How many releases one person is in.
        delta: At which to compare; a bound may come with a smaller one.
        is_fixed: Whether mechanism, releases and delta were fixed before the first release.
        with_pld: Whether to ask `dp-accounting` too, if `is_fixed`.

    Returns:
        Empty where there is no guarantee, or none with so small a delta.

    Raises:
        ConfigurationError: `with_pld` without `dp-accounting`.
        ParameterError: releases or delta out of range.
    """
    if not 0 < delta < 1:
        raise ParameterError(f"delta must be between 0 and 1, not {delta}")
    if mechanism.scale(circuit) == 0:
        zero = Bound("nothing to protect", Fraction(0), Fraction(0), is_fixed=False)
        return [zero] if mechanism.is_noisy else []
    match mechanism:
        case PureDpDiscreteLaplace():
            found = _pure(mechanism, circuit, releases, delta)
        case TruncatedGeometric():
            found = _truncated(mechanism, circuit, releases, delta)
        case DiscreteGaussian():
            epsilon = implied_epsilon(releases * mechanism.rho, delta)
            found = [Bound("zCDP", epsilon, delta, is_fixed=False)]
        case _:
            raise ParameterError(f"the mechanism {mechanism.name} has no composition theorem here")
    if with_pld and is_fixed:
        epsilon_of_pld = pld.epsilon_of_releases(mechanism, circuit, releases, delta)
        if epsilon_of_pld is not None:
            found.append(Bound("PLD", Fraction(epsilon_of_pld), delta, is_fixed=True))
    valid = [bound for bound in found if is_fixed or not bound.is_fixed]
    return sorted(valid, key=lambda bound: bound.epsilon)


def best_bound(
    mechanism: Mechanism,
    circuit: Circuit,
    releases: int,
    delta: Fraction,
    *,
    is_fixed: bool = False,
    with_pld: bool = False,
) -> Bound | None:
    """Return the smallest valid bound with its name; None where there is none."""
    valid = bounds(mechanism, circuit, releases, delta, is_fixed=is_fixed, with_pld=with_pld)
    return valid[0] if valid else None


def parts(circuit: Circuit, max_reports_per_person: int) -> int:
    """Return into how many independent mechanisms of equal epsilon one release divides.

    With discrete Laplace noise the furthest move is the worst, and its entries have independent
    noise. An entry that moves by 1/d of the L1 sensitivity is an (epsilon/d)-DP mechanism.
    """
    move = furthest_move(circuit, max_reports_per_person)
    return move[0].entries if len(move) == 1 else 1


def _pure(
    mechanism: PureDpDiscreteLaplace, circuit: Circuit, releases: int, delta: Fraction
) -> list[Bound]:
    pieces = parts(circuit, mechanism.max_reports_per_person)
    epsilon, count = mechanism.epsilon / pieces, pieces * releases
    found = [
        Bound("basic", accounting.basic(epsilon, count), Fraction(0), is_fixed=False),
        Bound("advanced", accounting.advanced(epsilon, count, delta), delta, is_fixed=False),
        Bound("zCDP", accounting.zcdp(epsilon, count, delta), delta, is_fixed=False),
    ]
    if count <= accounting.MAX_RELEASES:
        best = accounting.optimal(epsilon, count, delta)
        if best is not None:
            found.append(Bound("optimal (KOV)", best, delta, is_fixed=True))
    return found


def _truncated(
    mechanism: TruncatedGeometric, circuit: Circuit, releases: int, delta: Fraction
) -> list[Bound]:
    one = mechanism.exact_delta(circuit)
    # Away from all edges the losses add up to n epsilon at most.
    total = releases * one
    if total > delta:
        return []
    found = [Bound("basic", releases * mechanism.epsilon, total, is_fixed=False)]
    edge = mechanism.coordinate_delta(circuit)
    count = 2 * releases
    if count <= accounting.MAX_RELEASES:
        best = accounting.optimal(mechanism.epsilon / 2, count, delta, edge)
        if best is not None:
            found.append(Bound("optimal (KOV)", best, delta, is_fixed=True))
    return found
