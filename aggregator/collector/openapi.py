"""The OpenAPI description of the collector's service: its requests and documents."""

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Response

_NAMED: Mapping[str, str] = {
    "task_id": "The task: 32 bytes, base64url without padding.",
    "result": "A collection of the question by its id; the newest unless given.",
    "with": "The collection that it is compared with; the one before unless given.",
    "group": "The place of the figure that others are compared with, from 0.",
    "figure": "The place of the figure that is shown over time, from 0.",
    "part": "The question or table of the task, from 0.",
    "value": "Which of the released sums is looked at, from 0.",
    "window": "The first second of a window; the newest of which all is collected unless given.",
    "list": "Of the operator's lists of strings the one that is tried; the first unless given.",
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
        "min_dp_budget": {
            "type": "integer",
            "minimum": 1,
            "maximum": 2**32 - 1,
            "description": "In a task of attribution only: what each report pays, in millionths of "
            "an epsilon.",
        },
    },
    "additionalProperties": False,
}


def described(answer: Any, *query: str, in_path: bool = False) -> dict[str, Any]:  # noqa: ANN401  a type
    """Return the part of a route's description that its handler's parameters do not give.

    The handler reads itself what is in `query`, and with `in_path` the task.
    """
    return _described({"model": answer}, query, in_path=in_path)


def described_file(
    media_type: str, said: str, *query: str, in_path: bool = False
) -> dict[str, Any]:
    """Return the same part of the description for a route that answers with a file."""
    schema = {"type": "string"}
    if not media_type.startswith("text/") and not media_type.endswith("+xml"):
        schema["format"] = "binary"
    answer = {"description": said, "content": {media_type: {"schema": schema}}}
    return _described(answer, query, in_path=in_path) | {"response_class": Response}


def naming_a_batch(route: dict[str, Any], status: int) -> dict[str, Any]:
    """Add to a route's description a body that names a batch, which the handler reads itself."""
    content = {"application/json": {"schema": _BATCH}}
    return route | {
        "status_code": status,
        "responses": {status: route["responses"][200]},
        "openapi_extra": {"requestBody": {"required": True, "content": content}},
    }


def _described(answer: Mapping[str, Any], query: Sequence[str], *, in_path: bool) -> dict[str, Any]:
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
        "responses": {200: answer},
        "openapi_extra": {"parameters": parameters} if parameters else None,
    }


def openapi(app: FastAPI) -> dict[str, Any]:
    """Return the description of a collector's application."""
    document = app.openapi()
    components = document["components"]
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    document["security"] = [{"token": []}]
    problem = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for operations in document["paths"].values():
        for operation in operations.values():
            # FastAPI's own error responses do not apply: every refusal is a problem document.
            operation["responses"].pop("422", None)
            operation["responses"]["4XX"] = {"description": "Refused", "content": problem}
    return document
