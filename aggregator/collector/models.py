"""The documents of the collector's API as models, from which its OpenAPI description is made.

Nothing is read or written through them: `documents` makes the documents, and tests hold these to
the models. Those of pages are in `pages.models`.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from aggregator.service.web.models import DocumentModel, Exact

Seconds = Annotated[int, Field(description="Seconds since the Unix epoch.")]


class Privacy(DocumentModel):
    """What is promised, to whom."""

    mechanism: str
    epsilon: Exact | None
    delta: Exact | None
    rho: Exact | None
    neighbours: str = Field(description="Between which batches the guarantee is.")
    statement: str = Field(description="The guarantee of one release, as a sentence.")
    all_releases: str | None = Field(
        description="That of all releases of the task together; null without a guarantee."
    )
    in_short: str | None = Field(
        None, description="Of one batch and of all, in a few words; results from before have none."
    )
    group: str | None = Field(
        None, description="Who keeps a person in one of several tasks; null if it is of no group."
    )
    honest: str = Field(description="Who has to be, for it to hold.")
    bound_into_reports: bool


class SectionError(DocumentModel):
    """The same for the values of one section, which follow on those of the section before."""

    values: int = Field(description="How many there are.")
    half_width: int
    joint_half_width: int


class Error(DocumentModel):
    """How far noise takes a value from the truth."""

    confidence: Exact
    variance: str | None = Field(None, description="Of the sum of both aggregators' noise.")
    half_width: int | None = Field(
        description="Of the interval of one value by itself: the widest, if sections differ."
    )
    joint_half_width: int | None = Field(description="Of intervals that all hold at once.")
    sections: list[SectionError] | None = Field(
        None, description="Of each section, if its noise is not that of all others."
    )
    holds: str | None = Field(None, description="When the intervals hold.")


class Task(DocumentModel):
    """A task, as the collector's readers see it."""

    version: Literal[1]
    task_id: str = Field(description="32 bytes, base64url without padding.")
    task_info: str
    fingerprint: str = Field(description="To compare with the aggregators'.")
    leader: str
    helper: str
    vdaf: dict[str, str | int | list[int]] = Field(description="The type and its parameters.")
    batch_mode: Literal["time_interval", "leader_selected", "collector_selected"]
    time_precision_seconds: int
    min_batch_size: int
    privacy: Privacy
    scale: str = Field(description="The law of each aggregator's noise, and its parameters.")
    error: Error


class PostProcessed(DocumentModel):
    """Values made of the released ones, beside them."""

    rule: Literal["clamp", "simplex"]
    statement: str
    values: list[Exact | None]
    integers: list[int | None]


class Interval(DocumentModel):
    """From the first second to the one after the last."""

    start: Seconds
    end: Seconds


class ValueInterval(DocumentModel):
    """Where the true value is, given that the value is shown; null if there is no upper limit."""

    low: float
    high: float | None
    method: str = Field(description='By which it was found; "withheld" if the value is.')


class Result(DocumentModel):
    """What was released of a batch."""

    version: Literal[1]
    task_id: str
    values: list[int | None] = Field(description="Sums with noise; null where one is withheld.")
    report_count: int
    report_count_source: str
    interval: Interval = Field(description="That the reports are of.")
    release: str = Field(description="Told apart by it from every other release of the task.")
    privacy: Privacy
    scale: str
    error: Error
    intervals: list[ValueInterval] | None = Field(
        None,
        description="Of each value, where a rule decides which are shown; null where all are, and "
        "each is within its half width of the truth.",
    )
    selection: dict[str, object] | None = Field(
        description="The rule by which values are shown; null if all are."
    )
    min_dp_budget: int | None = Field(
        None,
        description="In a task of attribution, what each report pays, in millionths of an epsilon.",
    )
    post_processed: PostProcessed | None = None


class Problem(BaseModel):
    """Why something was refused: a problem document (RFC 9457)."""

    model_config = ConfigDict(extra="allow")

    type: str = Field("about:blank", description="Names the kind of problem.")
    title: str = ""
    status: int | None = None
    detail: str = Field("", description="What was wrong with this request.")
    taskid: str | None = None


class Collection(DocumentModel):
    """The collection of one batch."""

    version: Literal[1]
    collection_id: str = Field(description="16 bytes, hexadecimal.")
    task_id: str
    query: dict[str, int] = Field(description="What named the batch, as in the request.")
    state: Literal["pending", "finished", "failed", "abandoned"]
    reason: str | None = Field(
        description="Why a pending one has not ended, if that is known; of an abandoned one, why "
        "its leader has not heard so."
    )
    created_at: Seconds
    ended_at: Seconds | None
    result: Result | None = Field(description="Of a finished one.")
    problem: Problem | None = Field(description="Of a failed or abandoned one.")
