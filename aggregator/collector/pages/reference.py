"""An OpenAPI description as a page, without scripts: its content security policy stays strict."""

from collections.abc import Iterator, Mapping
from typing import Any

from aggregator.service.web.pages.html import Html, join, table, tag

Description = Mapping[str, Any]
"""A part of an OpenAPI document."""

_REFERENCE = "#/components/schemas/"


def reference(document: Description) -> list[Html]:
    """Return what a page shows of an OpenAPI document: its operations, then its models."""
    operations = [
        part
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        for part in _operation(method.upper(), path, operation)
    ]
    models = [
        part
        for name, schema in sorted(document["components"]["schemas"].items())
        for part in _model(name, schema)
    ]
    return [tag("h2", "Requests"), *operations, tag("h2", "Documents"), *models]


def _operation(method: str, path: str, operation: Description) -> Iterator[Html]:
    yield tag("h3", f"{method} {path}")
    yield tag("p", operation.get("description") or operation["summary"])
    rows: list[tuple[str | None, ...]] = [
        (each["name"], _type(each["schema"]), _meaning(each))
        for each in operation.get("parameters", ())
    ]
    if "requestBody" in operation:
        rows.append(("body", _contents(operation["requestBody"]), ""))
    rows += [
        (f"answer {status}", _contents(answer), answer["description"])
        for status, answer in operation["responses"].items()
    ]
    found = table(f"{method} {path}", ("what", "type", "meaning"), rows)
    yield tag("details", tag("summary", f"What {method} {path} takes and answers"), found)


def _meaning(parameter: Description) -> str:
    place = f"in the {parameter['in']}"
    return f"{place}: {parameter['description']}" if "description" in parameter else place


def _model(name: str, schema: Description) -> Iterator[Html]:
    yield tag("h3", name, id=name)
    if "description" in schema:
        yield tag("p", schema["description"])
    needed = schema.get("required", ())
    rows = (
        (
            member,
            _type(found),
            "" if member in needed else "may be left out",
            found.get("description", ""),
        )
        for member, found in schema.get("properties", {}).items()
    )
    yield table(name, ("member", "type", "presence", "meaning"), rows)


def _contents(of: Description) -> Html:
    return join(
        tag("div", f"{media}: ", _type(each.get("schema", {})))
        for media, each in of.get("content", {}).items()
    )


def _type(schema: Description) -> Html:
    """Return a schema in a few words, with links to models."""
    match schema:
        case {"$ref": str(reference)}:
            name = reference.removeprefix(_REFERENCE)
            return tag("a", name, href=f"#{name}")
        case {"anyOf": [first, *others]}:
            parts = (part for each in others for part in (" or ", _type(each)))
            return join((_type(first), *parts))
        case {"type": "array", "items": items}:
            return join(("list of ", _type(items)))
        case {"type": "object", "properties": members}:
            named = (part for name, each in members.items() for part in (f" {name}: ", _type(each)))
            return join(("object with", *named))
        case {"type": "object", "additionalProperties": dict() as values}:
            return join(("object of ", _type(values)))
        case _:
            choices = schema.get("enum", [schema["const"]] if "const" in schema else [])
            return join([" or ".join(map(repr, choices)) or schema.get("type", "anything")])
