"""The planner's documents as models, from which its OpenAPI description is made.

Nothing is read or written through the models: `Proposal.document` makes the documents, and tests
compare them with the models.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from fastapi import Response
from pydantic import Field

from aggregator.service.web.models import DocumentModel, Exact
from aggregator.steward.planner.form import DEFAULTS
from aggregator.steward.planner.page import LABELS

Chance = Annotated[float, Field(description="From 0 to 1.")]


class Precision(DocumentModel):
    """The figure whose error is the largest part of its largest value."""

    shows: str
    unit: str
    half_width: float
    part: float = Field(description="Of the largest that the figure can be, from 0.")


class CurvePoint(DocumentModel):
    """The error at one strength."""

    strength: float = Field(description="The epsilon, or rho, of one window.")
    error_part: float = Field(description="Of the largest that the figure can be, from 0.")


class Spent(DocumentModel):
    """What a person who answers in this many windows has spent at most."""

    windows: int
    epsilon: float


class HalfWidths(DocumentModel):
    """How far a release may lie from the truth."""

    half_width: int = Field(description="Of the interval of one number by itself.")
    joint_half_width: int = Field(description="Of intervals that all hold at once.")


class ErrorOfRelease(HalfWidths):
    """How far a release may lie from the truth, at one confidence."""

    confidence: Chance


class YearlyBound(DocumentModel):
    """The smallest bound on a year, by one theorem."""

    name: str = Field(description="Of the theorem.")
    epsilon: float
    delta: float


class Yearly(DocumentModel):
    """What a person in every release of a year has spent at most."""

    epsilon: Exact | None = Field(description="By adding up; null if epsilons do not add up.")
    best: YearlyBound


class Neighbour(DocumentModel):
    """How sure of an answer somebody can become who knows everybody else's."""

    sure_before: Chance
    sure_after_one_release: Chance
    sure_after_a_year: Chance


class BucketThreshold(DocumentModel):
    """What it takes never to show a bucket that nobody chose."""

    needed_for_privacy: bool
    threshold: int = Field(description="With this noise.")
    chance_of_an_empty_bucket: Chance = Field(description="That it is shown all the same.")
    truncated_geometric_threshold: int | None = Field(
        description="With truncated geometric noise; null if the mechanism has no epsilon."
    )
    truncated_geometric_delta: Chance


class PrivacyTable(DocumentModel):
    """The table `[privacy]` of a task file, without settings that have no value."""

    mechanism: str
    epsilon: Exact = ""
    delta: Exact = ""
    rho: Exact = ""
    shares: str = Field("", description="Of each section of a report, in order: `2x1/3 1/3`.")
    max_reports_per_person: int
    window: int = Field(description="Of one release, in the task's units of time.")
    max_batches_per_person: int
    budget: Exact = ""
    max_releases: int = 0
    population: str = ""
    private_threshold: Literal["none"] = "none"


class Advice(DocumentModel):
    """What `prio plan advise --json` prints: a policy, its error and its cost."""

    circuit: str
    mechanism: str
    epsilon: Exact = Field(description="Of one release.")
    delta: Exact
    error: ErrorOfRelease
    yearly: Yearly
    neighbour: Neighbour
    threshold: BucketThreshold | None = Field(description="Null where nothing is a bucket.")
    sentences: list[str] = Field(description="Three, for a board.")
    warnings: list[str] = Field(description="What to consider first.")
    privacy: PrivacyTable


class Spread(HalfWidths):
    """How far the noise of one or both aggregators takes a number from the truth."""

    variance: float
    mean_absolute_error: float
    relative_half_width: float = Field(description="Of the largest that the number can be.")
    relative_joint_half_width: float


class NoiseError(DocumentModel):
    """What `prio plan error --json` prints for one number of reports."""

    noise: str = Field(description="The law of each aggregator's noise.")
    sensitivity: int = Field(description="How far one person can move the sums, added up.")
    scale: float = Field(description="Of that law.")
    one_aggregator: Spread
    two_aggregators: Spread


class Plan(DocumentModel):
    """Everything that the planner says about a question."""

    version: Literal[1]
    question: str
    design: str = Field(description="How the question is asked.")
    mechanism: str
    parameters: dict[str, float | int] = Field(description="Those of the mechanism, by name.")
    shows: str
    unit: str
    half_width: float
    least_precise: Precision
    advise: Advice
    error: NoiseError
    curve: list[CurvePoint]
    spent: list[Spent]
    survey: str = Field(description="The survey file.")


_FIELDS: Mapping[str, Mapping[str, str]] = {
    name: {"type": "string", "default": value, "description": LABELS[name]}
    for name, value in DEFAULTS.items()
}

IN_QUERY: dict[str, Any] = {
    "parameters": [
        {
            "name": name,
            "in": "query",
            "required": False,
            "description": each["description"],
            "schema": {"type": "string", "default": each["default"]},
        }
        for name, each in _FIELDS.items()
    ]
}
"""The fields of the form as parameters of an address."""

IN_BODY: dict[str, Any] = {
    "requestBody": {
        "content": {
            "application/x-www-form-urlencoded": {
                "schema": {"type": "object", "properties": _FIELDS}
            }
        }
    }
}
"""The fields of the form as a body."""

AS_JSON: Mapping[str, Any] = {"response_model": None, "responses": {200: {"model": Plan}}}
AS_CSV: Mapping[str, Any] = {
    "response_model": None,
    "response_class": Response,
    "responses": {
        200: {
            "description": "The figures of one window as they would be published, with noise drawn "
            "anew each time, beside what was made up.",
            "content": {"text/csv": {"schema": {"type": "string"}}},
        }
    },
}
"""What the routes say about their answers."""
