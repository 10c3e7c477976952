"""A table of values with intervals as a chart that can be published, drawn by matplotlib.

Rows of several windows are lines over time with a band or bars for the intervals; other rows stand
below each other, each a dot on the bar of its interval. Labels say what differs between rows; what
they have in common is said once, above.
"""

import math
import textwrap
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

from aggregator.protocol.task import MADE_UP

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Cell: TypeAlias = str | int | float | None
Row: TypeAlias = Mapping[str, Cell]
Size: TypeAlias = tuple[float, float]

TIME = "window"
"""The column that is drawn as time."""

_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#333333")
"""Distinct for colour-blind readers too. Source: Okabe and Ito, "Color Universal Design"."""

_STYLES = ("-", "--", ":")
"""Line styles, one for each round through the colours."""

_MOST_BANDS = 3
"""The most lines that have bands; with more, the bands could not be told apart."""

_MOST_TICKS = 8
_TICK_LETTERS = 70
"""The most letters below a line over time that have room side by side."""
_WIDTH = 7.2
_TITLE_LETTERS = 80
_LABEL_LETTERS, _LABEL_LINES = 30, 3
_MOST_ACROSS, _FEW_LETTERS, _SMALLER = 2, 40, 0.8
"""Small charts side by side, the letters of a line of their titles, and their height."""
_DODGE = 0.5
"""The part of the distance between two windows that the bars of all lines take."""


class Layout:
    """How rows are arranged: over time or below each other, and under which labels.

    Rows have `label`, `value`, `low`, `high`, `unit` and the cells of the columns `names`, which
    say what a row is.
    """

    def __init__(self, rows: Sequence[Row], names: Sequence[str]) -> None:
        # A number, such as how many reported, does not identify a row.
        texts = [
            name
            for name in (*names, "label")
            if all(isinstance(row[name], str | None) for row in rows)
        ]
        varied = {name for name in texts if len({row[name] for row in rows}) > 1}
        common = (str(rows[0][name] or "") for name in texts if name not in varied) if rows else ()
        self.rows = rows
        self.common = [text for text in common if text]
        self.series = self._by_series([name for name in texts if name in varied - {TIME}])
        self.is_over_time = TIME in varied and any(len(each) > 1 for each in self.series.values())
        if self.is_over_time and any(
            len({row[TIME] for row in each}) < len(each) for each in self.series.values()
        ):
            self.is_over_time = False  # a line cannot have two rows in one window
        self._labels = [name for name in texts if name in varied]

    @property
    def size(self) -> Size:
        """Width and height in inches."""
        if self.is_over_time:
            return _WIDTH, max(4.2, 1.2 + sum(0.1 + 0.17 * _lines(each) for each in self.series))
        return _WIDTH, 1.5 + sum(0.14 + 0.17 * _lines(each) for each in self.labels)

    @property
    def labels(self) -> list[str]:
        """A label for each row, of what differs from the other rows."""
        return [self._said(row, self._labels) for row in self.rows]

    def _by_series(self, names: Sequence[str]) -> dict[str, list[Row]]:
        found: dict[str, list[Row]] = {}
        for row in self.rows:
            found.setdefault(self._said(row, names), []).append(row)
        return found

    @staticmethod
    def _said(row: Row, names: Sequence[str]) -> str:
        whole = ", ".join(str(row[name]) for name in names if row[name])
        lines = textwrap.wrap(whole, _LABEL_LETTERS, max_lines=_LABEL_LINES, placeholder=" …")
        return "\n".join(lines)


def draw(
    axes: "Axes", layout: Layout, title: str, statement: str, most_letters: int | None = None
) -> None:
    """Draw rows into axes; the statement says what the intervals are."""
    unit = ", ".join(sorted({str(row["unit"]) for row in layout.rows if row["unit"]}))
    if layout.is_over_time:
        _draw_over_time(axes, layout.series)
        axes.set_ylabel(unit)
    else:
        _draw_below_each_other(axes, layout)
        axes.set_xlabel(unit)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y" if layout.is_over_time else "x", color="#dddddd", linewidth=0.8)
    axes.set_axisbelow(True)
    ends = [_number(row[name]) for row in layout.rows for name in ("low", "high", "value")]
    known = [each for each in ends if not math.isnan(each)]
    if known and 0 <= min(known) < max(known) / 2:
        begin_at_zero = axes.set_ylim if layout.is_over_time else axes.set_xlim
        begin_at_zero(0, None)
    said = [title, ", ".join(layout.common), statement]
    letters = most_letters or _TITLE_LETTERS
    if most_letters is None and not layout.is_over_time:  # the title begins where the labels end
        letters -= max(
            (len(line) for each in layout.labels for line in each.split("\n")), default=0
        )
    lines = [line for text in said for line in textwrap.wrap(_plain(text), letters)]
    axes.set_title("\n".join(lines), loc="left", fontsize=10)


def draw_multiples(
    pyplot: Any,  # noqa: ANN401 - a module
    rows: Sequence[Row],
    names: Sequence[str],
    title: str,
) -> "list[Axes]":
    """Draw rows in a small chart for each group, all with one scale, and return their axes.

    A group is what the column `group` says, and `by` if there is one.
    """
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((str(row.get("by") or ""), str(row.get("group") or "")), []).append(row)
    kept = [name for name in names if name not in ("by", "group")]
    layouts = [Layout(each, kept) for each in groups.values()]
    columns = min(_MOST_ACROSS, len(layouts))
    down = -(-len(layouts) // columns)
    width, height = layouts[0].size
    size = (
        width,
        (1.2 if layouts[0].is_over_time else 0.6)
        + down * (height - 0.4) * (_SMALLER if layouts[0].is_over_time else 1),
    )
    figure, made = pyplot.subplots(
        down,
        columns,
        figsize=size,
        layout="constrained",
        squeeze=False,
        sharex=True,
        sharey=layouts[0].is_over_time,
    )
    axes: list[Axes] = list(made.flat)
    for place, (name, layout) in enumerate(zip(groups, layouts, strict=True)):
        draw(axes[place], layout, ": ".join(filter(None, name)) or "all", "", _FEW_LETTERS)
        if place % columns and not layout.is_over_time:
            axes[place].tick_params(labelleft=False)
        if layout.is_over_time:
            axes[place].tick_params(axis="x", labelrotation=90)
            if legend := axes[place].get_legend():
                legend.remove()  # of all charts there is one
        axes[place].tick_params(labelbottom=place + columns >= len(layouts))
        if place + columns < len(layouts):
            axes[place].set_xlabel("")
    if layouts[0].is_over_time and len(layouts[0].series) > 1:
        lines = axes[0].get_lines()
        figure.legend(handles=lines, loc="outside lower left", frameon=False, ncols=2, fontsize=9)
    for unused in axes[len(layouts) :]:
        unused.remove()
    figure.suptitle("\n".join(textwrap.wrap(_plain(title), _TITLE_LETTERS)), fontsize=10)
    return axes[: len(layouts)]


def _draw_below_each_other(axes: "Axes", layout: Layout) -> None:
    colour = _COLOURS[0]
    for place, row in enumerate(layout.rows):
        low, high, value = _number(row["low"]), _number(row["high"]), _number(row["value"])
        if not math.isnan(high - low):
            axes.plot([low, high], [place, place], color=colour, linewidth=7, alpha=0.3)
        if not math.isnan(value):
            axes.plot([value], [place], "o", color=colour, markersize=5)
    axes.set_yticks(range(len(layout.rows)), [_plain(each) for each in layout.labels])
    axes.set_ylim(len(layout.rows) - 0.4, -0.6)


def _draw_over_time(axes: "Axes", series: Mapping[str, Sequence[Row]]) -> None:
    windows = sorted({str(row[TIME]) for rows in series.values() for row in rows})
    places = _places(windows)
    nearest = min(later - earlier for earlier, later in pairwise(sorted(places.values())))
    for number, (name, rows) in enumerate(series.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        style = _STYLES[number // len(_COLOURS) % len(_STYLES)]
        found = sorted(rows, key=lambda row: places[str(row[TIME])])
        at = [places[str(row[TIME])] for row in found]
        low = [_number(row["low"]) for row in found]
        high = [_number(row["high"]) for row in found]
        value = [_number(row["value"]) for row in found]
        if len(series) <= _MOST_BANDS:
            axes.fill_between(at, low, high, color=colour, alpha=0.18, linewidth=0)
        else:
            aside = _DODGE * nearest * ((number + 0.5) / len(series) - 0.5)
            at = [each + aside for each in at]
            axes.vlines(at, low, high, color=colour, linewidth=3, alpha=0.35)
        axes.plot(
            at, value, style, color=colour, marker="o", markersize=4, label=_plain(name) or None
        )
    step = -(-len(windows) // _MOST_TICKS)
    shown = windows[::step]
    axes.set_xticks([places[each] for each in shown], [_plain(_beginning(each)) for each in shown])
    if sum(len(_beginning(each)) for each in shown) > _TICK_LETTERS:
        axes.tick_params(axis="x", labelrotation=90)
    if any(_beginning(each) != each for each in shown):
        axes.set_xlabel(f"{TIME} that begins on")
    if len(series) > 1:
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize=9)


def _places(windows: Sequence[str]) -> dict[str, float]:
    """Return the place of each window: by its beginning or, if unknown, by its order."""
    try:
        began = [_beginning(each) for each in windows]
        days = [
            datetime.fromisoformat(each).replace(tzinfo=UTC).timestamp() / 86400 for each in began
        ]
    except ValueError:
        days = []
    if len(set(days)) < len(windows):
        days = list(map(float, range(len(windows))))
    return dict(zip(windows, days, strict=True))


def _beginning(window: str) -> str:
    """Return the beginning of a window that is named by its beginning and end.

    That it is made up is in the chart's title.
    """
    return window.removeprefix(MADE_UP).partition(" to ")[0]


def _number(cell: Cell) -> float:
    """Return a finite number; NaN, which is not drawn, for anything else."""
    if not isinstance(cell, int | float) or not math.isfinite(cell):
        return math.nan
    return float(cell)


def _plain(text: str) -> str:
    """Return text that matplotlib does not read as a formula."""
    return text.replace("$", r"\$")


def _lines(label: str) -> int:
    return label.count("\n") + 1
