"""Tables of results as rows, files, HTML and charts."""

import csv
import sys
from fractions import Fraction
from pathlib import Path
from types import ModuleType

import polars as pl
import pytest

from aggregator.dp.laws import DiscreteLaplaceLaw
from aggregator.errors import ConfigurationError, ParameterError
from aggregator.results import Noised, Table, after_selection, joint_intervals, ratio

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


def test_a_chart_has_a_line_for_each_interval_and_a_dot_for_each_value() -> None:
    axes = TABLE.plot()
    lines = [line.get_xydata().tolist() for line in axes.get_lines()]  # type: ignore[union-attr]  # an array
    assert lines == [
        [[30.0, 0.0]],
        [[14.0, 0.0], [46.0, 0.0]],
        [[70.0, 1.0]],
        [[54.0, 1.0], [86.0, 1.0]],
    ]
    names = [text.get_text() for text in axes.get_yticklabels()]
    assert names == ["2026-W46 very <poor>", '2026-W47 good & "fine"']
    assert axes.get_xlabel() == "answers"
    assert Table(VALUES).plot(axes) is axes


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
