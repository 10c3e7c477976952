"""The kinds of questions: how they are asked, and what sums show of them.

A new kind is a class with `designs`, and its place in `AnyQuestion`; each design has a row in
`aggregator.client.survey.read_meaning`, which says what an answer adds.
"""

from collections.abc import Mapping
from typing import Annotated, TypeAlias, get_args

from pydantic import Field

from aggregator.steward.survey.questions.base import Question
from aggregator.steward.survey.questions.labels import Choice, Multiple, YesNo
from aggregator.steward.survey.questions.numbers import Bins, Number, Scale
from aggregator.steward.survey.questions.trees import Hierarchy
from aggregator.steward.survey.questions.vectors import Vector

__all__ = ["KINDS", "AnyQuestion", "Question"]

AnyQuestion: TypeAlias = Annotated[
    Choice | Multiple | YesNo | Number | Bins | Scale | Vector | Hierarchy,
    Field(discriminator="kind"),
]
"""A question of any kind: a `[[question]]` of a survey file."""

KINDS: Mapping[str, type[Question]] = {
    get_args(kind.model_fields["kind"].annotation)[0]: kind
    for kind in get_args(get_args(AnyQuestion)[0])
}
"""All kinds, by the name in a survey file."""
