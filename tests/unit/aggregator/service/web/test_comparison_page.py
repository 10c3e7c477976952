"""The page of a demo: what was released beside the truth, as a file of its own."""

import math
import re

import pytest

from aggregator.cli.local.demo_page import Answered, Beside, comparison_page
from aggregator.collector.pages.numbers import beside
from aggregator.service.web.pages.charts import Mark
from tests.support.look import Page
from tests.support.truth import ANSWERED, SERVICES, shown

HOSTILE = '"><script>alert(1)</script>'


def test_each_figure_is_beside_its_true_value_and_says_if_the_interval_holds_it() -> None:
    page = Page(shown())
    rows = [each.text for each in page.all("tr")]
    assert "count Surgery80.090.080.599.5no: 1 in 20 may miss" in rows
    assert any(
        each.startswith("count Emergency400.0403.0") and each.endswith("yes") for each in rows
    )
    assert any(each.text == "3 of 4 intervals hold the truth" for each in page.all("p"))
    assert any(each.text == "Epsilon 1/4 for each result" for each in page.all("strong"))
    assert "at least one of the two aggregators" in [each.text for each in page.all("dd")]


def test_every_arrow_points_at_the_truth_on_the_scale_of_its_bar() -> None:
    answered = Answered("Which?", "", [_figure(100, 50), _figure(200, 300)], "", ())
    chart = comparison_page("Title", "", [answered], (), "").split("<svg")[1]
    bars = [float(each) for each in re.findall(r'class="bar"[^/]* width="([0-9.]+)"', chart)]
    start = float(re.findall(r'class="bar" x="([0-9.]+)"', chart)[0])
    tips = [float(each) for each in re.findall(r'class="truth" points="([0-9.]+),', chart)]
    assert [tip - start for tip in tips] == pytest.approx([bars[0] / 2, bars[1] * 1.5], abs=0.02)
    assert "in truth 50" in chart


def test_it_is_one_file_that_runs_no_script_and_asks_no_host() -> None:
    text = shown()
    page = Page(text)
    assert not page.all("script")
    assert {each.attributes["href"] for each in page.all("link")} == {"data:,"}
    assert not any("src" in each.attributes for each in page.elements)
    policy = next(each.attributes for each in page.all("meta") if "http-equiv" in each.attributes)
    assert policy["http-equiv"] == "Content-Security-Policy"
    assert "default-src 'none'" in policy["content"]
    assert "unsafe" not in policy["content"]
    assert text.index("Content-Security-Policy") < text.index("<style")
    named = [each.attributes["href"] for each in page.all("a")][1:]  # after that to the content
    pages = [path for each in ANSWERED for path, _ in each.pages]
    assert named == [*(path for path, _ in SERVICES), *pages]


def test_without_services_it_leads_nowhere() -> None:
    alone = [Answered(each.title, "", each.figures, "", ()) for each in ANSWERED]
    page = Page(comparison_page("Title", "", alone, (), "what links need"))
    assert [each.attributes["href"] for each in page.all("a")] == ["#content"]
    assert "what links need" not in page.elements[0].text


def test_what_others_wrote_is_text_and_what_has_no_width_is_in_no_chart_from_near() -> None:
    exact = Beside("count", HOSTILE, Mark(HOSTILE, 5, 5, 5), 5, is_held=True)
    endless = Beside("mean", "", Mark("m", None, -math.inf, math.inf), 1, is_held=True)
    answered = Answered(HOSTILE, HOSTILE, [exact, endless], HOSTILE, [(HOSTILE, HOSTILE)])
    page = Page(comparison_page(HOSTILE, HOSTILE, [answered], (), ""))
    assert not page.all("script")
    rows = [each.text for each in page.all("tr")]
    assert "mean m1noneunboundedunboundedyes" in rows
    assert "yes" in rows[1]
    near = page.all("svg")[-1]
    assert near.text.count("half widths") == 1
    assert HOSTILE not in near.text.removeprefix(f"{HOSTILE}: where in its interval the truth lies")


@pytest.mark.parametrize(
    ("mark", "truth", "said"),
    [
        (Mark("", 55.38, 55.1, 55.66), 55.3958, "55.40"),  # as many digits as 55.38
        (Mark("", 3275.0, 3267.0, 3283.0), 3271.0, "3,271"),
        (Mark("", 55.38, 55.1, 55.396), 55.3958, "55.3958"),  # 55.40 would seem to be missed
        (Mark("", 55.38, 55.1, 55.66), 55.661, "55.661"),  # 55.66 would seem to be held
        (Mark("", 5.0, 5.0, 5.0), 5.25, "5.25"),
    ],
)
def test_the_truth_is_rounded_as_its_figure_but_never_across_an_end_of_the_interval(
    mark: Mark, truth: float, said: str
) -> None:
    assert beside(mark, truth) == said


def _figure(value: float, truth: float) -> Beside:
    return Beside("count", "", Mark(str(value), value, value, value), truth, is_held=False)
