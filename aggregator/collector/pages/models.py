"""What pages say to programs, as models, from which the OpenAPI description is made.

Nothing is read or written through them: the pages make the documents, and tests hold these to the
models.
"""

from typing import Literal

from pydantic import Field

from aggregator.collector.models import Error, Privacy, Seconds
from aggregator.service.web.models import DocumentModel


class Figure(DocumentModel):
    """One figure of one result, with its interval."""

    window: str
    reports: int
    invited: int | None = Field(
        None, description="How many people were invited to the window, where a list says so."
    )
    collection_id: str
    shows: str = Field(description="What kind of figure, such as count or mean.")
    label: str
    value: float | None
    low: float | None = Field(description="Of the interval; null if it has no such end.")
    high: float | None
    unit: str
    confidence: float
    method: str = Field(description="By which the interval was found.")


class LatestFigure(Figure):
    """One figure of a question's latest result."""

    question: str
    survey: str
    task_id: str


class Changed(DocumentModel):
    """What can be said of all main figures at once, at 95 % confidence."""

    since: str = Field(description="The period of the result before.")
    rose: list[str] = Field(description="Labels of what is certainly larger than then.")
    fell: list[str]
    cannot_be_concluded: list[str] = Field(
        description="Labels of what may have risen, fallen or stayed."
    )


class QuestionLine(DocumentModel):
    """A question, and how much of it there is."""

    question: str
    survey: str
    task_id: str
    address: str
    results: int
    most_results: int | None = Field(description="That the budget allows; null if unlimited.")
    changed: Changed | None = Field(description="From one result to the next; null without two.")


class Overview(DocumentModel):
    """All questions with their latest results."""

    version: Literal[1]
    questions: list[QuestionLine]
    rows: list[LatestFigure]


class Difference(DocumentModel):
    """The difference of two figures, and what can be said of it."""

    heading: str
    first: str
    second: str
    estimate: float | None
    low: float | None
    high: float | None
    jointly: int = Field(description="Of how many differences the intervals hold at once.")
    can_be_concluded: str
    cannot_be_concluded: str


class Question(DocumentModel):
    """One question with its results."""

    version: Literal[1]
    question: str
    survey: str
    task_id: str
    results: int
    comparisons: list[Difference]
    rows: list[Figure]


class Sheet(DocumentModel):
    """A question's sheet for a meeting."""

    version: Literal[1]
    question: str
    survey: str
    task_id: str
    collection_id: str
    rows: list[dict[str, str | int | float | None]] = Field(
        description="As of the question; of a table by group a row for each answer, with a value "
        "and both ends of its interval for each group."
    )


class HowMuch(DocumentModel):
    """The numbers that people gave beside a string, each with a 95 % interval."""

    mean: float
    low: float
    high: float
    sum: float
    sum_low: float
    sum_high: float


class ChoseLabel(DocumentModel):
    """How many of a string's people chose a label, and which part, with 95 % intervals."""

    label: str
    count: float = Field(description="An estimate, which may be below 0.")
    low: float
    high: float
    share: float
    share_low: float
    share_high: float


class FoundString(DocumentModel):
    """A string that people wrote."""

    fingerprint: int
    names: list[str] = Field(description="Strings of the list with this fingerprint, mostly one.")
    count: float
    deviation: float
    low: float
    high: float
    threshold: float = Field(description="The least count at which it is shown.")
    amount: HowMuch | None = Field(default=None, description="If the question asks for numbers.")
    by: list[ChoseLabel] | None = Field(
        default=None, description="If strings are counted by another answer."
    )


class HeldString(DocumentModel):
    """The same as a row of a table."""

    window: str
    word_list: str
    shows: str | None = Field(
        default=None,
        description="Count, mean, sum or share, if the question asks for more than strings.",
    )
    group: str | None = Field(
        default=None,
        description="The label of another answer, if strings are counted by it; empty for all.",
    )
    label: str
    value: float
    low: float
    high: float
    unit: str
    confidence: float
    jointly: int
    method: str


class WordsOfText(DocumentModel):
    """What people wrote in a window, as far as a list explains it.

    What a list finds is null where none was tried, or no window has a result of all tasks.
    """

    version: Literal[1]
    question: str
    survey: str
    task_id: str
    tasks: int
    results: int
    lists: list[str] = Field(description="The operator's lists.")
    window: str | None
    word_list: str | None = Field(description="The list that was tried.")
    confidence: str | None
    found: list[FoundString] | None = Field(description="Those of most people first.")
    candidates: int | None = Field(description="How many were tried.")
    threshold: float | None
    expected_false: float | None = Field(
        description="How many of those found nobody wrote, by expectation."
    )
    no_answer: float | None
    unexplained: float | None = Field(description="How many wrote what was not found.")
    rows: list[HeldString]


class AboutSynthetic(DocumentModel):
    """What must be known of a synthetic table."""

    version: Literal[1]
    synthetic: str = Field(description="What stands in each of its rows.")
    title: str
    windows: list[str]
    reports: int
    guarantee: str
    releases: list[str]
    rows: int
    seed: str
    algorithm: int
    tau: float = Field(description="Points of each pair that noise alone causes.")
    z: float = Field(description="How far what pairs show stands out from noise.")
    misfit: float = Field(description="Mean squared distance from the release, in noise.")
    outside: float = Field(description="The share of pairs' cells outside their intervals.")
    questions: list[str]
    left_out: dict[str, str] = Field(description="Why other questions are not in it.")
    pairs_not_asked: list[list[str]]
    in_no_pair: list[str]
    warnings: list[str]
    rules: list[str]


class SyntheticCount(DocumentModel):
    """A count of one answer or of two: synthetic, and as released with its interval."""

    pair: str
    cell: str
    synthetic: float
    outside: str
    label: str
    value: float
    low: float
    high: float
    unit: str
    confidence: float
    jointly: int
    method: str


class SyntheticTable(DocumentModel):
    """A synthetic table beside what was released."""

    version: Literal[1]
    about: AboutSynthetic
    rows: list[SyntheticCount]


class Bound(DocumentModel):
    """What all results so far cost, by one theorem."""

    theorem: str
    epsilon: float | None
    delta: float | None
    is_valid: bool = Field(description="Whether it holds for who decides when to stop.")
    note: str


class SurveyCost(DocumentModel):
    """What a survey costs somebody who answers in every window: all of it is one report.

    The sums are exact: `epsilon 1/2`, or `rho` where there is no epsilon; null without a bound.
    """

    questions: int = Field(description="How many there are, without the tables.")
    window: str | None
    so_far: str | None
    at_most: str | None = Field(description="Of all results that the aggregators allow.")
    text_questions: list[str] = Field(
        description="The names of those that people answer in their own words; each costs what "
        "one of its tasks does."
    )
    left_out: list[str] = Field(
        description="Of these such as this collector has not: what they cost has to be added."
    )


class AboutNumber(DocumentModel):
    """What stands behind a released value."""

    version: Literal[1]
    question: str
    task_id: str
    collection_id: str
    privacy: Privacy
    error: Error
    survey_cost: SurveyCost | None = Field(description="Null for a task of no survey.")
    rows: list[Bound]


class Batch(DocumentModel):
    """One batch, and how far it has come."""

    window: str
    state: Literal["open", "ready", "waiting", "collected", "too few", "failed"]
    why: str
    answers_so_far: int | None = Field(
        description="The leader's word on an uncollected window, counted hourly; null if fewer "
        "than min_batch_size, or if it does not say."
    )
    start: Seconds | None
    end: Seconds | None
    collection_id: str = Field(description="Of its newest collection; empty without one.")


class Batches(DocumentModel):
    """The newest batches of a question."""

    version: Literal[1]
    task_id: str
    min_batch_size: int
    rows: list[Batch]
