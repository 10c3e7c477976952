"""The conditions on which questions of a survey file are asked."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Protocol, TypeAlias

from pydantic import BeforeValidator, PlainSerializer

from aggregator.client.survey.routing import Chosen, Routing


def _conditions(value: object) -> object:
    """Read `{ smoker = "yes", age = ["0 to under 18"] }`: one label, or a list of them."""
    if not isinstance(value, dict):
        message = 'must be the name of a question and its labels, such as { smoker = "yes" }'
        raise ValueError(message)  # noqa: TRY004  pydantic reports it to the file's author
    found = []
    for name, given in value.items():
        labels = [given] if isinstance(given, str) else given
        is_right = isinstance(labels, list) and all(isinstance(each, str) for each in labels)
        if not is_right or not labels:
            raise ValueError(f'{name}: must be a label or a list of labels, such as ["yes"]')
        if len(set(labels)) != len(labels):
            raise ValueError(f"{name}: a label is there twice")
        found.append((str(name), tuple(labels)))
    return tuple(found)


Conditions: TypeAlias = Annotated[
    tuple[tuple[str, tuple[str, ...]], ...],
    BeforeValidator(_conditions),
    PlainSerializer(lambda value: {name: list(labels) for name, labels in value}),
]
"""Earlier questions, each with labels of which one must be chosen."""


class Conditional(Protocol):
    """A question that may depend on others."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def ask_if(self) -> Conditions:
        """When it is asked."""


class _OfReport(Chosen, Conditional, Protocol):
    """A question of the report, which may depend on others, and they on it."""


def routing_of(questions: Sequence[_OfReport], texts: Iterable[Conditional] = ()) -> Routing:
    """Return who is asked which of a report's questions, and of the text questions.

    Raises `ParameterError` if one depends on one that is not before it, has no labels, or lacks the
    named label.
    """
    of_texts = {each.name: each.ask_if for each in texts}
    return Routing.of(questions, [each.ask_if for each in questions], of_texts)


def asked_if(question: Conditional) -> str:
    """Return when a question is asked, for a reader; empty if it always is."""
    return " and ".join(f"{name} is {' or '.join(labels)}" for name, labels in question.ask_if)
