"""Charts as SVG: bars with whiskers, a line with a band, a sparkline, the law of noise.

A chart has a title and a description for people who cannot see it, takes its colours from the
page's style sheet, and runs no script. It is drawn for a wide window and for a narrow one. Lengths
are in SVG's user units.
"""

import dataclasses
import itertools
import math
import textwrap
from collections.abc import Sequence

from aggregator.service.web.pages.html import Html, join, tag

_ROW = 30
_TOP = 8
_AXIS = 34
_RIGHT = 24
_TICK, _UPRIGHT_TICK = 90, 45
"""The least distance between ticks with long labels, side by side and one above the other."""

_ARROW = 9
"""The height of an arrow that points at a bar from above."""

_LONGEST = 24
"""The most characters of a window's name or of a unit that a chart shows."""

_LABEL_LINES, _LINE = 2, 15
"""The most lines of a bar's name, and the height of one."""

STANDALONE_STYLE = """
text{font:13px system-ui,sans-serif;fill:#1b1f24}.bar,.dot{fill:#2f6db3}.band{fill:#2f6db3;
fill-opacity:.22}.line{stroke:#2f6db3;stroke-width:2;fill:none}.whisker{stroke:#1b1f24;
stroke-width:1.5}.grid{stroke:#c9d0d8}.wanted{stroke:#a51d1d;stroke-width:1.5;stroke-dasharray:6 4}
@media(prefers-color-scheme:dark){text{fill:#e8ebee}.whisker{stroke:#e8ebee}.grid{stroke:#454c55}.wanted{stroke:#ff9c94}
.bar{fill:#3f77b8}.dot,.band{fill:#7db3ee}.line{stroke:#7db3ee}}
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Mark:
    """One estimate with its interval.

    Attributes:
        label: What it is.
        value: The estimate; None where there is none.
        low: The interval's lower end; minus infinity if there is none.
        high: Its upper end; infinity if there is none.
    """

    label: str
    value: float | None
    low: float
    high: float


@dataclasses.dataclass(frozen=True, slots=True)
class Chart:
    """A chart in two widths, with text of the same size, and what it shows.

    Attributes:
        wide: For a page on a desk, and for a file.
        narrow: For a card, and for a page on a phone.
        title: The chart's title.
        unit: The unit at the axis.
        marks: The estimates, if it shows any.
        is_over_time: Whether their labels are windows.
    """

    wide: Html
    narrow: Html
    title: str = ""
    unit: str = ""
    marks: Sequence[Mark] = ()
    is_over_time: bool = False

    @property
    def fitting(self) -> Html:
        """Markup with both charts; the browser shows the one that fits its window."""
        both = (("wide", self.wide), ("narrow", self.narrow))
        return join(tag("div", chart, class_=name) for name, chart in both)


@dataclasses.dataclass(frozen=True, slots=True)
class _Room:
    """The room that a chart may fill.

    Attributes:
        width: The whole width.
        labels: The width at the left for the bars' names.
        longest: The most characters in a line of such a name, which has two at most; the table
            and the tool tip show all of it.
    """

    width: int
    labels: int
    longest: int

    @property
    def is_narrow(self) -> bool:
        """Whether two windows' names do not fit side by side."""
        return self.width < _WIDE.width


_WIDE, _NARROW = _Room(640, 190, 24), _Room(340, 122, 15)


def bars(marks: Sequence[Mark], title: str, unit: str = "", truths: Sequence[float] = ()) -> Chart:
    """Return a horizontal bar for each mark, with whiskers over its interval.

    Args:
        marks: From top to bottom.
        title: The chart's title.
        unit: The unit at the axis.
        truths: The true values, each shown by an arrow; empty if they are unknown.
    """
    wide, narrow = (_bars(marks, title, unit, room, truths) for room in (_WIDE, _NARROW))
    return Chart(wide, narrow, title, unit, marks)


def _bars(
    marks: Sequence[Mark], title: str, unit: str, room: _Room, truths: Sequence[float]
) -> Html:
    width = room.width
    labels = room.labels if any(mark.label for mark in marks) else _RIGHT
    known = [Mark("", truth, truth, truth) for truth in truths]
    scale = _Scale.over([*marks, *known], labels, width - _RIGHT, with_zero=True)
    bottom = _TOP + _ROW * len(marks)
    parts = [_grid(scale, bottom, unit, width)]
    for row, mark in enumerate(marks):
        top = _TOP + row * _ROW
        middle = top + _ROW / 2
        parts.append(_label(mark.label, labels - 8, middle, room.longest))
        if mark.value is not None:
            left, right = sorted((scale(0), scale(mark.value)))
            parts.append(
                tag(
                    "rect",
                    class_="bar",
                    x=_rounded(left),
                    y=top + 7,
                    width=_rounded(right - left),
                    height=_ROW - 14,
                )
            )
        if mark.low == mark.high:
            continue  # it is exact
        low, high = scale.clamped(mark.low), scale.clamped(mark.high)
        parts.append(_line("whisker", low, middle, high, middle))
        parts += [
            _line("whisker", end, middle - 5, end, middle + 5)
            for end, bound in ((low, mark.low), (high, mark.high))
            if math.isfinite(bound)
        ]
    for row, truth in enumerate(truths):
        x, y = scale(truth), _TOP + row * _ROW + _ARROW
        tip = [(x, y), (x - _ARROW / 2, y - _ARROW), (x + _ARROW / 2, y - _ARROW)]
        parts.append(tag("polygon", class_="truth", points=_points(tip)))
    described = _described(marks, unit, truths)
    return _svg(bottom + _AXIS, title, described, *parts, width=width)


def over_time(marks: Sequence[Mark], title: str, unit: str = "") -> Chart:
    """Return a line through successive estimates, with their intervals as a band."""
    wide, narrow = (_over_time(marks, title, unit, room) for room in (_WIDE, _NARROW))
    return Chart(wide, narrow, title, unit, marks, is_over_time=True)


def _over_time(marks: Sequence[Mark], title: str, unit: str, room: _Room) -> Html:
    height, left, width, top = 240, 70, room.width, 30
    scale = _Scale.over(marks, height, top, with_zero=_begins_at_zero(marks))
    above = _shortened(unit)
    if scale.low > 0:
        above = f"{above}; the axis begins at {_number(_rounded(scale.low))}"
    step = (width - _RIGHT - left) / max(1, len(marks) - 1)
    places = [_rounded(left + step * index) for index in range(len(marks))]
    parts = [
        join(
            (
                _line("grid", left, scale(tick), width - _RIGHT, scale(tick)),
                tag("text", _number(tick), x=left - 6, y=scale(tick) + 4, text_anchor="end"),
            )
        )
        for tick in scale.ticks
    ]
    parts.append(tag("text", above, x=left, y=top - 12, text_anchor="start") if above else Html())
    upper = [f"{x},{scale.clamped(mark.high)}" for x, mark in zip(places, marks, strict=True)]
    lower = [f"{x},{scale.clamped(mark.low)}" for x, mark in zip(places, marks, strict=True)]
    parts.append(tag("polygon", class_="band", points=" ".join([*upper, *reversed(lower)])))
    known = [
        (x, scale(mark.value))
        for x, mark in zip(places, marks, strict=True)
        if mark.value is not None
    ]
    parts.append(tag("polyline", class_="line", points=" ".join(f"{x},{y}" for x, y in known)))
    parts += [tag("circle", class_="dot", cx=x, cy=y, r=3.5) for x, y in known]
    ends = [(0, "start"), (len(marks) - 1, "end")] if len(marks) > 1 else [(0, "start")]
    if not room.is_narrow and len(marks) % 2 and len(marks) > 1:
        ends.insert(1, (len(marks) // 2, "middle"))
    names = [(index, at, _lines(marks[index].label, _LONGEST)) for index, at in ends if marks]
    rows = 0
    for index, at, lines in names:
        first = rows if room.is_narrow else 0  # one below the other where there is no room beside
        parts.append(
            _text(lines, marks[index].label, places[index], height + 20 + _LINE * first, at)
        )
        rows = max(rows, first + len(lines))
    return _svg(
        height + _AXIS + 8 + _LINE * max(0, rows - 2),
        title,
        _described(marks, unit),
        *parts,
        width=width,
    )


def _begins_at_zero(marks: Sequence[Mark]) -> bool:
    """Return whether an axis from zero still leaves half of its height to the differences."""
    lows = [mark.low for mark in marks if math.isfinite(mark.low)]
    highs = [mark.high for mark in marks if math.isfinite(mark.high)]
    return bool(lows and highs) and 0 <= min(lows) < max(highs) / 2


def sparkline(values: Sequence[float], title: str) -> Html:
    """Return a small line without axes."""
    low, high = min(values, default=0), max(values, default=0)
    step, middle = 116 / max(1, len(values) - 1), low / 2 + high / 2
    span = (high - low) or 1
    points = [
        f"{_rounded(2 + step * index)},{_rounded(14 - 24 * (value - middle) / span)}"
        for index, value in enumerate(values)
    ]
    return tag(
        "svg",
        tag("title", title),
        tag("polyline", class_="line", points=" ".join(points)),
        viewBox="0 0 120 28",
        class_="spark",
        role="img",
        aria_label=title,
    )


def trend(marks: Sequence[Mark], title: str, low: float, high: float) -> Html:
    """Return a small line with its intervals as a band, without axes.

    Args:
        marks: In order of time.
        title: What is shown, and where it begins and ends.
        low: The value at the bottom, the same in all charts that are read together.
        high: The value at the top.
    """
    scale = _Scale(low, high, 37, 3, ())
    step = 116 / max(1, len(marks) - 1)
    places = [_rounded(2 + step * index) for index in range(len(marks))]
    ends = [
        [(x, scale.clamped(end)) for x, end in zip(places, of, strict=True)]
        for of in ([mark.high for mark in marks], [mark.low for mark in marks])
    ]
    known = [
        (x, scale.clamped(mark.value))
        for x, mark in zip(places, marks, strict=True)
        if mark.value is not None
    ]
    return tag(
        "svg",
        tag("title", title),
        tag("polygon", class_="band", points=_points([*ends[0], *reversed(ends[1])])),
        tag("polyline", class_="line", points=_points(known)),
        viewBox="0 0 120 40",
        class_="trend",
        role="img",
        aria_label=title,
    )


def curve(
    points: Sequence[tuple[float, float]],
    inner: tuple[float, float],
    title: str,
    description: str,
) -> Chart:
    """Return the curve of a density, filled within an interval.

    Args:
        points: Pairs of value and density, in order of value.
        inner: The interval to fill.
        title: The chart's title.
        description: What the chart says, in words.
    """
    wide, narrow = (_curve(points, inner, title, description, room) for room in (_WIDE, _NARROW))
    return Chart(wide, narrow, title)


def _curve(
    points: Sequence[tuple[float, float]],
    inner: tuple[float, float],
    title: str,
    description: str,
    room: _Room,
) -> Html:
    height, width = 180, room.width
    ends = [Mark("", x, x, x) for x, _ in (points[0], points[-1])]
    scale = _Scale.over(ends, 20, width - _RIGHT, with_zero=False)
    peak = max(density for _, density in points)
    places = [(scale(x), _rounded(height - (height - _TOP) * y / peak)) for x, y in points]
    filled = [
        place for place, (x, _) in zip(places, points, strict=True) if inner[0] <= x <= inner[1]
    ]
    parts = [_grid(scale, height, "", width)]
    if filled:
        around = [(filled[0][0], height), *filled, (filled[-1][0], height)]
        parts.append(tag("polygon", class_="band", points=_points(around)))
    parts.append(tag("polyline", class_="line", points=_points(places)))
    return _svg(height + _AXIS, title, description, *parts, width=width)


def standalone(chart: Chart) -> bytes:
    """Return a chart as a file of its own, with its style."""
    start, end = chart.wide.split(">", 1)
    named = start.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
    return f"{named}><style>{STANDALONE_STYLE}</style>{end}".encode()


@dataclasses.dataclass(frozen=True, slots=True)
class _Scale:
    """Maps values to positions."""

    low: float
    high: float
    first: float
    last: float
    ticks: Sequence[float]

    @classmethod
    def over(cls, marks: Sequence[Mark], first: float, last: float, *, with_zero: bool) -> "_Scale":
        found = [
            number
            for mark in marks
            for number in (mark.value, mark.low, mark.high)
            if number is not None and math.isfinite(number)
        ]
        if with_zero or not found:
            found.append(0.0)
        low, high = min(found), max(found)
        if low == high:
            around = max(1.0, abs(low) / 2**20)  # a large number plus one is the same number
            low, high = low - around, high + around
        least = _TICK if last > first else _UPRIGHT_TICK
        step = _step(high - low, max(2, abs(last - first) / least))
        begin, end = math.ceil(low / step), math.floor(high / step)
        return cls(low, high, first, last, [step * index for index in range(begin, end + 1)])

    def __call__(self, value: float) -> float:
        part = (value - self.low) / (self.high - self.low)
        return _rounded(self.first + part * (self.last - self.first))

    def clamped(self, value: float) -> float:
        """Return the position of a value, or the edge if it lies beyond."""
        return self(min(max(value, self.low), self.high))


def _step(span: float, most: float) -> float:
    """Return a round step of which a span has at most `most`."""
    power = 10.0 ** math.floor(math.log10(span / most))
    return next(power * each for each in (1, 2, 5, 10, 20) if power * each * most >= span)


def _grid(scale: _Scale, bottom: float, unit: str, width: float) -> Html:
    lines = [_line("grid", scale(tick), _TOP, scale(tick), bottom) for tick in scale.ticks]
    names = [
        tag("text", _number(tick), x=scale(tick), y=bottom + 16, text_anchor="middle")
        for tick in scale.ticks
    ]
    name = tag("text", _shortened(unit), x=width - 2, y=bottom + 31, text_anchor="end")
    return join([*lines, *names, name if unit else None])


def _label(text: str, x: float, middle: float, longest: int) -> Html:
    """Return a bar's name before it."""
    lines = _lines(text, longest)
    return _text(lines, text, x, middle + 4 - _LINE * (len(lines) - 1) / 2, "end")


def _lines(text: str, longest: int) -> list[str]:
    """Return all of a name if two lines have room for that."""
    lines = textwrap.wrap(_shortened(text, _LABEL_LINES * longest), longest) or [""]
    if len(lines) > _LABEL_LINES:  # words that leave a line half empty
        lines = [
            *lines[: _LABEL_LINES - 1],
            _shortened(" ".join(lines[_LABEL_LINES - 1 :]), longest),
        ]
    return lines


def _text(lines: Sequence[str], whole: str, x: float, top: float, anchor: str) -> Html:
    said = (tag("tspan", line, x=x, y=top + _LINE * place) for place, line in enumerate(lines))
    return tag("text", tag("title", whole), *said, text_anchor=anchor)


def _line(kind: str, x1: float, y1: float, x2: float, y2: float) -> Html:
    return tag("line", class_=kind, x1=x1, y1=y1, x2=x2, y2=y2)


def _svg(height: float, title: str, description: str, *parts: Html, width: float) -> Html:
    return tag(
        "svg",
        tag("title", title),
        tag("desc", description),
        *parts,
        viewBox=f"0 0 {width:g} {height:g}",
        role="img",
        aria_label=title,
        class_="chart",
    )


def _described(marks: Sequence[Mark], unit: str, truths: Sequence[float] = ()) -> str:
    said = [
        f"{mark.label}: "
        + ("no estimate" if mark.value is None else f"{_number(mark.value)} {unit}".strip())
        + ("" if mark.low == mark.high else f", from {_number(mark.low)} to {_number(mark.high)}")
        + ("" if truth is None else f", in truth {_number(truth)}")
        for mark, truth in itertools.zip_longest(marks, truths)
    ]
    return "; ".join(said)


def _points(places: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x},{y}" for x, y in places)


def _shortened(text: str, longest: int = _LONGEST) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _number(value: float) -> str:
    return f"{value:,.6g}"


def _rounded(value: float) -> float:
    return round(value, 2)
