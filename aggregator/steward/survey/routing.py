"""Which questions are asked of whom: a question may depend on answers to earlier ones.

A person who is not asked gives no answer, which is in the report like any other answer.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias

from aggregator.client.survey.answers import Answer
from aggregator.errors import ParameterError
from aggregator.steward.survey.questions import Question
from aggregator.untrusted_text import meant

_SHOWN = 8

Conditions: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...]
"""Earlier questions, each with labels of which one must be chosen."""

Need = tuple[int, tuple[int, ...]]
"""The index of a question, and the indices of its labels, one of which must be chosen."""


class Conditional(Protocol):
    """A question that may depend on others."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def ask_if(self) -> Conditions:
        """When it is asked."""


@dataclasses.dataclass(frozen=True, slots=True)
class Routing:
    """Which questions each person is asked: those of which all conditions hold.

    Those of `texts` are by name, and come after the others.
    """

    needs: tuple[tuple[Need, ...], ...]
    texts: Mapping[str, tuple[Need, ...]]

    @classmethod
    def of(cls, questions: Sequence[Question], texts: Iterable[Conditional] = ()) -> "Routing":
        """Return the routing of a report's questions, in their order, and of the text questions.

        Raises `ParameterError` if one depends on one that is not before it, has no labels, or lacks
        the named label.
        """
        needs = [_needs(each, questions[:place]) for place, each in enumerate(questions)]
        return cls(tuple(needs), {each.name: _needs(each, questions) for each in texts})

    @property
    def is_needed(self) -> bool:
        """Whether any question is not asked of everybody."""
        return any(self.needs) or any(self.texts.values())

    def asked(self, answers: Sequence[Answer | None]) -> list[bool]:
        """Return, for each question, whether it is asked of a person who gives these answers.

        An answer to a question that is not asked is ignored.
        """
        found = list[bool]()
        for needs in self.needs:
            found.append(_are_met(needs, found, answers))
        return found

    def asked_texts(self, answers: Sequence[Answer | None]) -> dict[str, bool]:
        """Return, for each text question, whether it is asked of who gives these answers."""
        asked = self.asked(answers)
        return {name: _are_met(needs, asked, answers) for name, needs in self.texts.items()}


def asked_if(question: Conditional) -> str:
    """Return when a question is asked, for a reader; empty if it always is."""
    return " and ".join(f"{name} is {' or '.join(labels)}" for name, labels in question.ask_if)


def _are_met(
    needs: Sequence[Need], asked: Sequence[bool], answers: Sequence[Answer | None]
) -> bool:
    return all(
        asked[place] and not set(labels).isdisjoint(answers[place] or ()) for place, labels in needs
    )


def _needs(question: Conditional, earlier: Sequence[Question]) -> tuple[Need, ...]:
    try:
        return tuple(_need(*each, earlier) for each in question.ask_if)
    except ParameterError as error:
        raise ParameterError(f"question {question.name}: ask_if: {error}") from None


def _need(name: str, labels: Sequence[str], earlier: Sequence[Question]) -> Need:
    places = {question.name: place for place, question in enumerate(earlier)}
    if name not in places:
        raise ParameterError(
            f"must name a question that is asked before it, not {name!r}{meant(name, places)}"
        )
    known = earlier[places[name]].choices
    if not known:
        raise ParameterError(f"{name} has no labels to choose")
    for label in labels:
        if label not in known:
            has = meant(label, known) or f": it has {', '.join(map(repr, known[:_SHOWN]))}"
            raise ParameterError(f"{name} has no label {label!r}{has}")
    return places[name], tuple(known.index(label) for label in labels)
