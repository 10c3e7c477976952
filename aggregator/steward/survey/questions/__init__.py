"""The kinds of questions: what an answer is, and which designs can ask it.

A new kind is a class with `read` and `designs`, and its place in `AnyQuestion`.
"""

from typing import Annotated, TypeAlias

from pydantic import Field

from aggregator.steward.survey.questions.base import Question
from aggregator.steward.survey.questions.labels import Choice, Multiple, YesNo
from aggregator.steward.survey.questions.numbers import Bins, Number, Scale
from aggregator.steward.survey.questions.trees import Hierarchy
from aggregator.steward.survey.questions.vectors import Vector

__all__ = ["AnyQuestion", "Question"]

AnyQuestion: TypeAlias = Annotated[
    Choice | Multiple | YesNo | Number | Bins | Scale | Vector | Hierarchy,
    Field(discriminator="kind"),
]
"""A question of any kind: a `[[question]]` of a survey file."""
