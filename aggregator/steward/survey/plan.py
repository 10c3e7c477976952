"""How a survey is asked: the design of each question, and one budget split over all sections.

Every section has a unit: an error of one unit is equally bad in each. The split makes every
section's error the same in its unit, which is by default 1 for a count and the largest possible
number otherwise, so that a person's budget is spent where it is seen. A weight divides a question's
units.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from fractions import Fraction

from aggregator.collector.results import Noised, Ratio, combination
from aggregator.collector.results.sums import SumLaw
from aggregator.collector.results.values import Source
from aggregator.dp.by_section import Base, BySection, equal_errors, with_gaussian_epsilon
from aggregator.dp.certified import to_float
from aggregator.dp.discrete_gaussian import DiscreteGaussian
from aggregator.dp.discrete_laplace import PureDpDiscreteLaplace
from aggregator.dp.mechanisms import Mechanism
from aggregator.dp.policy import PrivacyPolicy
from aggregator.dp.policy_table import policy_to_mapping
from aggregator.dp.utility import DEFAULT_CONFIDENCE
from aggregator.dp.zcdp import rho_of
from aggregator.errors import ParameterError
from aggregator.steward.survey.designs import Design, Figure, Sums
from aggregator.steward.survey.model import Asked, Budget, Survey
from aggregator.steward.survey.questions import Question
from aggregator.steward.survey.report_parts import Part, Sheet

_DELTA = Fraction(1, 10**6)
"""The delta at which the guarantee of a budget in rho is also stated in epsilon."""
_AGGREGATORS = 2


@dataclasses.dataclass(frozen=True)
class Spread:
    """How precise some figures of one batch are: one of them, and the law of its noise.

    For a ratio it is the law of its linear approximation.
    """

    figure: Figure
    law: SumLaw

    def half_width(self, confidence: Fraction = DEFAULT_CONFIDENCE) -> Fraction:
        """Return the half-width of their intervals."""
        return self.law.width(confidence).size

    def difference(self, confidence: Fraction = DEFAULT_CONFIDENCE) -> Fraction:
        """Return the least difference of two windows from which they can be said to differ."""
        twice = [dataclasses.replace(part, count=2 * part.count) for part in self.law.parts]
        return SumLaw(tuple(twice)).width(confidence).size


@dataclasses.dataclass(frozen=True)
class Way:
    """One way to ask a question, with its share of the budget.

    Attributes:
        design: How the answer is measured.
        mechanism: What each aggregator adds, for the question's own sections only.
        error: The largest half-width of a 95 % interval of the wanted figures, in a batch of
            people who all answer.
        shows: What that figure shows: "count", "mean".
        unit: The unit of that figure.
    """

    design: Design
    mechanism: Mechanism
    error: Fraction
    shows: str
    unit: str


@dataclasses.dataclass(frozen=True)
class PlannedPart:
    """A question or a table, as it is asked.

    Attributes:
        part: The question or table, with its place in a report.
        share: Its share of the epsilon or rho of one window.
        error: The largest half-width of a 95 % interval of the wanted figures, in a batch of
            people who all answer.
        difference: If figures of two such windows differ by more than this, the truth differs, with
            95 % confidence.
        shows: What the figure with `error` shows: "count", "mean".
        unit: The unit of that figure.
        others: For a question, other ways to ask it with the same share.
    """

    part: Part
    share: Fraction
    error: Fraction
    difference: Fraction
    shows: str
    unit: str
    others: tuple[Way, ...] = ()

    @property
    def question(self) -> Question:
        """The question whose answers are counted."""
        return self.part.question


@dataclasses.dataclass(frozen=True)
class Plan:
    """How a survey is asked.

    Attributes:
        sheet: What a report holds.
        mechanism: What each aggregator adds.
        privacy: The `[privacy]` table of its task.
        parts: The questions and tables.
        rivals: Other mechanisms that the budget allows, each with the factor by which its standard
            deviations are larger.
        people: How many people the errors are for.
    """

    sheet: Sheet
    mechanism: BySection
    privacy: Mapping[str, str | int]
    parts: tuple[PlannedPart, ...]
    rivals: Mapping[str, float]
    people: int

    def part(self, name: str) -> PlannedPart:
        """Return the question or table with this name, or raise `ParameterError`."""
        for each in self.parts:
            if each.part.name == name:
                return each
        raise ParameterError(f"question: the survey has no {name!r}")


def plan(survey: Survey, people: int | None = None) -> Plan:
    """Return the best way to ask a survey, with the errors for so many people.

    What is best is decided for `min_batch_size` people, for whom errors are unless a number is
    given. Raises `ParameterError` if a question has no design of the name that the survey gives, a
    table cannot be made, or the budget does not fit into a policy.
    """
    found, budget = [], survey.budget_of_a_report
    for base in bases(budget):
        asked = tuple((each.question, _chosen(each, survey, base)) for each in survey.questions)
        sheet = Sheet(asked, survey.pairs)
        units = sheet.units([each.weight for each in survey.questions])
        mechanism = _split(base, sheet, units, budget)
        found.append((_relative_error(mechanism, sheet, units), sheet, mechanism))
    error, sheet, mechanism = min(found, key=lambda each: each[0])
    count = survey.min_batch_size if people is None else people
    sums = typical_sums(sheet, mechanism, count)
    parts = tuple(_planned(part, sums, mechanism) for part in sheet.parts)
    privacy = {
        **policy_to_mapping(PrivacyPolicy(mechanism)),
        "max_releases": survey.releases,
        "population": survey.asked,
    }
    rivals = {
        each.name: other / error if error else 1.0
        for other, _, each in found
        if each is not mechanism
    }
    return Plan(sheet, mechanism, privacy, parts, rivals, count)


def _split(base: Base, sheet: Sheet, units: Sequence[Fraction], budget: Budget) -> BySection:
    """Return the noise of a report; if epsilon is given, Gaussian noise is found by its law."""
    shares = equal_errors(base, sheet.circuit, units)
    if isinstance(base, DiscreteGaussian) and budget.epsilon is not None:
        return with_gaussian_epsilon(budget.epsilon, base.delta, sheet.circuit, shares)
    return BySection(base, shares)


def bases(budget: Budget) -> list[Base]:
    """Return the mechanisms that the budget of one window allows, whatever is asked.

    Gaussian noise can be smaller: by its law the whole report is (epsilon, delta)-DP. Raises
    `ParameterError` if the budget is too small for one of them, or too large.
    """
    if budget.rho is not None:
        return [DiscreteGaussian(budget.rho, _DELTA)]
    assert budget.epsilon is not None  # noqa: S101  the model demands epsilon or rho
    found: list[Base] = [PureDpDiscreteLaplace(budget.epsilon)]
    if budget.delta is not None:
        rho = rho_of(budget.epsilon, budget.delta)
        found.append(DiscreteGaussian(rho, budget.delta))
    return found


def typical_sums(
    sheet: Sheet, mechanism: Mechanism, people: int, *, as_released: bool = False
) -> Sums:
    """Return the sums of a typical batch of people who all answer, with the noise they will have.

    `as_released` uses the released values, which takes less time, instead of the best estimates.
    """
    typical = [value for each in sheet.parts for value in each.source.typical(people)]
    laws = [law for run, law in mechanism.laws(sheet.circuit, _AGGREGATORS) for _ in range(run)]
    values = [
        Noised(value, {} if law is None else {Source(place, law): 1})
        for place, (value, law) in enumerate(zip(typical, laws, strict=True))
    ]
    return Sums(values, values, people) if as_released else sheet.sums(values, people)


def spreads(part: Part, sums: Sums) -> list[Spread]:
    """Return how precise the figures are by which a question's designs are compared.

    The sums are of the whole sheet, from `typical_sums`. There is one for all figures with the same
    law, which are equally precise.
    """
    found: dict[SumLaw, Figure] = {}
    for figure in part.figures(sums):
        if figure.is_wanted and (linear := _linear(figure)) is not None:
            found.setdefault(linear.law, figure)
    return [Spread(figure, law) for law, figure in found.items()]


def _linear(figure: Figure) -> Noised | None:
    """Return the part of a figure that is linear in the noise."""
    match figure.quantity:
        case Noised() as value:
            return value
        case Ratio(numerator=over, denominator=under) if under.value:
            return combination([(over, 1 / under.value), (under, -over.value / under.value**2)])
        case _:
            return None


def _worst(found: Sequence[Spread]) -> Spread:
    """Return the least precise figures."""
    return max(found, key=lambda each: each.half_width())


def _chosen(asked: Asked, survey: Survey, base: Base) -> Design:
    """Return the design with the smallest error, if the question were all of a report."""
    if asked.design is not None:
        return asked.question.design(asked.design)
    in_tables = {name for pair in survey.pairs for name in pair}
    question = asked.question
    is_crossed = question.name in in_tables
    designs = question.crossed_designs() if is_crossed else question.designs()
    if len(designs) == 1:
        return designs[0]
    ways = [way(question, design, base, survey.min_batch_size) for design in designs]
    return min(ways, key=lambda each: each.error).design


def way(question: Question, design: Design, base: Base, people: int) -> Way:
    """Return how precise a design is with a mechanism, from values as they are released."""
    sheet = Sheet(((question, design),))
    mechanism = BySection(base, equal_errors(base, sheet.circuit, sheet.units()))
    sums = typical_sums(sheet, mechanism, people, as_released=True)
    worst = _worst(spreads(sheet.parts[0], sums))
    shows, unit = worst.figure.shows, worst.figure.quantity.unit
    return Way(design, mechanism, worst.half_width(), shows, unit)


def _planned(part: Part, sums: Sums, mechanism: BySection) -> PlannedPart:
    people = sums.reports
    share = sum((mechanism.shares[number] for number in part.span.sections), Fraction(0))
    worst = _worst(spreads(part, sums))
    shows, unit = worst.figure.shows, worst.figure.quantity.unit
    others = tuple(
        way(part.question, design, _with_share(mechanism.base, share), people)
        for design in ([] if part.by else part.question.designs())
        if design.name != getattr(part.source, "name", "")
    )
    return PlannedPart(part, share, worst.half_width(), worst.difference(), shows, unit, others)


def _with_share(base: Base, share: Fraction) -> Base:
    if isinstance(base, DiscreteGaussian):
        return dataclasses.replace(base, rho=share * base.rho)
    return dataclasses.replace(base, epsilon=share * base.epsilon)


def _relative_error(mechanism: BySection, sheet: Sheet, units: Sequence[Fraction]) -> float:
    """Return the largest standard deviation of a section, in the section's unit."""
    laws = (law for _, law in mechanism.laws(sheet.circuit, _AGGREGATORS))
    return max(
        (
            to_float(law.variance()) ** 0.5 / float(unit)
            for law, unit in zip(laws, units, strict=True)
            if law is not None
        ),
        default=0.0,
    )
