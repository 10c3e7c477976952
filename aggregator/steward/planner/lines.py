"""A chart of one quantity against another: a line, a wanted level, and a marked point."""

import dataclasses
import math
from collections.abc import Sequence

from aggregator.service.web.pages.charts import Chart
from aggregator.service.web.pages.html import Html, join, tag

_WIDE, _NARROW = 640, 340
_LEFT = 64
_RIGHT = 24
_TOP = 30
_HEIGHT = 230
_UNDER = 44
_TICKS = 5
_BESIDE = 36
"""The least distance between adjacent ticks."""


@dataclasses.dataclass(frozen=True, slots=True)
class Axis:
    """One axis, from `low` to `high` above it; the name has the unit."""

    name: str
    low: float
    high: float
    is_log: bool = False

    def part(self, value: float) -> float:
        """Return a value's position along the axis, 0 to 1."""
        low, high, at = (
            (math.log(each) if self.is_log else each) for each in (self.low, self.high, value)
        )
        return min(1.0, max(0.0, (at - low) / (high - low)))

    @property
    def ticks(self) -> list[float]:
        """Round values along the axis."""
        if self.is_log:
            first, last = (math.floor(math.log10(each)) for each in (self.low, self.high))
            found = [each * 10.0**power for power in range(first, last + 1) for each in (1, 2, 5)]
            return [each for each in found if self.low <= each <= self.high]
        span = self.high - self.low
        power = 10.0 ** math.floor(math.log10(span / _TICKS))
        step = next(power * each for each in (1, 2, 5, 10, 20) if power * each * _TICKS >= span)
        first = math.ceil(self.low / step)
        return [step * index for index in range(first, math.floor(self.high / step) + 1)]


def line(
    points: Sequence[tuple[float, float]],
    across: Axis,
    up: Axis,
    title: str,
    description: str,
    *,
    wanted: tuple[float, str] | None = None,
    chosen: tuple[float, float] | None = None,
) -> Chart:
    """Return a chart of a line through points, from left to right and within the axes.

    `wanted` is a level to draw across, with its name; `chosen` a point to mark.
    """

    def draw(width: int) -> Html:
        return _line(points, across, up, title, description, width, wanted, chosen)

    return Chart(draw(_WIDE), draw(_NARROW))


def _line(
    points: Sequence[tuple[float, float]],
    across: Axis,
    up: Axis,
    title: str,
    description: str,
    width: int,
    wanted: tuple[float, str] | None,
    chosen: tuple[float, float] | None,
) -> Html:
    right, bottom = width - _RIGHT, _TOP + _HEIGHT

    def place(x: float, y: float) -> tuple[float, float]:
        return (
            round(_LEFT + across.part(x) * (right - _LEFT), 2),
            round(bottom - up.part(y) * _HEIGHT, 2),
        )

    parts = []
    for tick in up.ticks:
        _, y = place(across.low, tick)
        parts += [
            tag("line", class_="grid", x1=_LEFT, y1=y, x2=right, y2=y),
            tag("text", f"{tick:,.6g}", x=_LEFT - 6, y=y + 4, text_anchor="end"),
        ]
    last = -math.inf
    for tick in across.ticks:
        x, _ = place(tick, up.low)
        if x - last < _BESIDE:
            continue
        last = x
        parts += [
            tag("line", class_="grid", x1=x, y1=_TOP, x2=x, y2=bottom),
            tag("text", f"{tick:,.6g}", x=x, y=bottom + 17, text_anchor="middle"),
        ]
    parts += [
        tag("text", across.name, x=right, y=bottom + 36, text_anchor="end"),
        tag("text", up.name, x=_LEFT, y=_TOP - 10),
    ]
    path = " ".join(f"{x},{y}" for x, y in (place(*each) for each in points))
    parts.append(tag("polyline", class_="line", points=path))
    if wanted is not None:
        _, y = place(across.low, wanted[0])
        parts += [
            tag("line", class_="wanted", x1=_LEFT, y1=y, x2=right, y2=y),
            tag("text", wanted[1], x=right - 4, y=y - 6, text_anchor="end"),
        ]
    if chosen is not None:
        x, y = place(*chosen)
        parts.append(tag("circle", class_="dot", cx=x, cy=y, r=5))
    return tag(
        "svg",
        tag("title", title),
        tag("desc", description),
        join(parts),
        viewBox=f"0 0 {width} {bottom + _UNDER}",
        role="img",
        aria_label=title,
        class_="chart",
    )
