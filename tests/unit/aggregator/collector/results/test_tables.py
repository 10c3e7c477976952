"""Tables of results as rows, files, HTML and charts."""

import csv
import sys
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import polars as pl
import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from aggregator.collector.results import Noised, Table, after_selection, joint_intervals, ratio
from aggregator.dp.laws import DiscreteLaplaceLaw
from aggregator.errors import ConfigurationError, ParameterError

LAW = DiscreteLaplaceLaw(2, Fraction(4))
VALUES = [
    Noised.released(30, LAW, "a", label="very <poor>", unit="answers"),
    Noised.released(70, LAW, "b", label='good & "fine"', unit="answers"),
]
TABLE = Table(VALUES, {"week": ["2026-W46", "2026-W47"]}, title="Care & <script>")
NO_BOUNDS = ratio(VALUES[0], Noised.exact(0), label="ratio")


def test_rows_hold_values_intervals_and_how_they_were_found() -> None:
    assert TABLE.rows[0] == {
        "week": "2026-W46",
        "label": "very <poor>",
        "value": 30.0,
        "low": 14.0,
        "high": 46.0,
        "unit": "answers",
        "confidence": 0.95,
        "jointly": 1,
        "method": "exact law",
    }


def test_a_table_shows_joint_intervals_or_those_it_is_given() -> None:
    joint = Table(VALUES, jointly=True)
    assert joint.rows[0]["high"] == float(joint_intervals(VALUES)[0].high)
    corrected = Table(VALUES, intervals=after_selection(VALUES, 50))
    assert corrected.rows[1]["jointly"] == 50
    assert "50 at once" in corrected._repr_html_()


def test_csv_is_read_back_as_it_was(tmp_path: Path) -> None:
    TABLE.to_csv(tmp_path / "care.csv")
    with (tmp_path / "care.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["label"] for row in rows] == ["very <poor>", 'good & "fine"']
    assert [(row["week"], float(row["low"])) for row in rows] == [
        ("2026-W46", 14.0),
        ("2026-W47", 54.0),
    ]


def test_html_escapes_every_text_and_holds_no_script() -> None:
    text = TABLE._repr_html_()
    assert "very &lt;poor&gt;" in text
    assert "good &amp; &quot;fine&quot;" in text
    assert "<script" not in text
    assert "<td" in text
    assert "95 % intervals, each by itself" in text


def test_what_has_no_estimate_and_no_bounds_is_shown_as_such() -> None:
    table = Table([NO_BOUNDS])
    assert (table.rows[0]["value"], table.rows[0]["high"]) == (None, float("inf"))
    assert "None" not in table._repr_html_()
    table.plot().figure.canvas.draw()


WEEKS = ("2026-10-26 to 2026-11-01", "2026-11-02 to 2026-11-08", "2026-11-16 to 2026-11-22")
TITLE = "Women in the labour market: what they earn, how long they work, and what they learnt there"


def of_weeks(weeks: tuple[str, ...], labels: tuple[str, ...]) -> Table:
    """Return a table as a survey's results give one."""
    rows = [(week, label) for week in weeks for label in labels]
    return Table(
        [
            Noised.released(100 * place + 50, LAW, row, label=row[1], unit="answers")
            for place, row in enumerate(rows)
        ],
        {
            "window": [week for week, _ in rows],
            "question": ["education"] * len(rows),
            "reports": list(range(len(rows))),
        },
        title=TITLE,
    )


def words(text: str) -> str:
    return " ".join(text.split())


def test_rows_of_one_window_stand_below_each_other_with_a_bar_and_a_dot_each() -> None:
    axes = of_weeks(WEEKS[:1], ("none", "costs $5 or $6")).plot()
    lines = [line.get_xydata().tolist() for line in axes.get_lines()]  # type: ignore[union-attr]  # an array
    assert lines == [
        [[34.0, 0.0], [66.0, 0.0]],
        [[50.0, 0.0]],
        [[134.0, 1.0], [166.0, 1.0]],
        [[150.0, 1.0]],
    ]
    names = [text.get_text() for text in axes.get_yticklabels()]
    assert names == ["none", r"costs \$5 or \$6"]
    assert axes.get_xlabel() == "answers"
    said = words(axes.get_title(loc="left"))
    assert said == f"{TITLE} {WEEKS[0]}, education 95 % intervals, each by itself"
    assert Table(VALUES).plot(axes) is axes


@pytest.mark.parametrize("labels", [("",), ("none", "some"), tuple("abcdefghijklmnopqrstuvwxyz")])
def test_weeks_are_lines_over_time_and_a_week_that_is_missing_leaves_its_room(
    labels: tuple[str, ...],
) -> None:
    axes = of_weeks(WEEKS, labels).plot()
    lines = axes.get_lines()
    assert len(lines) == len(labels)
    for line in lines:
        first, second, third = line.get_xdata()
        assert (second - first, third - second) == pytest.approx((7, 14))
    assert [each.get_text() for each in axes.get_xticklabels()] == [
        week.split()[0] for week in WEEKS
    ]
    legend = axes.get_legend()
    named = [] if legend is None else [each.get_text() for each in legend.get_texts()]
    assert named == (list(labels) if len(labels) > 1 else [])
    assert len(axes.collections) == len(labels)  # the intervals


@pytest.mark.parametrize(
    ("weeks", "labels"),
    [
        (WEEKS[:1], ("none",)),
        (WEEKS[:1], ("a long answer that people give in more words than fit into one line",) * 2),
        (WEEKS, ("none", "a long answer that people give in many words " * 5)),
    ],
)
def test_nothing_of_a_chart_is_cut_off(weeks: tuple[str, ...], labels: tuple[str, ...]) -> None:
    axes = of_weeks(weeks, labels).plot()
    figure = axes.figure
    assert isinstance(figure, Figure)
    figure.canvas.draw()
    drawn = figure.get_tightbbox().padded(-0.05)  # inches
    width, height = figure.get_size_inches()
    assert 0 <= drawn.x0 < drawn.x1 <= width
    assert 0 <= drawn.y0 < drawn.y1 <= height


HOURS = tuple(f"2026-11-02 {hour:02}:00 to 2026-11-02 {hour + 1:02}:00 UTC" for hour in range(20))


@pytest.mark.parametrize("mark", ["", "Made up: "])
@pytest.mark.parametrize("windows", [WEEKS, HOURS])
@pytest.mark.parametrize("groups", [1, 2, 3])
def test_what_stands_below_lines_over_time_does_not_overlap(
    mark: str, windows: tuple[str, ...], groups: int
) -> None:
    made = of_weeks(tuple(mark + each for each in windows), ("none", "some", "all") * groups)
    names = [f"ward {place // 3}" for _ in windows for place in range(3 * groups)]
    columns = {"window": [row["window"] for row in made.rows], "group": names}
    axes = Table(made.quantities, columns, title=mark + TITLE).plot()
    figure = axes.figure
    assert isinstance(figure, Figure)
    figure.canvas.draw()
    below = 0
    for each in figure.axes:
        shown = [text for text in each.get_xticklabels() if text.get_visible() and text.get_text()]
        below += bool(shown)
        boxes = [text.get_window_extent() for text in shown]
        for left, right in pairwise(sorted(boxes, key=lambda box: box.x0)):
            assert left.x1 <= right.x0, (left, right)
    assert below == min(groups, 2)
    drawn = [each.get_window_extent() for each in figure.axes]
    assert all(each.height > 100 and each.width > 100 for each in drawn)
    plt.close(figure)


def test_windows_without_dates_keep_their_order_and_two_rows_of_a_name_are_no_line() -> None:
    axes = of_weeks(("first", "second"), ("none",)).plot()
    (line,) = axes.get_lines()
    assert list(line.get_xdata()) == [0, 1]
    twice = of_weeks(WEEKS, ("none", "none")).plot()
    assert len(twice.get_yticklabels()) == 2 * len(WEEKS)


class Frame:
    """What both libraries make of a dictionary of columns, as far as it is used."""

    def __init__(self, columns: dict[str, list[object]]) -> None:
        self.columns = columns


def install(monkeypatch: pytest.MonkeyPatch, *installed: str) -> None:
    for name in ("pandas", "polars", "pyarrow"):
        module = ModuleType(name)
        vars(module)["DataFrame"] = Frame
        monkeypatch.setitem(sys.modules, name, module if name in installed else None)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_frame_is_made_of_the_columns_by_whichever_library_there_is(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, library)
    frame = TABLE.frame()
    assert isinstance(frame, Frame)
    assert frame.columns["week"] == ["2026-W46", "2026-W47"]
    assert frame.columns["value"] == [30.0, 70.0]


def test_parquet_comes_back_as_it_was_written(tmp_path: Path) -> None:
    TABLE.to_parquet(tmp_path / "care.parquet")
    assert pl.read_parquet(tmp_path / "care.parquet").to_dicts() == [*TABLE.rows]


def test_what_is_not_installed_is_named_with_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch)
    with pytest.raises(ConfigurationError, match=r"pandas or polars: .*\[frames\]"):
        TABLE.frame()
    with pytest.raises(ConfigurationError, match=r"polars or pyarrow: .*\[frames\]"):
        TABLE.to_parquet(tmp_path / "care.parquet")
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ConfigurationError, match=r"matplotlib: .*\[plots\]"):
        TABLE.plot()


def test_columns_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ParameterError, match="'week' has 1 cells, not 2"):
        Table(VALUES, {"week": ["2026-W46"]})
    with pytest.raises(ParameterError, match="'value' is a column of every table"):
        Table(VALUES, {"value": [1, 2]})
    with pytest.raises(ParameterError, match="intervals: there are 1, not 2"):
        Table(VALUES, intervals=joint_intervals(VALUES[:1]))
