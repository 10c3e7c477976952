"""From a steward's question to a privacy policy: a mechanism, its strength, its error and cost.

Unless another mechanism is asked for, the advice is discrete Laplace noise: its promise is a
single number, adds up over any number of releases, and needs no threshold. The advised epsilon (or
rho) is the smallest two-digit one that keeps the wanted error. A smaller error always costs
privacy.
"""

from dataclasses import dataclass
from fractions import Fraction

from aggregator.dp import composition
from aggregator.dp.certified import is_positive
from aggregator.dp.filters import Cost
from aggregator.dp.mechanisms import Mechanism
from aggregator.dp.policy import PrivacyPolicy
from aggregator.dp.rationals import format_rational
from aggregator.dp.search import least
from aggregator.dp.thresholds import Thresholds
from aggregator.dp.truncated_geometric import TruncatedGeometric
from aggregator.dp.utility import DEFAULT_CONFIDENCE
from aggregator.errors import ParameterError
from aggregator.steward.planning.advice_sentences import Figures, accuracy, cost, promise, warnings
from aggregator.steward.planning.question import Question
from aggregator.steward.planning.suspicion import sure_at_most
from aggregator.vdaf.circuits import Circuit

EMPTY_BUCKET_CHANCE = Fraction(1, 10**6)
"""The probability, at most, that a threshold shows any empty bucket."""

STRENGTHS = tuple(
    Fraction(digits) * Fraction(10) ** exponent
    for exponent in range(-10, 1)
    for digits in range(10, 100)
)
"""The epsilons and rhos that may be advised: two digits, from 10^-9 up to below 100."""


@dataclass(frozen=True, slots=True)
class ThresholdAdvice:
    """The thresholds that keep empty buckets hidden, and what they cost.

    Attributes:
        threshold: For the advised noise: hides all empty buckets except with a probability of
            `EMPTY_BUCKET_CHANCE`, at no cost in privacy.
        truncated_threshold: For truncated geometric noise of the same epsilon: never shows an empty
            bucket, at the cost of a delta. None if the mechanism has no epsilon.
        truncated_delta: The delta that `truncated_threshold` costs.
    """

    threshold: int
    truncated_threshold: int | None
    truncated_delta: Fraction


@dataclass(frozen=True, slots=True)
class Advice:
    """The advice for one question.

    Attributes:
        epsilon: The epsilon of one release.
        delta: The delta of one release.
        half_width: Half of the 95 % interval of one number, both aggregators adding noise.
        joint_half_width: Half of the intervals that hold for all numbers at once.
        yearly_epsilon: For a person in every release, by adding up; None if epsilons do not add up.
        yearly_bound: The smallest bound at the question's delta; the policy's limit enforces the
            number of releases that it is for.
        sure_after_one: How sure of an answer a neighbour, to whom two answers were equally likely,
            can be after one release; see `sure_at_most`.
        sure_after_a_year: How sure the neighbour can be after all releases of a year.
        threshold: None if no entry of the result is a bucket.
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
    """Advise a steward on one question.

    The people asked are named by `population`: costs add up over its tasks. With a threshold, the
    policy hides buckets at or below the advised one. Raises `ParameterError` if no epsilon or rho
    below 100 keeps the error, or no bound holds.
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
    figures = Figures(
        promised.epsilon,
        promised.delta,
        yearly.epsilon,
        yearly.delta,
        bound,
        mechanism.half_width(circuit, DEFAULT_CONFIDENCE),
        mechanism.joint_half_width(circuit, DEFAULT_CONFIDENCE),
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
        (promise(question, figures), accuracy(question, figures), cost(question, figures)),
        warnings(question, figures, threshold.threshold if threshold else None),
    )


def _sure_after(yearly: Cost, bound: composition.Bound) -> Fraction:
    """Return how sure a neighbour can be after a year: the less of what sum and bound allow."""
    costs = ((yearly.epsilon, yearly.delta), (bound.epsilon, bound.delta))
    return min(sure_at_most(epsilon, delta or 0) for epsilon, delta in costs if epsilon is not None)


def _least_strength(question: Question) -> Fraction:
    """Return the smallest epsilon or rho with two digits whose interval is narrow enough."""
    wanted, name = question.error, question.mechanism.parameter_names[0]

    def suffices(strength: Fraction) -> bool:
        noise = question.noise(strength)
        return wanted is None or noise.half_width(question.circuit, DEFAULT_CONFIDENCE) <= wanted

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
