"""Which design and mechanism serves each question best, by the error of what it shows."""

import dataclasses
from collections.abc import Iterator, Mapping
from fractions import Fraction

from aggregator.dp.mechanisms import Mechanism
from aggregator.dp.policy import MECHANISMS, policy_from_mapping
from aggregator.dp.rationals import format_rational
from aggregator.errors import ParameterError
from aggregator.steward.survey.designs import Design
from aggregator.steward.survey.model import Asked, Budget, Survey
from aggregator.steward.survey.questions import Question


@dataclasses.dataclass(frozen=True)
class Way:
    """One way to ask a question with a given part of the budget.

    Attributes:
        design: How the answer is measured.
        mechanism: What each aggregator adds.
        error: The largest half width of a 95 % interval of what the question is asked for, in a
            batch of `min_batch_size` answers.
        shows: Whose: "count", "mean".
        unit: In which it is.
    """

    design: Design
    mechanism: Mechanism
    error: Fraction
    shows: str
    unit: str


@dataclasses.dataclass(frozen=True)
class PlannedQuestion:
    """A question, and the ways to ask it.

    Attributes:
        question: What is asked.
        privacy: The `[privacy]` table of its task.
        best: The way with the smallest error; the first of equals.
        others: The rest.
    """

    question: Question
    privacy: Mapping[str, str | int]
    best: Way
    others: tuple[Way, ...]


def plan(survey: Survey) -> list[PlannedQuestion]:
    """Return each question of a survey with the best way to ask it.

    Raises:
        ParameterError: A question has no design of the name that the survey gives, or its part of
            the budget cannot be written in a policy.
    """
    weights = sum(asked.weight for asked in survey.questions)
    return [_planned(survey, asked, asked.weight / weights) for asked in survey.questions]


def _planned(survey: Survey, asked: Asked, part: Fraction) -> PlannedQuestion:
    question = asked.question
    designs = question.designs() if asked.design is None else [question.design(asked.design)]
    ways, troubles = [], []
    for design in designs:
        for table in mechanism_tables(survey.budget, part):
            try:
                ways.append((_way(design, table, survey.min_batch_size), table))
            except ParameterError as trouble:  # such as a mechanism for histograms only
                troubles.append(trouble)
    if not ways:
        raise ParameterError(f"question {question.name}: {troubles[0]}")
    best = min(ways, key=lambda each: each[0].error)
    privacy: dict[str, str | int] = {
        **best[1],
        "max_releases": survey.budget.windows,
        "population": survey.asked,
    }
    if best[0].mechanism.default_private_threshold != "none":
        privacy["private_threshold"] = "none"
    others = tuple(way for way, _ in ways if way is not best[0])
    return PlannedQuestion(question, privacy, best[0], others)


def _way(design: Design, privacy: Mapping[str, str | int], min_batch_size: int) -> Way:
    """Return a design with a mechanism and its error.

    Raises:
        ParameterError: The mechanism is not for this design.
    """
    policy = policy_from_mapping({**privacy, "private_threshold": "none"})
    policy.check(design.prio3().circuit)
    error, figure = design.error(policy.mechanism, min_batch_size)
    return Way(design, policy.mechanism, error, figure.shows, figure.quantity.unit)


def mechanism_tables(
    budget: Budget, part: Fraction = Fraction(1)
) -> Iterator[dict[str, str | int]]:
    """Give the mechanisms that a part of the budget of one window allows, as a policy's tables."""
    given = {"epsilon": budget.epsilon, "delta": budget.delta, "rho": budget.rho}
    parts = {name: value * part for name, value in given.items() if value is not None}
    for kind in MECHANISMS.values():
        if set(kind.parameter_names[:1]) & parts.keys():
            parameters = {
                name: format_rational(parts[name]) for name in kind.parameter_names if name in parts
            }
            yield {"mechanism": kind.name, **parameters}
