"""The names by which an analyst asks for a survey's figures, and what is said of a wrong one."""

from collections.abc import Iterable, Sequence

from aggregator.errors import ParameterError
from aggregator.protocol.task import MADE_UP
from aggregator.untrusted_text import escaped, meant

_MOST = 12
"""The most names that a message lists."""


def checked(what: str, given: str, known: Iterable[str], of: str = "the survey") -> str:
    """Return a name that is known, or raise `ParameterError`, which says what there is.

    Args:
        what: What the name is of, as a caller calls it: "question", "by".
        given: The name.
        known: The names that there are.
        of: What has them, for the message.
    """
    names = list(dict.fromkeys(known))
    if given in names:
        return given
    hint = meant(given, names)
    has = f"{hint} It has" if hint else "; it has"
    raise ParameterError(f"{what}: {of} has no {given!r}{has} {listed(names)}")


def window_named(given: str | int, windows: Sequence[str]) -> str:
    """Return a window's name from its index, its name, or the date or time that it begins with.

    Raises `ParameterError`, which says what there is.
    """
    if isinstance(given, int):
        if -len(windows) <= given < len(windows):
            return windows[given]
        raise ParameterError(f"window: there are only {len(windows)}: {listed(windows)}")
    if given in windows:
        return given
    begin = [each for each in windows if given and each.removeprefix(MADE_UP).startswith(given)]
    if len(begin) == 1:
        return begin[0]
    # No near match: all dates are alike.
    raise ParameterError(f"window: there is no {given!r}, but {listed(windows)}")


def listed(names: Sequence[str]) -> str:
    """Return names as a list in a sentence, the first twelve at most."""
    shown = [escaped(name) or "no label" for name in names[:_MOST]]
    more = len(names) - _MOST
    return ", ".join([*shown, *([f"and {more:,} more"] if more > 0 else [])]) or "nothing"
