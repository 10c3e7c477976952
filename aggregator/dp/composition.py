"""What releases cost a person who is in all of them, by each theorem and when it applies.

The releases may be of one task or of several that ask the same people, with one mechanism or
several: costs add up all the same. One release is itself a composition: it adds independent noise
to several coordinates, and a person moves only so much in each. A histogram's release is two
mechanisms of epsilon/2, which composes better than one of epsilon.

A collector sees each result before it asks for the next, and decides when to stop. A bound is valid
if it holds even then; docs/privacy.md, "A collector who chooses", says which bounds are valid, and
proves it.
"""

import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction

from aggregator.dp import accounting, pld
from aggregator.dp.accounting import Pieces
from aggregator.dp.filters import DELTA_LIMIT, Cost, Filter, check_delta, total
from aggregator.dp.gaussian_shifts import Shifts, epsilon_of
from aggregator.dp.mechanisms import Mechanism
from aggregator.dp.odometer import TIGHTEST_RHO, Odometer
from aggregator.dp.sensitivity import furthest_move
from aggregator.dp.zcdp import implied_epsilon
from aggregator.vdaf.circuits import Summed

NO_LIMIT = "no limit is enforced"
ALWAYS = "of the releases made, whenever the collector stops"
ODOMETER = f"{ALWAYS}; delta chosen before the first; not to be mixed with the bounds below"
LIMITED = "of all releases that the limits allow, however they are chosen"
PLANNED = "of all releases of the enforced plan"
UNEQUAL = "as if each release cost as much as the dearest, so not the optimum of these"
NOT_FIXED = "not valid: the releases were not fixed beforehand, and no limit fixes them"
SAYS_NOTHING = "says nothing of these mechanisms at this delta"
NOT_INSTALLED = "dp-accounting is not installed: pip install prio-aggregator[accounting]"

NOTHING_TO_PROTECT = "nothing to protect"
OF_RELEASES_MADE = ("basic", "odometer")
OF_LIMITS = ("filter on epsilon", "filter on rho")
OF_PLANS = ("advanced", "optimal (KOV)", "Gaussian", "PLD")
_NEAR = Fraction(1, 1000)
"""The part of an epsilon that is not worth paying for with delta."""

THEOREMS = (*OF_RELEASES_MADE, *OF_LIMITS, *OF_PLANS)


@dataclasses.dataclass(frozen=True, slots=True)
class Releases:
    """Releases of one task that the same person is in."""

    mechanism: Mechanism
    circuit: Summed
    count: int

    @property
    def cost(self) -> Cost | None:
        """The sum of their costs; None if their mechanism promises nothing.

        Sums that no measurement can change cost nothing. The circuit decides that, so that a
        mechanism that draws little or no noise is still counted at its stated cost.
        """
        if self.promises_nothing:
            return None
        if not furthest_move(self.circuit):
            return Cost()
        return self.mechanism.cost(self.circuit, self.count)

    @property
    def promises_nothing(self) -> bool:
        """Whether no epsilon bounds their cost, as for exact sums."""
        return self.mechanism.cost(self.circuit, 1) is None

    def epsilon_at(self, delta: Fraction) -> Fraction | None:
        """Return their epsilon if their number is fixed beforehand; for Gaussian noise at `delta`.

        For other noise it is the sum of their epsilons; None if nothing is promised.
        """
        cost = self.cost
        if cost is None or cost.epsilon is not None:
            return None if cost is None else cost.epsilon
        epsilon = _gaussian([self], delta)
        return implied_epsilon(cost.rho, delta) if epsilon is None else epsilon


@dataclasses.dataclass(frozen=True, slots=True)
class Bound:
    """What one theorem says about the cost of releases to a person in all of them.

    Attributes:
        name: The theorem's, one of `THEOREMS`, or `NOTHING_TO_PROTECT`.
        releases: How many it covers; None if it says nothing, or covers whatever limits allow.
        epsilon: The bound, rounded up; None if it says nothing.
        delta: With it.
        is_valid: Whether it holds for a collector who decides, after seeing results, when to stop
            and what to ask next.
        note: What it covers, why it says nothing, or on what condition it would be valid.
    """

    name: str
    releases: int | None
    epsilon: Fraction | None
    delta: Fraction | None
    is_valid: bool
    note: str


def spent(releases: Sequence[Releases]) -> Cost:
    """Return the sum of the costs: it holds even if releases are chosen after seeing others.

    Releases that promise nothing are left out, and callers that show the sum must say so.

    Source: [DR14], Theorem 3.16; [BS16], Lemma 1.7.
    """
    return total(cost for each in releases if (cost := each.cost) is not None)


def bounds(
    made: Sequence[Releases],
    delta: Fraction,
    *,
    plan: Sequence[Releases] | None = None,
    limits: Filter | None = None,
    may_grow: bool = False,
    with_pld: bool = False,
) -> list[Bound]:
    """Return what each theorem says about releases of one task or of several.

    Args:
        made: The releases made so far; those that promise nothing are left out, and callers that
            show the bounds must say so.
        delta: The delta at which bounds are stated, chosen before the first release.
        plan: All releases that can ever be made, fixed before the first and enforced; None if their
            number or their mechanisms are open.
        limits: Limits on the sums of costs, fixed before the first release and enforced.
        may_grow: Whether releases of other mechanisms may come.
        with_pld: Whether to ask `dp-accounting`, if it is installed.

    Returns:
        A bound for each of `THEOREMS`; none if no release that promises something was made.

    Raises:
        ParameterError: delta is out of range.
    """
    check_delta(delta)
    counted = _protecting(made)
    if not counted:
        free = any(each.count and not each.promises_nothing for each in made)
        row = Bound(NOTHING_TO_PROTECT, None, Fraction(0), Fraction(0), is_valid=True, note=ALWAYS)
        return [row] if free else []
    enforced = [] if limits is None else [limits]
    if plan is not None and (everything := spent(plan)).delta < DELTA_LIMIT:
        enforced.append(Filter(everything.epsilon, everything.rho, everything.delta))
    composed = counted if plan is None else _protecting(plan)
    count = sum(each.count for each in counted)
    return [
        *_of_releases_made(spent(counted), count, delta, enforced, may_grow=may_grow),
        *_of_limits(enforced, delta, None if plan is None else _count(composed)),
        *_of_plans(composed, delta, is_valid=plan is not None, with_pld=with_pld),
    ]


def smallest_valid(found: Sequence[Bound]) -> Bound | None:
    """Return the valid bound with the smallest epsilon; None if there is none.

    A bound that needs less delta is preferred if its epsilon is larger by at most a thousandth.

    If limits are enforced, it is the sum of the epsilons or one of the bounds that do not depend on
    how many releases were made. The odometer is then left out: a collector could wait for either
    bound to fail, so the smaller of them would need both deltas. It is for the case without limits.
    """
    valid = [bound for bound in found if bound.is_valid and bound.epsilon is not None]
    constant = [bound for bound in valid if bound.name not in OF_RELEASES_MADE]
    if constant:
        valid = [bound for bound in valid if bound.name != "odometer"]
    epsilons = [bound.epsilon for bound in valid if bound.epsilon is not None]
    enough = min(epsilons, default=Fraction(0)) * (1 + _NEAR)
    near = [bound for bound in valid if bound.epsilon is not None and bound.epsilon <= enough]
    return min(near, key=lambda bound: (bound.delta, bound.epsilon), default=None)


def equal_pieces(circuit: Summed, max_reports_per_person: int) -> int:
    """Return the independent mechanisms of equal epsilon that one release divides into.

    With discrete Laplace noise the furthest move is the worst, and its entries have independent
    noise. An entry that moves by 1/d of the L1 sensitivity is an (epsilon/d)-DP mechanism.
    """
    move = furthest_move(circuit, max_reports_per_person)
    return move[0].entries if len(move) == 1 else 1


def _of_releases_made(
    cost: Cost, count: int, delta: Fraction, enforced: Sequence[Filter], *, may_grow: bool
) -> list[Bound]:
    """Return the bounds that hold for any number of releases at once."""
    epsilon = cost.epsilon if cost.delta <= delta else None
    # The odometer's part of delta is fixed before the first release, like all else about it.
    own = delta
    if enforced:
        own -= min(each.delta for each in enforced)
    elif may_grow or cost.delta:
        own /= 2
    measured = None
    if own > 0 and cost.delta <= delta - own:
        rhos = [each.rho for each in enforced if each.rho is not None]
        measured = Odometer(own, min(rhos, default=TIGHTEST_RHO)).epsilon(cost)
    return [
        _bound("basic", count, epsilon, cost.delta, ALWAYS),
        _bound("odometer", count, measured, delta, ODOMETER),
    ]


def _of_limits(enforced: Sequence[Filter], delta: Fraction, count: int | None) -> list[Bound]:
    """Return the bounds on all that the limits allow; the smaller of two limits counts."""
    if not enforced:
        return [Bound(name, None, None, None, is_valid=False, note=NO_LIMIT) for name in OF_LIMITS]
    epsilons = [
        (each.epsilon, each.delta)
        for each in enforced
        if each.epsilon is not None and each.delta <= delta
    ]
    rhos = [
        Filter(rho=each.rho, delta=each.delta).epsilon_of_all(delta - each.delta)
        for each in enforced
        if each.rho is not None and each.delta < delta
    ]
    epsilon, own = min(epsilons, default=(None, None))
    return [
        _bound("filter on epsilon", count, epsilon, own, LIMITED),
        _bound("filter on rho", count, min(rhos, default=None), delta, LIMITED),
    ]


def _of_plans(
    releases: Sequence[Releases], delta: Fraction, *, is_valid: bool, with_pld: bool
) -> list[Bound]:
    """Return the bounds of theorems for releases that are fixed beforehand."""
    count, note = _count(releases), PLANNED if is_valid else NOT_FIXED
    theorems: dict[str, Callable[[Sequence[Releases], Fraction], Fraction | None]] = {
        "advanced": _advanced,
        "optimal (KOV)": _optimal,
        "Gaussian": _gaussian,
    }
    costs = {(each.epsilon, each.delta) for each in _pieces(releases) or ()}
    notes = {"optimal (KOV)": f"{note}; {UNEQUAL}"} if len(costs) > 1 else {}
    found = [
        _bound(
            name, count, theorem(releases, delta), delta, notes.get(name, note), is_valid=is_valid
        )
        for name, theorem in theorems.items()
    ]
    if not with_pld:
        return found
    if not pld.is_available():
        return [*found, Bound("PLD", None, None, None, is_valid=False, note=NOT_INSTALLED)]
    losses = [(each.mechanism.losses(each.circuit), each.count) for each in _parts(releases)]
    epsilon = pld.epsilon_together(losses, delta)
    exact = None if epsilon is None else Fraction(epsilon)
    return [*found, _bound("PLD", count, exact, delta, note, is_valid=is_valid)]


def _bound(
    name: str,
    releases: int | None,
    epsilon: Fraction | None,
    delta: Fraction | None,
    note: str,
    *,
    is_valid: bool = True,
) -> Bound:
    if epsilon is None:
        return Bound(name, None, None, None, is_valid=False, note=SAYS_NOTHING)
    return Bound(name, releases, epsilon, delta, is_valid, note)


def _count(releases: Sequence[Releases]) -> int:
    return sum(each.count for each in releases)


def _protecting(releases: Sequence[Releases]) -> list[Releases]:
    """Return the releases that cost something: of sums that a measurement can change."""
    return [
        each
        for each in releases
        if each.count > 0 and not each.promises_nothing and furthest_move(each.circuit)
    ]


def _advanced(releases: Sequence[Releases], delta: Fraction) -> Fraction | None:
    pieces = _pieces(releases)
    return None if pieces is None else accounting.advanced(pieces, delta)


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


def _gaussian(releases: Sequence[Releases], delta: Fraction) -> Fraction | None:
    """Return the epsilon of Gaussian noise by its law; None if some noise is not Gaussian."""
    shifts: list[Shifts] = []
    for each in releases:
        found = each.mechanism.shifts(each.circuit)
        if found is None:
            return None
        shifts += [dataclasses.replace(one, count=each.count * one.count) for one in found]
    return epsilon_of(shifts, delta)


def _parts(releases: Sequence[Releases]) -> list[Releases]:
    """Return the releases of all parts, equal ones counted together."""
    counts: Counter[tuple[Mechanism, Summed]] = Counter()
    for each in releases:
        for mechanism, part in each.mechanism.by_part(each.circuit):
            counts[mechanism, part] += each.count
    return [Releases(mechanism, part, count) for (mechanism, part), count in counts.items()]


def _pieces(releases: Sequence[Releases]) -> list[Pieces] | None:
    """Return what all releases divide into; None if one of them has no epsilon of its own."""
    found = []
    for each in _parts(releases):
        pieces = each.mechanism.pieces(each.circuit)
        if pieces is None:
            return None
        found.append(dataclasses.replace(pieces, count=each.count * pieces.count))
    return found
