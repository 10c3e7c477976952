"""A question: one result with intervals, all of them over time, and two of them compared."""

from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from aggregator.collector.guarantee import promise
from aggregator.collector.pages.asked import Asked
from aggregator.collector.pages.comparisons import Compared, between_groups, between_periods
from aggregator.collector.pages.cross import cross_table
from aggregator.collector.pages.files import draws_png, writes_parquet
from aggregator.collector.pages.python_code import same_in_python
from aggregator.collector.pages.readings import Estimate, Reading, Readings
from aggregator.collector.pages.sentences import between_groups_in_short, change, figure, headline
from aggregator.collector.pages.survey_costs import in_short, survey_cost
from aggregator.collector.pages.texts import costs_of_texts, text_of, texts_in
from aggregator.collector.pages.view import (
    MOST_BARS,
    MOST_ROWS,
    View,
    bar_charts,
    budget,
    chooser,
    chosen_place,
    unbroken,
)
from aggregator.collector.results.selection import Withheld
from aggregator.collector.store import count_collections
from aggregator.dap.problems import UnrecognizedCollectionJob
from aggregator.dp.utility import PERCENT
from aggregator.service.storage.engine.states import CollectionState
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.web.pages.charts import Chart, Mark, over_time
from aggregator.service.web.pages.html import Html, isolated, join, table, tag
from aggregator.written_times import counted

FEWEST_WINDOWS = 3
"""Two ends make no trend: what noise does to them looks like news."""

_COLUMNS = ("label", "figure", "value", "from", "to")
_CHOICES = ("part", "result", "with", "figure", "group", "all")


def question(tx: Transaction, readings: Readings, asked: Asked, chosen: Mapping[str, str]) -> View:
    """Return the page of a question, or raise `UnrecognizedCollectionJob`.

    The address may choose `result` and `with`, ids of collections; `figure` and `group`, numbers of
    main figures; and `all`, to show results that are too old otherwise.
    """
    results = readings.latest(tx, asked, None) if "all" in chosen else readings.latest(tx, asked)
    made = count_collections(tx, asked.task.task_id.value, CollectionState.FINISHED)
    head = [_links(asked), _words(tx, readings, asked)]
    document: dict[str, object] = {
        "question": asked.title,
        "survey": asked.survey,
        "task_id": str(asked.task.task_id),
        "results": made,
    }
    if not results:
        nothing = tag("p", "No result yet. What can be collected is under Batches.")
        left = budget(made, asked.most_releases)
        return View(asked.title, [*head, left, nothing], document | {"comparisons": []}, list)
    shown = named_result(results, chosen.get("result"))
    found = (between_groups(shown, chosen), between_periods(results, shown, chosen))
    compared = [each for each in found if each is not None]
    drawn, charts = result_charts(shown)
    trend, trend_chart = _trend(results, shown, chosen)
    charts |= trend_chart | {each.name: each.chart for each in compared}
    is_table = asked.part is not None and bool(asked.part.by)
    cost = None
    if (whole := survey_cost(asked, made, costs_of_texts(tx, readings))) is not None:
        cost = in_short(whole, asked)
    content = [
        *head,
        None if is_table else tag("p", headline(shown), class_="big"),
        tag(
            "p",
            unbroken(shown.period),
            f"; {shown.reports}, as the leader counts them. ",
            f"A person pays {cost}. " if cost else f"{promise(shown.result)}. ",
            tag("a", "About this number", href=asked.address("/about", result=shown.name)),
            class_="soft",
        ),
        *drawn,
        _withheld(shown),
        *_groups(tx, readings, asked, shown),
        None if is_table or shown is not results[-1] else change(readings.changed(results), asked),
        *trend,
        _table(shown),
        *_compared(compared, shown),
        tag("h2", "Downloads", class_="off-paper"),
        _downloads(asked, charts, shown, chosen),
        tag("h2", "As Python", class_="off-paper"),
        tag(
            "pre",
            tag("code", same_in_python(asked, shown)),
            tabindex=0,
            role="region",
            aria_label="The same in Python",
            class_="off-paper",
        ),
        tag("div", budget(made, asked.most_releases), class_="off-paper"),
    ]
    return View(
        asked.title,
        content,
        document | {"comparisons": [part for each in compared for part in each.documents]},
        lambda: [row for each in results for row in each.rows],
        charts,
    )


def _compared(compared: Sequence[Compared], shown: Reading) -> list[Html | None]:
    """Return differences, unless the figures themselves say too little to be shown."""
    if not compared or not any(each.is_bar for each in shown.main_estimates):
        return []
    return [tag("h2", "Compared"), *(part for each in compared for part in each.content)]


def named_result(results: Sequence[Reading], name: str | None) -> Reading:
    """Return the result of this name, by default the newest.

    Raises `UnrecognizedCollectionJob` if there is none.
    """
    if name is None:
        return results[-1]
    for each in results:
        if each.name == name:
            return each
    raise UnrecognizedCollectionJob("the question has no such result")


def result_charts(
    shown: Reading, most: int = MOST_BARS
) -> tuple[list[Html | None], dict[str, Chart]]:
    """Return what shows a result's main figures, and charts of them by name, for files.

    A table by group is a cross table; a figure that says too little is in no chart, and one that is
    alone needs none on a page.
    """
    known = [each for each in shown.main_estimates if each.is_bar]
    charts = bar_charts(known, shown.asked.title)
    if shown.asked.part is not None and shown.asked.part.by:
        return [between_groups_in_short(shown), cross_table(shown)], charts
    bars, alone = shown.drawn
    more = len(bars) - most
    return [
        *(chart.fitting for chart in bar_charts(bars[:most], shown.asked.title).values()),
        tag("p", f"The table has {more:,} more.", class_="soft") if more > 0 else None,
        *(tag("p", figure(each)) for each in alone),
        tag(
            "p",
            f"Whiskers are {PERCENT} intervals for the noise, each on its own. They say nothing "
            "about people who did not report.",
            class_="soft",
        )
        if bars and shown.intervals
        else None,
    ], charts


def _groups(tx: Transaction, readings: Readings, asked: Asked, shown: Reading) -> list[Html | None]:
    """Return a question's tables by group, of the same result."""
    made: list[Html | None] = []
    for each in asked.tables:
        found = [one for one in readings.latest(tx, each, None) if one.name == shown.name]
        if found and (drawn := cross_table(found[0])):
            link = tag("a", "compared", href=each.address(result=shown.name))
            made += [
                tag("h2", "By: ", isolated(each.group_title)),
                drawn,
                tag("p", "The groups ", link, ".", class_="off-paper"),
            ]
    return made


def _links(asked: Asked) -> Html:
    others = [(str(each.place), each.title) for each in asked.all]
    return join(
        [
            tag(
                "p",
                tag("span", isolated(f"{asked.survey}. ") if asked.survey else None, class_="soft"),
                tag("a", "Batches", href=f"{asked.path}/batches"),
                " ",
                tag("a", "Sheet for a meeting", href=asked.address("/sheet")),
                *_synthetic(asked),
                class_="off-paper",
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


def _withheld(shown: Reading) -> Html | None:
    """Return how many values are withheld where others are drawn, if any are."""
    values = shown.batch.quantities()
    count = sum(isinstance(each, Withheld) for each in values)
    if not 0 < count < len(values):
        return None
    said = f"Not drawn: {counted(count, 'value')} withheld, of {len(values):,}."
    return tag("p", said, class_="soft")


def _table(shown: Reading) -> Html:
    cells = [
        (isolated(each.mark.label or shown.asked.title), each.shows, *_in_words(each))
        for each in shown.estimates[:MOST_ROWS]
    ]
    more = len(shown.estimates) - MOST_ROWS
    rest = f"; the downloads have {more:,} more" if more > 0 else ""
    made = table(f"{shown.period}{shown.intervals}{rest}", _COLUMNS, cells)
    return tag("details", tag("summary", "All figures"), made)


def _in_words(each: Estimate) -> tuple[str, str, str]:
    ends = each.shown.ends or ("", "")
    return isolated(each.shown.value), *ends


def _downloads(
    asked: Asked, charts: Mapping[str, Chart], shown: Reading, chosen: Mapping[str, str]
) -> Html:
    same = urlencode(
        {key: chosen[key] for key in _CHOICES if key in chosen}
        | asked.kept
        | {"result": shown.name}
    )
    by_group = [("Cross table as CSV", asked.address("/sheet.csv", result=shown.name))]
    tables = [
        ("CSV", asked.address(".csv")),
        ("JSON", asked.address(".json")),
        *([("Parquet", asked.address(".parquet"))] if writes_parquet() else []),
        ("CSV of all results", asked.address(".csv", all="yes")),
        *(by_group if asked.part is not None and asked.part.by else []),
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
    return tag("ul", listed, *pictures, class_="off-paper")


def _link(name: str, path: str, of: str = "") -> Html:
    told_apart = tag("span", f" of {of.replace('-', ' ')}", class_="skip") if of else None
    return tag("a", name, told_apart, href=path)


def _trend(
    results: Sequence[Reading], shown: Reading, chosen: Mapping[str, str]
) -> tuple[list[Html | None], dict[str, Chart]]:
    """Return one figure over time, and its chart by name."""
    if len(results) < FEWEST_WINDOWS:
        return [], {}
    names = [(each.shows, each.quantity.label) for each in results[-1].main]
    place = chosen_place(chosen.get("figure"), len(names))
    shows, label = names[place]
    found = [(each, each.estimate_of(shows, label)) for each in results]
    marks = [
        Mark(each.period, known.mark.value, known.mark.low, known.mark.high)
        for each, known in found
        if known is not None and known.is_bar
    ]
    if len(marks) < FEWEST_WINDOWS:
        return [], {}
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
    cells = [
        (each.period, *_in_words(known))
        for each, known in found
        if known is not None and known.is_bar
    ]
    listed = table(f"Over time{shown.intervals}", ("window", "value", "from", "to"), cells)
    details = tag("details", tag("summary", "The same as a table"), listed)
    heading = tag("h2", "Over time")
    return [
        heading,
        choice if len(names) > 1 else None,
        chart.fitting,
        details,
    ], {"over-time": chart}
