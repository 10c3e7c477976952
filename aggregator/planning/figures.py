"""`prio plan figures`: the papers' figures, with published and sound curves drawn apart.

Sound curves are solid, published ones dashed; every curve of a panel has its own marker, so that
black and white prints are readable. matplotlib, of the extra `plots`, is imported only when a
figure is drawn.
"""

import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from aggregator.errors import ConfigurationError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARKERS = "osD^vP*X"
_COLOURS = ("#000000", "#3b5b92", "#8a4f1d", "#4d7c3a", "#7a3b7a", "#555555")
_MARKERS_A_CURVE = 9
_PANEL_INCHES = (5.4, 4.1)
_LONE_PANEL_INCHES = (7.4, 4.8)
_NOTE_CHARACTERS_AN_INCH = 15


@dataclass(frozen=True, slots=True)
class Curve:
    """One line of a panel.

    Attributes:
        label: For the legend.
        x: The abscissas.
        y: As many ordinates; None leaves a gap.
        published: Drawn dashed, as a published figure and not a guarantee.
        look: Colour and marker; the curve's place in its panel unless given.
        is_side: Drawn dotted, as a companion of the solid curve of the same look.
    """

    label: str
    x: tuple[float, ...]
    y: tuple[float | None, ...]
    published: bool = False
    look: int | None = None
    is_side: bool = False

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


def draw_all(pictures: Mapping[str, Callable[[], Picture]], directory: Path) -> list[Path]:
    """Draw every picture as SVG and PNG into `directory`, which is created if necessary.

    Raises:
        ConfigurationError: matplotlib is not installed.
    """
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for make in pictures.values():
        written += draw(make(), directory)
    return written


def draw(picture: Picture, directory: Path) -> list[Path]:
    """Draw one picture as SVG and PNG; return the two files.

    Raises:
        ConfigurationError: matplotlib is not installed.
    """
    try:
        import matplotlib as mpl  # noqa: PLC0415 - an extra, and slow to import
        from matplotlib.figure import Figure  # noqa: PLC0415 - as above
    except ImportError as error:
        raise ConfigurationError(
            "figures need matplotlib: install prio-aggregator[plots]"
        ) from error
    paths = []
    with mpl.rc_context(
        {
            "font.size": 10,
            "axes.grid": True,
            "grid.color": "#dddddd",
            "axes.spines.top": False,
            "axes.spines.right": False,
            "legend.framealpha": 0.9,
            "legend.fontsize": 8,
            # With a fixed salt and no date, equal numbers make equal files.
            "svg.hashsalt": "prio",
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
        for kind in ("svg", "png"):
            path = directory / f"{picture.name}.{kind}"
            metadata = {"Date": None} if kind == "svg" else {"Software": None}
            figure.savefig(path, dpi=150, metadata=metadata)
            paths.append(path)
    return paths


def _draw_panel(axes: "Axes", panel: Panel) -> None:
    for index, curve in enumerate(panel.curves):
        known = [(x, y) for x, y in zip(curve.x, curve.y, strict=True) if y is not None]
        every = max(1, len(known) // _MARKERS_A_CURVE)
        look = index if curve.look is None else curve.look
        solid = ":" if curve.is_side else "-"
        axes.plot(
            [x for x, _ in known],
            [y for _, y in known],
            label=curve.label,
            color=_COLOURS[look % len(_COLOURS)],
            linestyle=(0, (5, 2)) if curve.published else solid,
            linewidth=1.4,
            marker=_MARKERS[look % len(_MARKERS)],
            # Markers of adjacent curves start apart, so that one does not hide the other.
            markevery=(index * every // max(1, len(panel.curves)), every),
            markersize=5,
            markerfacecolor="white" if curve.published else _COLOURS[look % len(_COLOURS)],
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
    axes.legend()
