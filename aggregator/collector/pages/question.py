"""A question: one result with intervals, all of them over time, and two of them compared."""

from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from aggregator.collector.guarantee import promise
from aggregator.collector.pages.comparisons import between_groups, between_periods
from aggregator.collector.pages.files import draws_png, writes_parquet
from aggregator.collector.pages.readings import Asked, Reading, Readings
from aggregator.collector.pages.texts import text_of, texts_in
from aggregator.collector.pages.view import (
    MOST_BARS,
    MOST_ROWS,
    View,
    bar_charts,
    budget,
    chooser,
    chosen_place,
    counted,
    unbroken,
)
from aggregator.collector.store import count_collections
from aggregator.dap.problems import UnrecognizedCollectionJob
from aggregator.dp.utility import PERCENT
from aggregator.service.storage.engine.states import CollectionState
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.web.pages.charts import Chart, Mark, over_time
from aggregator.service.web.pages.html import Html, isolated, join, table, tag

_COLUMNS = ("label", "figure", "value", "from", "to", "unit", "interval by")
_CHOICES = ("part", "result", "with", "figure", "group", "all")


def question(tx: Transaction, readings: Readings, asked: Asked, chosen: Mapping[str, str]) -> View:
    """Return the page of a question, or raise `UnrecognizedCollectionJob`.

    The address may choose `result` and `with`, ids of collections; `figure` and `group`, numbers of
    main figures; and `all`, to show results that are too old otherwise.
    """
    results = readings.latest(tx, asked, None) if "all" in chosen else readings.latest(tx, asked)
    made = count_collections(tx, asked.task.task_id.value, CollectionState.FINISHED)
    head = [_links(asked), _words(tx, readings, asked), budget(made, asked.most_releases)]
    document: dict[str, object] = {
        "question": asked.title,
        "survey": asked.survey,
        "task_id": str(asked.task.task_id),
        "results": made,
    }
    if not results:
        nothing = tag("p", "No result yet. What can be collected is under Batches.")
        return View(asked.title, [*head, nothing], document | {"comparisons": []}, list)
    shown = _named(results, chosen.get("result"), len(results) - 1)
    main = bar_charts(
        [each for each in shown.estimates if each.is_main] or list(shown.estimates), asked.title
    )
    trend, trend_chart = _trend(results, shown, chosen)
    found = (between_groups(shown, chosen), between_periods(results, shown, chosen))
    compared = [each for each in found if each is not None]
    charts = main | trend_chart | {each.name: each.chart for each in compared}
    more = len(shown.main) - MOST_BARS
    content = [
        *head,
        tag("h2", unbroken(shown.period)),
        tag("p", f"{counted(shown.batch.report_count, 'report')}, as the leader counts them."),
        tag("p", promise(shown.result), class_="big"),
        *(chart.fitting for chart in main.values()),
        tag("p", f"The table has {more:,} more.", class_="soft") if more > 0 else None,
        tag(
            "p",
            f"Whiskers are {PERCENT} intervals for the noise, each on its own. They say nothing "
            "about people who did not report. ",
            tag("a", "About this number", href=asked.address("/about", result=shown.name)),
            class_="soft",
        ),
        _table(shown),
        *trend,
        *(part for each in compared for part in each.content),
        tag("h2", "Downloads"),
        _downloads(asked, charts, shown, chosen),
        tag("h2", "As Python"),
        tag(
            "pre",
            tag("code", _python(asked, shown)),
            tabindex=0,
            role="region",
            aria_label="The same in Python",
        ),
    ]
    return View(
        asked.title,
        content,
        document | {"comparisons": [part for each in compared for part in each.documents]},
        lambda: [row for each in results for row in each.rows],
        charts,
    )


def _links(asked: Asked) -> Html:
    others = [(str(each.place), each.title) for each in asked.all]
    return join(
        [
            tag(
                "p",
                tag("span", isolated(f"{asked.survey}. ") if asked.survey else None, class_="soft"),
                tag("a", "Batches", href=f"{asked.path}/batches"),
                *_synthetic(asked),
            ),
            *filter(
                None,
                [chooser("part", "Question", others, str(asked.place), button="Show", kept={})],
            ),
        ]
    )


def _synthetic(asked: Asked) -> list[Html]:
    """Return a link to the survey's synthetic table, if it has tables of two questions."""
    if asked.meaning is None or not asked.meaning.sheet.tables:
        return []
    return [Html(" "), tag("a", "Synthetic table", href=f"{asked.path}/synthetic")]


def _words(tx: Transaction, readings: Readings, asked: Asked) -> Html | None:
    """Return a link to what people wrote, if this is a histogram of its hashes."""
    if asked.task.policy.group is None:
        return None
    text = text_of(texts_in(readings.asked(tx)), asked.task.task_id)
    if text is None:
        return None
    of = f"One of {len(text.text.tasks):,} tasks that hashes of answers are counted in: "
    return tag("p", of, tag("a", "what people wrote", href=text.path))


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
            *each.written,
            isolated(each.unit),
            each.method,
        )
        for each in shown.estimates[:MOST_ROWS]
    ]
    more = len(shown.estimates) - MOST_ROWS
    rest = f"; the downloads have {more:,} more" if more > 0 else ""
    return table(f"{shown.period}, {PERCENT} intervals{rest}", _COLUMNS, cells)


def _downloads(
    asked: Asked, charts: Mapping[str, Chart], shown: Reading, chosen: Mapping[str, str]
) -> Html:
    same = urlencode(
        {key: chosen[key] for key in _CHOICES if key in chosen}
        | asked.kept
        | {"result": shown.name}
    )
    tables = [
        ("CSV", asked.address(".csv")),
        ("JSON", asked.address(".json")),
        *([("Parquet", asked.address(".parquet"))] if writes_parquet() else []),
        ("CSV of all results", asked.address(".csv", all="yes")),
    ]
    endings = ["svg", *(["png"] if draws_png() else [])]
    pictures = [
        tag(
            "li",
            f"Chart {name.replace('-', ' ')}: ",
            *(
                tag(
                    "span",
                    _link(ending.upper(), f"{asked.path}/{name}.{ending}?{same}", name),
                    " ",
                )
                for ending in endings
            ),
        )
        for name in charts
    ]
    listed = tag("li", "Results: ", *(tag("span", _link(*each), " ") for each in tables))
    return tag("ul", listed, *pictures)


def _link(name: str, path: str, of: str = "") -> Html:
    told_apart = tag("span", f" of {of.replace('-', ' ')}", class_="skip") if of else None
    return tag("a", name, told_apart, href=path)


def _trend(
    results: Sequence[Reading], shown: Reading, chosen: Mapping[str, str]
) -> tuple[list[Html | None], dict[str, Chart]]:
    """Return one figure over time, and its chart by name."""
    if len(results) < 2:  # noqa: PLR2004  a line needs two points
        return [], {}
    names = [(figure.shows, figure.quantity.label) for figure in results[-1].main]
    place = chosen_place(chosen.get("figure"), len(names))
    shows, label = names[place]
    found = [(each, each.estimate_of(shows, label)) for each in results]
    written = [(each.period, known) for each, known in found if known is not None]
    marks = [
        Mark(period, known.mark.value, known.mark.low, known.mark.high) for period, known in written
    ]
    unit = next((f" in {known.unit}" for _, known in found if known and known.unit), "")
    chart = over_time(marks, f"{shows} of {label or 'all'} over time", f"{shows}{unit}")
    choice = chooser(
        "figure",
        "Figure",
        [(str(index), f"{label} ({kind})") for index, (kind, label) in enumerate(names)],
        str(place),
        button="Show",
        kept=shown.kept,
    )
    cells = [(period, *known.written) for period, known in written]
    listed = table(f"Over time, {PERCENT} intervals", ("window", "value", "from", "to"), cells)
    details = tag("details", tag("summary", "The same as a table"), listed)
    heading = tag("h2", "Over time")
    return [
        heading,
        choice if len(names) > 1 else None,
        chart.fitting,
        details,
    ], {"over-time": chart}


def _python(asked: Asked, shown: Reading) -> str:
    head = 'from aggregator.collector import Collector\n\nwith Collector.open("collector.toml")'
    if asked.meaning is not None and asked.part is not None and shown.is_of_a_window:
        name, by = asked.part.question.name, asked.part.by
        return (
            f"{head} as collector:\n"
            f"    survey = collector.survey({asked.meaning.title!r})\n\n"
            f"survey.table({name!r}, by={by!r}).frame()  # a row a figure and window\n"
        )
    return (
        f"{head} as collector:\n"
        f'    task = collector.task("{asked.task.task_id}")\n'
        "    results = collector.results(task)\n\n"
        f'name = "{shown.name}"\n'
        '(shown,) = [each for each in results if each.document["collection_id"] == name]\n'
        "shown.table().frame()\n"
    )
