"""Text questions of a survey: each is a group of tasks besides the survey's one task.

A person sends the survey's report and one report for each text question, whatever was skipped, and
is in one of each question's tasks. Its epsilon is part of a person's budget for a window, and the
report of all other questions has the rest.
"""

import dataclasses
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field

from aggregator.client.text.hashing import FEWEST_BUCKETS, FEWEST_TASKS, MOST_BUCKETS, MOST_TASKS
from aggregator.client.text.question import TextQuestion
from aggregator.dp.rationals import format_rational
from aggregator.errors import ParameterError
from aggregator.steward.survey.exact import Positive
from aggregator.steward.survey.questions.base import NAME, Conditions
from aggregator.steward.text import GUESSED_STRINGS

if TYPE_CHECKING:
    from aggregator.steward.survey.model import Survey
    from aggregator.steward.text.last_window import LastWindow
    from aggregator.steward.text.plan import TextPlan

KIND = "text"
_LARGEST_EPSILON = Fraction(64)
_NOTABLY = 0.95


class Text(BaseModel):
    """A question that people answer in their own words.

    Attributes:
        kind: "text".
        name: Its name in files, commands and results.
        text: The question as people are asked it.
        ask_if: Other questions, each with labels; people whose answers are not among these are
            not asked this question, and report that they gave no answer.
        epsilon: The epsilon of a person and window, out of the survey's budget.
        buckets: The buckets of each task's histogram; an upload has 16 bytes for each.
        tasks: How many tasks there are; by default the number that finds the rarest strings.
        people: How many are expected to answer in a window; `min_batch_size` unless given.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    kind: Literal["text"]
    name: str = Field(pattern=NAME)
    text: str = ""
    ask_if: Conditions = ()
    epsilon: Positive
    buckets: int = Field(default=1024, ge=FEWEST_BUCKETS, le=MOST_BUCKETS)
    tasks: int | None = Field(default=None, ge=FEWEST_TASKS, le=MOST_TASKS)
    people: int | None = Field(default=None, ge=1, le=10**9)


class Texts(BaseModel):
    """All text questions of a file, under the name that they have there."""

    questions: tuple[Text, ...] = Field(alias="question", strict=False)


@dataclasses.dataclass(frozen=True)
class PlannedText:
    """A text question as the file has it and as it is asked, and what will be found."""

    asked: Text
    question: TextQuestion
    plan: "TextPlan"

    def by_last(self, last: "LastWindow") -> "PlannedText":
        """Return the same with what will be found if people answer as in the last window.

        Raises `ParameterError` if no string of that window was surely found.
        """
        people = round(last.people) if self.asked.people is None else self.asked.people
        try:
            plan = dataclasses.replace(self.plan, tail=last.tail(people))
        except ParameterError as error:
            raise ParameterError(f"text question {self.asked.name}: {error}") from None
        return dataclasses.replace(self, plan=plan)

    def better(self) -> "TextPlan | None":
        """Return the plan with the best number of tasks, if it finds notably rarer strings."""
        from aggregator.steward.text.plan import best_plan

        plan = self.plan
        best = best_plan(plan.tail, plan.epsilon, plan.length)
        return best if best.found_from < _NOTABLY * plan.found_from else None


def plan_texts(survey: "Survey") -> tuple[PlannedText, ...]:
    """Return how the text questions of a survey are asked, or raise `ParameterError`."""
    return tuple(_planned(each, survey) for each in survey.texts)


def _planned(asked: Text, survey: "Survey") -> PlannedText:
    from aggregator.steward.text.plan import TextPlan, best_plan, zipf

    people = survey.min_batch_size if asked.people is None else asked.people
    tail, epsilon = zipf(people, GUESSED_STRINGS), float(asked.epsilon)
    if asked.tasks is None:
        plan = best_plan(tail, epsilon, asked.buckets)
    else:
        plan = TextPlan(tail, epsilon, asked.tasks, asked.buckets)
    # The name keeps two questions of one text apart: the title decides which task a person is in.
    title = f"{survey.title}, {asked.name}: {' '.join(asked.text.split())}".removesuffix(": ")
    return PlannedText(asked, TextQuestion(title, asked.epsilon, plan.tasks, asked.buckets), plan)


def check_texts(texts: Sequence[Text], epsilon: Fraction | None) -> None:
    """Refuse text questions that a person's budget has no room for, by a ValueError."""
    if not texts:
        return
    names = ", ".join(each.name for each in texts)
    if epsilon is None:
        raise ValueError(
            f"question {names}: a text question takes epsilon, so budget needs epsilon"
        )
    for each in texts:
        if each.epsilon > _LARGEST_EPSILON:
            raise ValueError(f"question {each.name}: epsilon: must be at most {_LARGEST_EPSILON}")
    taken = sum((each.epsilon for each in texts), Fraction(0))
    if taken >= epsilon:
        raise ValueError(
            f"question {names}: epsilon: text questions take {format_rational(taken)} of the "
            f"budget's {format_rational(epsilon)}, and the others need some of it"
        )
