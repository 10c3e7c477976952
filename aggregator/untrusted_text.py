"""Makes text from others safe to show in terminals, logs and tables.

Unsafe characters are controls, such as those that begin a terminal's commands, and halves of
surrogate pairs, which cannot be encoded. Characters that change the direction of reading are
escaped too, but labels may have them, since labels mix languages: pages isolate them. Two such
characters override every language (U+202D, U+202E): no survey needs them, and with them a label
would read as something else. A cell that begins like a formula would be computed by a spreadsheet.
"""

import re
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet

_ACTING = "\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff"
_TURNING = "\u202a-\u202e\u2066-\u2069"
_ESCAPED = re.compile(f"[{_ACTING}{_TURNING}]")
_FAULTS = re.compile(f"[\n{_ACTING}]")
_OVERRIDES = re.compile("[\u202d\u202e]")
_COMPUTED = re.compile(r"[\t\r\n]|\s*[-=+@\uff0d\uff1d\uff0b\uff20]")
"""The start of a cell that a spreadsheet may compute; some take full-width signs too."""


def escaped(text: str) -> str:
    r"""Return text with unsafe characters escaped, like `\x1b`; line ends are kept."""
    return _ESCAPED.sub(lambda found: ascii(found[0])[1:-1], text)


def is_unsafe(text: str) -> bool:
    """Return whether a text has unsafe characters or more than one line."""
    return _FAULTS.search(text) is not None


def is_unsafe_or_misleads(text: str) -> bool:
    """Return whether a text `is_unsafe`, or would be read in another order than it is stored."""
    return is_unsafe(text) or _OVERRIDES.search(text) is not None


def defused(cell: str) -> str:
    """Return a cell's text, with an apostrophe in front if a spreadsheet would compute it.

    Source: OWASP, "CSV Injection"
    """
    return f"'{cell}" if _COMPUTED.match(cell) else cell


def near(name: str, known: Iterable[str]) -> str | None:
    """Return the known name nearest to `name`, if one is near enough to be meant."""
    import difflib  # few commands are given a wrong name

    names = {each.lower().replace("_", "-"): each for each in known}
    found = difflib.get_close_matches(name.lower().replace("_", "-"), names, 1, 0.7)
    return names[found[0]] if found else None


def meant(name: str, known: Iterable[str]) -> str:
    """Return a question such as "did you mean ...?"; "" if no known name is near."""
    found = near(name, known)
    return f"; did you mean {found}?" if found else ""


def first_unsafe_member(
    document: object,
    of_lines: AbstractSet[str] = frozenset(),
    is_fault: Callable[[str], bool] = is_unsafe,
) -> str | None:
    """Return the first member whose text, or a text below it, `is_unsafe`; None if there is none.

    Args:
        document: Nested tables, lists, text and other values, as from TOML or JSON.
        of_lines: Names of members whose text may have several lines.
        is_fault: The fault to look for, by default that a text `is_unsafe`.
    """
    waiting = [("", document)]
    while waiting:
        name, value = waiting.pop()
        match value:
            case str() if is_fault(value.replace("\n", " ") if name in of_lines else value):
                return name
            case list():
                waiting += [(name, each) for each in value]
            case dict():
                waiting += [(str(key), each) for key, each in value.items()]
                waiting += [(name, key) for key in value]
            case _:
                pass
    return None
