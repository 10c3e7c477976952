"""A chart as PNG: the elements of its SVG, drawn by matplotlib on a canvas of the same size."""

import importlib.util
import io
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping
from typing import Any

from aggregator.collector.results.tables import import_library
from aggregator.service.web.pages.charts import Chart

_DOTS = 2
"""Dots for each unit of SVG, so that prints are sharp."""

_INK, _GRID, _ACCENT = "#1b1f24", "#c9d0d8", "#2f6db3"
_STROKES: Mapping[str, Mapping[str, str | float]] = {
    "line": {"color": _ACCENT, "linewidth": 2},
    "whisker": {"color": _INK, "linewidth": 1.5},
    "grid": {"color": _GRID, "linewidth": 1},
}
_FILLS: Mapping[str, Mapping[str, str | float]] = {
    "bar": {"color": _ACCENT},
    "dot": {"color": _ACCENT},
    "band": {"color": _ACCENT, "alpha": 0.22, "linewidth": 0},
}
_TEXT = 13
_ANCHORS = {"start": "left", "middle": "center", "end": "right"}


def draws_png() -> bool:
    """Return whether the library that draws PNG is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def as_png(chart: Chart) -> bytes:
    """Return a chart as PNG, in light colours.

    Raises `ConfigurationError` if matplotlib is not installed.
    """
    # Not `pyplot`, which keeps figures for a program that shows windows.
    figure_module = import_library("PNG", "matplotlib.figure", extra="plots")
    patches = import_library("PNG", "matplotlib.patches", extra="plots")
    root = ET.fromstring(chart.wide)  # noqa: S314  our own
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    points = 72  # an inch, so that a unit of SVG is a point
    figure = figure_module.Figure(figsize=(width / points, height / points), facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)
    for element in root:
        draw = _DRAW.get(element.tag)
        if draw is not None:
            draw(axes, patches, element)
    file = io.BytesIO()
    with warnings.catch_warnings():
        # Letters that the font lacks are drawn as boxes.
        warnings.filterwarnings("ignore", "Glyph ")
        figure.savefig(file, format="png", dpi=points * _DOTS)
    return file.getvalue()


def _line(axes: Any, _patches: Any, element: ET.Element) -> None:  # noqa: ANN401  matplotlib's, imported where it is used
    (x1, y1, x2, y2) = (float(element.attrib[name]) for name in ("x1", "y1", "x2", "y2"))
    axes.plot((x1, x2), (y1, y2), solid_capstyle="butt", **_STROKES[element.attrib["class"]])


def _polyline(axes: Any, _patches: Any, element: ET.Element) -> None:  # noqa: ANN401  as above
    if places := _places(element):
        axes.plot(*zip(*places, strict=True), **_STROKES[element.attrib["class"]])


def _polygon(axes: Any, patches: Any, element: ET.Element) -> None:  # noqa: ANN401  as above
    if places := _places(element):
        axes.add_patch(patches.Polygon(places, **_FILLS[element.attrib["class"]]))


def _rect(axes: Any, patches: Any, element: ET.Element) -> None:  # noqa: ANN401  as above
    x, y, width, height = (float(element.attrib[name]) for name in ("x", "y", "width", "height"))
    axes.add_patch(patches.Rectangle((x, y), width, height, **_FILLS[element.attrib["class"]]))


def _circle(axes: Any, patches: Any, element: ET.Element) -> None:  # noqa: ANN401  as above
    x, y, radius = (float(element.attrib[name]) for name in ("cx", "cy", "r"))
    axes.add_patch(patches.Circle((x, y), radius, **_FILLS[element.attrib["class"]]))


def _text(axes: Any, _patches: Any, element: ET.Element) -> None:  # noqa: ANN401  as above
    # A label has its whole text as a title before what is shown.
    shown = "".join([element.text or "", *(child.tail or "" for child in element)])
    x, y = float(element.attrib["x"]), float(element.attrib["y"])
    anchor = _ANCHORS[element.attrib["text-anchor"]]
    # Labels come from others, so a dollar sign must not begin a formula.
    axes.text(x, y, shown, ha=anchor, color=_INK, fontsize=_TEXT, parse_math=False)


def _places(element: ET.Element) -> list[tuple[float, float]]:
    pairs = (each.split(",") for each in element.attrib["points"].split())
    return [(float(x), float(y)) for x, y in pairs]


_DRAW: Mapping[str, Callable[[Any, Any, ET.Element], None]] = {
    "line": _line,
    "polyline": _polyline,
    "polygon": _polygon,
    "rect": _rect,
    "circle": _circle,
    "text": _text,
}
