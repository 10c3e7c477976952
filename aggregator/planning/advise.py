"""From a steward's question to a privacy policy: a mechanism, its strength, its error and cost.

Unless told otherwise the advice is discrete Laplace noise: its promise is a single number, adds up
over any number of releases, and needs no threshold. The epsilon (or rho) advised is the smallest
with two digits that keeps the wanted error; a smaller error costs privacy, and there is no way
around that.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from aggregator.dp import accounting, composition
from aggregator.dp.certified import exp, is_positive, round_up
from aggregator.dp.decimals import Number, integer_in, rational_in
from aggregator.dp.discrete_laplace import PureDpDiscreteLaplace
from aggregator.dp.filters import Cost
from aggregator.dp.mechanisms import Mechanism
from aggregator.dp.policy import MECHANISMS, PrivacyPolicy, policy_from_mapping
from aggregator.dp.rationals import at_most, format_rational
from aggregator.dp.search import least
from aggregator.dp.sensitivity import furthest_move, max_entry, nothing_changes
from aggregator.dp.thresholds import Thresholds
from aggregator.dp.truncated_geometric import TruncatedGeometric
from aggregator.dp.window import Window
from aggregator.errors import ParameterError
from aggregator.planning.suspicion import sure_at_most
from aggregator.vdaf.circuits import Circuit, Count, Histogram

CONFIDENCE = Fraction(95, 100)
EMPTY_BUCKET_CHANCE = Fraction(1, 10**6)
"""The probability with which a threshold may show any empty bucket."""

_YEAR = 365 * 24 * 3600
_TWO_BUCKETS = 2
# Above these a promise is so weak, or spent so far, that the steward is warned.
_WEAK_RELEASE = 3
_WEAK_YEAR = 12
_LONG = 10**11
"""Denominators of computed bounds have twelve decimals."""
_LEAST_STRENGTH = Fraction(1, 10**30)  # noise of a smaller one fits no field
STRENGTHS = tuple(
    Fraction(digits) * Fraction(10) ** exponent
    for exponent in range(-10, 1)
    for digits in range(10, 100)
)
"""The epsilons and rhos that are advised: two digits, from 10^-9 up to below 100."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a steward knows and wants; made by `Question.of`.

    Attributes:
        reports: Reports in one release.
        circuit: What is measured.
        error: Largest half-width of the 95 % interval of one number, or None.
        strength: The mechanism's epsilon or rho of one release, or None. Exactly one of the two is
            given.
        mechanism: The kind of noise.
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
        """Make a question, checked.

        Args:
            reports: At least 1.
            measured: A circuit; or the number of answers to choose from, at least 1, of which 1 or
                2 are a count of "yes", at a quarter of the variance.
            error: In the units of the sums, or a percentage such as "5%" of the largest sum of so
                many reports.
            epsilon: Above 0, for a mechanism that has one.
            rho: Likewise.
            mechanism: The name of one that adds noise.
            releases: At least 1.
            max_reports_per_person: At least 1.
            delta: Strictly between 0 and 1/100.
            time_precision: At least 1; so many releases of a unit at least must fit into a year.

        Raises:
            ParameterError: A value is out of range, or not exactly one of error, epsilon and rho is
                given.
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
        """The time of one release: `releases` of them fit into 365 days, in whole units."""
        return Window(_YEAR // (self.releases * self.time_precision))

    @property
    def largest_sum(self) -> int:
        """What one number of a release is if every report adds the most to it."""
        return self.reports * max_entry(self.circuit)

    def noise(self, strength: Fraction) -> Mechanism:
        """Return the mechanism of that strength.

        Its delta is the year's if the year costs no more than that, else the year's divided by the
        number of releases.
        """
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


@dataclass(frozen=True, slots=True)
class ThresholdAdvice:
    """What it takes never to show a bucket that nobody chose, and what that costs.

    Attributes:
        threshold: With this noise: all empty buckets stay hidden except with a probability of
            `EMPTY_BUCKET_CHANCE`, and privacy does not change.
        truncated_threshold: With truncated geometric noise of the same epsilon: no empty bucket is
            ever shown, at the cost of a delta. None if the mechanism has no epsilon.
        truncated_delta: That delta.
    """

    threshold: int
    truncated_threshold: int | None
    truncated_delta: Fraction


@dataclass(frozen=True, slots=True)
class Advice:
    """The answer.

    Attributes:
        circuit: What to measure with.
        policy: For the task file.
        epsilon: Of one release.
        delta: With it.
        half_width: Of the 95 % interval of one number, both aggregators adding noise.
        joint_half_width: Of intervals that hold for all numbers at once.
        yearly_epsilon: For a person in every release, by adding up; None if epsilons do not add up.
        yearly_bound: The smallest bound at the question's delta; the policy's limit enforces the
            number of releases that it is for.
        sure_after_one: How sure of an answer a neighbour can be after one release to whom two
            answers were equally likely; see `sure_at_most`.
        sure_after_a_year: The same after all releases of a year.
        threshold: None where nothing is a bucket.
        sentences: Three, for a board.
        warnings: What the steward should consider first.
    """

    circuit: Circuit
    policy: PrivacyPolicy
    epsilon: Fraction
    delta: Fraction
    half_width: int
    joint_half_width: int
    yearly_epsilon: Fraction | None
    yearly_bound: composition.Bound
    sure_after_one: Fraction
    sure_after_a_year: Fraction
    threshold: ThresholdAdvice | None
    sentences: tuple[str, str, str]
    warnings: tuple[str, ...]


def advise(question: Question, population: str = "", *, with_threshold: bool = False) -> Advice:
    """Advise a steward.

    Args:
        question: What is known and wanted.
        population: Name of the people asked, for the policy: costs add up over its tasks.
        with_threshold: Whether the policy hides buckets at or below the advised threshold.

    Raises:
        ParameterError: No epsilon or rho below 100 has so small an error, or no bound holds.
    """
    circuit = question.circuit
    mechanism = question.noise(question.strength or _least_strength(question))
    promised = mechanism.guarantee(circuit)
    yearly = mechanism.cost(circuit, question.releases)
    planned = [composition.Releases(mechanism, circuit, question.releases)]
    bound = composition.smallest_valid(composition.bounds(planned, question.delta, plan=planned))
    if promised.epsilon is None or promised.delta is None or yearly is None or bound is None:
        raise ParameterError(
            f"delta: no bound on the year holds at {format_rational(question.delta)}"
        )
    threshold = _threshold(question, mechanism) if circuit.is_one_hot else None
    policy = PrivacyPolicy(
        mechanism,
        window=question.window,
        max_batches_per_person=question.releases,
        budget=yearly.epsilon,
        max_releases=question.releases if yearly.epsilon is None else None,
        population=population,
        thresholds=Thresholds(threshold.threshold) if threshold and with_threshold else None,
    )
    figures = _Figures(
        promised.epsilon,
        promised.delta,
        yearly.epsilon,
        yearly.delta,
        bound,
        mechanism.half_width(circuit, CONFIDENCE),
        mechanism.joint_half_width(circuit, CONFIDENCE),
    )
    return Advice(
        circuit,
        policy,
        figures.epsilon,
        figures.delta,
        figures.width,
        figures.joint,
        figures.total,
        bound,
        sure_at_most(promised.epsilon, promised.delta),
        _sure_after(yearly, bound),
        threshold,
        (_promise(question, figures), _accuracy(question, figures), _cost(question, figures)),
        _warnings(question, figures, threshold),
    )


def _sure_after(yearly: Cost, bound: composition.Bound) -> Fraction:
    """Return how sure a neighbour can be after a year, by adding up or by the smallest bound."""
    costs = ((yearly.epsilon, yearly.delta), (bound.epsilon, bound.delta))
    return min(sure_at_most(epsilon, delta or 0) for epsilon, delta in costs if epsilon is not None)


def _error(text: str, largest_sum: int) -> Fraction:
    is_part = text.endswith("%")
    number = rational_in(text.removesuffix("%").strip(), "error", 0, None)
    return number * largest_sum / 100 if is_part else number


def _least_strength(question: Question) -> Fraction:
    """Return the smallest epsilon or rho with two digits whose interval is narrow enough."""
    wanted, name = question.error, question.mechanism.parameter_names[0]

    def suffices(strength: Fraction) -> bool:
        noise = question.noise(strength)
        return wanted is None or noise.half_width(question.circuit, CONFIDENCE) <= wanted

    if not suffices(STRENGTHS[-1]):
        raise ParameterError(
            f"error must be larger than {float(wanted or 0):g}: no {name} below 100 has so small an"
            " error at 95 %"
        )
    return STRENGTHS[least(lambda index: suffices(STRENGTHS[index]), 0, len(STRENGTHS) - 1)]


def _threshold(question: Question, mechanism: Mechanism) -> ThresholdAdvice:
    circuit = question.circuit
    law = mechanism.law(circuit, 2)
    allowed = EMPTY_BUCKET_CHANCE / circuit.output_len

    def hides(threshold: int) -> bool:
        tail = None if law is None else law.upper_tail(threshold + 1)
        return tail is None or is_positive(lambda digits: allowed - tail(digits))

    epsilon, truncated = mechanism.parameters().get("epsilon"), None
    if epsilon is not None:
        delta, most = question.delta, question.max_reports_per_person
        truncated = 2 * TruncatedGeometric(epsilon, delta, max_reports_per_person=most).bound(
            circuit
        )
    return ThresholdAdvice(least(hides, 0), truncated, question.delta)


@dataclass(frozen=True, slots=True)
class _Figures:
    """What the sentences say."""

    epsilon: Fraction
    delta: Fraction
    total: Fraction | None
    total_delta: Fraction
    bound: composition.Bound
    width: int
    joint: int


def _promise(question: Question, figures: _Figures) -> str:
    releases = "each release" if question.releases == 1 else f"each of {question.releases} releases"
    factor = at_most(round_up(lambda digits: exp(figures.epsilon, digits)))
    delta, failure = "", ""
    if figures.delta:
        delta = f" and delta = {plain(figures.delta)}"
        failure = f", but for a chance of {plain(figures.delta)} about which nothing is promised"
    return (
        f"As long as one of the two aggregators is honest, {releases} a year hides what any one"
        f" person answered within epsilon = {shown(figures.epsilon)}{delta}: whatever a reader"
        f" suspects of a person, the odds move by a factor of at most {factor} compared with a"
        f" release in which that person had answered differently{failure}."
    )


def _accuracy(question: Question, figures: _Figures) -> str:
    circuit = question.circuit
    part = 100 * figures.width / question.largest_sum
    number, whole = (
        ("count", f"{question.reports} reports")
        if max_entry(circuit) == 1
        else ("number", f"the largest sum of {question.reports} reports")
    )
    everything = (
        "" if circuit.is_scalar else f" (all {circuit.output_len} together within {figures.joint})"
    )
    return (
        f"Each published {number} is within {figures.width} of the true one 95 times in"
        f" 100{everything}, which is {part:.2g} % of {whole}. Asking for the same release again"
        " returns the same numbers; the mean of several releases of answers that do not change has"
        " less noise, which is what a year costs; and each aggregator knows, and could take back,"
        " its own half of the noise's variance."
    )


def _cost(question: Question, figures: _Figures) -> str:
    best = figures.bound.epsilon or Fraction(0)
    other = (
        f"{at_most(best)} but for a delta of {plain(question.delta)}, since no aggregator allows"
        " more releases"
    )
    if figures.total is None:
        spent = f"{other}, in a year"
    else:
        failure = f" but for a delta of {at_most(figures.total_delta)}"
        spent = f"{plain(figures.total)}{failure if figures.total_delta else ''} in a year"
        if best < figures.total * Fraction(98, 100):
            spent += f", or {other}"
    most = question.max_reports_per_person
    return (
        f"A person who takes part every time spends at most epsilon = {spent}. This does not hide"
        f" that they took part, how many reports there are, or what more than {most}"
        f" report{'' if most == 1 else 's'} by one person in one release would give away."
    )


def _warnings(
    question: Question, figures: _Figures, threshold: ThresholdAdvice | None
) -> tuple[str, ...]:
    warnings, circuit = [], question.circuit
    if figures.epsilon > _WEAK_RELEASE:
        warnings.append(
            f"epsilon = {shown(figures.epsilon)} for one release is a weak promise; larger batches"
            " allow the same relative error at a smaller epsilon."
        )
    total = figures.total or figures.bound.epsilon or Fraction(0)
    if total > _WEAK_YEAR:
        warnings.append(
            f"The yearly total of {shown(total)} is high: release less often, or divide the people"
            " so that each is in fewer batches."
        )
    if circuit.is_one_hot and figures.width * circuit.output_len > question.reports:
        warnings.append(
            f"The noise (within {figures.width}) is as large as an average bucket of"
            f" {question.reports / circuit.output_len:.3g} reports: collect more, or use fewer"
            " buckets."
        )
    elif 2 * figures.width > question.largest_sum:
        warnings.append(
            f"The noise (within {figures.width}) is as large as half the largest sum of"
            f" {question.reports} reports: collect more."
        )
    if question.is_of_two:
        warnings.append(
            "Two buckets are one count: Prio3Count needs half the scale, a quarter of the variance;"
            " the other bucket is the number of reports less the count."
        )
    if threshold is not None and threshold.threshold * circuit.output_len > question.reports:
        warnings.append(
            f"A threshold of {threshold.threshold} would hide an average bucket of"
            f" {question.reports / circuit.output_len:.3g} reports."
        )
    if threshold is not None:
        warnings.append(
            "Intervals hold before a threshold is applied: a bucket that is shown only because its"
            " noise was high is likely to be too large."
        )
    return tuple(warnings)


def shown(value: Fraction) -> str:
    """Return a number as it was chosen; one that was computed has three digits, rounded up."""
    return plain(value) if value.denominator < _LONG else at_most(value)


def plain(value: Fraction) -> str:
    """Return a decimal where it ends soon, else a fraction; a tiny one is rounded up."""
    number = Decimal(value.numerator) / Decimal(value.denominator)
    if Fraction(number) == value:
        return f"{number.normalize():f}" if number >= Decimal("1e-4") else at_most(value)
    return format_rational(value)
