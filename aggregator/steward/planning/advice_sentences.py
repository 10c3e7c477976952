"""The advice in words: three sentences for a board, and warnings for the steward."""

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from aggregator.dp import composition
from aggregator.dp.certified import exp, round_up
from aggregator.dp.rationals import at_most, format_rational
from aggregator.dp.sensitivity import max_entry
from aggregator.dp.utility import PERCENT
from aggregator.steward.planning.question import Question
from aggregator.written_times import counted

# Above these epsilons, of one release and of a year, the steward is warned.
_WEAK_RELEASE = 3
_WEAK_YEAR = 12
_LONG = 10**11
"""The computed bounds' denominators have twelve decimals."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The numbers in the sentences.

    `total` and `total_delta` are of a year's releases, by adding up; None if epsilons do not.
    `width` is half of the 95 % interval of one number, `joint` half of those for all numbers at
    once.
    """

    epsilon: Fraction
    delta: Fraction
    total: Fraction | None
    total_delta: Fraction
    bound: composition.Bound
    width: int
    joint: int


def promise(question: Question, figures: Figures) -> str:
    """Say what each release hides, and how well."""
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


def accuracy(question: Question, figures: Figures) -> str:
    """Say how far a published number may be from the true one."""
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
        f"Each published {number} is within {figures.width} of the true one in {PERCENT} of cases"
        f"{everything}, which is {part:.2g} % of {whole}. Asking for the same release again"
        " returns the same numbers; the mean of several releases of answers that do not change has"
        " less noise, which is what a year costs; and each aggregator knows, and could take back,"
        " its own half of the noise's variance."
    )


def cost(question: Question, figures: Figures) -> str:
    """Say what a person spends in a year, and what is not hidden."""
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
    most = counted(question.max_reports_per_person, "report")
    return (
        f"A person who takes part every time spends at most epsilon = {spent}. This does not hide"
        f" that they took part, how many reports there are, or what more than {most}"
        " by one person in one release would give away."
    )


def warnings(question: Question, figures: Figures, threshold: int | None) -> tuple[str, ...]:
    """Return what the steward should consider first, given the threshold if there is one."""
    found, circuit = [], question.circuit
    if figures.epsilon > _WEAK_RELEASE:
        found.append(
            f"epsilon = {shown(figures.epsilon)} for one release is a weak promise; larger batches"
            " allow the same relative error at a smaller epsilon."
        )
    total = figures.total or figures.bound.epsilon or Fraction(0)
    if total > _WEAK_YEAR:
        found.append(
            f"The yearly total of {shown(total)} is high: release less often, or divide the people"
            " so that each is in fewer batches."
        )
    if circuit.is_one_hot and figures.width * circuit.output_len > question.reports:
        found.append(
            f"The noise (within {figures.width}) is as large as an average bucket of"
            f" {question.reports / circuit.output_len:.3g} reports: collect more, or use fewer"
            " buckets."
        )
    elif 2 * figures.width > question.largest_sum:
        found.append(
            f"The noise (within {figures.width}) is as large as half the largest sum of"
            f" {question.reports} reports: collect more."
        )
    if question.is_of_two:
        found.append(
            "Two buckets are one count: Prio3Count needs half the scale, a quarter of the variance;"
            " the other bucket is the number of reports less the count."
        )
    if threshold is not None and threshold * circuit.output_len > question.reports:
        found.append(
            f"A threshold of {threshold} would hide an average bucket of"
            f" {question.reports / circuit.output_len:.3g} reports."
        )
    if threshold is not None:
        found.append(
            "Intervals hold before a threshold is applied: a bucket that is shown only because its"
            " noise was high is likely to be too large."
        )
    return tuple(found)


def shown(value: Fraction) -> str:
    """Return a chosen number as it is, a computed one with three digits, rounded up."""
    return plain(value) if value.denominator < _LONG else at_most(value)


def plain(value: Fraction) -> str:
    """Return a decimal if it ends soon, else a fraction; a tiny number is rounded up."""
    number = Decimal(value.numerator) / Decimal(value.denominator)
    if Fraction(number) == value:
        return f"{number.normalize():f}" if number >= Decimal("1e-4") else at_most(value)
    return format_rational(value)
