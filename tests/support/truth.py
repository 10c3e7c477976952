"""A page of results beside the truth, of numbers that are always the same."""

from aggregator.cli.local.demo_page import Answered, Beside, comparison_page
from aggregator.service.web.pages.charts import Mark
from tests.support.collector_world import LONG, SCRIPT, TURNED

SERVICES = [
    ("http://127.0.0.1:8003/", "The collector"),
    ("http://127.0.0.1:9001/", "The leader"),
    ("http://127.0.0.1:9002/", "The helper"),
]
_CONDITIONS = (
    ("What is promised, and to whom", "(1/4, 0)-differential privacy for each release."),
    ("Who must be honest", "at least one of the two aggregators"),
)


def _beside(shows: str, unit: str, label: str, mark: tuple[float, float, float]) -> Beside:
    """Return a figure of 400 or 80 in truth, or of their shares in 500 people."""
    truth = 400.0 if label == "Emergency" else 80.0
    truth = truth if shows == "count" else truth / 5
    value, low, high = mark
    return Beside(shows, unit, Mark(label, value, low, high), truth, is_held=low <= truth <= high)


ANSWERED = [
    Answered(
        "Where were you treated?",
        "The leader verified 500 reports, the helper 500; each added its own noise.",
        [
            _beside("count", "", "Emergency", (403.0, 393.5, 412.5)),
            _beside("count", "", "Surgery", (90.0, 80.5, 99.5)),
            _beside("share", "%", "Emergency", (80.6, 78.7, 82.5)),
            _beside("share", "%", SCRIPT + TURNED + LONG, (16.4, 14.5, 18.3)),
        ],
        "Epsilon 1/4 for each result",
        _CONDITIONS,
        [("http://127.0.0.1:8003/questions/x", "the result")],
    )
]


def shown() -> str:
    """Return the page."""
    return comparison_page(
        "What was released, beside the truth",
        "Made-up answers.",
        ANSWERED,
        SERVICES,
        "Links lead to the services, which run as long as the demo does.",
    )
