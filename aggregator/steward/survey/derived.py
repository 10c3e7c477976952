"""What analysts ask of one question's counts: several answers together, odds, the deviation."""

from collections.abc import Sequence
from fractions import Fraction

from aggregator.collector.results import (
    Deviation,
    Noised,
    Quantity,
    VarianceOfSome,
    combination,
    ratio,
    total,
)
from aggregator.errors import ParameterError
from aggregator.steward.survey.designs import NO_ANSWER, Figure
from aggregator.steward.survey.questions import Question
from aggregator.steward.survey.questions.numbers import Scale
from aggregator.steward.survey.report_parts import Part
from aggregator.steward.survey.result_names import checked, listed

DERIVED = ("deviation", "odds")
"""Figures that are computed when they are asked for."""

_PERCENT = 100


def derived(
    part: Part, figures: Sequence[Figure], answered: Noised, shows: str, labels: Sequence[str]
) -> Quantity:
    """Return a figure of one question in one window, and of one group if it is a table's.

    Args:
        part: The question, or its table.
        figures: All its figures, of the group if it is a table.
        answered: How many people answered it.
        shows: "count" or "share" of several labels together, "odds" or "deviation".
        labels: Of the answers.

    Raises:
        ParameterError: There is no such label or figure; the message says what there is.
    """
    question = part.question
    if shows == "deviation":
        unit = next((each.quantity.unit for each in figures if each.shows == "mean"), "")
        return Deviation(_variance(question, figures), unit=unit)
    counts = _counts(question.name, figures)
    if shows not in ("count", "share", "odds"):
        raise ParameterError(
            f"label: several {shows}s of {question.name} are no figure together; counts, shares "
            "and odds of several answers are"
        )
    for label in labels:
        checked("label", label, counts, of=question.name)
    if not labels or len(set(labels)) < len(labels):
        raise ParameterError(f"label: name different answers of {question.name}")
    if len(labels) > 1 and not part.is_of_one_label:
        raise ParameterError(
            f"label: a person may count under several labels of {question.name}, so that several "
            "together are no number of people: name one"
        )
    chosen = total(counts[label] for label in labels).named(" or ".join(labels))
    if shows == "count":
        return chosen
    if shows == "share":
        most = Fraction(_PERCENT)
        return ratio(
            chosen * most, answered, label=chosen.label, unit="%", least=Fraction(0), most=most
        )
    return ratio(chosen, answered - chosen, label=chosen.label, least=Fraction(0))


def _counts(name: str, figures: Sequence[Figure]) -> dict[str, Noised]:
    """Return how many gave each answer, by its label."""
    kinds = list(dict.fromkeys(each.shows for each in figures))
    if "share" not in kinds:
        raise ParameterError(f"shows: {name} has no answers with labels, but {listed(kinds)}")
    counts = [each.quantity for each in figures if each.shows == "count"]
    return {
        each.label: each for each in counts if isinstance(each, Noised) and each.label != NO_ANSWER
    }


def _variance(question: Question, figures: Sequence[Figure]) -> Quantity:
    for each in figures:
        if each.shows == "variance":
            return each.quantity
    if isinstance(question, Scale):
        counts = list(_counts(question.name, figures).values())
        sum_, squares = (
            combination((count, place**power) for place, count in enumerate(counts))
            for power in (1, 2)
        )
        return VarianceOfSome(total(counts), sum_, squares, most=question.high - question.low)
    raise ParameterError(
        f"shows: {question.name} has no standard deviation: a number has one if survey.toml says "
        "`variance = true` before anybody answers, and a scale always"
    )
