"""Why a question is asked as it is, although another design has a smaller error."""

import dataclasses

from aggregator.steward.survey.model import Survey
from aggregator.steward.survey.plan import Plan, PlannedPart, plan
from aggregator.steward.survey.spreads import typical_sums


@dataclasses.dataclass(frozen=True)
class Rival:
    """A design with a smaller error than the one that was chosen.

    Attributes:
        design: Its name, which `design = "…"` would choose.
        planned: The question asked so, in this survey and with its own share of the budget.
        loses: What its tables would no longer show, by the name of the table.
    """

    design: str
    planned: PlannedPart
    loses: dict[str, tuple[str, ...]]


def rivals_of(survey: Survey, made: Plan, part: PlannedPart) -> list[Rival]:
    """Return the designs of a question that would give a smaller error than the chosen one."""
    found = []
    for way in part.others:
        if way.relative >= part.relative:
            continue
        asked = tuple(
            each.model_copy(update={"design": way.design.name})
            if each.question.name == part.question.name
            else each
            for each in survey.questions
        )
        other = plan(survey.model_copy(update={"questions": asked}), made.people)
        shown = _shown(other, part.question.name)
        loses = {
            name: tuple(sorted(shows - shown.get(name, set())))
            for name, shows in _shown(made, part.question.name).items()
        }
        loses = {name: shows for name, shows in loses.items() if shows}
        found.append(Rival(way.design.name, other.part(part.part.name), loses))
    return [each for each in found if each.planned.relative < part.relative]


def _shown(made: Plan, question: str) -> dict[str, set[str]]:
    """Return what the tables of a question show."""
    tables = [each.part for each in made.parts if each.part.by and each.question.name == question]
    if not tables:
        return {}
    sums = typical_sums(made.sheet, made.mechanism, made.people)
    return {each.name: {figure.shows for figure in each.figures(sums)} for each in tables}
