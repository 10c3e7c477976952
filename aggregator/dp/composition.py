"""What releases cost a person who is in all of them, by every theorem that applies.

The releases may be of one task or of several that ask the same people, with one mechanism or
several: costs add up all the same. One release is itself a composition: it adds independent noise
to several coordinates, and a person moves only so much in each. A histogram's release is two
mechanisms of epsilon/2, which composes better than one of epsilon.
"""

import dataclasses
from collections.abc import Sequence
from fractions import Fraction

from aggregator.dp import accounting, pld
from aggregator.dp.accounting import Pieces
from aggregator.dp.mechanisms import BasicCost, Mechanism
from aggregator.dp.sensitivity import furthest_move
from aggregator.dp.zcdp import implied_epsilon
from aggregator.errors import ParameterError
from aggregator.vdaf.circuits import Circuit


@dataclasses.dataclass(frozen=True, slots=True)
class Releases:
    """Releases of one task that the same person is in.

    Attributes:
        mechanism: The task's.
        circuit: The task's.
        count: How many, at least 0.
    """

    mechanism: Mechanism
    circuit: Circuit
    count: int

    @property
    def promises_nothing(self) -> bool:
        """Whether no epsilon bounds what they cost, as of exact sums."""
        return self.mechanism.cost(self.circuit, 1) is None


@dataclasses.dataclass(frozen=True, slots=True)
class Bound:
    """A valid bound on what some releases cost together.

    Attributes:
        name: The theorem: "basic", "advanced", "zCDP", "optimal (KOV)" or "PLD"; or "nothing to
            protect".
        epsilon: The bound, rounded up.
        delta: With it.
        is_fixed: Whether it holds only if mechanisms, numbers of releases and delta were fixed
            before the first release.
    """

    name: str
    epsilon: Fraction
    delta: Fraction
    is_fixed: bool


def basic(releases: Sequence[Releases]) -> BasicCost:
    """Return the sum of the costs: it holds even if releases are chosen after seeing others.

    Releases that promise nothing have no epsilon and delta to add: they are left out, and whoever
    shows the sum has to say so.

    Source:
        [DR14], Theorem 3.16.
    """
    costs = [
        cost
        for each in _protecting(releases)
        if (cost := each.mechanism.cost(each.circuit, each.count)) is not None
    ]
    rhos = [cost.rho for cost in costs if cost.rho is not None]
    return BasicCost(
        sum((cost.epsilon for cost in costs), Fraction(0)),
        sum((cost.delta for cost in costs), Fraction(0)),
        sum(rhos, Fraction(0)) if rhos and len(rhos) == len(costs) else None,
    )


def bounds(
    releases: Sequence[Releases],
    delta: Fraction,
    *,
    is_fixed: bool = False,
    with_pld: bool = False,
) -> list[Bound]:
    """Return every bound that is valid for all these releases together, the smallest first.

    Args:
        releases: Of one task or several; those with nothing to protect cost nothing.
        delta: The delta at which to compare; a bound may come with a smaller one.
        is_fixed: Whether all mechanisms, numbers of releases and delta were fixed before the first
            release.
        with_pld: Whether to ask `dp-accounting` too, if `is_fixed`.

    Returns:
        Empty if a mechanism promises nothing, or if no bound holds with so small a delta.

    Raises:
        ConfigurationError: `with_pld` without `dp-accounting`.
        ParameterError: delta is out of range.
    """
    if not 0 < delta < 1:
        raise ParameterError(f"delta must be between 0 and 1, not {delta}")
    if any(each.promises_nothing for each in releases):
        return []
    counted = _protecting(releases)
    if not counted:
        return [Bound("nothing to protect", Fraction(0), Fraction(0), is_fixed=False)]
    spent = basic(counted)
    found = [
        Bound("basic", spent.epsilon, spent.delta, is_fixed=False),
        _bound("advanced", _advanced(counted, delta), delta),
        _bound("zCDP", _zcdp(counted, delta), delta),
    ]
    if is_fixed:
        found.append(_bound("optimal (KOV)", _optimal(counted, delta), delta, is_fixed=True))
    if is_fixed and with_pld:
        losses = [(each.mechanism.losses(each.circuit), each.count) for each in counted]
        epsilon = pld.epsilon_together(losses, delta)
        found.append(
            _bound("PLD", None if epsilon is None else Fraction(epsilon), delta, is_fixed=True)
        )
    valid = [bound for bound in found if bound is not None and bound.delta <= delta]
    return sorted(valid, key=lambda bound: bound.epsilon)


def parts(circuit: Circuit, max_reports_per_person: int) -> int:
    """Return the independent mechanisms of equal epsilon that one release divides into.

    With discrete Laplace noise the furthest move is the worst, and its entries have independent
    noise. An entry that moves by 1/d of the L1 sensitivity is an (epsilon/d)-DP mechanism.
    """
    move = furthest_move(circuit, max_reports_per_person)
    return move[0].entries if len(move) == 1 else 1


def _protecting(releases: Sequence[Releases]) -> list[Releases]:
    """Return the releases of sums that a measurement can change: no others cost anything.

    The circuit is asked, so that a mechanism that draws little or nothing is counted as it says.
    """
    return [each for each in releases if each.count > 0 and furthest_move(each.circuit)]


def _bound(
    name: str, epsilon: Fraction | None, delta: Fraction, *, is_fixed: bool = False
) -> Bound | None:
    return None if epsilon is None else Bound(name, epsilon, delta, is_fixed)


def _advanced(releases: Sequence[Releases], delta: Fraction) -> Fraction | None:
    pieces = _pieces(releases)
    return None if pieces is None else accounting.advanced(pieces, delta)


def _zcdp(releases: Sequence[Releases], delta: Fraction) -> Fraction | None:
    total = Fraction(0)
    for each in releases:
        rho = each.mechanism.zcdp_rho(each.circuit)
        if rho is None:
            return None
        total += each.count * rho
    return implied_epsilon(total, delta)


def _optimal(releases: Sequence[Releases], delta: Fraction) -> Fraction | None:
    """Bound all pieces by the optimum for as many pieces with the largest epsilon and delta."""
    pieces = _pieces(releases)
    if pieces is None:
        return None
    count = sum(each.count for each in pieces)
    if count > accounting.MAX_RELEASES:
        return None
    return accounting.optimal(
        max(each.epsilon for each in pieces), count, delta, max(each.delta for each in pieces)
    )


def _pieces(releases: Sequence[Releases]) -> list[Pieces] | None:
    """Return what all releases divide into; None if one of them has no epsilon of its own."""
    found = []
    for each in releases:
        pieces = each.mechanism.pieces(each.circuit)
        if pieces is None:
            return None
        found.append(dataclasses.replace(pieces, count=each.count * pieces.count))
    return found
