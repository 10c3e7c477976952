"""Which paths we answer at all: those that a proxy reads as we do.

The framework takes a line break at the end of a path for its end, and an escaped slash for a
separator. A proxy does neither, so a rule of its own for `/tasks/…/reports`, such as a rate limit,
would not hold for `/tasks/…/reports%0a` or `/tasks/…%2freports`. None of our paths has either.
"""

from re import IGNORECASE
from re import compile as compile_pattern

from starlette.types import Scope

_CONTROL = compile_pattern(r"[\x00-\x1f\x7f]")
_ESCAPED_SLASH = compile_pattern(rb"%2f", IGNORECASE)


def is_plain(scope: Scope) -> bool:
    """Return whether a request's path has no control character and no escaped slash."""
    if _CONTROL.search(scope["path"]):
        return False
    return not _ESCAPED_SLASH.search(scope.get("raw_path") or b"")
