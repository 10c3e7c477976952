"""The figures: all are drawn, twice alike, and published curves look different from sound ones."""

import re
from functools import cache
from pathlib import Path

import pytest

from aggregator.papers import figures_risk, figures_selection
from aggregator.papers.figures import Curve, Panel, Picture, draw, drawn

PICTURES = {**figures_selection.PICTURES, **figures_risk.PICTURES}
SLOW = {"selection-4", "risk-9", "risk-10", "risk-11"}
"""Their distributions take seconds."""


@cache
def picture_of(name: str) -> Picture:
    return PICTURES[name]()


def test_every_figure_that_can_be_computed_is_there() -> None:
    assert set(PICTURES) == {
        "thesis-3.4",
        *(f"selection-{i}" for i in (1, 2, 3, 4)),
        *(f"risk-{i}" for i in (1, 2, 4, 5, 6, 8, 9, 10, 11)),
    }


@pytest.mark.slow
def test_all_figures_are_drawn_as_svg_and_png(tmp_path: Path) -> None:
    written = [path for name in PICTURES for path in draw(picture_of(name), tmp_path)]
    assert {path.name for path in written} == {
        f"{name}.{kind}" for name in PICTURES for kind in ("svg", "png")
    }
    assert all(path.stat().st_size > 10_000 for path in written)


@pytest.mark.slow
def test_the_same_picture_is_the_same_file(tmp_path: Path) -> None:
    picture = Picture(
        "two",
        "Two curves",
        (
            Panel(
                "left",
                "x",
                "y",
                (
                    Curve.of("sound", range(1, 20), lambda x: x * x),
                    Curve.of("published", range(1, 20), lambda x: x, published=True),
                    Curve("gap", (1, 2, 3), (1.0, None, 2.0), is_rival=True),
                ),
                x_log=True,
                y_log=True,
                y_limits=(1, 400),
            ),
        ),
        "A note.",
    )
    first = [path.read_bytes() for path in draw(picture, tmp_path)]
    assert [path.read_bytes() for path in draw(picture, tmp_path)] == first


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name
        for name in sorted(PICTURES)
    ],
)
def test_a_figure_of_published_claims_also_shows_what_is_sound(name: str) -> None:
    picture = picture_of(name)
    assert picture.name == name
    curves = [curve for panel in picture.panels for curve in panel.curves]
    assert any(not curve.published for curve in curves)
    if name.startswith(("risk", "thesis")):
        assert any(curve.published for curve in curves)
        assert re.search(r"\bnot\b", picture.note.lower())
    assert all(panel.x_label and panel.y_label for panel in picture.panels)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PICTURES.keys() - SLOW))
def test_every_curve_of_a_panel_has_a_marker_of_its_own_and_no_legend_covers_data(
    name: str,
) -> None:
    figure = drawn(picture_of(name))
    figure.draw_without_rendering()
    for axes in figure.axes:
        markers = [line.get_marker() for line in axes.get_lines()]
        assert len(set(markers)) == len(markers)
        legend = axes.get_legend()
        assert legend is not None
        assert not legend.get_window_extent().overlaps(axes.get_window_extent())


@pytest.mark.parametrize("name", ["selection-2", "selection-3"])
def test_the_optimal_rule_needs_fewer_persons_than_laplace_at_every_point(name: str) -> None:
    for panel in picture_of(name).panels:
        curves = {curve.label: curve.y for curve in panel.curves}
        for chance in ("5 %", "50 %", "95 %"):
            pairs = zip(curves[f"optimal, {chance}"], curves[f"Laplace, {chance}"], strict=True)
            assert all(0 < (best or 0) < (rival or 0) for best, rival in pairs)
