"""`survey.toml`: what is asked, of whom, how often, and what it may cost a person."""

import itertools
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from aggregator.client.survey.routing import Routing
from aggregator.client.survey.tables import GROUPS, Table
from aggregator.errors import ParameterError
from aggregator.protocol.signed_permits import MOST_WINDOWS
from aggregator.protocol.task import MADE_UP, says_made_up
from aggregator.protocol.task_documents import check_text
from aggregator.steward.survey.conditions import routing_of
from aggregator.steward.survey.exact import Positive
from aggregator.steward.survey.faults import another_file, name_of, not_toml, told
from aggregator.steward.survey.questions import AnyQuestion, Question
from aggregator.steward.survey.questions.texts import KIND, Text, Texts, check_texts
from aggregator.steward.survey.windows import Windows, first_window
from aggregator.steward.survey.wording import OF_LINES, Wording
from aggregator.untrusted_text import escaped, first_unsafe_member, is_unsafe_or_misleads

_CONFIG = ConfigDict(frozen=True, extra="forbid", strict=True)


Pair: TypeAlias = Annotated[tuple[str, str], Field(strict=False)]


class Budget(BaseModel):
    """What one person may lose.

    Attributes:
        epsilon: In one window, over all questions together.
        rho: In one window, in place of epsilon, for zero-concentrated differential privacy; noise
            is then Gaussian.
        delta: With epsilon: allows Gaussian noise where that is smaller.
        windows: How many windows there are, each of which may be released.
    """

    model_config = _CONFIG

    epsilon: Positive | None = None
    rho: Positive | None = None
    delta: Positive | None = None
    windows: int = Field(ge=1, lt=2**32)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.epsilon is None) == (self.rho is None):
            raise ValueError("needs epsilon or rho, and not both")
        if self.delta is not None and self.epsilon is None:
            raise ValueError("delta goes with epsilon")
        return self


class Asked(BaseModel):
    """One question, with settings that only the survey's author decides.

    Attributes:
        question: The question, as its task is bound to it.
        weight: How many times smaller its errors shall be than those of questions of weight 1.
        design: The name of the design, if the planner shall not choose.
    """

    model_config = _CONFIG

    question: AnyQuestion
    weight: Positive = Fraction(1)
    design: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _parted(cls, table: object) -> object:
        if not isinstance(table, dict) or "question" in table:
            return table
        rest = dict(table)
        own = {key: rest.pop(key) for key in ("weight", "design") if key in rest}
        return {"question": rest, **own}


class Survey(Wording):
    """A survey file.

    Attributes:
        title: For every reader.
        asked: Who is asked: costs add up over everything asked of the same people.
        window: The length of a window: "week", "14 days".
        first: When the first window begins; a date means midnight, and no time zone means UTC.
        until: When the last window ends, if that is before all windows of the budget are over.
        min_batch_size: The fewest answers that are released together.
        max_reports: The most reports in one window.
        answers: Whose count: everybody's who has the survey's link, one of each personal link, or
            one of each person whom an application knows.
        budget: The budget of a person.
        by: A question by whose answers every other question is shown as well, if it can be.
        tables: Pairs of questions, the answers to the first by those to the second; or all pairs.
        questions: The `[[question]]` entries that are part of the survey's one report; none if all
            are of the kind "text".
        texts: Questions of the kind "text", from the same list in the file.
    """

    title: str = Field(min_length=1, max_length=100)
    asked: str = Field(min_length=1, max_length=100)
    window: str
    first: datetime
    until: datetime | None = None
    min_batch_size: int = Field(ge=1)
    max_reports: int = Field(ge=1, default=1_000_000)
    answers: Literal["by open link", "by invitation", "by application"] = "by open link"
    budget: Budget
    by: str | None = None
    tables: Literal["all"] | Annotated[tuple[Pair, ...], Field(strict=False)] = ()
    questions: tuple[Asked, ...] = Field(alias="question", strict=False)
    texts: tuple[Text, ...] = ()

    @field_validator("first", "until", mode="before")
    @classmethod
    def _moment(cls, value: object) -> object:
        if isinstance(value, date) and not isinstance(value, datetime):
            return datetime.combine(value, time(), UTC)
        if isinstance(value, datetime) and value.tzinfo is None:
            return value.replace(tzinfo=UTC)
        return value

    @model_validator(mode="after")
    def _check(self) -> Self:
        names = [asked.question.name for asked in self.questions]
        for name, count in Counter([*names, *(each.name for each in self.texts)]).items():
            if count > 1:
                raise ValueError(f"question: {count} have the name {name!r}")
        self._check_tables(names)
        if not names and not self.texts:
            raise ValueError("question: must be a table [[question]] for each, not []")
        check_texts(self.texts, self.budget.epsilon, are_all=not names)
        for each in self.texts:
            try:
                each.asked_by([asked.question for asked in self.questions])
            except ParameterError as error:
                raise ValueError(f"question {each.name}: {error}") from None
        if self.max_reports < self.min_batch_size:
            raise ValueError(
                f"max_reports: must be at least min_batch_size ({self.min_batch_size}), "
                f"not {self.max_reports}"
            )
        if says_made_up(self.title):
            raise ValueError(
                f"title: must not begin with {MADE_UP.strip()!r}, as that of a rehearsal does"
            )
        _ = self.releases, self.routing  # raise what is wrong with them
        if self.is_by_application and self.releases > MOST_WINDOWS:
            raise ValueError(
                f"windows: an application has permits of at most {MOST_WINDOWS} windows, "
                f"not {self.releases}"
            )
        self.check_wording(
            [each.question for each in self.questions],
            {each.name: each.asked_amount for each in self.texts},
        )
        return self

    def _check_tables(self, names: Sequence[str]) -> None:
        if self.by is not None and self.by not in names:
            raise ValueError(f"by: must be the name of a question, not {self.by!r}")
        if self.by is not None and not self.question(self.by).makes_groups:
            raise ValueError(f"by: {self.by}: {GROUPS}")
        asked = [each.question.simplest for each in self.questions]
        for of, by in () if self.tables == "all" else self.tables:
            Table.of_pair(asked, of, by)

    @property
    def is_by_invitation(self) -> bool:
        """Whether only answers with a personal link count."""
        return self.answers == "by invitation"

    @property
    def is_by_application(self) -> bool:
        """Whether only answers with a permit count that an application's issuer has signed."""
        return self.answers == "by application"

    @property
    def permit_windows(self) -> range:
        """The numbers by which permits know the survey's windows."""
        first = self.windows.number(self.first)
        return range(first, first + self.releases)

    @property
    def budget_of_a_report(self) -> Budget:
        """The budget that is left for all questions of the survey's report."""
        if self.budget.epsilon is None:
            return self.budget
        taken = sum((each.epsilon for each in self.texts), Fraction(0))
        return self.budget.model_copy(update={"epsilon": self.budget.epsilon - taken})

    @property
    def part_of_a_report(self) -> Fraction:
        """The part of the budget that `budget_of_a_report` is."""
        if self.budget.epsilon is None:
            return Fraction(1)
        left = self.budget_of_a_report.epsilon
        assert left is not None  # noqa: S101  the model leaves some of an epsilon
        return left / self.budget.epsilon

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The tables: for each, the question with the answers and the question with the groups."""
        questions = [asked.question for asked in self.questions]
        found: dict[tuple[str, str], None] = {}
        if self.by is not None:
            others = [each for each in questions if each.name != self.by]
            found = {(each.name, self.by): None for each in others if each.crossed_designs()}
        if self.tables == "all":
            pairs = list(itertools.combinations(questions, 2))
            # If both questions make groups, the one that is asked first has the rows.
            pairs = [pair if pair[1].makes_groups else pair[::-1] for pair in pairs]
            chosen = [
                (of.name, by.name) for of, by in pairs if by.makes_groups and of.crossed_designs()
            ]
        else:
            chosen = list(self.tables)
        for of, by in chosen:
            if (by, of) not in found:
                found[of, by] = None
        return tuple(found)

    @property
    def routing(self) -> Routing:
        """Which questions are asked of whom."""
        return routing_of([asked.question for asked in self.questions], self.texts)

    @property
    def windows(self) -> Windows:
        """The windows of the survey."""
        return Windows.of(self.window, self.first)

    @property
    def releases(self) -> int:
        """How many windows there are; nobody is asked before the first or after the last."""
        return self.windows.count(self.first, self.until, self.budget.windows)

    @property
    def closes(self) -> datetime:
        """When the last window ends."""
        return self.windows.after(self.first, self.releases)

    def question(self, name: str) -> Question:
        """Return the question with this name, or raise `ParameterError`."""
        for asked in self.questions:
            if asked.question.name == name:
                return asked.question
        raise ParameterError(f"question: the survey has no {name!r}")


def _with_controls(table: Mapping[str, object]) -> str | None:
    """Return where in a survey file a text has characters that act on its display, if any."""
    questions = table.get("question")
    for index, each in enumerate(questions if isinstance(questions, list) else []):
        if name := first_unsafe_member(each, OF_LINES, is_unsafe_or_misleads):
            return f"question {escaped(str(name_of(table, index)))}: {name}"
    return first_unsafe_member(table, OF_LINES, is_unsafe_or_misleads)


def survey_from_toml(text: str, now: datetime | None = None) -> Survey:
    """Read a survey file, or raise a `ParameterError` that names every fault.

    If it does not say when its first window begins, that is the one that holds `now`.
    """
    check_text(text, "survey file")
    try:
        table = tomllib.loads(text, parse_float=Decimal)
    except (ValueError, ArithmeticError, RecursionError) as error:  # also for numbers out of range
        raise ParameterError(not_toml(error, text)) from None
    if other := another_file(table):
        raise ParameterError(f"survey: this is {other}, and a survey file is needed")
    if place := _with_controls(table):
        raise ParameterError(f"survey: {place}: must be without control characters")
    if table.pop("version", 1) != 1:
        raise ParameterError("survey: version must be 1")
    if "texts" in table:
        raise ParameterError('survey: texts: no such setting; a question has kind = "text"')
    table, texts = _parted(table)
    if now is not None and "first" not in table:
        if "until" in table:
            raise ParameterError("survey: until: needs first, from which windows are counted")
        table["first"] = first_window(table.get("window"), now)
    try:
        return Survey.model_validate(table | {"texts": texts})
    except ValidationError as error:
        raise ParameterError(told(error, table, Survey)) from None


def _parted(table: dict[str, object]) -> tuple[dict[str, object], tuple[Text, ...]]:
    """Return a file without its text questions, and the text questions."""
    given = table.get("question")
    if not isinstance(given, list):
        return table, ()
    texts = [each for each in given if isinstance(each, dict) and each.get("kind") == KIND]
    others = [each for each in given if each not in texts]
    try:
        found = Texts.model_validate({"question": texts}).questions
    except ValidationError as error:
        raise ParameterError(told(error, {"question": texts}, Texts)) from None
    return table | {"question": others}, found
