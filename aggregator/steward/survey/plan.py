"""How a survey is asked: the design of each question, and one budget split over all sections.

Every section has a unit: an error of one unit is equally bad in each. The split makes every
section's error the same in its unit, which is by default 1 for a count and the largest possible
number otherwise, so that a person's budget is spent where it is seen. A weight divides a question's
units.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from fractions import Fraction

from aggregator.dp.by_section import Base, BySection, equal_errors, with_gaussian_epsilon
from aggregator.dp.certified import to_float
from aggregator.dp.discrete_gaussian import DiscreteGaussian
from aggregator.dp.discrete_laplace import PureDpDiscreteLaplace
from aggregator.dp.mechanisms import Mechanism
from aggregator.dp.policy import PrivacyPolicy
from aggregator.dp.policy_table import policy_to_mapping
from aggregator.dp.zcdp import rho_of
from aggregator.errors import ParameterError
from aggregator.steward.survey.designs import Design, Sums
from aggregator.steward.survey.model import Asked, Budget, Survey
from aggregator.steward.survey.questions import Question
from aggregator.steward.survey.report_parts import Part, Sheet
from aggregator.steward.survey.spreads import AGGREGATORS, Spread, spreads, typical_sums, worst

_DELTA = Fraction(1, 10**6)
"""The delta at which the guarantee of a budget in rho is also stated in epsilon."""


_NOTHING, _ENOUGH = Fraction(2, 5), 1000
"""An error, as a part of the range, from which on designs are compared for this many people."""


@dataclasses.dataclass(frozen=True)
class Way:
    """One way to ask a question, with its share of the budget.

    Attributes:
        design: How the answer is measured.
        mechanism: What each aggregator adds, for the question's own sections only.
        error: The half-width of the 95 % interval of the figure that is the least precise for its
            range, in a batch of people who all answer.
        relative: The same as a part of that range.
        shows: What that figure shows: "count", "mean".
        unit: The unit of that figure.
    """

    design: Design
    mechanism: Mechanism
    error: Fraction
    relative: Fraction
    shows: str
    unit: str


@dataclasses.dataclass(frozen=True)
class PlannedPart:
    """A question or a table, as it is asked.

    Attributes:
        part: The question or table, with its place in a report.
        share: Its share of the epsilon or rho of one window.
        error: The half-width of the 95 % interval of the figure that is the least precise for its
            range, in a batch of people who all answer.
        relative: The same as a part of that range.
        difference: If that figure differs by more than this in two such windows, the truth differs,
            with 95 % confidence.
        shows: What that figure shows: "count", "mean".
        unit: The unit of that figure.
        others: For a question, other ways to ask it with the same share.
        if_half: For a question that not everybody is asked, the least precise figure if half are.
    """

    part: Part
    share: Fraction
    error: Fraction
    relative: Fraction
    difference: Fraction
    shows: str
    unit: str
    others: tuple[Way, ...] = ()
    if_half: Spread | None = None

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

    def error(design: Design) -> tuple[Fraction, Fraction]:
        """Return its error; if nothing at all is learned of so few people, also that of more."""
        few, many = (
            _by_itself(question, design, base, people)[1].part
            for people in (survey.min_batch_size, max(_ENOUGH, survey.min_batch_size))
        )
        return (few, many) if few < _NOTHING else (_NOTHING, many)

    return min(designs, key=error)


def way(question: Question, design: Design, base: Base, people: int) -> Way:
    """Return how precise a design is with a mechanism, if the question is all of a report."""
    mechanism, least_precise = _by_itself(question, design, base, people)
    found = least_precise.of_draws()
    shows, unit = found.figure.shows, found.figure.quantity.unit
    return Way(design, mechanism, found.half_width, found.part, shows, unit)


def _by_itself(
    question: Question, design: Design, base: Base, people: int
) -> tuple[BySection, Spread]:
    """Return the noise of a report of one question, and its least precise figure."""
    sheet = Sheet(((question, design),))
    mechanism = BySection(base, equal_errors(base, sheet.circuit, sheet.units()))
    return mechanism, worst(spreads(sheet.parts[0], typical_sums(sheet, mechanism, people)))


def _planned(part: Part, sums: Sums, mechanism: BySection) -> PlannedPart:
    people = sums.reports
    share = sum((mechanism.shares[number] for number in part.span.sections), Fraction(0))
    found = worst(spreads(part, sums)).of_draws()
    shows, unit = found.figure.shows, found.figure.quantity.unit
    others = tuple(
        way(part.question, design, _with_share(mechanism.base, share), people)
        for design in ([] if part.by else part.question.designs())
        if design.name != getattr(part.source, "name", "")
    )
    if_half = None
    if part.question.ask_if and isinstance(part.source, Design):
        if_half = worst(spreads(part, _if_half_answer(part, part.source, sums))).of_draws()
    return PlannedPart(
        part,
        share,
        found.half_width,
        found.part,
        found.difference(),
        shows,
        unit,
        others,
        if_half,
    )


def _if_half_answer(part: Part, design: Design, sums: Sums) -> Sums:
    """Return the sums if only half of the people answer a question."""
    first, nothing = part.span.first, design.client_question.nothing
    best = list(sums.best)
    for place, (value, added) in enumerate(
        zip(design.typical(sums.reports), nothing, strict=True), start=first
    ):
        half = (value + added * sums.reports) / 2
        best[place] = dataclasses.replace(best[place], value=half)
    return dataclasses.replace(sums, best=best, released=best)


def _with_share(base: Base, share: Fraction) -> Base:
    if isinstance(base, DiscreteGaussian):
        return dataclasses.replace(base, rho=share * base.rho)
    return dataclasses.replace(base, epsilon=share * base.epsilon)


def _relative_error(mechanism: BySection, sheet: Sheet, units: Sequence[Fraction]) -> float:
    """Return the largest standard deviation of a section, in the section's unit."""
    laws = (law for _, law in mechanism.laws(sheet.circuit, AGGREGATORS))
    return max(
        (
            to_float(law.variance()) ** 0.5 / float(unit)
            for law, unit in zip(laws, units, strict=True)
            if law is not None
        ),
        default=0.0,
    )
