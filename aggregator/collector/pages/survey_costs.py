"""What a survey costs a person in a window and in all.

One report answers all questions but the text questions. These have tasks of their own: a person is
in one task of each, and pays for it in addition.
"""

import dataclasses
from collections.abc import Sequence
from types import MappingProxyType

from aggregator.collector.pages.asked import Asked
from aggregator.collector.pages.texts import CostsOfTexts
from aggregator.dp.filters import Cost, total
from aggregator.dp.rationals import format_rational
from aggregator.protocol.budget import releases_of

_EPSILON = "epsilon "


@dataclasses.dataclass(frozen=True, slots=True)
class SurveyCost:
    """What a survey costs somebody who answers in every window.

    A cost is None where it has no bound: without noise, or without a limit of the results.

    Attributes:
        questions: How many questions there are, without the tables.
        so_far: What the collector's results so far cost.
        at_most: What all results that the aggregators allow would cost.
        left_out: Text questions that the collector does not have; their cost is not included.
    """

    questions: int
    window: Cost | None
    so_far: Cost | None
    at_most: Cost | None
    texts: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def document(self) -> dict[str, object]:
        """The same as JSON, exact."""
        sums = {"window": self.window, "so_far": self.so_far, "at_most": self.at_most}
        return {
            "questions": self.questions,
            **{name: said(cost) for name, cost in sums.items()},
            "text_questions": list(self.texts),
            "left_out": list(self.left_out),
        }

    @property
    def besides(self) -> str | None:
        """How the sums count text questions, in words; None if there are none."""
        if not self.texts:
            return None
        said = []
        if known := [name for name in self.texts if name not in self.left_out]:
            said.append(
                f"This includes text questions ({', '.join(known)}), for each of which a person "
                "is in one task; their client sees to that, and no aggregator can check it."
            )
        if self.left_out:
            said.append(
                f"Text questions are not in this and add to it: {', '.join(self.left_out)}. This "
                "collector does not have all of their tasks."
            )
        return " ".join(said)


def survey_cost(
    asked: Asked, made: int, texts: CostsOfTexts = MappingProxyType({})
) -> SurveyCost | None:
    """Return what a survey costs after `made` results; None for a task without a survey."""
    if asked.meaning is None:
        return None
    names = dict(asked.meaning.texts)
    known = [each for meaning in names.values() for each in texts.get(meaning, ())]
    once = [texts[meaning][0][0] for meaning in names.values() if meaning in texts]
    window, so_far, at_most = (
        _total([_cost(each, count) for each, count in counts])
        for counts in (
            [(each, 1) for each in (asked, *once)],
            [(asked, made), *known],
            [(asked, asked.most_releases), *((text, text.most_releases) for text, _ in known)],
        )
    )
    left_out = tuple(name for name, meaning in names.items() if meaning not in texts)
    count = len(asked.meaning.sheet.asked)
    return SurveyCost(count, window, so_far, at_most, tuple(names), left_out)


def said(cost: Cost | None) -> str | None:
    """Return a cost in words: epsilon, or rho where there is no epsilon; None without a bound."""
    if cost is None:
        return None
    if cost.epsilon is None:
        words = f"rho {format_rational(cost.rho)}"
    else:
        words = f"{_EPSILON}{format_rational(cost.epsilon)}"
    return f"{words}, delta {format_rational(cost.delta)}" if cost.delta else words


def in_short(cost: SurveyCost, asked: Asked) -> str | None:
    """Return what a person pays, to stand beside a result: "ε 4 a week, at most 16 in all"."""
    each, most = said(cost.window), said(cost.at_most)
    if each is None:
        return None
    name = asked.windows.name if asked.windows else "result"
    often = f"an {name}" if name == "hour" else f"a {name}"
    together = f"at most {most.removeprefix(_EPSILON)} in all" if most else "with no limit in all"
    return f"{each} {often}, {together}".replace(_EPSILON, "ε ")


def _total(costs: Sequence[Cost | None]) -> Cost | None:
    known = [each for each in costs if each is not None]
    return total(known) if len(known) == len(costs) else None


def _cost(asked: Asked, count: int | None) -> Cost | None:
    return None if count is None else releases_of(asked.task, count).cost
