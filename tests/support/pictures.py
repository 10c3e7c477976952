"""The pictures in docs/pictures, made by the product itself; `python -m tests.support.pictures`."""

import re
from collections.abc import Mapping
from datetime import date
from pathlib import Path

from aggregator.service.web.pages.charts import Chart, standalone
from aggregator.service.web.pages.html import Html
from aggregator.steward.planner.form import Draft
from aggregator.steward.planner.proposal import propose
from aggregator.steward.planner.rehearsal import rehearse
from aggregator.steward.planner.result_view import figures
from tests.support.entropy import SeededEntropy

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
_TODAY = date(2026, 11, 25)


def pictures() -> Mapping[str, bytes]:
    """Return each picture by the name of its file."""
    proposal = propose(Draft.of({}, _TODAY))
    page = figures(proposal, rehearse(proposal, SeededEntropy(b"pictures")), "/plan")
    charts = re.findall(r'<div class="wide">(<svg .*?</svg>)', page, re.DOTALL)
    names = ("planner-published.svg", "planner-error.svg", "planner-budget.svg")
    return {
        name: standalone(Chart(Html(chart), Html())) + b"\n"
        for name, chart in zip(names, charts, strict=True)
    }


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, content in pictures().items():
        (FOLDER / name).write_bytes(content)
