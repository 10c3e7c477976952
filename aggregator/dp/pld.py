"""Composition by privacy-loss distributions, through the optional package `dp-accounting`.

The package rounds every loss up to a grid, so what it returns would be upper bounds if it did not
compute in doubles: its transforms err in delta by some 10^-16 for each mechanism composed, which at
a small delta is more than the grid gives. So we ask at a delta smaller by twenty times that, and
not at all where little is left. Bounds hold for a mechanism, a number of releases and a delta that
were fixed beforehand.
"""

import importlib
import math
from collections.abc import Sequence
from fractions import Fraction
from types import ModuleType
from typing import Protocol

from aggregator.dp.discrete_gaussian import DiscreteGaussian
from aggregator.dp.mechanisms import Mechanism, PureDpDiscreteLaplace
from aggregator.dp.sensitivity import Shift, furthest_move, is_worst_in_every_entry
from aggregator.errors import ConfigurationError
from aggregator.vdaf.circuits import Circuit

_GRID = 1e-4
_LARGEST_SHIFT = 10_000
_LARGEST_COMPOSITION = 10_000

# What doubles may cost, against the exact optimum of up to 10,000 randomised responses: measured,
# not proved.
_SLACK_OF_DELTA = 1e-6
_SLACK_OF_ONE = 2e-15


class _LossDistribution(Protocol):
    """What we use of the package's privacy loss distributions."""

    def self_compose(self, num_times: int) -> "_LossDistribution": ...

    def compose(self, privacy_loss_distribution: "_LossDistribution") -> "_LossDistribution": ...

    def get_epsilon_for_delta(self, delta: float) -> float: ...


def epsilon_of_laplace(epsilon: Fraction, releases: int, delta: Fraction) -> float | None:
    """Return a bound for n continuous Laplace mechanisms, each epsilon-DP, on a grid of 10^-4.

    None where delta is too small for the package's precision.

    Raises:
        ConfigurationError: `dp-accounting` is not installed.
    """
    library = _library()
    single: _LossDistribution = library.from_laplace_mechanism(
        parameter=float(1 / epsilon), value_discretization_interval=_GRID
    )
    return _epsilon_at(single.self_compose(releases), releases, delta)


def epsilon_of_releases(
    mechanism: Mechanism, circuit: Circuit, releases: int, delta: Fraction
) -> float | None:
    """Return a bound for n releases of a task, or None as `epsilon_together`.

    Raises:
        ConfigurationError: `dp-accounting` is not installed.
    """
    return epsilon_together([(mechanism, circuit, releases)], delta)


def epsilon_together(
    tasks: Sequence[tuple[Mechanism, Circuit, int]], delta: Fraction
) -> float | None:
    """Return a bound for the releases of several tasks, each a mechanism, a circuit and a number.

    None where the worst pair of sums of one of them is not known, or delta is too small for the
    package's precision.

    Raises:
        ConfigurationError: `dp-accounting` is not installed.
    """
    library = _library()
    total, count = None, 0
    for mechanism, circuit, releases in tasks:
        found = _releases(library, mechanism, circuit, releases)
        if found is None:
            return None
        composed, composed_count = found
        total = composed if total is None else total.compose(composed)
        count += composed_count
    return None if total is None else _epsilon_at(total, count, delta)


def _epsilon_at(distribution: _LossDistribution, count: int, delta: Fraction) -> float | None:
    """Return the epsilon of `count` mechanisms at a delta smaller by what doubles may cost."""
    slack = float(delta) * _SLACK_OF_DELTA + count * _SLACK_OF_ONE
    if 2 * slack > delta:
        return None
    return float(distribution.get_epsilon_for_delta(float(delta) - slack))


def _releases(
    library: ModuleType, mechanism: Mechanism, circuit: Circuit, releases: int
) -> tuple[_LossDistribution, int] | None:
    """Return the loss distribution of n releases of a task, and of how many mechanisms it is.

    None where the worst pair of sums is not known.
    """
    worst = worst_shift(mechanism, circuit)
    if worst is None:
        return None
    coordinates, shift = worst
    if shift > _LARGEST_SHIFT or coordinates * releases > _LARGEST_COMPOSITION:
        return None
    single: _LossDistribution
    match mechanism:
        case PureDpDiscreteLaplace():
            single = library.from_discrete_laplace_mechanism(
                parameter=float(1 / mechanism.scale(circuit)),
                sensitivity=shift,
                value_discretization_interval=_GRID,
            )
        case DiscreteGaussian():
            single = library.from_discrete_gaussian_mechanism(
                sigma=math.sqrt(mechanism.scale(circuit)),
                sensitivity=shift,
                value_discretization_interval=_GRID,
            )
        case _:
            return None
    return single.self_compose(coordinates * releases), coordinates * releases


def worst_shift(mechanism: Mechanism, circuit: Circuit) -> Shift | None:
    """Return how many entries the worst neighbours move under a mechanism, and each how far.

    None where that is not proved, or where they do not all move equally far.
    """
    reports = mechanism.max_reports_per_person
    move = furthest_move(circuit, reports)
    is_worst = isinstance(mechanism, PureDpDiscreteLaplace) or is_worst_in_every_entry(
        circuit, reports
    )
    return move[0] if is_worst and len(move) == 1 else None


def is_available() -> bool:
    """Return whether `dp-accounting` is installed."""
    try:
        _library()
    except ConfigurationError:
        return False
    return True


def _library() -> ModuleType:
    try:
        return importlib.import_module("dp_accounting.pld.privacy_loss_distribution")
    except ImportError as error:
        raise ConfigurationError(
            "privacy-loss distributions need the package dp-accounting: "
            "install prio-aggregator[accounting]"
        ) from error
