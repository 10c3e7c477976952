"""Text questions of a survey: each is a group of tasks beside the survey's one task.

A person sends the survey's report and one report for each text question, whatever was skipped; of a
question's tasks they are in one. Its epsilon is part of the budget of a person and window, and the
report of all other questions has the rest.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field

from aggregator.client.text.hashing import (
    FEWEST_BUCKETS,
    FEWEST_TASKS,
    MOST_BUCKETS,
    MOST_TASKS,
)
from aggregator.client.text.question import TextQuestion
from aggregator.dp.rationals import format_rational
from aggregator.errors import ParameterError
from aggregator.steward.survey.exact import Positive
from aggregator.steward.survey.questions.base import NAME
from aggregator.steward.text import GUESSED_STRINGS

if TYPE_CHECKING:
    from aggregator.protocol.task import Task
    from aggregator.steward.survey.meaning import Meaning
    from aggregator.steward.survey.model import Survey
    from aggregator.steward.text.plan import TextPlan

KIND = "text"
_LARGEST_EPSILON = Fraction(64)


class Text(BaseModel):
    """A question that people answer in words of their own.

    Attributes:
        kind: "text".
        name: In files, commands and results.
        text: The question as people are asked it.
        epsilon: Of a person and window, out of the survey's budget.
        buckets: Of each task's histogram; an upload has 16 bytes for each.
        tasks: How many there are; as many as find the rarest strings if not given.
        people: How many are expected to answer in a window; `min_batch_size` if not given.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    kind: Literal["text"]
    name: str = Field(pattern=NAME)
    text: str = ""
    epsilon: Positive
    buckets: int = Field(default=1024, ge=FEWEST_BUCKETS, le=MOST_BUCKETS)
    tasks: int | None = Field(default=None, ge=FEWEST_TASKS, le=MOST_TASKS)
    people: int | None = Field(default=None, ge=1, le=10**9)


class Texts(BaseModel):
    """All text questions of a file, by the name that they have there."""

    questions: tuple[Text, ...] = Field(alias="question", strict=False)


@dataclasses.dataclass(frozen=True)
class PlannedText:
    """A text question as it is asked.

    Attributes:
        asked: As the file has it.
        question: With the number of its tasks.
        plan: What will be found.
    """

    asked: Text
    question: TextQuestion
    plan: "TextPlan"


def plan_texts(survey: "Survey") -> tuple[PlannedText, ...]:
    """Return how the text questions of a survey are asked.

    Raises:
        ParameterError: A title is too long or not one line.
    """
    return tuple(_planned(each, survey) for each in survey.texts)


def _planned(asked: Text, survey: "Survey") -> PlannedText:
    from aggregator.steward.text.plan import TextPlan, best_plan, zipf

    people = survey.min_batch_size if asked.people is None else asked.people
    tail, epsilon = zipf(people, GUESSED_STRINGS), float(asked.epsilon)
    if asked.tasks is None:
        plan = best_plan(tail, epsilon, asked.buckets)
    else:
        plan = TextPlan(tail, epsilon, asked.tasks, asked.buckets)
    # The name keeps two questions of one text apart: the title decides who is in which task.
    title = f"{survey.title}, {asked.name}: {' '.join(asked.text.split())}".removesuffix(": ")
    return PlannedText(asked, TextQuestion(title, asked.epsilon, plan.tasks, asked.buckets), plan)


def check_texts(texts: Sequence[Text], epsilon: Fraction | None) -> None:
    """Refuse text questions that a person's budget has no room for.

    Raises:
        ValueError: It has no epsilon, or not more than they take.
    """
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


def smallest_batch(of_survey: int, tasks: int) -> int:
    """Return the `min_batch_size` of each task of a text question.

    A G-th of all people toss for a task, and not quite as many each time.
    """
    return max(1, of_survey // (2 * tasks))


def check_bound(
    task: "Task", meaning: "Meaning", texts: "Mapping[str, tuple[TextQuestion, Sequence[Task]]]"
) -> None:
    """Refuse text questions that are not those of a survey's task, or are asked otherwise.

    Whoever hands out files could leave a question out, or put another beside the survey, or the
    same one with tasks of aggregators who are one.

    Args:
        task: The survey's, each of whose reports is bound to its meaning.
        meaning: Its meaning.
        texts: By its name, each question with its tasks, which belong together.

    Raises:
        ParameterError: It names the question and what is wrong.
    """
    named = dict(meaning.texts)
    for name in sorted(named.keys() ^ texts.keys()):
        raise ParameterError(
            f"text question {name}: the survey has it, and its files are missing"
            if name in named
            else f"text question {name}: the survey has no such question"
        )
    for name, (question, tasks) in texts.items():
        if question.meaning.hex() != named[name]:
            raise ParameterError(f"text question {name}: is another one than the survey's")
        # All other tasks of the question have the settings of the first.
        for setting, ours, surveys in zip(_SAME, _settings(tasks[0]), _settings(task), strict=True):
            if ours != surveys:
                raise ParameterError(
                    f"text question {name}: its tasks have another {setting} than the survey's"
                )
        if tasks[0].min_batch_size < smallest_batch(task.min_batch_size, question.tasks):
            raise ParameterError(
                f"text question {name}: its tasks have a smaller min_batch_size than the survey's "
                "would have them"
            )


_SAME = ("leader", "helper", "time_precision", "profile", "window", "population", "max_releases")


def _settings(task: "Task") -> tuple[object, ...]:
    """Return what the tasks of a survey share, as `_SAME` calls it."""
    configuration, policy = task.configuration, task.policy
    return (
        configuration.leader_aggregator_endpoint,
        configuration.helper_aggregator_endpoint,
        configuration.time_precision,
        task.profile,
        policy.window,
        policy.population,
        policy.max_releases,
    )
