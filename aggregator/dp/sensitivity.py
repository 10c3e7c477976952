"""How far one person can move a sum, derived from the one pair of measurements a circuit names.

Neighbours are data sets in which one person's reports have other measurements, while report ids,
times and counts stay the same ("replacement"). The exact number of reports is public in DAP, so no
noise hides that a report was added or removed, and no sensitivity for that is offered.

`Circuit.furthest` names two measurements such that, for any other two and any k, their k largest
differences do not add up to more. That is, they are *weakly majorised* by those of the pair. The
same holds for g reports of one person: the k largest entries of a sum of g differences add up to at
most g times the k largest of the pair. Hence g reports that all change from one measurement of the
pair to the other are the worst that g reports can do, in

- the L1 norm (k is the number of all entries) and the largest entry (k is 1);
- the squared L2 norm, as in every increasing, convex and symmetric function;
- the whole privacy loss under discrete Laplace noise, as docs/privacy.md proves.

They do not always move the most entries: a person may move more entries, each by less. For some
noise it is known only that a larger shift of one entry is hidden less well. Under such noise the
furthest move is the worst if, with shifts sorted by size, no other move has a larger shift in any
place; `is_worst_in_every_entry` says when that is so.
"""

from collections import Counter
from typing import NamedTuple

from aggregator.dp.decimals import integer_in
from aggregator.errors import ParameterError
from aggregator.vdaf.circuits import Summed

NEIGHBOURS = "replacement"


class UnsupportedCircuit(ParameterError):
    """A type of measurement to which a question or a mechanism does not apply."""


class Shift(NamedTuple):
    """`entries` of a sum that all move by `size`, up or down."""

    entries: int
    size: int


def furthest_move(circuit: Summed, max_reports_per_person: int = 1) -> list[Shift]:
    """Return the furthest that one person's reports can move a sum, largest shifts first.

    Returns:
        Shifts of different sizes; none if no measurement changes a sum.

    Raises:
        ParameterError: The number of reports is out of its range.
    """
    check_max_reports_per_person(max_reports_per_person)
    counts: Counter[int] = Counter()
    for run in circuit.furthest():
        counts[abs(run.first - run.second)] += run.entries
    return [
        Shift(count, max_reports_per_person * size)
        for size, count in sorted(counts.items(), reverse=True)
        if size and count
    ]


def l1_sensitivity(circuit: Summed, max_reports_per_person: int = 1) -> int:
    """Return the largest sum of absolute changes over all entries.

    Source: Cook, "Differential Privacy Mechanism for Prio3 and PureDpDiscreteLaplace", Definition
    3.
    """
    move = furthest_move(circuit, max_reports_per_person)
    return sum(shift.entries * shift.size for shift in move)


def l2_sensitivity_squared(circuit: Summed, max_reports_per_person: int = 1) -> int:
    """Return the largest sum of squared changes over all entries."""
    move = furthest_move(circuit, max_reports_per_person)
    return sum(shift.entries * shift.size**2 for shift in move)


def max_entry(circuit: Summed) -> int:
    """Return the most that one report adds to one entry; it adds at least 0."""
    return max(max(run.first, run.second) for run in circuit.furthest() if run.entries)


def is_worst_in_every_entry(circuit: Summed, max_reports_per_person: int = 1) -> bool:
    """Return whether no other move has a larger shift in any place, sorted by size.

    False if that is unknown.
    """
    move = furthest_move(circuit, max_reports_per_person)
    # Either as many entries move as can, all as far as an entry can; or all shifts are 1, the
    # smallest, and their number is the L1 norm.
    most = min(circuit.output_len, 2 * max_reports_per_person * circuit.most_entries)
    moves_most = move == [Shift(most, max_reports_per_person * max_entry(circuit))]
    return moves_most or all(shift.size == 1 for shift in move)


def is_one_count(circuit: Summed) -> bool:
    """Return whether a result is one number, to which each report adds 0 or 1."""
    return circuit.is_scalar and max_entry(circuit) == 1


def check_counts(circuit: Summed) -> None:
    """Refuse a circuit to whose entries a report may add more than 1, as `UnsupportedCircuit`."""
    if max_entry(circuit) > 1:
        raise UnsupportedCircuit(f"Prio3{circuit.name} does not count; only counts move by 1")


def nothing_changes(circuit: Summed) -> UnsupportedCircuit:
    """Return the error for a question without an answer because no sum can move."""
    return UnsupportedCircuit(
        f"no measurement of Prio3{circuit.name} changes its sums: there is nothing to protect"
    )


def check_max_reports_per_person(value: object) -> int:
    """Return a bound on a person's reports, 1 to 2^32 - 1, or raise `ParameterError`."""
    return integer_in(value, "max_reports_per_person", 1, 2**32 - 1)
