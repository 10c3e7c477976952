"""Says in plain words what is wrong with a value that pydantic refuses.

Only a number out of range is repeated: any other value could be a secret.
"""

from collections.abc import Mapping
from typing import Final

from pydantic_core import ErrorDetails

_TEXT: Final = "text in quotation marks"
_WHOLE: Final = "a whole number"
_TRUTH: Final = "true or false"
_URL: Final = "a URL that starts with http:// or https://"

_MUST_BE: Final[Mapping[str, str]] = {
    "string_type": _TEXT,
    "path_type": _TEXT,
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_from_float": _WHOLE,
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": _TRUTH,
    "bool_parsing": _TRUTH,
    "url_type": _URL,
    "url_parsing": _URL,
    "url_scheme": _URL,
    "tuple_type": "a list",
    "list_type": "a list",
    "literal_error": "{expected}",
}
"""What a value must be, by pydantic's name for the fault."""

_TABLES: Final = ("model_type", "dict_type")

_LIMITS: Final[Mapping[str, str]] = {
    "greater_than": "above {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "below {lt}",
    "less_than_equal": "at most {le}",
}
"""What a number must be."""


def in_words(fault: ErrorDetails, *, table: str = "a table", member: str = "setting") -> str:
    """Return what is wrong with a value; where it stands is for the caller to say.

    Args:
        fault: As pydantic describes it.
        table: What its format calls a table.
        member: What it calls an entry of one.
    """
    kind, context = fault["type"], fault.get("ctx", {})
    if kind == "missing":
        return "missing"
    if kind == "extra_forbidden":
        return f"no such {member}"
    if kind in _LIMITS:
        return f"must be {_LIMITS[kind].format(**context)}, not {fault['input']}"
    if kind in _TABLES:
        return f"must be {table}"
    if kind in _MUST_BE:
        return f"must be {_MUST_BE[kind].format(**context).replace(chr(39), '')}"
    return fault["msg"].removeprefix("Value error, ")


def place_of(fault: ErrorDetails) -> str:
    """Return where a value stands, such as `schedule 2.survey`; empty for a whole document."""
    parts: list[str] = []
    for part in fault["loc"]:
        if isinstance(part, int) and parts:
            parts[-1] += f" {part + 1}"
        else:
            parts.append(str(part))
    return ".".join(parts)
