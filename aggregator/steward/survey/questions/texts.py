"""A question that people answer in their own words, in a survey file.

Its epsilon is part of a person's budget for a window, and the report of all other questions has the
rest. If there are no others, text questions have all of it.
"""

from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from aggregator.client.text.hashing import FEWEST_BUCKETS, FEWEST_TASKS, MOST_BUCKETS, MOST_TASKS
from aggregator.dp.rationals import format_rational
from aggregator.errors import ParameterError
from aggregator.steward.survey.conditions import Conditions
from aggregator.steward.survey.exact import Positive
from aggregator.steward.survey.questions.base import NAME, Question
from aggregator.steward.survey.questions.labels import Choice, YesNo
from aggregator.steward.survey.questions.on_grid import OnGrid
from aggregator.untrusted_text import meant

if TYPE_CHECKING:
    from aggregator.client.text.amounts import Amount
    from aggregator.client.text.choices import ByChoice

KIND = "text"
_LARGEST_EPSILON = Fraction(64)


class AskedAmount(OnGrid):
    """A number that people give beside what they write.

    Attributes:
        text: The question for it, as people are asked it.
    """

    text: str

    @model_validator(mode="after")
    def _check(self) -> "AskedAmount":
        try:
            _ = self.amount
        except ParameterError as error:
            raise ValueError(str(error).removeprefix("amount: ")) from None
        return self

    @cached_property
    def amount(self) -> "Amount":
        """The same as clients are asked it."""
        from aggregator.client.text.amounts import Amount

        return Amount(" ".join(self.text.split()), self.grid, self.unit)


class Text(BaseModel):
    """A question that people answer in their own words.

    Attributes:
        kind: "text".
        name: Its name in files, commands and results.
        text: The question as people are asked it.
        ask_if: Other questions, each with labels; people whose answers are not among these are
            not asked this question, and report that they gave no answer.
        epsilon: The epsilon of a person and window, out of the survey's budget.
        buckets: The buckets of each task's histogram; an upload has 16 bytes for each, or 32 with
            an amount, or 16 for each label of `by`.
        tasks: How many tasks there are; by default the number that finds the rarest strings.
        people: How many are expected to answer in a window; `min_batch_size` unless given.
        amount: A number that people give beside it, of which results have means and sums.
        by: A choice, or a question of yes and no, by whose answers strings are counted.
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
    amount: AskedAmount | None = None
    by: str | None = None

    @model_validator(mode="after")
    def _check(self) -> "Text":
        from aggregator.client.text.levels import check_length

        if self.amount is not None and self.by is not None:
            raise ValueError("by: a question with an amount has none: ask for one of both")
        try:
            check_length(self.buckets, self.asked_amount)
        except ParameterError as error:
            raise ValueError(str(error)) from None
        return self

    @property
    def asked_amount(self) -> "Amount | None":
        """The number beside it as clients are asked it, if any."""
        return None if self.amount is None else self.amount.amount

    def asked_by(self, questions: Sequence[Question]) -> "ByChoice | None":
        """Return by which of these questions' answers it is counted, if by any.

        Raises `ParameterError` if none of them can be it.
        """
        if self.by is None:
            return None
        from aggregator.client.text.choices import ByChoice
        from aggregator.client.text.levels import check_length

        named = {each.name: each for each in questions}
        question = named.get(self.by)
        if not isinstance(question, Choice | YesNo):
            raise ParameterError(
                f"by: must be the name of a choice or yes-no question of this survey, not "
                f"{self.by!r}{meant(self.by, [*named])}"
            )
        if question.ask_if:
            raise ParameterError(
                f"by: {self.by}: is not asked of everybody (it has ask_if), and what others write "
                "would not count"
            )
        by = ByChoice(self.by, tuple(question.choices))
        check_length(self.buckets, by)
        return by


class Texts(BaseModel):
    """All text questions of a file, under the name that they have there."""

    questions: tuple[Text, ...] = Field(alias="question", strict=False)


def check_texts(texts: Sequence[Text], epsilon: Fraction | None, *, are_all: bool) -> None:
    """Refuse text questions that do not fit a person's budget, by a ValueError.

    If they are all questions of the survey, they must take the whole budget.
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
    of = f"take {format_rational(taken)} of the budget's {format_rational(epsilon)}"
    if are_all and taken != epsilon:
        raise ValueError(
            f"question {names}: epsilon: text questions {of}, and without others they take all"
        )
    if not are_all and taken >= epsilon:
        raise ValueError(
            f"question {names}: epsilon: text questions {of}, and the others need some of it"
        )
