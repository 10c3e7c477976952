"""Markup and charts: whatever is put into them, they stay what they are."""

import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable

import pytest

from aggregator.collector.pages.files import as_png
from aggregator.service.web.pages import frame
from aggregator.service.web.pages.charts import (
    STANDALONE_STYLE,
    Chart,
    Mark,
    bars,
    curve,
    over_time,
    sparkline,
    standalone,
)
from aggregator.service.web.pages.html import escape, identifier, isolated, table, tag
from aggregator.steward.planner.lines import Axis, line
from tests.support.look import Page

HOSTILE = '"><script>alert(1)</script>&amp;\x00\ud800\u202e'
Draw = Callable[[list[Mark]], Chart]


def test_text_is_escaped_once_wherever_it_stands() -> None:
    made = tag("p", "a < b", tag("b", "&"), None, title='"x"', hidden=True, class_=None)
    assert made == '<p title="&quot;x&quot;" hidden>a &lt; b<b>&amp;</b></p>'
    assert escape(made) is made
    assert tag("input", aria_label="x", disabled=False) == '<input aria-label="x"/>'


def test_what_no_document_can_hold_is_replaced() -> None:
    shown = isolated(HOSTILE)
    assert shown.encode()
    assert "\ufffd\ufffd\u202e" in shown
    assert "<script" not in shown


def test_a_table_has_a_caption_and_headings_for_its_columns_and_rows() -> None:
    made = ET.fromstring(table("Counts", ("label", "value"), [("a", "1"), (HOSTILE, None)]))  # noqa: S314  our own
    assert made.findtext(".//caption") == "Counts"
    assert [each.get("scope") for each in made.iter("th")] == ["col", "col", "row", "row"]
    assert made.get("tabindex") == "0"  # keys can scroll it


@pytest.mark.parametrize(
    "draw",
    [
        lambda marks: bars(marks, HOSTILE, HOSTILE),
        lambda marks: over_time(marks, HOSTILE, HOSTILE),
    ],
    ids=["bars", "over time"],
)
@pytest.mark.parametrize(
    "marks",
    [
        [Mark(HOSTILE, 3.0, 1.0, 5.0), Mark("x" * 10_000, -2.5, -4.0, -1.0)],
        [Mark("unbounded", 1.0, -math.inf, math.inf), Mark("no estimate", None, 0.0, 1.0)],
        [Mark("zero", 0.0, 0.0, 0.0)],
        [Mark("large", 1e30, 1e30, 2e30), Mark("small", 1e-30, 0.0, 1e-30)],
        [],
    ],
    ids=["hostile", "unbounded", "zero", "far apart", "none"],
)
def test_a_chart_is_a_file_of_its_own_with_a_title_whatever_it_shows(
    draw: Draw, marks: list[Mark]
) -> None:
    chart = draw(marks)
    root = ET.fromstring(standalone(chart))  # noqa: S314  our own
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert root[1].text is not None  # after the style, what a screen reader says
    for element in [*root.iter(), *ET.fromstring(chart.narrow).iter()]:  # noqa: S314  our own
        for name, value in element.attrib.items():
            assert not {"nan", "inf"} & {
                part.strip("-") for part in value.replace(",", " ").split()
            }
            if name in ("x", "x1", "x2", "cx"):
                assert -1 <= float(value) <= 641
    assert len(standalone(chart)) < 100_000
    assert as_png(chart).startswith(b"\x89PNG")


def test_bars_begin_at_zero_and_whiskers_end_at_the_interval() -> None:
    marks = [Mark("a", 50.0, 40.0, 60.0), Mark("b", -50.0, -60.0, -40.0)]
    root = ET.fromstring(bars(marks, "t").wide)  # noqa: S314  our own
    first, second = (
        (float(each.attrib["x"]), float(each.attrib["width"])) for each in root.iter("rect")
    )
    assert second[0] + second[1] == first[0]  # both touch zero, on either side
    assert first[1] == second[1]
    whisker = next(each for each in root.iter("line") if each.get("class") == "whisker")
    low, high = float(whisker.attrib["x1"]), float(whisker.attrib["x2"])
    assert (low + high) / 2 == pytest.approx(first[0] + first[1], abs=0.02)


def test_the_filled_part_of_a_curve_is_the_interval() -> None:
    points = [(float(x), math.exp(-abs(x))) for x in range(-10, 11)]
    root = ET.fromstring(curve(points, (-3, 3), "law", "what it says").wide)  # noqa: S314  our own
    (filled,) = root.iter("polygon")
    assert len(filled.attrib["points"].split()) == 7 + 2
    assert root.findtext("desc") == "what it says"


@pytest.mark.parametrize("value", [0.0, 2.0**60, -1e17, 1e300])
def test_the_same_value_twice_is_a_line_however_large_it_is(value: float) -> None:
    chart = over_time([Mark("a", value, value, value)] * 2, "twice")
    (drawn,) = ET.fromstring(chart.wide).findall("polyline")  # noqa: S314  our own
    (_, first), (_, second) = (each.split(",") for each in drawn.attrib["points"].split())
    assert first == second


def test_a_sparkline_of_one_value_or_none_is_drawn() -> None:
    for values in ([], [1.0], [1.0, 1.0], [1.0, -2.0]):
        assert ET.fromstring(sparkline(values, "t")).get("aria-label") == "t"  # noqa: S314  our own


def test_a_line_has_its_point_and_its_level_within_the_axes() -> None:
    made = standalone(
        line(
            [(0.01, 90.0), (0.1, 9.0), (1.0, 0.9)],
            Axis(HOSTILE, 0.01, 1.0, is_log=True),
            Axis("%", 0, 90),
            HOSTILE,
            HOSTILE,
            wanted=(9.0, HOSTILE),
            chosen=(0.1, 9.0),
        )
    )
    root = ET.fromstring(made)  # noqa: S314  our own
    name = "{http://www.w3.org/2000/svg}"
    (level,) = (each for each in root.iter(f"{name}line") if each.get("class") == "wanted")
    (point,) = root.iter(f"{name}circle")
    assert point.get("cy") == level.get("y1")
    assert Axis("", 0.01, 1.0, is_log=True).part(0.1) == pytest.approx(0.5)
    assert Axis("", 0, 90).part(100) == 1.0
    assert Axis("", 0.01, 1.0, is_log=True).ticks == [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0]
    assert Axis("", 0, 90).ticks == [0, 20, 40, 60, 80]


def test_a_wide_table_can_be_cards_whose_cells_have_names_and_keep_their_roles() -> None:
    text = table("Counts", ("label", "from", "to"), [("a", "1", "2")], is_titled=True)
    made = ET.fromstring(text)  # noqa: S314  our own
    names = [(each.get("role"), each.get("data-name"), each.text) for each in made.iter("td")]
    assert names == [("cell", "from", "1"), ("cell", "to", "2")]
    roles = [each.get("role") for each in made.iter() if each.tag in ("table", "tr", "th")]
    assert roles == ["table", "row", *["columnheader"] * 3, "row", "rowheader"]
    caption = made.find(".//caption")
    assert caption is not None
    assert (caption.text, caption.get("class")) == ("Counts", "unseen")
    narrow = table("Counts", ("label", "value"), [("a", "1")])
    assert "data-name" not in narrow
    assert narrow.count("role=") == 1


def test_an_id_is_shortened_by_the_style_alone_so_that_it_can_be_copied_and_searched() -> None:
    name = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
    (shown,) = Page(identifier(name)).elements
    assert (shown.text, shown.attributes["title"], shown.attributes["class"]) == (name, name, "id")


@pytest.mark.parametrize(
    ("lows", "begins_at"),
    [((10.0, 90.0), None), ((400.0, 420.0), "390"), ((-5.0, 90.0), None), ((0.0, 0.0), None)],
)
def test_a_line_over_time_begins_at_zero_or_says_where_it_begins(
    lows: tuple[float, float], begins_at: str | None
) -> None:
    marks = [Mark(str(low), low, low - 10 * (low > 100), low + 10) for low in lows]
    chart = over_time(marks, "title", "visits in a week to a clinic")
    for drawn in (chart.wide, chart.narrow):
        said = re.findall(r"the axis begins at ([^<;]+)<", str(drawn))
        assert said == ([] if begins_at is None else [begins_at])


@pytest.mark.parametrize(
    "period",
    ["Made up: 2026-11-16 to 2026-11-22", "2026-11-28 10:00 to 2026-11-28 11:00 UTC"],
)
def test_a_line_over_time_says_whole_when_it_begins_and_ends(period: str) -> None:
    chart = over_time([Mark(period, value, 0, 9) for value in (3.0, 4.0, 5.0)], "title")
    for drawn, most in ((chart.wide, 3), (chart.narrow, 2)):
        root = ET.fromstring(drawn)  # noqa: S314  our own
        names = [[*each.iter("tspan")] for each in root.findall("text")]
        names = [each for each in names if each]
        assert [" ".join(str(line.text) for line in each) for each in names] == [period] * most
        heights = [float(line.attrib["y"]) for each in names for line in each]
        assert max(heights) < float(root.attrib["viewBox"].split()[3])
        if chart.narrow == drawn:
            assert len({*heights}) == len(heights)  # one below the other
        assert period in (root.findtext("desc") or "")


def test_numbers_stand_below_each_other_and_other_cells_at_the_left() -> None:
    rows = [("a", "1,234", "5", isolated("7")), ("b", "-0.5", "none", isolated("8"))]
    page = Page(table("counts", ("label", "value", "low", "text"), rows))
    sides = [each.attributes.get("class") for each in [*page.all("th"), *page.all("td")]]
    heads = [None, "number", "number", None]
    assert sides == [*heads, None, None, *heads[1:], *heads[1:]]
    mixed = Page(table("counts", ("label", "value"), [("a", "1"), ("b", "about 2"), ("c", "")]))
    assert not any("class" in each.attributes for each in [*mixed.all("th"), *mixed.all("td")])


def test_a_whisker_is_seen_on_its_bar_and_a_bar_on_its_page_in_both_schemes() -> None:
    text = bytes(frame.page("any").body).decode()
    light, dark = (dict(re.findall(r"--(\w+):#(\w+)", part)) for part in text.split("@media")[:2])
    dark = light | dark
    assert dark["page"] != light["page"]
    for scheme in (light, dark):
        assert contrast(scheme["ink"], scheme["bar"]) >= 3
        assert contrast(scheme["bar"], scheme["page"]) >= 3
        assert contrast(scheme["bar"], scheme["card"]) >= 3
        assert f".bar{{fill:#{scheme['bar']}}}" in STANDALONE_STYLE.replace(",.dot", "")


def contrast(one: str, other: str) -> float:
    """Return the ratio of contrast of two colours, 1 to 21, as accessibility guidelines say it."""
    dark, light = sorted(luminance(each) for each in (one, other))
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    whole = colour if len(colour) == 6 else "".join(2 * each for each in colour)
    red, green, blue = (int(whole[place : place + 2], 16) / 255 for place in (0, 2, 4))
    linear = [
        each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4
        for each in (red, green, blue)
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
