"""Text of others, which terminals, logs and tables show: nothing in it may act on them.

Characters that do are controls, such as those that begin a terminal's commands, and halves of
surrogate pairs, which no encoding has. What turns the direction in which a line is read is shown as
an escape, too, but is no fault of a label, in which languages are mixed: pages keep it to itself.
Two characters turn any language around (U+202D, U+202E): whoever writes a survey has no use for
them, for a label would be read as what it is not. A spreadsheet computes a cell
that begins like a formula.
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
"""How a cell begins that a spreadsheet computes, or may: the full-width signs are signs in some."""


def escaped(text: str) -> str:
    r"""Return text with such characters as `\x1b` and the like; ends of lines are left."""
    return _ESCAPED.sub(lambda found: ascii(found[0])[1:-1], text)


def acts(text: str) -> bool:
    """Return whether a line of text has acting characters, or is more than a line."""
    return _FAULTS.search(text) is not None


def acts_or_misleads(text: str) -> bool:
    """Return whether a line of text `acts`, or is read in another order than it has."""
    return acts(text) or _OVERRIDES.search(text) is not None


def inert(cell: str) -> str:
    """Return the text of a cell, after an apostrophe where a spreadsheet would compute it.

    Source: OWASP, "CSV Injection"
    """
    return f"'{cell}" if _COMPUTED.match(cell) else cell


def near(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is nearest to another, if one is near enough to be meant."""
    import difflib  # few commands are given a wrong name

    names = {each.lower().replace("_", "-"): each for each in known}
    found = difflib.get_close_matches(name.lower().replace("_", "-"), names, 1, 0.7)
    return names[found[0]] if found else None


def meant(name: str, known: Iterable[str]) -> str:
    """Return the question whether a name near an unknown one was meant; "" if there is none."""
    found = near(name, known)
    return f"; did you mean {found}?" if found else ""


def acting_member(
    document: object,
    of_lines: AbstractSet[str] = frozenset(),
    is_fault: Callable[[str], bool] = acts,
) -> str | None:
    """Return the name of a member whose text, or a text below it, `acts`; None if there is none.

    Args:
        document: Tables, lists, text and other values in one another, as of TOML or JSON.
        of_lines: Names of members whose text may have several lines.
        is_fault: What is looked for instead of text that acts.
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
