"""A question: one result with intervals, all of them over time, and two of them compared."""

import dataclasses
from collections.abc import Mapping, Sequence

from aggregator.collector.pages.readings import Asked, Reading, Readings, number
from aggregator.collector.pages.view import (
    MOST_BARS,
    MOST_ROWS,
    View,
    bar_charts,
    budget,
    writes_parquet,
)
from aggregator.dap.problems import UnrecognizedCollectionJob
from aggregator.results import Comparison, compare_all
from aggregator.storage.collector import count_collections
from aggregator.storage.database import Transaction
from aggregator.storage.states import CollectionState
from aggregator.web.pages.charts import Mark, bars, over_time, scrolled
from aggregator.web.pages.html import Html, isolated, join, table, tag

_COLUMNS = ("label", "figure", "value", "from", "to", "unit", "interval by")


def question(tx: Transaction, readings: Readings, asked: Asked, chosen: Mapping[str, str]) -> View:
    """Return the page of a question.

    Args:
        tx: A transaction on the collector's store.
        readings: Of that store.
        asked: The question.
        chosen: What the address says: `result` and `with`, collections by their ids; `figure`, a
            number of a main figure; `all`, for the results that are too old to be shown.

    Raises:
        UnrecognizedCollectionJob: The question has no such result.
    """
    results = readings.latest(tx, asked, None) if "all" in chosen else readings.latest(tx, asked)
    made = count_collections(tx, asked.task.task_id.value, CollectionState.FINISHED)
    head = [_links(asked), budget(made, asked.most_releases)]
    document: dict[str, object] = {
        "question": asked.title,
        "survey": asked.survey,
        "task_id": str(asked.task.task_id),
        "results": made,
    }
    if not results:
        nothing = tag("p", "No result yet.")
        return View(asked.title, [*head, nothing], document | {"comparisons": []}, list)
    shown = _named(results, chosen.get("result"), len(results) - 1)
    charts = bar_charts(
        [each for each in shown.estimates if each.is_main] or list(shown.estimates), asked.title
    )
    trend, trend_chart = _trend(results, chosen)
    charts |= {} if trend_chart is None else {"trend": trend_chart}
    change, compared = _change(results, shown, chosen)
    more = len(shown.main) - MOST_BARS
    content = [
        *head,
        tag("h2", shown.period),
        tag("p", f"{shown.batch.report_count:,} reports, by the leader's word."),
        *(scrolled(chart, name) for name, chart in charts.items() if name != "trend"),
        tag("p", f"The table has {more:,} more.", class_="soft") if more > 0 else None,
        tag(
            "p",
            "Whiskers are 95 % intervals for the noise, each by itself: of those who reported. ",
            tag("a", "About this number", href=f"{asked.path}/about?result={shown.name}"),
            class_="soft",
        ),
        _table(shown),
        _downloads(asked, charts, shown),
        *trend,
        *change,
        tag("h2", "As Python"),
        tag("pre", tag("code", _python(asked, shown))),
    ]
    return View(
        asked.title,
        content,
        document | {"comparisons": [_comparison_document(each) for each in compared]},
        lambda: [row for each in results for row in each.rows],
        charts,
    )


def _links(asked: Asked) -> Html:
    return tag(
        "p",
        tag("span", isolated(f"{asked.survey}. ") if asked.survey else None, class_="soft"),
        tag("a", "Batches", href=f"{asked.path}/batches"),
    )


def _named(results: Sequence[Reading], name: str | None, otherwise: int) -> Reading:
    if name is None:
        return results[otherwise]
    for each in results:
        if each.name == name:
            return each
    raise UnrecognizedCollectionJob("the question has no such result")


def _table(shown: Reading) -> Html:
    cells = [
        (
            isolated(each.mark.label or shown.asked.title),
            each.shows,
            number(each.mark.value),
            number(each.mark.low),
            number(each.mark.high),
            isolated(each.unit),
            each.method,
        )
        for each in shown.estimates[:MOST_ROWS]
    ]
    more = len(shown.estimates) - MOST_ROWS
    rest = f"; the downloads have {more:,} more" if more > 0 else ""
    return table(f"{shown.period}, 95 % intervals{rest}", _COLUMNS, cells)


def _downloads(asked: Asked, charts: Mapping[str, Html], shown: Reading) -> Html:
    files = [
        ("CSV", f"{asked.path}.csv"),
        ("JSON", f"{asked.path}.json"),
        *([("Parquet", f"{asked.path}.parquet")] if writes_parquet() else []),
        ("CSV of all results", f"{asked.path}.csv?all=yes"),
        *((f"SVG of {name}", f"{asked.path}/{name}.svg?result={shown.name}") for name in charts),
    ]
    links = (join((tag("a", name, href=path), " ")) for name, path in files)
    return tag("p", "Downloads: ", *links)


def _trend(
    results: Sequence[Reading], chosen: Mapping[str, str]
) -> tuple[list[Html | None], Html | None]:
    """Return one figure over time, and the chart alone."""
    if len(results) < 2:  # noqa: PLR2004  a line needs two points
        return [], None
    names = [(figure.shows, figure.quantity.label) for figure in results[-1].main]
    given = chosen.get("figure", "0")
    place = int(given) if given.isdecimal() and int(given) < len(names) else 0
    shows, label = names[place]
    found = [(each, each.estimate_of(shows, label)) for each in results]
    marks = [
        Mark(each.period, known.mark.value, known.mark.low, known.mark.high)
        for each, known in found
        if known is not None
    ]
    chart = over_time(marks, f"{shows} of {label or 'all'} over time", shows)
    choice = _chooser(
        "figure",
        "Figure",
        [(str(index), f"{label} ({kind})") for index, (kind, label) in enumerate(names)],
        str(place),
    )
    cells = [
        (mark.label, number(mark.value), number(mark.low), number(mark.high)) for mark in marks
    ]
    listed = table("Over time, 95 % intervals", ("window", "value", "from", "to"), cells)
    details = tag("details", tag("summary", "The same as a table"), listed)
    heading = tag("h2", "Over time")
    return [
        heading,
        choice if len(names) > 1 else None,
        scrolled(chart, "Chart over time"),
        details,
    ], chart


def _change(
    results: Sequence[Reading], shown: Reading, chosen: Mapping[str, str]
) -> tuple[list[Html | None], list[Comparison]]:
    """Return what can be said of the difference to another result."""
    others = [each for each in results if each.name != shown.name]
    if not others:
        return [], []
    before = [each for each in others if each.start < shown.start]
    default = others.index(before[-1]) if before else 0
    other = _named(others, chosen.get("with"), default)
    theirs = {(each.shows, each.quantity.label): each.quantity for each in other.main}
    pairs = [
        (
            dataclasses.replace(
                figure.quantity, label=f"{figure.quantity.label} {shown.period}".strip()
            ),
            dataclasses.replace(theirs[key], label=f"{key[1]} {other.period}".strip()),
        )
        for figure in shown.main[:MOST_BARS]
        if (key := (figure.shows, figure.quantity.label)) in theirs
    ]
    if not pairs:
        return [], []
    compared = compare_all(pairs)
    marks = [
        Mark(
            figure.quantity.label,
            None if each.estimate is None else float(each.estimate),
            float(each.interval.low),
            float(each.interval.high),
        )
        for figure, each in zip(shown.main, compared, strict=False)
    ]
    choice = tag(
        "form",
        tag("input", type="hidden", name="result", value=shown.name),
        _select("with", "Compare with", [(each.name, each.period) for each in others], other.name),
        tag("button", "Compare"),
        method="get",
    )
    sentences = (tag("li", isolated(each.can_be_concluded)) for each in compared)
    title = "Difference, with intervals that all hold at once"
    content: list[Html | None] = [
        tag("h2", f"{shown.period} compared with {other.period}"),
        choice,
        scrolled(bars(marks, title, compared[0].unit), "Chart of differences"),
        tag("ul", *sentences),
        tag("p", compared[0].cannot_be_concluded, class_="soft"),
    ]
    return content, compared


def _chooser(name: str, label: str, options: Sequence[tuple[str, str]], chosen: str) -> Html:
    return tag("form", _select(name, label, options, chosen), tag("button", "Show"), method="get")


def _select(name: str, label: str, options: Sequence[tuple[str, str]], chosen: str) -> Html:
    made = (
        tag("option", text[:80], value=value, selected=value == chosen) for value, text in options
    )
    return join(
        (tag("label", f"{label} ", for_=name), tag("select", *made, name=name, id=name), " ")
    )


def _comparison_document(each: Comparison) -> dict[str, object]:
    interval = each.interval
    return {
        "first": each.first,
        "second": each.second,
        "estimate": None if each.estimate is None else float(each.estimate),
        "low": float(interval.low) if interval.is_bounded else None,
        "high": float(interval.high) if interval.is_bounded else None,
        "jointly": interval.jointly,
        "can_be_concluded": each.can_be_concluded,
        "cannot_be_concluded": each.cannot_be_concluded,
    }


def _python(asked: Asked, shown: Reading) -> str:
    return (
        "from aggregator.collector import Collector\n\n"
        'with Collector.open("collector.toml") as collector:\n'
        f'    task = collector.task("{asked.task.task_id}")\n'
        "    for collected in collector.results(task):\n"
        f'        if collected.document["collection_id"] == "{shown.name}":\n'
        "            print(collected.table().frame())\n"
    )
