"""Which questions are asked of whom: a question may depend on answers to earlier ones.

A person who is not asked gives no answer, which is in the report like any other answer.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias

from aggregator.client.survey.alternatives import comparable
from aggregator.client.survey.answers import Answer
from aggregator.errors import ParameterError
from aggregator.untrusted_text import meant

_SHOWN = 8

Conditions: TypeAlias = Iterable[tuple[str, Sequence[str]]]
"""Earlier questions, each with labels of which one must be chosen."""

Needs: TypeAlias = tuple[tuple[int, tuple[int, ...]], ...]
"""The same by places: of a question, and of its labels."""


class Chosen(Protocol):
    """A question on which others may depend."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def choices(self) -> Sequence[str]:
        """The labels from which a person chooses; empty if there are none."""


@dataclasses.dataclass(frozen=True, slots=True)
class Routing:
    """Which questions each person is asked: those of which all needs are met.

    Those of `texts`, by the names of text questions, come after the others.
    """

    needs: tuple[Needs, ...]
    texts: Mapping[str, Needs]

    @classmethod
    def of(
        cls,
        questions: Sequence[Chosen],
        asked_if: Iterable[Conditions],
        texts: Mapping[str, Conditions],
    ) -> "Routing":
        """Return the routing of a report's questions, in their order, and of the text questions.

        Raises `ParameterError` if one depends on one that is not before it, has no labels, or lacks
        the named label.
        """
        needs = tuple(
            _needs(questions[place].name, conditions, questions[:place])
            for place, conditions in enumerate(asked_if)
        )
        return cls(needs, {name: _needs(name, each, questions) for name, each in texts.items()})

    @property
    def is_needed(self) -> bool:
        """Whether any question is not asked of everybody."""
        return any(self.needs) or any(self.texts.values())

    def asked(self, answers: Sequence[Answer | None]) -> list[bool]:
        """Return, for each question, whether a person who gives these answers is asked it.

        An answer to a question that is not asked is ignored.
        """
        found, counted = list[bool](), list[Answer | None]()
        for needs, answer in zip(self.needs, answers, strict=True):
            found.append(are_met(needs, counted))
            counted.append(answer if found[-1] else None)
        return found

    def asked_texts(self, answers: Sequence[Answer | None]) -> dict[str, bool]:
        """Return, for each text question, whether a person who gives these answers is asked it."""
        asked = zip(answers, self.asked(answers), strict=True)
        counted = [answer if is_asked else None for answer, is_asked in asked]
        return {name: are_met(needs, counted) for name, needs in self.texts.items()}


def are_met(needs: Needs, answers: Sequence[Answer | None]) -> bool:
    """Return whether one label of each needed question was chosen.

    The answers are those to the questions so far, None for those that were not asked.
    """
    return all(not set(labels).isdisjoint(answers[place] or ()) for place, labels in needs)


def _needs(name: str, asked_if: Conditions, earlier: Sequence[Chosen]) -> Needs:
    places = {question.name: place for place, question in enumerate(earlier)}
    try:
        return tuple(
            (_place(of, places), _labels(of, labels, earlier[_place(of, places)].choices))
            for of, labels in asked_if
        )
    except ParameterError as error:
        raise ParameterError(f"question {name}: ask_if: {error}") from None


def _place(name: str, places: Mapping[str, int]) -> int:
    if name not in places:
        raise ParameterError(
            f"must name a question that is asked before it, not {name!r}{meant(name, places)}"
        )
    return places[name]


def _labels(name: str, labels: Sequence[str], known: Sequence[str]) -> tuple[int, ...]:
    if not known:
        raise ParameterError(f"{name} has no labels to choose")
    places = {comparable(label): place for place, label in enumerate(known)}
    for label in labels:
        if comparable(label) not in places:
            has = meant(label, known) or f": it has {', '.join(map(repr, known[:_SHOWN]))}"
            raise ParameterError(f"{name} has no label {label!r}{has}")
    return tuple(places[comparable(label)] for label in labels)
