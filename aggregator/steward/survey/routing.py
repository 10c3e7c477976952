"""Which questions are asked of whom: a question may depend on answers to earlier ones.

A person who is not asked gives no answer, which is in the report like any other answer.
"""

import dataclasses
from collections.abc import Sequence

from aggregator.client.survey.answers import Answer
from aggregator.errors import ParameterError
from aggregator.steward.survey.questions import Question
from aggregator.words import meant

_SHOWN = 8

Need = tuple[int, tuple[int, ...]]
"""The index of a question, and the indices of its labels, one of which must be chosen."""


@dataclasses.dataclass(frozen=True, slots=True)
class Routing:
    """Which questions each person is asked.

    Attributes:
        needs: For each question, the conditions that must all hold for it to be asked.
    """

    needs: tuple[tuple[Need, ...], ...]

    @classmethod
    def of(cls, questions: Sequence[Question]) -> "Routing":
        """Return the routing of questions, in the order in which they are asked.

        Raises:
            ParameterError: A question depends on one that is not before it, has no labels, or lacks
                the named label; the message names them.
        """
        needs = []
        for place, question in enumerate(questions):
            try:
                earlier = questions[:place]
                needs.append(tuple(_need(*each, earlier) for each in question.ask_if))
            except ParameterError as error:
                raise ParameterError(f"question {question.name}: ask_if: {error}") from None
        return cls(tuple(needs))

    @property
    def is_needed(self) -> bool:
        """Whether any question is not asked of everybody."""
        return any(self.needs)

    def asked(self, answers: Sequence[Answer | None]) -> list[bool]:
        """Return, for each question, whether it is asked of a person who gives these answers.

        An answer to a question that is not asked is ignored.
        """
        found = list[bool]()
        for needs in self.needs:
            found.append(
                all(
                    found[place] and not set(labels).isdisjoint(answers[place] or ())
                    for place, labels in needs
                )
            )
        return found


def asked_if(question: Question) -> str:
    """Return when a question is asked, for a reader; empty if it always is."""
    return " and ".join(f"{name} is {' or '.join(labels)}" for name, labels in question.ask_if)


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
