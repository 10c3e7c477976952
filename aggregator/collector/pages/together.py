"""What all questions of a survey cost a person together, as the survey was planned."""

import dataclasses
from collections.abc import Iterable, Sequence

from aggregator.collector.pages.readings import Asked
from aggregator.dp.filters import Cost
from aggregator.dp.rationals import format_rational
from aggregator.protocol.budget import releases_of


@dataclasses.dataclass(frozen=True, slots=True)
class Together:
    """The sums over the questions of one survey that a collector has, by basic composition.

    They are of somebody who answers every question in every window. A sum is None where one of its
    parts has no bound: a question without noise, or without a limit of its results.

    Attributes:
        questions: How many there are.
        window: What one result of each question costs.
        so_far: What the results cost that the collector has.
        at_most: What all results cost that the aggregators allow.
    """

    questions: int
    window: Cost | None
    so_far: Cost | None
    at_most: Cost | None

    @property
    def document(self) -> dict[str, object]:
        """The same as JSON, exact."""
        sums = {"window": self.window, "so_far": self.so_far, "at_most": self.at_most}
        return {"questions": self.questions, **{name: said(cost) for name, cost in sums.items()}}


def together(asked: Sequence[tuple[Asked, int]]) -> Together:
    """Add up questions, each with how many results it has."""
    return Together(
        len(asked),
        _sum(_cost(each, 1) for each, _ in asked),
        _sum(_cost(each, made) for each, made in asked),
        _sum(_cost(each, each.most_releases) for each, _ in asked),
    )


def is_same_survey(one: Asked, other: Asked) -> bool:
    """Return whether two tasks are questions of one survey."""
    if one.meaning is None or other.meaning is None:
        return False
    mine, theirs = one.meaning, other.meaning
    return (mine.title, mine.asked, mine.windows) == (theirs.title, theirs.asked, theirs.windows)


def said(cost: Cost | None) -> str | None:
    """Return a cost in words: epsilon, or rho where there is no epsilon; None without a bound."""
    if cost is None:
        return None
    if cost.epsilon is None:
        words = f"rho {format_rational(cost.rho)}"
    else:
        words = f"epsilon {format_rational(cost.epsilon)}"
    return f"{words}, delta {format_rational(cost.delta)}" if cost.delta else words


def _cost(asked: Asked, count: int | None) -> Cost | None:
    return None if count is None else releases_of(asked.task, count).cost


def _sum(costs: Iterable[Cost | None]) -> Cost | None:
    total = Cost()
    for each in costs:
        if each is None:
            return None
        total += each
    return total
