"""The overview: a card for each question with its latest result."""

from collections.abc import Sequence

from aggregator.collector.pages.changes import Changed
from aggregator.collector.pages.numbers import said
from aggregator.collector.pages.readings import Asked, Reading, Readings, Row
from aggregator.collector.pages.together import said as said_cost
from aggregator.collector.pages.together import together
from aggregator.collector.pages.view import View, bar_charts, budget, counted
from aggregator.collector.store import count_collections
from aggregator.service.storage.engine.database import Transaction
from aggregator.service.storage.engine.states import CollectionState
from aggregator.service.web.pages.charts import sparkline
from aggregator.service.web.pages.html import Html, escape, isolated, join, tag

_WINDOWS = 24
"""In a sparkline."""

_BARS = 6
"""On a card."""

_NAMED = 3
"""Of the labels that rose, of those that fell, and of the others."""


def overview(tx: Transaction, readings: Readings) -> View:
    """Return the overview of all questions of a collector."""
    questions = readings.asked(tx)
    # Of each task of a survey; those of none stand together.
    costs: dict[str, Html | None] = {}
    titles: dict[str, str] = {}
    cards: dict[str, list[Html]] = {}
    documents: list[dict[str, object]] = []
    shown: list[tuple[Row, Reading]] = []
    for asked in questions:
        made = count_collections(tx, asked.task.task_id.value, CollectionState.FINISHED)
        results = readings.latest(tx, asked, _WINDOWS)
        changed = readings.changed(results)
        group = "" if asked.meaning is None else asked.path
        titles[group] = asked.survey
        costs.setdefault(group, _cost(asked, made))
        cards.setdefault(group, []).append(_card(asked, results, made, changed))
        latest = results[-1] if results else None
        head: Row = {
            "question": asked.title,
            "survey": asked.survey,
            "task_id": str(asked.task.task_id),
        }
        documents.append(
            {
                **head,
                "address": asked.address(),
                "results": made,
                "most_results": asked.most_releases,
                "changed": None if changed is None else changed.document,
            }
        )
        shown += [] if latest is None else [(head, latest)]
    content = [
        part
        for group, those in cards.items()
        for part in (
            tag("h2", isolated(titles[group] or "Tasks of no survey")),
            costs[group],
            tag("ul", *those, class_="cards"),
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


def _cost(asked: Asked, made: int) -> Html | None:
    """Return what a survey costs a person; None for a task of none."""
    whole = together(asked, made)
    each = None if whole is None else said_cost(whole.window)
    if whole is None or each is None:
        return None
    most = said_cost(whole.at_most)
    limit = f"at most {most} in all" if most else "with no limit over all windows"
    text = f"Somebody who answers in every window: {each} in each, {limit}."
    if whole.besides is not None:
        text = f"{text} {whole.besides}"
    return tag("p", text, class_="soft")


def _card(asked: Asked, results: Sequence[Reading], made: int, changed: Changed | None) -> Html:
    heading = tag("h3", tag("a", isolated(asked.title), href=asked.address()))
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
        _changed(changed),
        _trends(results),
        budget(made, asked.most_releases),
        class_="card",
    )


def _trends(results: Sequence[Reading]) -> Html | None:
    """Return the figures of the card over the last windows, if there are several."""
    if len(results) < 2:  # noqa: PLR2004  a line needs two points
        return None
    lines = []
    for main in results[-1].main[:_BARS]:
        key, label = (main.shows, main.quantity.label), main.quantity.label
        values = [
            float(figure.quantity.estimate)
            for each in results
            for figure in each.figures
            if (figure.shows, figure.quantity.label) == key and figure.quantity.estimate is not None
        ]
        shown = f"{main.shows} over {counted(len(values), 'result')}"
        name = tag("span", " ", isolated(label or shown), class_="soft")
        lines.append(tag("div", sparkline(values, f"{label}: {shown}" if label else shown), name))
    return join(lines) if lines else None


def _changed(changed: Changed | None) -> Html | None:
    """Return what can be said of the newest result beside the one before, and what cannot."""
    if changed is None:
        return None
    said = []
    for labels, before, after in (
        (changed.rose, "", " rose. "),
        (changed.fell, "", " fell. "),
        (changed.open, "Whether ", " rose or fell cannot be concluded."),
    ):
        if labels:
            said.append(join((before, _listed(labels), after)))
    return tag("p", f"Since {changed.before}: ", *said)


def _listed(labels: Sequence[str]) -> Html:
    """Return some labels, and how many more there are; an only figure has none."""
    named = [isolated(label) if label else escape("it") for label in labels[:_NAMED]]
    more = len(labels) - _NAMED
    if more > 0:
        return join((*(part for each in named for part in (each, ", ")), f"{more:,} more"))
    *first, last = named
    listed = [part for each in first for part in (each, ", ")][:-1]
    return join((*listed, " and ", last)) if first else last
