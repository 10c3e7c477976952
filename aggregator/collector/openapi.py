"""What the collector's service says of itself to programs: requests and documents, as OpenAPI."""

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI

from aggregator.collector import models

_NAMED: Mapping[str, str] = {
    "task_id": "The task: 32 bytes, base64url without padding.",
    "result": "A collection of the question by its id; the newest unless given.",
    "with": "The collection that it is compared with; the one before unless given.",
    "group": "The place of the figure that others are compared with, from 0.",
    "value": "Which of the released sums is looked at, from 0.",
    "all": "If given, all results and not only the newest 60.",
}

_BATCH: Mapping[str, Any] = {
    "type": "object",
    "description": "Both of an interval, or neither for the next batch of a leader that selects.",
    "properties": {
        "start": {
            "type": "integer",
            "minimum": 0,
            "description": "The first second since the Unix epoch.",
        },
        "end": {"type": "integer", "minimum": 0, "description": "The second after the last."},
    },
    "additionalProperties": False,
}


def described(answer: Any, *query: str, in_path: bool = False) -> dict[str, Any]:  # noqa: ANN401  a type
    """Return what a route says of itself besides what its handler's parameters do.

    Args:
        answer: The type of its JSON.
        query: Parameters that the handler reads by itself.
        in_path: Whether it reads the task from the path by itself.
    """
    placed = [*((("path", "task_id"),) if in_path else ()), *(("query", name) for name in query)]
    parameters = [
        {
            "name": name,
            "in": place,
            "required": place == "path",
            "description": _NAMED[name],
            "schema": {"type": "string"},
        }
        for place, name in placed
    ]
    return {
        "response_model": None,
        "responses": {
            200: {"model": answer},
            "4XX": {"model": models.Problem, "description": "Refused"},
        },
        "openapi_extra": {"parameters": parameters} if parameters else None,
    }


def naming_a_batch(route: dict[str, Any], status: int) -> dict[str, Any]:
    """Return the same for a request whose body, which the handler reads by itself, names a batch.

    Args:
        route: What `described` returned.
        status: Of the answer.
    """
    answer, *others = route["responses"].items()
    content = {"application/json": {"schema": _BATCH}}
    return route | {
        "status_code": status,
        "responses": {status: answer[1], **dict(others)},
        "openapi_extra": {"requestBody": {"required": True, "content": content}},
    }


def openapi(app: FastAPI) -> dict[str, Any]:
    """Return the description of a collector's application."""
    document = app.openapi()
    components = document["components"]
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    document["security"] = [{"token": []}]
    for operations in document["paths"].values():
        for operation in operations.values():
            refused = operation["responses"]["4XX"]["content"]
            if "application/json" in refused:
                refused["application/problem+json"] = refused.pop("application/json")
    return document
