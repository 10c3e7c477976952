"""The content of one address, for a page and for files."""

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from aggregator.service.web.pages.charts import Chart, Mark, bars
from aggregator.service.web.pages.html import Html, tag
from aggregator.written_times import counted

if TYPE_CHECKING:
    from aggregator.collector.pages.readings import Estimate, Row

MOST_BARS = 40
"""The most bars in a chart; the table beside it has all values."""

MOST_ROWS = 500
"""The most rows of a table on a page; downloads have all."""

_LONGEST_OPTION = 80


@dataclasses.dataclass(frozen=True, slots=True)
class View:
    """The content of one address.

    Programs get `document` and the rows, one for each figure; these are made only if asked for.
    Charts are by the names under which they can be downloaded.
    """

    title: str
    content: Sequence[Html | None]
    document: Mapping[str, object]
    rows: Callable[[], list["Row"]]
    charts: Mapping[str, Chart] = dataclasses.field(default_factory=dict)


def bar_charts(estimates: Sequence["Estimate"], title: str) -> dict[str, Chart]:
    """Return a chart for each kind of figure and unit, by a name that fits in an address."""
    groups: dict[tuple[str, str], list[Mark]] = {}
    for each in estimates:
        groups.setdefault((each.shows, each.unit), []).append(each.mark)
    charts: dict[str, Chart] = {}
    for (shows, unit), marks in groups.items():
        said = f"{shows} of each answer" if len(marks) > 1 else shows
        name = re.sub(r"[^a-z0-9]+", "-", shows.lower()).strip("-")
        name = f"{name}-{len(charts)}" if name in charts else name
        charts[name] = bars(marks[:MOST_BARS], f"{title}: {said}", unit or shows)
    return charts


def budget(made: int, most: int | None) -> Html:
    """Return how much of the allowed releases is left, as a bar and in words."""
    if most is None:
        said = f"{counted(made, 'result')}; nothing limits how many there may be."
        return tag("p", said, class_="soft")
    left = max(0, most - made)
    return tag(
        "p",
        tag("meter", f"{left} of {most}", min=0, max=most, value=left, aria_label="Budget left"),
        tag("span", f"{left:,} of {counted(most, 'result')} left in the budget", class_="soft"),
    )


def chosen_place(given: str | None, count: int) -> int:
    """Return the place that an address names, from 0; the first if that is not below `count`."""
    if given is None or re.fullmatch("[0-9]{1,9}", given) is None:
        return 0
    return int(given) if int(given) < count else 0


def chooser(
    name: str,
    label: str,
    options: Sequence[tuple[str, str]],
    chosen: str,
    *,
    button: str,
    kept: Mapping[str, str],
) -> Html | None:
    """Return a form that shows the page with another choice; None if there is nothing to choose.

    Options are values and their names, which may be text by other people. `kept` are the address's
    other parameters.
    """
    if len(options) < 2:  # noqa: PLR2004  a choice
        return None
    made = (
        tag("option", text[:_LONGEST_OPTION], value=value, selected=value == chosen)
        for value, text in options
    )
    return tag(
        "form",
        *(tag("input", type="hidden", name=key, value=value) for key, value in kept.items()),
        tag("label", label, for_=name),
        tag("select", *made, name=name, id=name),
        tag("button", button),
        method="get",
        class_="row",
    )


def unbroken(period: str) -> Html:
    """Return a period in which no date is broken across lines."""
    words = (tag("span", word, class_="word") for word in period.split())
    return Html(" ".join(words))
