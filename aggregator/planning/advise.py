"""From a steward's question to a privacy policy: a mechanism, an epsilon, its error and cost.

The advice is discrete Laplace noise: its promise is a single number, adds up over any number of
releases, and needs no threshold. The epsilon advised is the smallest with two digits that keeps the
wanted error; a smaller error costs privacy, and there is no way around that.
"""

import decimal
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from aggregator.dp import accounting, composition
from aggregator.dp.certified import exp, is_positive, round_up
from aggregator.dp.decimals import Number, integer_in, rational_in
from aggregator.dp.discrete_laplace import PureDpDiscreteLaplace
from aggregator.dp.laws import DiscreteLaplaceLaw
from aggregator.dp.policy import PrivacyPolicy
from aggregator.dp.rationals import format_rational
from aggregator.dp.search import least
from aggregator.dp.sensitivity import l1_sensitivity
from aggregator.dp.thresholds import Thresholds
from aggregator.dp.truncated_geometric import TruncatedGeometric
from aggregator.dp.utility import half_width_of
from aggregator.dp.window import Window
from aggregator.errors import ParameterError
from aggregator.planning.answers_error import check_width
from aggregator.vdaf.circuits import Circuit, Count, Histogram

CONFIDENCE = Fraction(95, 100)
EMPTY_BUCKET_CHANCE = Fraction(1, 10**6)
"""The probability with which a threshold may show any empty bucket."""

_YEAR = 365 * 24 * 3600
_TWO_BUCKETS = 2
# Above these a promise is so weak, or spent so far, that the steward is warned.
_WEAK_RELEASE = 3
_WEAK_YEAR = 12
# The grid of epsilons: two digits, from 10^-9 up to below 100.
_DIGITS = range(10, 100)
_EXPONENTS = range(-10, 1)


@dataclass(frozen=True, slots=True)
class Question:
    """What a steward knows and wants; made by `Question.of`.

    Attributes:
        reports: Reports in one release.
        buckets: Answers to choose from; 1 or 2 is a count of "yes".
        error: Largest half-width of the 95 % interval of one number, in reports; or None.
        epsilon: Wanted for one release, or None. Exactly one of the two is given.
        releases: Per year.
        max_reports_per_person: Per release.
        delta: The delta at which the yearly total is also stated.
        time_precision: Seconds in a unit of the task's times.
    """

    reports: int
    buckets: int
    error: Fraction | None
    epsilon: Fraction | None
    releases: int
    max_reports_per_person: int
    delta: Fraction
    time_precision: int

    @classmethod
    def of(
        cls,
        reports: int,
        buckets: int,
        *,
        error: str | None = None,
        epsilon: Number | None = None,
        releases: int = 12,
        max_reports_per_person: int = 1,
        delta: Number = "1e-6",
        time_precision: int = 3600,
    ) -> "Question":
        """Make a question, checked.

        Args:
            reports: At least 1.
            buckets: At least 1.
            error: A number of reports, or a percentage of them such as "5%".
            epsilon: Above 0.
            releases: At least 1.
            max_reports_per_person: At least 1.
            delta: Strictly between 0 and 1/100.
            time_precision: At least 1; so many releases of a unit at least must fit into a year.

        Raises:
            ParameterError: A value is out of range, or not exactly one of error and epsilon is
                given.
        """
        integer_in(reports, "reports", 1, None)
        integer_in(buckets, "buckets", 1, 2**32 - 1)
        integer_in(releases, "releases", 1, accounting.MAX_RELEASES)
        integer_in(time_precision, "time_precision", 1, _YEAR // releases)
        integer_in(max_reports_per_person, "max_reports_per_person", 1, 2**32 - 1)
        if (error is None) == (epsilon is None):
            raise ParameterError("give either error or epsilon: the one follows from the other")
        return cls(
            reports,
            buckets,
            None if error is None else _error(error, reports),
            None if epsilon is None else rational_in(epsilon, "epsilon", 0, 99, open_low=True),
            releases,
            max_reports_per_person,
            rational_in(delta, "delta", 0, 1, open_low=True, open_high=True),
            time_precision,
        )

    @property
    def window(self) -> Window:
        """The time of one release: `releases` of them fit into 365 days, in whole units."""
        return Window(_YEAR // (self.releases * self.time_precision))

    @property
    def circuit(self) -> Circuit:
        """What to measure with; two buckets are a count, at a quarter of the variance."""
        return Count() if self.buckets <= _TWO_BUCKETS else Histogram(self.buckets, 1)


@dataclass(frozen=True, slots=True)
class ThresholdAdvice:
    """What it takes never to show a bucket that nobody chose, and what that costs.

    Attributes:
        threshold: With discrete Laplace noise: all empty buckets stay hidden except with a
            probability of `EMPTY_BUCKET_CHANCE`, and privacy does not change.
        truncated_threshold: With truncated geometric noise: no empty bucket is ever shown, at the
            cost of a delta.
        truncated_delta: That delta.
    """

    threshold: int
    truncated_threshold: int
    truncated_delta: Fraction


@dataclass(frozen=True, slots=True)
class Advice:
    """The answer.

    Attributes:
        circuit: What to measure with.
        policy: For the task file.
        half_width: Of the 95 % interval of one number, both aggregators adding noise.
        joint_half_width: Of intervals that hold for all buckets at once.
        yearly_epsilon: For a person in every release, by adding up.
        yearly_bound: The smallest bound at the question's delta; the policy's budget enforces the
            number of releases that it is for.
        threshold: None for a count.
        sentences: Three, for a board.
        warnings: What the steward should consider first.
    """

    circuit: Circuit
    policy: PrivacyPolicy
    epsilon: Fraction
    half_width: int
    joint_half_width: int
    yearly_epsilon: Fraction
    yearly_bound: composition.Bound
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
        ParameterError: No epsilon below 100 has so small an error.
    """
    circuit = question.circuit
    epsilon = question.epsilon or _least_epsilon(question)
    mechanism = PureDpDiscreteLaplace(
        epsilon, max_reports_per_person=question.max_reports_per_person
    )
    check_width(mechanism.scale(circuit))
    threshold = None if circuit.is_scalar else _threshold(question, mechanism)
    yearly = question.releases * epsilon
    planned = [composition.Releases(mechanism, circuit, question.releases)]
    found = composition.bounds(planned, question.delta, plan=planned)
    # Pure epsilons add up at every delta, so there is a bound.
    bound = composition.smallest_valid(found) or found[0]
    policy = PrivacyPolicy(
        mechanism,
        window=question.window,
        max_batches_per_person=question.releases,
        budget=yearly,
        population=population,
        thresholds=Thresholds(threshold.threshold) if threshold and with_threshold else None,
    )
    width = mechanism.half_width(circuit, CONFIDENCE)
    joint = mechanism.joint_half_width(circuit, CONFIDENCE)
    return Advice(
        circuit,
        policy,
        epsilon,
        width,
        joint,
        yearly,
        bound,
        threshold,
        _sentences(question, epsilon, width, joint, bound),
        _warnings(question, epsilon, width, threshold),
    )


def _error(text: str, reports: int) -> Fraction:
    is_part = text.endswith("%")
    number = rational_in(text.removesuffix("%").strip(), "error", 0, None)
    return number * reports / 100 if is_part else number


def _least_epsilon(question: Question) -> Fraction:
    """Return the smallest epsilon with two digits whose interval is narrow enough."""
    sensitivity = l1_sensitivity(question.circuit, question.max_reports_per_person)
    wanted = question.error
    grid = [Fraction(d) * Fraction(10) ** e for e in _EXPONENTS for d in _DIGITS]

    def suffices(epsilon: Fraction) -> bool:
        law = DiscreteLaplaceLaw(2, sensitivity / epsilon)
        return wanted is None or half_width_of(law, CONFIDENCE) <= wanted

    if not suffices(grid[-1]):
        raise ParameterError(
            f"error must be larger than {float(wanted or 0):g} reports: no epsilon below 100 has so"
            " small an error at 95 %"
        )
    return grid[least(lambda index: suffices(grid[index]), 0, len(grid) - 1)]


def _threshold(question: Question, mechanism: PureDpDiscreteLaplace) -> ThresholdAdvice:
    circuit = question.circuit
    law = DiscreteLaplaceLaw(2, mechanism.scale(circuit))
    allowed = EMPTY_BUCKET_CHANCE / question.buckets

    def hides(threshold: int) -> bool:
        tail = law.upper_tail(threshold + 1)
        return is_positive(lambda digits: allowed - tail(digits))

    truncated = TruncatedGeometric(
        mechanism.epsilon,
        question.delta,
        max_reports_per_person=question.max_reports_per_person,
    )
    return ThresholdAdvice(least(hides, 0), 2 * truncated.bound(circuit), question.delta)


def _sentences(
    question: Question, epsilon: Fraction, width: int, joint: int, bound: composition.Bound
) -> tuple[str, str, str]:
    releases = "each release" if question.releases == 1 else f"each of {question.releases} releases"
    factor = _at_most(round_up(lambda digits: exp(epsilon, digits)))
    promise = (
        f"As long as one of the two aggregators is honest, {releases} a year hides what any one"
        f" person answered within epsilon = {plain(epsilon)}: whatever a reader suspects of a"
        f" person, the odds move by a factor of at most {factor} compared with a release in"
        " which that person had answered differently."
    )
    part = 100 * width / question.reports
    everything = (
        "" if question.circuit.is_scalar else f" (all {question.buckets} together within {joint})"
    )
    accuracy = (
        f"Each published count is within {width} of the true one 95 times in 100{everything},"
        f" which is {part:.2g} % of {question.reports} reports. Asking for the same release again"
        " returns the same numbers; the mean of several releases of answers that do not change has"
        " less noise, which is what a year costs; and each aggregator knows, and could take back,"
        " its own half of the noise's variance."
    )
    total = question.releases * epsilon
    smaller = (
        ""
        if bound.epsilon is None or bound.epsilon >= total * Fraction(98, 100)
        else (
            f", or {_at_most(bound.epsilon)} but for a delta of {plain(question.delta)}, since no"
            " aggregator allows more releases"
        )
    )
    cost = (
        "A person who takes part every time spends at most epsilon ="
        f" {plain(total)} in a year{smaller}; not hidden is that they took part, how many reports"
        f" there are, and what more than {question.max_reports_per_person} report"
        f"{'' if question.max_reports_per_person == 1 else 's'} of one person in one release"
        " would give away."
    )
    return promise, accuracy, cost


def _warnings(
    question: Question, epsilon: Fraction, width: int, threshold: ThresholdAdvice | None
) -> tuple[str, ...]:
    warnings = []
    if epsilon > _WEAK_RELEASE:
        warnings.append(
            f"epsilon = {plain(epsilon)} for one release is a weak promise; larger batches allow"
            " the same relative error at a smaller epsilon."
        )
    if question.releases * epsilon > _WEAK_YEAR:
        warnings.append(
            f"The yearly total of {plain(question.releases * epsilon)} is high: release less"
            " often, or divide the people so that each is in fewer batches."
        )
    if width * max(1, question.buckets) > question.reports:
        warnings.append(
            f"The noise (within {width}) is as large as an average bucket of"
            f" {question.reports / question.buckets:.3g} reports: collect more, or use fewer"
            " buckets."
        )
    if question.buckets == _TWO_BUCKETS:
        warnings.append(
            "Two buckets are one count: Prio3Count needs half the scale, a quarter of the variance;"
            " the other bucket is the number of reports less the count."
        )
    if threshold is not None and threshold.threshold * question.buckets > question.reports:
        warnings.append(
            f"A threshold of {threshold.threshold} would hide an average bucket of"
            f" {question.reports / question.buckets:.3g} reports."
        )
    if threshold is not None:
        warnings.append(
            "Intervals hold before a threshold is applied: a bucket that is shown because its noise"
            " was high is more often too large."
        )
    return tuple(warnings)


def _at_most(value: Fraction) -> str:
    """Return three digits of a number, rounded up: a stated maximum must be one."""
    with decimal.localcontext(prec=3, rounding=decimal.ROUND_CEILING):
        return f"{Decimal(value.numerator) / Decimal(value.denominator):g}"


def plain(value: Fraction) -> str:
    """Return a decimal where it ends soon, else a fraction; a tiny one is rounded up."""
    number = Decimal(value.numerator) / Decimal(value.denominator)
    if Fraction(number) == value:
        return f"{number.normalize():f}" if number >= Decimal("1e-4") else _at_most(value)
    return format_rational(value)
