"""The overview: a card for each question with its latest result."""

from collections.abc import Sequence

from aggregator.collector.pages.readings import Asked, Reading, Readings, Row
from aggregator.collector.pages.view import View, bar_charts, budget, counted
from aggregator.storage.collector import count_collections
from aggregator.storage.database import Transaction
from aggregator.storage.states import CollectionState
from aggregator.web.pages.charts import sparkline
from aggregator.web.pages.html import Html, isolated, tag
from aggregator.web.pages.numbers import said

_WINDOWS = 24
"""In a sparkline."""

_BARS = 6
"""On a card."""


def overview(tx: Transaction, readings: Readings) -> View:
    """Return the overview of all questions of a collector."""
    questions = readings.asked(tx)
    by_survey: dict[str, list[Html]] = {}
    documents: list[dict[str, object]] = []
    shown: list[tuple[Row, Reading]] = []
    for asked in questions:
        made = count_collections(tx, asked.task.task_id.value, CollectionState.FINISHED)
        results = readings.latest(tx, asked, _WINDOWS)
        by_survey.setdefault(asked.survey, []).append(_card(asked, results, made))
        latest = results[-1] if results else None
        head: Row = {
            "question": asked.title,
            "survey": asked.survey,
            "task_id": str(asked.task.task_id),
        }
        documents.append(
            {
                **head,
                "address": asked.path,
                "results": made,
                "most_results": asked.most_releases,
            }
        )
        shown += [] if latest is None else [(head, latest)]
    content = [
        part
        for title, cards in by_survey.items()
        for part in (
            tag("h2", isolated(title or "Tasks of no survey")),
            tag("ul", *cards, class_="cards"),
        )
    ]
    if not content:
        add = tag("code", "prio task add")
        content = [tag("p", "There is no task yet: ", add, " gives this collector one.")]
    return View(
        "Overview",
        content,
        {"questions": documents},
        lambda: [head | row for head, latest in shown for row in latest.rows],
    )


def _card(asked: Asked, results: Sequence[Reading], made: int) -> Html:
    heading = tag("h3", tag("a", isolated(asked.title), href=asked.path))
    if not results:
        nothing = tag("p", "No result yet. ", tag("a", "Batches", href=f"{asked.path}/batches"))
        return tag("li", heading, nothing, budget(made, asked.most_releases), class_="card")
    latest = results[-1]
    shown = [each for each in latest.estimates if each.is_main] or list(latest.estimates)
    if len(shown) == 1:
        value, low, high = said(shown[0].mark)
        what = tag(
            "p",
            tag("span", f"{value} ", isolated(shown[0].unit), class_="big"),
            tag("br"),
            f"{shown[0].shows}, from {low} to {high} at 95 % confidence",
        )
    else:
        what = None
    charts = (each.narrow for each in bar_charts(shown[:_BARS], asked.title).values())
    more = len(shown) - _BARS
    return tag(
        "li",
        heading,
        tag("p", f"{latest.period}; {counted(latest.batch.report_count, 'report')}", class_="soft"),
        what,
        *charts,
        tag("p", f"and {more:,} more", class_="soft") if more > 0 else None,
        _trend(results),
        budget(made, asked.most_releases),
        class_="card",
    )


def _trend(results: Sequence[Reading]) -> Html | None:
    """Return the first figure over the last windows, if there is one."""
    if len(results) < 2 or not results[-1].main:  # noqa: PLR2004  a line needs two points
        return None
    first = results[-1].main[0]
    key = first.shows, first.quantity.label
    values = [
        float(figure.quantity.estimate)
        for each in results
        for figure in each.figures
        if (figure.shows, figure.quantity.label) == key and figure.quantity.estimate is not None
    ]
    shown = f"{first.shows} over {len(values)} results"
    label = first.quantity.label
    name = tag("span", f" {shown}", *(": ", isolated(label)) if label else (), class_="soft")
    return tag("p", sparkline(values, shown), name)
