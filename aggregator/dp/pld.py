"""Composition by privacy-loss distributions, through the optional package `dp-accounting`.

The package rounds every loss up to a grid, so its results would be upper bounds if it did not
compute in doubles: its transforms err in delta by about 10^-16 for each mechanism composed, which
for a small delta is more than the grid allows for. So we ask for a delta that is smaller by twenty
times that, and not at all if little is left. Bounds hold for a mechanism, a number of releases and
a delta that were fixed beforehand.
"""

import dataclasses
import importlib
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from types import ModuleType
from typing import Protocol

from aggregator.dp.sensitivity import Shift, furthest_move
from aggregator.errors import ConfigurationError
from aggregator.vdaf.circuits import Summed

_GRID = 1e-4
_LARGEST_SHIFT = 10_000
_LARGEST_COMPOSITION = 5_000  # more take longer than ten seconds
_LARGEST_EPSILON = 100  # the package overflows above
_LARGEST_SIGMA = 10**5  # and lists as many outcomes
_LARGEST_RHO_OF_DRAW = 1  # then draws have ten million losses

# The error of doubles, compared with the exact optimum for up to 10,000 randomised responses:
# measured, not proved.
_SLACK_OF_DELTA = 1e-6
_SLACK_OF_ONE = 2e-15


class _LossDistribution(Protocol):
    """The part of the package's privacy loss distributions that we use."""

    def self_compose(self, num_times: int) -> "_LossDistribution": ...

    def compose(self, privacy_loss_distribution: "_LossDistribution") -> "_LossDistribution": ...

    def get_epsilon_for_delta(self, delta: float) -> float: ...


@dataclasses.dataclass(frozen=True, slots=True)
class ReleaseLosses:
    """The privacy loss of one release, for its worst pair of neighbours.

    Attributes:
        of_draws: The distribution of the loss of one draw, shifted as in that pair, with how many
            such independent draws there are, for each size of shifts.
    """

    of_draws: tuple[tuple[_LossDistribution, int], ...]

    @property
    def draws(self) -> int:
        """How many draws there are in all."""
        return sum(count for _, count in self.of_draws)


def epsilon_of_laplace(epsilon: Fraction, releases: int, delta: Fraction) -> float | None:
    """Return a bound for n continuous Laplace mechanisms, each epsilon-DP, on a grid of 10^-4.

    None if delta is too small for the package's precision, or epsilon or n too large for it. Raises
    `ConfigurationError` if `dp-accounting` is not installed.
    """
    library = _library()
    if epsilon > _LARGEST_EPSILON or releases > _LARGEST_COMPOSITION:
        return None
    single: _LossDistribution = library.from_laplace_mechanism(
        parameter=float(1 / epsilon), value_discretization_interval=_GRID
    )
    return _epsilon_at(single.self_compose(releases), releases, delta)


def of_discrete_laplace(scale: Fraction, move: Sequence[Shift]) -> ReleaseLosses | None:
    """Return the loss of a release whose worst neighbours shift its draws by a move.

    None if nothing is shifted, or the package would be too slow, or overflow. Raises
    `ConfigurationError` if `dp-accounting` is not installed.
    """
    if not move or sum(shift.entries for shift in move) > _LARGEST_COMPOSITION:
        return None
    if sum(shift.size for shift in move) > _LARGEST_SHIFT:
        return None
    if sum(shift.entries * shift.size for shift in move) > _LARGEST_EPSILON * scale:
        return None
    library = _library()
    return ReleaseLosses(
        tuple(
            (
                library.from_discrete_laplace_mechanism(
                    parameter=float(1 / scale),
                    sensitivity=shift.size,
                    value_discretization_interval=_GRID,
                ),
                shift.entries,
            )
            for shift in move
        )
    )


def of_discrete_gaussian(sigma_squared: Fraction, draws: int, shift: int) -> ReleaseLosses | None:
    """Return the loss of such a release with discrete Gaussian noise.

    Raises `ConfigurationError` if `dp-accounting` is not installed.
    """
    if draws > _LARGEST_COMPOSITION or shift > _LARGEST_SHIFT:
        return None
    if sigma_squared > _LARGEST_SIGMA**2 or shift**2 > 2 * _LARGEST_RHO_OF_DRAW * sigma_squared:
        return None
    single: _LossDistribution = _library().from_discrete_gaussian_mechanism(
        sigma=math.sqrt(sigma_squared), sensitivity=shift, value_discretization_interval=_GRID
    )
    return ReleaseLosses(((single, draws),))


def epsilon_together(
    releases: Iterable[tuple[ReleaseLosses | None, int]], delta: Fraction
) -> float | None:
    """Return a bound for releases of several tasks, each given by its losses and their number.

    None if the losses of one of them are unknown or too many, or if delta is too small for the
    package's precision.
    """
    total, draws = None, 0
    for losses, count in releases:
        if losses is None or losses.draws * count > _LARGEST_COMPOSITION:
            return None
        for of_draw, each in losses.of_draws:
            composed = of_draw.self_compose(each * count)
            total = composed if total is None else total.compose(composed)
        draws += losses.draws * count
    return None if total is None else _epsilon_at(total, draws, delta)


def _epsilon_at(distribution: _LossDistribution, count: int, delta: Fraction) -> float | None:
    """Return the epsilon of `count` mechanisms at a delta reduced by the error of doubles."""
    slack = float(delta) * _SLACK_OF_DELTA + count * _SLACK_OF_ONE
    if 2 * slack > delta:
        return None
    return float(distribution.get_epsilon_for_delta(float(delta) - slack))


def equal_shifts(circuit: Summed, max_reports_per_person: int) -> Shift | None:
    """Return how many entries the furthest move shifts, and by how much each.

    The caller must know that the furthest move is the worst under its noise.

    Returns:
        None if the entries do not all move equally far.
    """
    move = furthest_move(circuit, max_reports_per_person)
    return move[0] if len(move) == 1 else None


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
