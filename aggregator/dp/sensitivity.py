"""How far one person can move a sum: what each circuit proves about a measurement.

Neighbours are data sets in which one person's reports have other measurements, while report ids,
times and counts stay the same ("replacement"). The exact number of reports is public in DAP, so
adding or removing a report is not hidden by any noise and no sensitivity for it is offered.

A person who sends g reports, all of them in one batch, moves a sum g times as far.
"""

from aggregator.errors import ParameterError
from aggregator.vdaf.circuits import (
    Circuit,
    Count,
    Histogram,
    L1BoundSum,
    MultihotCountVec,
    Sum,
    SumVec,
)

NEIGHBOURS = "replacement"


class UnsupportedCircuit(ParameterError):
    """A type of measurement whose sensitivity, or whose mechanism, is not known."""


def l1_sensitivity(circuit: Circuit, max_reports_per_person: int = 1) -> int:
    """Return the largest sum of absolute changes over all coordinates.

    Source:
        Cook, "Differential Privacy Mechanism for Prio3 and PureDpDiscreteLaplace", Definition 3.
    """
    check_max_reports_per_person(max_reports_per_person)
    return max_reports_per_person * _l1(circuit)


def l2_sensitivity_squared(circuit: Circuit, max_reports_per_person: int = 1) -> int:
    """Return the largest sum of squared changes over all coordinates."""
    check_max_reports_per_person(max_reports_per_person)
    return max_reports_per_person**2 * _l2_squared(circuit)


def max_entry(circuit: Circuit) -> int:
    """Return the most that one report adds to one coordinate; it adds at least 0."""
    match circuit:
        case Count() | Histogram() | MultihotCountVec():
            return 1
        case Sum() | SumVec():
            return circuit.max_measurement
        case L1BoundSum():
            return circuit.max_value
        case _:
            raise _unsupported(circuit)


def changed_coordinates(circuit: Circuit) -> int:
    """Return how many coordinates one report can move, each by 1: counts only.

    Raises:
        UnsupportedCircuit: Coordinates of this circuit are sums, not counts.
    """
    match circuit:
        case Count() | Histogram() | MultihotCountVec():
            # Each coordinate moves by at most 1, so the L1 sensitivity counts them.
            return _l1(circuit)
        case _:
            raise UnsupportedCircuit(f"Prio3{circuit.name} does not count; only counts move by 1")


def check_max_reports_per_person(value: object) -> None:
    """Refuse a bound on a person's reports that is no integer from 1 to 2^32 - 1.

    Raises:
        ParameterError: Says the range and what was given.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < 2**32:
        raise ParameterError(
            f"max_reports_per_person must be an integer from 1 to 2^32 - 1, not {value!r}"
        )


def _l1(circuit: Circuit) -> int:
    match circuit:
        case Count():
            return 1
        case Sum():
            return circuit.max_measurement
        case SumVec():
            return circuit.length * circuit.max_measurement
        case Histogram():
            # One bucket loses the report and another gains it; with one bucket nothing changes.
            return 0 if circuit.length == 1 else 2
        case MultihotCountVec():
            # Two sets of at most `max_weight` entries differ in all of both where they are
            # disjoint, or, where there is no room for that, in every entry there is.
            return min(2 * circuit.max_weight, circuit.length)
        case L1BoundSum():
            # All of the bound in one coordinate, then all of it in another; with one coordinate
            # from the bound to nothing.
            return circuit.max_value if circuit.length == 1 else 2 * circuit.max_value
        case _:
            raise _unsupported(circuit)


def _l2_squared(circuit: Circuit) -> int:
    match circuit:
        case Count():
            return 1
        case Sum():
            return circuit.max_measurement**2
        case SumVec():
            return circuit.length * circuit.max_measurement**2
        case Histogram() | MultihotCountVec():
            # Every change is 1, whose square is 1.
            return _l1(circuit)
        case L1BoundSum():
            return (1 if circuit.length == 1 else 2) * circuit.max_value**2
        case _:
            raise _unsupported(circuit)


def _unsupported(circuit: Circuit) -> UnsupportedCircuit:
    return UnsupportedCircuit(f"the sensitivity of Prio3{circuit.name} is not known")
