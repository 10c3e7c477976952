"""What the ledger's releases cost a person by every theorem, and which bounds are valid.

Basic, advanced and zCDP bounds are for the releases made so far. The optimal bound and that of
privacy loss distributions hold only for mechanisms, numbers of releases and a delta that were all
fixed beforehand. A task fixes its number by what the aggregators enforce, `max_releases` or a
budget: then they are taken at that number, however many releases were made, since what may still
come was allowed for. Otherwise they are shown for comparison, and called not valid.
"""

import dataclasses
from collections.abc import Sequence
from fractions import Fraction

from aggregator.dp import pld
from aggregator.dp.composition import Bound, Releases, bounds
from aggregator.protocol.budget import horizon, releases_of
from aggregator.protocol.task import Task

THEOREMS = ("basic", "advanced", "zCDP", "optimal (KOV)", "PLD")

NOT_FIXED = "not valid: neither max_releases nor a budget fixes the number of releases beforehand"
NOT_INSTALLED = "dp-accounting is not installed: pip install prio-aggregator[accounting]"
SAYS_NOTHING = "says nothing of these mechanisms at this delta"


@dataclasses.dataclass(frozen=True, slots=True)
class LedgerBound:
    """What one theorem says about a person's cost.

    Attributes:
        name: The theorem's name.
        releases: How many of the person's releases it covers; 0 if it says nothing.
        epsilon: The bound, rounded up; None if it says nothing.
        delta: With it.
        is_valid: Whether the conditions of the theorem are met.
        note: Why it is not valid, or on what condition it is.
    """

    name: str
    releases: int
    epsilon: Fraction | None
    delta: Fraction | None
    is_valid: bool
    note: str


def ledger_bounds(spent: Sequence[tuple[Task, int]], delta: Fraction) -> list[LedgerBound]:
    """Return what each theorem says about the cost of tasks' releases to a person in all of them.

    The person may be in every release: how many it really is, only clients know.

    Args:
        spent: Tasks with how many releases each has made; those whose mechanism promises nothing
            are left out, and whoever shows the bounds has to say so.
        delta: At which to compare, chosen beforehand.

    Returns:
        A bound for each of `THEOREMS`; nothing if no release was of a task that promises something.

    Raises:
        ParameterError: delta is not between 0 and 1.
    """
    promised = [
        (task, made) for task, made in spent if not releases_of(task, made).promises_nothing
    ]
    so_far = [releases_of(task, made) for task, made in promised]
    if not any(releases.count for releases in so_far):
        return []
    limits = [(task, horizon(task)) for task, _ in promised]
    is_fixed = all(limit is not None for _, limit in limits)
    planned = [releases_of(task, limit or 0) for task, limit in limits] if is_fixed else so_far
    has_pld = pld.is_available()
    found = {bound.name: _row(bound, so_far, "", is_valid=True) for bound in bounds(so_far, delta)}
    note = "of all releases that the tasks allow; delta fixed beforehand" if is_fixed else NOT_FIXED
    for bound in bounds(planned, delta, is_fixed=True, with_pld=has_pld):
        if bound.is_fixed:
            found[bound.name] = _row(bound, planned, note, is_valid=is_fixed)
    names = THEOREMS if set(found) <= set(THEOREMS) else tuple(found)  # or nothing to protect
    return [found.get(name) or _nothing(name, has_pld=has_pld) for name in names]


def smallest_valid(rows: Sequence[LedgerBound]) -> LedgerBound | None:
    """Return the valid bound with the smallest epsilon; None if there is none."""
    valid = [(row.epsilon, row) for row in rows if row.is_valid and row.epsilon is not None]
    return min(valid, key=lambda pair: pair[0])[1] if valid else None


def _row(bound: Bound, releases: Sequence[Releases], note: str, *, is_valid: bool) -> LedgerBound:
    count = sum(each.count for each in releases)
    return LedgerBound(bound.name, count, bound.epsilon, bound.delta, is_valid, note)


def _nothing(name: str, *, has_pld: bool) -> LedgerBound:
    note = NOT_INSTALLED if name == "PLD" and not has_pld else SAYS_NOTHING
    return LedgerBound(name, 0, None, None, is_valid=False, note=note)
