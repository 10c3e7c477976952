"""Which paths we answer at all: those that a proxy reads as we do.

To the framework a line break at the end of a path is its end, an escaped slash is a separator, and
an escaped letter is the letter. Not every proxy reads them so. A proxy's own rule for
`/tasks/…/reports`, such as a rate limit, would not hold for `/tasks/…/reports%0a`,
`/tasks/…%2freports` or `/tasks/…/%72eports`. None of our paths needs any of them.

Source: RFC 3986, "Unreserved Characters".
"""

from re import IGNORECASE
from re import compile as compile_pattern

from starlette.types import Scope

_CONTROL = compile_pattern(r"[\x00-\x1f\x7f]")
_NEEDLESS = compile_pattern(rb"%(?:2[def]|3[0-9]|[46][1-9a-f]|[57][0-9a]|5f|7e)", IGNORECASE)
"""An escaped slash, or an escaped letter, digit, `-`, `.`, `_` or `~`."""


def is_plain(scope: Scope) -> bool:
    """Return whether a request's path has no control character, and escapes nothing needlessly."""
    if _CONTROL.search(scope["path"]):
        return False
    return not _NEEDLESS.search(scope.get("raw_path") or b"")
