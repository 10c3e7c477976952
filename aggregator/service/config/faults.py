"""Says in plain words what is wrong with a value that pydantic refuses.

Unless a caller says that no value is a secret, only a number out of range is repeated.
"""

from collections.abc import Callable, Mapping
from typing import Final

from pydantic_core import ErrorDetails

_TEXT: Final = "text in quotation marks"
_WHOLE: Final = "a whole number"
_TRUTH: Final = "true or false"
_URL: Final = "a URL that starts with http:// or https://"

_MUST_BE: Final[Mapping[str, str]] = {
    "string_type": _TEXT,
    "string_too_long": "at most {max_length} characters",
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
    "datetime_type": "a date such as 2026-11-02",
    "literal_error": "{expected}",
}
"""What a value must be, by pydantic's name for the fault."""

_UNQUOTED: Final = ("int_type", "float_type", "bool_type", "datetime_type")
"""Faults of a text that should have been a bare value."""

_TABLES: Final = ("model_type", "dict_type")

_LIMITS: Final[Mapping[str, str]] = {
    "greater_than": "above {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "below {lt}",
    "less_than_equal": "at most {le}",
}
"""What a number must be."""


def in_words(
    fault: ErrorDetails,
    *,
    table: str = "a table",
    member: str = "setting",
    shown: Callable[[object], str] | None = None,
) -> str:
    """Return what is wrong with a value that pydantic refused; the caller says where it stands.

    `table` and `member` are what the value's format calls them. `shown` repeats a refused value,
    where no value is a secret.
    """
    kind, given, context = fault["type"], fault["input"], fault.get("ctx", {})
    if kind == "missing":
        return "missing"
    if kind == "extra_forbidden":
        return f"no such {member}"
    if kind in _LIMITS:
        said, shown = _LIMITS[kind].format(**context), shown or str
    elif kind in _TABLES:
        said = table
    elif kind in _MUST_BE:
        said = _MUST_BE[kind].format(**context).replace(chr(39), "")
        if kind in _UNQUOTED and isinstance(given, str):
            said += " without quotation marks"
    else:
        return fault["msg"].removeprefix("Value error, ")
    return f"must be {said}" + (f", not {shown(given)}" if shown else "")


def place_of(location: tuple[int | str, ...]) -> str:
    """Return where a value stands, such as `schedule 2.survey`; empty for a whole document."""
    parts: list[str] = []
    for part in location:
        if isinstance(part, int) and parts:
            parts[-1] += f" {part + 1}"
        else:
            parts.append(str(part))
    return ".".join(parts)
