"""`prio plan figures`: the papers' figures, with published and sound curves drawn apart.

Sound curves are solid, published ones dashed, and every curve of a panel has its own marker, so
that black and white prints are readable. Where two sound rules are compared, the rival's curve is
dash-dotted, which shows the curve below it. Legends stand below the axes, so they cover nothing.
matplotlib, of the extra `plots`, is imported only when a figure is drawn.

Without matplotlib, drawing raises `ConfigurationError`.
"""

import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from aggregator.collector.results.whole_files import written_whole
from aggregator.errors import ConfigurationError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARKERS = "osD^vP*X"
_COLOURS = ("#000000", "#3b5b92", "#8a4f1d", "#4d7c3a", "#7a3b7a", "#555555")
_MARKERS_A_CURVE = 9
_CURVES_A_COLUMN = 2
_PANEL_INCHES = (5.4, 5.0)
_LONE_PANEL_INCHES = (7.4, 5.6)
_NOTE_CHARACTERS_AN_INCH = 15


@dataclass(frozen=True, slots=True)
class Curve:
    """One line of a panel; None in `y` leaves a gap.

    A published figure, not a guarantee, is dashed, and a rival, which may lie on another curve,
    dash-dotted. The colour is the curve's place in its panel unless given.
    """

    label: str
    x: tuple[float, ...]
    y: tuple[float | None, ...]
    published: bool = False
    colour: int | None = None
    is_rival: bool = False

    @classmethod
    def of(
        cls,
        label: str,
        x: Iterable[float],
        function: Callable[[float], float | Decimal | None],
        *,
        published: bool = False,
    ) -> "Curve":
        """Evaluate `function` at every `x`."""
        points = tuple(x)
        values = (function(point) for point in points)
        return cls(label, points, tuple(None if y is None else float(y) for y in values), published)


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes."""

    title: str
    x_label: str
    y_label: str
    curves: tuple[Curve, ...]
    x_log: bool = False
    y_log: bool = False
    y_limits: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Picture:
    """One figure: a file name, a title, panels side by side and a line below."""

    name: str
    title: str
    panels: tuple[Panel, ...]
    note: str = ""


def draw(picture: Picture, directory: Path) -> list[Path]:
    """Draw one picture as SVG and PNG into a directory, made if it is not there."""
    figure = drawn(picture)
    import matplotlib as mpl

    directory.mkdir(parents=True, exist_ok=True)
    paths = []
    # With a fixed salt and no date, equal numbers make equal files.
    with mpl.rc_context({"svg.hashsalt": "prio"}):
        for kind in ("svg", "png"):
            path = directory / f"{picture.name}.{kind}"
            metadata = {"Date": None} if kind == "svg" else {"Software": None}
            with written_whole(path) as file:
                figure.savefig(file, format=kind, dpi=150, metadata=metadata)
            paths.append(path)
    return paths


def drawn(picture: Picture) -> "Figure":
    """Return one picture as a matplotlib figure."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ConfigurationError(
            "figures need matplotlib: install prio-aggregator[plots]"
        ) from error
    with mpl.rc_context(
        {
            "font.size": 10,
            "axes.grid": True,
            "grid.color": "#dddddd",
            "axes.spines.top": False,
            "axes.spines.right": False,
            "legend.fontsize": 8,
        }
    ):
        count = len(picture.panels)
        width, height = _LONE_PANEL_INCHES if count == 1 else _PANEL_INCHES
        figure = Figure(figsize=(width * count, height), layout="constrained")
        figure.suptitle(picture.title, fontsize=11)
        for index, panel in enumerate(picture.panels):
            _draw_panel(figure.add_subplot(1, count, index + 1), panel)
        if picture.note:
            lines = textwrap.wrap(picture.note, int(width * count * _NOTE_CHARACTERS_AN_INCH))
            figure.supxlabel("\n".join(lines), fontsize=8, color="#333333")
    return figure


def _draw_panel(axes: "Axes", panel: Panel) -> None:
    count = len(panel.curves)
    for index, curve in enumerate(panel.curves):
        known = [(x, y) for x, y in zip(curve.x, curve.y, strict=True) if y is not None]
        # Adjacent curves' first markers are apart, so that one does not hide the other.
        every = max(1, len(known) // _MARKERS_A_CURVE, count if len(known) >= 3 * count else 1)
        colour = _COLOURS[(index if curve.colour is None else curve.colour) % len(_COLOURS)]
        solid = "-." if curve.is_rival else "-"
        axes.plot(
            [x for x, _ in known],
            [y for _, y in known],
            label=curve.label,
            color=colour,
            linestyle=(index * 3.5, (5, 2)) if curve.published else solid,
            linewidth=1.4,
            marker=_MARKERS[index],
            markevery=(index * every // count, every),
            markersize=5,
            markerfacecolor="white" if curve.published else colour,
        )
    axes.set_title(panel.title, fontsize=10)
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    if panel.x_log:
        axes.set_xscale("log")
    if panel.y_log:
        axes.set_yscale("log")
    if panel.y_limits is not None:
        axes.set_ylim(*panel.y_limits)
    columns = 1 if count <= _CURVES_A_COLUMN else 2
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=columns, frameon=False)
