"""Text questions of a survey: each is a group of tasks, besides the survey's one task if any.

A person sends the survey's report and one report for each text question, whatever was skipped, and
is in one of each question's tasks. A text question's epsilon comes out of the person's budget for a
window; all other questions, in one report, share the rest.
"""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from aggregator.errors import ParameterError
from aggregator.steward.survey.model import Survey
from aggregator.steward.survey.questions.texts import Text
from aggregator.steward.survey.report_parts import Sheet
from aggregator.steward.survey.write_meaning import Meaning
from aggregator.steward.text import GUESSED_STRINGS

if TYPE_CHECKING:
    from aggregator.client.text.question import TextQuestion
    from aggregator.steward.text.last_window import LastWindow
    from aggregator.steward.text.plan import TextPlan

_NOTABLY = 0.95


@dataclasses.dataclass(frozen=True)
class PlannedText:
    """A text question as the file has it and as it is asked, and what will be found."""

    asked: Text
    question: "TextQuestion"
    plan: "TextPlan"

    @property
    def errors_of_means(self) -> list[tuple[int, float]]:
        """What the interval of a mean will be, up and down, at most: for so many people each.

        Empty if no number is asked for, or nothing is surely found.
        """
        from aggregator.steward.text.beside import foretold_half_widths

        amount = self.question.amount
        return [] if amount is None else foretold_half_widths(self.plan, amount.told)

    @property
    def deviation_of_a_label(self) -> float | None:
        """The standard deviation of how many of a found string's people chose one label.

        None if strings are not counted by another answer.
        """
        from aggregator.steward.text.beside import foretold_deviation

        return None if self.question.by is None else foretold_deviation(self.plan)

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

    def by_people(self, people: int) -> "PlannedText":
        """Return the same with what will be found if so many people answer in a window."""
        from aggregator.steward.text.plan import zipf

        tail = zipf(people, GUESSED_STRINGS)
        return dataclasses.replace(self, plan=dataclasses.replace(self.plan, tail=tail))

    def better(self) -> "TextPlan | None":
        """Return the plan with the best number of tasks, if it finds notably rarer strings."""
        from aggregator.steward.text.plan import best_plan

        plan = self.plan
        best = best_plan(plan.tail, plan.epsilon, plan.length, levels=plan.levels)
        return best if best.found_from < _NOTABLY * plan.found_from else None


def plan_texts(survey: Survey) -> tuple[PlannedText, ...]:
    """Return how the text questions of a survey are asked, or raise `ParameterError`."""
    planned = tuple(_planned(each, survey) for each in survey.texts)
    if survey.questions:
        return planned
    # No task of the survey binds what it asks.
    meaning = meaning_of(survey, Sheet(()), planned).to_json()
    return tuple(
        dataclasses.replace(each, question=dataclasses.replace(each.question, survey=meaning))
        for each in planned
    )


def meaning_of(survey: Survey, sheet: Sheet, planned: Sequence[PlannedText]) -> Meaning:
    """Return what a survey's tasks are bound to; the sheet has all but the text questions."""
    texts = tuple(sorted((each.asked.name, each.question.meaning.hex()) for each in planned))
    asked_if = tuple(sorted((each.name, each.ask_if) for each in survey.texts if each.ask_if))
    return Meaning(
        survey.title, survey.asked, survey.windows, sheet, texts, asked_if, survey.digests
    )


def title_of(survey: Survey, asked: Text) -> str:
    """Return the title of a text question, which decides which task a person is in."""
    # The name keeps two questions of one text apart.
    return f"{survey.title}, {asked.name}: {' '.join(asked.text.split())}".removesuffix(": ")


def _planned(asked: Text, survey: Survey) -> PlannedText:
    from aggregator.client.text.question import TextQuestion
    from aggregator.steward.text.plan import TextPlan, best_plan, zipf

    people = survey.min_batch_size if asked.people is None else asked.people
    amount, by = asked.asked_amount, asked.asked_by([each.question for each in survey.questions])
    levels = (1 if amount is None else amount.levels) if by is None else by.levels
    tail, epsilon = zipf(people, GUESSED_STRINGS), float(asked.epsilon)
    if asked.tasks is None:
        plan = best_plan(tail, epsilon, asked.buckets, levels=levels)
    else:
        plan = TextPlan(tail, epsilon, asked.tasks, asked.buckets, levels=levels)
    question = TextQuestion(
        title_of(survey, asked),
        asked.epsilon,
        plan.tasks,
        asked.buckets,
        amount=amount,
        by=by,
    )
    return PlannedText(asked, question, plan)
