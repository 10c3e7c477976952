"""A steward's question: what is measured, on how many, how often, how exactly or privately."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from aggregator.dp import accounting
from aggregator.dp.by_section import with_equal_errors
from aggregator.dp.decimals import Number, integer_in, rational_in
from aggregator.dp.discrete_laplace import PureDpDiscreteLaplace
from aggregator.dp.mechanisms import Mechanism
from aggregator.dp.policy import MECHANISMS
from aggregator.dp.policy_table import policy_from_mapping
from aggregator.dp.rationals import format_rational
from aggregator.dp.sensitivity import furthest_move, max_entry, nothing_changes
from aggregator.dp.window import Window
from aggregator.errors import ParameterError
from aggregator.vdaf.circuits import Circuit, Count, Histogram

_YEAR = 365 * 24 * 3600
_TWO_BUCKETS = 2
_LEAST_STRENGTH = Fraction(1, 10**30)  # noise of a smaller one fits no field


@dataclass(frozen=True, slots=True)
class Question:
    """What a steward knows and wants; made by `Question.of`.

    Attributes:
        reports: Reports in one release.
        error: Largest half-width of the 95 % interval of one number, or None.
        strength: The mechanism's epsilon or rho of one release, or None. Exactly one of `error` and
            `strength` is given.
        releases: Per year.
        max_reports_per_person: Per release.
        delta: The delta at which the yearly total is stated; a mechanism's own is a part of it.
        time_precision: Seconds in a unit of the task's times.
        is_of_two: Whether a count stands for two buckets.
    """

    reports: int
    circuit: Circuit
    error: Fraction | None
    strength: Fraction | None
    mechanism: type[Mechanism]
    releases: int
    max_reports_per_person: int
    delta: Fraction
    time_precision: int
    is_of_two: bool

    @classmethod
    def of(
        cls,
        reports: int,
        measured: int | Circuit,
        *,
        error: str | None = None,
        epsilon: Number | None = None,
        rho: Number | None = None,
        mechanism: str = PureDpDiscreteLaplace.name,
        releases: int = 12,
        max_reports_per_person: int = 1,
        delta: Number = "1e-6",
        time_precision: int = 3600,
    ) -> "Question":
        """Make a checked question.

        Args:
            reports: At least 1.
            measured: A circuit, or the number of answers to choose from, at least 1; 1 or 2 answers
                become a count of "yes", at a quarter of the variance.
            error: In the units of the sums, or a percentage such as "5%" of the largest sum that
                `reports` reports can have.
            epsilon: Above 0, for a mechanism that has an epsilon.
            rho: Above 0, for a mechanism that has a rho.
            mechanism: The name of one that adds noise.
            releases: At least 1.
            max_reports_per_person: At least 1.
            delta: Strictly between 0 and 1/100.
            time_precision: At least 1; a year must have room for `releases` releases of one unit.

        Raises:
            ParameterError: A value is out of range, or not exactly one of error, epsilon and rho
                is given.
        """
        integer_in(reports, "reports", 1, None)
        integer_in(releases, "releases", 1, accounting.MAX_RELEASES)
        integer_in(time_precision, "time_precision", 1, _YEAR // releases)
        integer_in(max_reports_per_person, "max_reports_per_person", 1, 2**32 - 1)
        circuit = _circuit(measured)
        if not furthest_move(circuit):
            raise nothing_changes(circuit)
        kind = _noisy(mechanism)
        given = {"epsilon": epsilon, "rho": rho}
        wanted = {name: value for name, value in given.items() if value is not None}
        for name in wanted:
            if name not in kind.parameter_names:
                raise ParameterError(f"{name}: the mechanism {mechanism} has no such parameter")
        if len(wanted) + (error is not None) != 1:
            raise ParameterError(
                f"give either error or {kind.parameter_names[0]}: the one follows from the other"
            )
        return cls(
            reports,
            circuit,
            None if error is None else _error(error, reports * max_entry(circuit)),
            next((_strength(each, name) for name, each in wanted.items()), None),
            kind,
            releases,
            max_reports_per_person,
            rational_in(delta, "delta", 0, 1, open_low=True, open_high=True),
            time_precision,
            measured == _TWO_BUCKETS,
        )

    @property
    def window(self) -> Window:
        """The time of one release, in whole units: `releases` of them fit into 365 days."""
        return Window(_YEAR // (self.releases * self.time_precision))

    @property
    def largest_sum(self) -> int:
        """The most that one number of a release can be."""
        return self.reports * max_entry(self.circuit)

    def noise(self, strength: Fraction) -> Mechanism:
        """Return the mechanism of that strength; for sections, the one with equal errors in each.

        Its delta is the year's if the year then costs no more, else the year's divided by the
        number of releases.
        """
        return with_equal_errors(self._base(strength), self.circuit)

    def _base(self, strength: Fraction) -> Mechanism:
        first, *others = self.mechanism.parameter_names
        table: dict[str, object] = {
            "mechanism": self.mechanism.name,
            first: format_rational(strength),
            "max_reports_per_person": self.max_reports_per_person,
        }
        if "delta" not in others:
            return policy_from_mapping(table).mechanism
        whole = _with_delta(table, self.delta)
        yearly = whole.cost(self.circuit, self.releases)
        if yearly is not None and yearly.delta <= self.delta:
            return whole
        return _with_delta(table, self.delta / self.releases)


def _strength(value: Number, name: str) -> Fraction:
    number = rational_in(value, name, 0, 99, open_low=True)
    if number < _LEAST_STRENGTH:
        raise ParameterError(f"{name} must be at least 1e-30, not {value}")
    return number


def _circuit(measured: int | Circuit) -> Circuit:
    if isinstance(measured, Circuit):
        return measured
    integer_in(measured, "buckets", 1, 2**32 - 1)
    return Count() if measured <= _TWO_BUCKETS else Histogram(measured, 1)


def _noisy(name: str) -> type[Mechanism]:
    kinds = {kind.name: kind for kind in MECHANISMS.values() if kind.is_noisy}
    if name not in kinds:
        raise ParameterError(f"mechanism must be one of {', '.join(kinds)}, not {name!r}")
    return kinds[name]


def _with_delta(table: Mapping[str, object], delta: Fraction) -> Mechanism:
    return policy_from_mapping({**table, "delta": format_rational(delta)}).mechanism


def _error(text: str, largest_sum: int) -> Fraction:
    is_part = text.endswith("%")
    number = rational_in(text.removesuffix("%").strip(), "error", 0, None)
    return number * largest_sum / 100 if is_part else number
