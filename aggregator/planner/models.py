"""The documents of the planner as models, from which its OpenAPI description is made.

Nothing is read or written through them: `Proposal.document` makes the documents, and tests hold
these to the models.
"""

from collections.abc import Mapping
from typing import Any, Literal

from fastapi import Response
from pydantic import BaseModel, ConfigDict, Field

from aggregator.planner.form import DEFAULTS
from aggregator.planner.page import LABELS


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Precision(_Model):
    """Of all figures the one whose error is the largest part of the largest that it can be."""

    shows: str
    unit: str
    half_width: float
    part: float = Field(description="Of the largest that the figure can be, from 0.")


class CurvePoint(_Model):
    """The error at one strength."""

    strength: float = Field(description="The epsilon, or rho, of one window.")
    error_part: float = Field(description="Of the largest that the figure can be, from 0.")


class Spent(_Model):
    """What a person who answers in so many windows has spent at most."""

    windows: int
    epsilon: float


class Plan(_Model):
    """All that the planner says of a question."""

    version: Literal[1]
    question: str
    design: str = Field(description="How the question is asked.")
    mechanism: str
    parameters: dict[str, float | int] = Field(description="Those of the mechanism, by name.")
    shows: str
    unit: str
    half_width: float
    least_precise: Precision
    advise: dict[str, Any] = Field(description="As `prio plan advise --json` prints it.")
    error: dict[str, Any] = Field(description="As `prio plan error --json` prints it.")
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
"""The same as a body."""

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
"""What the routes say of their answers."""
