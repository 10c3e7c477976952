"""A question by group as a cross table: a row an answer, a column a group, shares of each group."""

from collections.abc import Mapping, Sequence
from math import ceil, floor

from aggregator.collector.pages.readings import Estimate, Reading, Row
from aggregator.collector.results.intervals import TOO_FEW
from aggregator.collector.results.written import said
from aggregator.service.web.pages.html import Html, isolated, tag

_SHOWN = ("share", "mean")
"""What is compared between groups; counts say how large the groups are."""

_MOST_SIDE_BY_SIDE = 4
"""The most groups that a phone has room for side by side."""

_PERCENT = "%"
_FINE = 2
"""Shares have digits after the point where all have intervals of less than this many per cent."""

Cells = Mapping[tuple[str, str], Estimate]


def cross_table(shown: Reading, caption: str = "") -> Html | None:
    """Return a table by group with a row for each answer; None if it shows no share and no mean."""
    cells = cells_of(shown)
    if not cells:
        return None
    if not any(each.shown.ends for each in cells.values()):
        first = next(iter(cells.values())).shown.value
        return tag("p", f"In each group {first}.")
    groups = list(dict.fromkeys(group for _, group in cells))
    answers = list(dict.fromkeys(answer for answer, _ in cells))
    is_few = len(groups) <= _MOST_SIDE_BY_SIDE
    shares = [each.mark for each in cells.values() if each.unit == _PERCENT]
    is_fine = all(each.high - each.low < _FINE for each in shares)
    sizes = shown.answered
    head = tag(
        "tr",
        tag("th", tag("span", "answer", class_="unseen"), scope="col", role="columnheader"),
        *(tag("th", isolated(group), scope="col", role="columnheader") for group in groups),
        role="row",
    )
    body = [
        tag(
            "tr",
            tag("th", isolated(answer), scope="row", role="rowheader"),
            *(
                _cell(cells.get((answer, group)), None if is_few else group, is_fine=is_fine)
                for group in groups
            ),
            role="row",
        )
        for answer in answers
    ]
    people = tag(
        "tr",
        tag("th", "people", scope="row", role="rowheader"),
        *(
            tag("td", sizes.get(group, ""), role="cell", data_name=None if is_few else group)
            for group in groups
        ),
        role="row",
        class_="soft",
    )
    name = caption or f"By group{shown.intervals}; shares are of each group's people"
    made = tag(
        "table",
        tag("caption", name),
        tag("thead", head, role="rowgroup"),
        tag("tbody", *body, people, role="rowgroup"),
        class_="cross" if is_few else "cross cards-if-narrow",
        role="table",
    )
    # Several of them may be on one page, with one caption.
    return tag(
        "div", made, class_="scroll", tabindex=0, role="region", aria_label=shown.asked.title
    )


def cells_of(shown: Reading) -> Cells:
    """Return shares and means by answer and group."""
    return {
        (_answer(figure.shows, figure.quantity.label), figure.group): shown.estimate(figure)
        for figure in shown.by_group
        if figure.group and figure.shows in _SHOWN
    }


def cross_rows(shown: Reading) -> list[Row]:
    """Return the same for a file: for each group a value and both ends of its interval."""
    cells = cells_of(shown)
    groups = list(dict.fromkeys(group for _, group in cells))
    made: list[Row] = []
    for answer in dict.fromkeys(answer for answer, _ in cells):
        row: Row = {"window": shown.period, "answer": answer}
        for group in groups:
            found = cells[answer, group].row
            row[group] = found["value"]
            row[f"{group} low"], row[f"{group} high"] = found["low"], found["high"]
        made.append(row)
    return made


def _cell(found: Estimate | None, group: str | None, *, is_fine: bool) -> Html:
    if found is None:
        parts: Sequence[Html | str] = ()
    elif found.shown.ends is None:
        short = "too few" if found.shown.value.startswith(TOO_FEW) else found.shown.value
        parts = [tag("span", short, class_="soft", title=found.shown.value)]
    else:
        value, low, high = _in_short(found, is_fine=is_fine)
        span = tag("small", f"{low} to {high}", class_="soft") if found.shown.span else ""
        parts = [value, span]
    return tag("td", *parts, role="cell", data_name=group)


def _in_short(found: Estimate, *, is_fine: bool) -> tuple[str, str, str]:
    """Return a figure and its interval: shares in whole per cent if that is fine enough."""
    mark = found.mark
    if found.unit != _PERCENT or mark.value is None or is_fine:
        value, low, high = said(mark.value, mark.low, mark.high)
    else:
        value, low, high = f"{mark.value:.0f}", f"{floor(mark.low)}", f"{ceil(mark.high)}"
    return f"{value} %" if found.unit == _PERCENT else value, low, high


def _answer(shows: str, label: str) -> str:
    return " ".join(filter(None, (shows, label))) if shows == "mean" else label
