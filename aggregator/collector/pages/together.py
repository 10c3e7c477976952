"""What a survey costs a person: one report a window holds the answers to all of it.

All but its text questions, which have tasks of their own and cost besides.
"""

import dataclasses

from aggregator.collector.pages.readings import Asked
from aggregator.dp.filters import Cost
from aggregator.dp.rationals import format_rational
from aggregator.protocol.budget import releases_of


@dataclasses.dataclass(frozen=True, slots=True)
class Together:
    """What a survey without its text questions costs somebody who answers in every window.

    A cost is None where it has no bound: without noise, or without a limit of the results.

    Attributes:
        questions: How many there are, without the tables.
        window: What one result costs.
        so_far: What the results cost that the collector has.
        at_most: What all results cost that the aggregators allow.
        texts: The names of its text questions, whose cost comes on top of all this.
    """

    questions: int
    window: Cost | None
    so_far: Cost | None
    at_most: Cost | None
    texts: tuple[str, ...] = ()

    @property
    def document(self) -> dict[str, object]:
        """The same as JSON, exact."""
        sums = {"window": self.window, "so_far": self.so_far, "at_most": self.at_most}
        return {
            "questions": self.questions,
            **{name: said(cost) for name, cost in sums.items()},
            "text_questions": list(self.texts),
        }

    @property
    def besides(self) -> str | None:
        """What the sums leave out, in words; None if nothing."""
        if not self.texts:
            return None
        return (
            f"Text questions are not in this and add to it: {', '.join(self.texts)}. The page of "
            "each of their tasks says how much."
        )


def together(asked: Asked, made: int) -> Together | None:
    """Return what a survey costs with so many results; None for a task of no survey."""
    if asked.meaning is None:
        return None
    window, so_far, at_most = (_cost(asked, count) for count in (1, made, asked.most_releases))
    texts = tuple(name for name, _ in asked.meaning.texts)
    return Together(len(asked.meaning.sheet.asked), window, so_far, at_most, texts)


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
