"""The pictures in docs/pictures, made by the product itself; `python -m tests.support.pictures`."""

import re
from collections.abc import Mapping
from datetime import date
from fractions import Fraction
from pathlib import Path

from aggregator.papers.selection_plan import optimal_selection
from aggregator.service.web.pages.charts import Chart, Mark, bars, standalone
from aggregator.service.web.pages.html import Html
from aggregator.steward.planner.form import Draft
from aggregator.steward.planner.proposal import propose
from aggregator.steward.planner.rehearsal import rehearse
from aggregator.steward.planner.result_view import figures
from aggregator.steward.text.plan import TextPlan, zipf
from tests.support.entropy import SeededEntropy

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
_TODAY = date(2026, 11, 25)


def pictures() -> Mapping[str, bytes]:
    """Return each picture by the name of its file."""
    proposal = propose(Draft.of({}, _TODAY))
    page = figures(proposal, rehearse(proposal, SeededEntropy(b"pictures")), "/plan")
    charts = re.findall(r'<div class="wide">(<svg .*?</svg>)', page, re.DOTALL)
    names = ("planner-published.svg", "planner-error.svg", "planner-budget.svg")
    drawn = dict(zip(names, charts, strict=True)) | {"who-is-shown.svg": who_is_shown()}
    return {name: standalone(Chart(Html(chart), Html())) + b"\n" for name, chart in drawn.items()}


def who_is_shown() -> str:
    """Return from how many people on an answer is shown that nobody listed, by who may see what."""
    epsilon, delta, people = Fraction(1), Fraction(1, 10**5), 10**6
    half, surely = Fraction(1, 2), Fraction(99, 100)
    marks = []
    for label, draws in (("one curator", 1), ("two, half each", 2)):
        rule = optimal_selection(epsilon / draws, delta / draws, 1, "replacement")
        marks.append((label, rule.smallest_count(half), rule.smallest_count(surely)))
    for label, tasks, length in (
        ("nobody: 1.1 MB a report", 8, 65_536),
        ("nobody: 137 kB", 16, 8_192),
        ("nobody: 19 kB", 64, 1_024),
    ):
        plan = TextPlan(zipf(people, 50_000), float(epsilon), tasks, length)
        marks.append((label, round(half_shown(plan)), round(plan.found_from)))
    title = "People who have to hold an answer for it to be shown"
    return bars([Mark(name, high, low, high) for name, low, high in marks], title, "people").wide


def half_shown(plan: TextPlan) -> float:
    """Return how many people hold what is found half of the time."""
    low, high = plan.threshold / 2, plan.found_from
    while high / low > 1.005:
        middle = (low * high) ** 0.5
        is_seldom = plan._chance(middle, plan.found_from, plan.threshold) < 0.5
        low, high = (middle, high) if is_seldom else (low, middle)
    return high


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, content in pictures().items():
        (FOLDER / name).write_bytes(content)
