"""A survey's results as lines of text: figures by question, with a column for each window."""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from aggregator.untrusted_text import escaped

if TYPE_CHECKING:
    from aggregator.collector.results import Table

_INDENT = "  "
_GAP = "   "
_NUMBER = re.compile(r"[0-9]+")


@dataclasses.dataclass(frozen=True, slots=True)
class Trouble:
    """A window that could not be collected, and why."""

    window: str
    reason: str


def table_lines(made: "Table", width: int) -> list[str]:
    """Return a table of a survey's figures as lines of text.

    Numbers are rounded to two digits of their half-width, and ends outward, as on the pages; what
    says nothing is no number, as there.
    Windows that do not fit into the width, in characters, are printed further down.
    """
    windows: dict[str, None] = {}
    cells: dict[str, dict[str, dict[str, tuple[str, str]]]] = {}
    for row, shown in zip(made.rows, made.shown, strict=True):
        window, question = str(row["window"]), escaped(str(row["question"]))
        if row["by"]:
            question += escaped(f" by {row['by']}")
        windows[window] = None
        figures = cells.setdefault(question, {})
        if not row["by"]:
            figures.setdefault("answered", {})[window] = f"{row['answered']:,}", ""
        names = ("group", "shows", "label")
        name = escaped(" ".join(str(row[each]) for each in names if row[each]))
        ends = "" if shown.ends is None else f"({' to '.join(shown.ends)})"
        figures.setdefault(name, {})[window] = escaped(shown.value), ends
    lines = []
    for question, figures in cells.items():
        lines.append(question)
        lines += _block(sorted(windows), figures, width)
    if made.rows:
        how = "all at once" if made.jointly else "each by itself"
        lines.append(f"intervals: {100 * float(made.confidence):.6g} %, {how}")
    return lines


def change(low: float, high: float, unit: str, *, is_larger: bool | None) -> str:
    """Return what can be concluded about a change, given its interval."""
    if is_larger is False:
        least, most = _ends(-high, -low)
        return f"less, by {least} to {most}{unit}"
    least, most = _ends(low, high)
    if is_larger:
        return f"more, by {least} to {most}{unit}"
    return f"from {_signed(least)} to {_signed(most)}{unit}: more or less, or the same"


def trouble_lines(troubles: Sequence[Trouble]) -> list[str]:
    """Return a line for each reason; reasons that differ only in numbers share a line."""
    groups: dict[str, list[Trouble]] = {}
    for each in troubles:
        groups.setdefault(_NUMBER.sub("", each.reason), []).append(each)
    lines = []
    for same in groups.values():
        # The tasks of a text question have one window.
        windows = list(dict.fromkeys(each.window for each in same))
        place = windows[0]
        if len(windows) > 1:
            place = f"{len(windows)} windows ({place}, and {len(windows) - 1:,} more)"
        lines.append(f"{place}: {same[0].reason}")
    return lines


def _block(
    windows: Sequence[str], figures: Mapping[str, Mapping[str, tuple[str, str]]], width: int
) -> list[str]:
    """Return the lines of one question, with as many windows side by side as fit."""
    names = max(map(len, figures))
    columns = {window: _column(window, figures) for window in windows}
    lines: list[str] = []
    waiting = list(windows)
    while waiting:
        line_width, shown = len(_INDENT) + names, list[str]()
        while waiting:
            line_width += len(_GAP) + max(map(len, columns[waiting[0]]))
            if shown and line_width > width:
                break
            shown.append(waiting.pop(0))
        table = [["", *figures], *(columns[window] for window in shown)]
        widths = [max(map(len, column)) for column in table]
        for row in zip(*table, strict=True):
            padded = (f"{cell:<{size}}" for cell, size in zip(row, widths, strict=True))
            lines.append((_INDENT + _GAP.join(padded)).rstrip())
    return lines


def _column(window: str, figures: Mapping[str, Mapping[str, tuple[str, str]]]) -> list[str]:
    found = [each.get(window, ("", "")) for each in figures.values()]
    size = max(len(value) for value, _ in found)
    return [window, *(f"{value:>{size}}  {interval}".rstrip() for value, interval in found)]


def _ends(low: float, high: float) -> tuple[str, str]:
    from aggregator.collector.results.written import said

    _, least, most = said(None, low, high)
    return least, most


def _signed(number: str) -> str:
    return number if number.startswith("-") else f"+{number}"
