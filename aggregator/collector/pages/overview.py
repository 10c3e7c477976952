"""The overview: a card for each question with its latest result."""

from collections.abc import Sequence

from aggregator.collector.pages.changes import Changed
from aggregator.collector.pages.readings import Asked, Reading, Readings, Row
from aggregator.collector.pages.survey_costs import said as said_cost
from aggregator.collector.pages.survey_costs import survey_cost
from aggregator.collector.pages.texts import (
    AskedText,
    CostsOfTexts,
    TextWindow,
    costs_of_texts,
    texts_in,
)
from aggregator.collector.pages.view import View, bar_charts, budget, counted
from aggregator.collector.store import count_collections
from aggregator.dp.utility import PERCENT
from aggregator.protocol.task import Task
from aggregator.service.storage.engine.states import CollectionState
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.web.pages.charts import sparkline
from aggregator.service.web.pages.html import Html, escape, isolated, join, tag
from aggregator.steward.text.text_tasks import is_of_letters

_WINDOWS = 24
"""The most windows in a sparkline."""

_BARS = 6
"""The most bars on a card."""

_NAMED = 3
"""How many labels are named that rose, that fell, and that did neither."""


def overview(tx: Transaction, readings: Readings) -> View:
    """Return the overview of all questions of a collector."""
    questions = readings.asked(tx)
    texts = texts_in(questions)
    in_texts = {task.task_id for each in texts for task in each.text.tasks}
    known = costs_of_texts(tx, readings) if texts else {}
    # By survey task; the cards of other tasks stand together.
    costs: dict[str, Html | None] = {}
    titles: dict[str, str] = {}
    cards: dict[str, list[Html]] = {}
    documents: list[dict[str, object]] = []
    shown: list[tuple[Row, Reading]] = []
    for asked in questions:
        if asked.task.task_id in in_texts or _is_further_letter(asked.task):
            continue  # a histogram of hashes or letters: one card has all tasks of its question
        made = count_collections(tx, asked.task.task_id.value, CollectionState.FINISHED)
        results = readings.latest(tx, asked, _WINDOWS)
        changed = readings.changed(results)
        group = "" if asked.meaning is None else asked.path
        titles[group] = asked.survey
        costs.setdefault(group, _cost(asked, made, known))
        card = (
            _letters_card(asked, results, made)
            if is_of_letters(asked.task)
            else _card(asked, results, made, changed)
        )
        cards.setdefault(group, []).append(card)
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
    groups = {title: group for group, title in titles.items() if title}
    for text in texts:
        group = groups.get(text.survey, "")
        titles.setdefault(group, "")
        costs.setdefault(group, None)
        made = text.made(tx)
        cards.setdefault(group, []).append(_text_card(text, text.windows(tx), made))
        documents.append(
            {
                "question": text.title,
                "survey": text.survey,
                "task_id": str(text.first.task.task_id),
                "address": text.path,
                "results": made,
                "most_results": text.first.most_releases,
                "changed": None,
            }
        )
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


def _is_further_letter(task: Task) -> bool:
    """Return whether a task is of a spelling, whose first task's card stands for all."""
    group = task.policy.group
    return group is not None and group.place > 0 and is_of_letters(task)


def _cost(asked: Asked, made: int, texts: CostsOfTexts) -> Html | None:
    """Return what a survey costs a person; None if the task is not of a survey."""
    whole = survey_cost(asked, made, texts)
    each = None if whole is None else said_cost(whole.window)
    if whole is None or each is None:
        return None
    most = said_cost(whole.at_most)
    limit = f"at most {most} in all" if most else "with no limit over all windows"
    text = f"Somebody who answers in every window: {each} in each, {limit}."
    if whole.besides is not None:
        text = f"{text} {whole.besides}"
    return tag("p", text, class_="soft")


def _text_card(asked: AskedText, windows: Sequence[TextWindow], made: int) -> Html:
    """Return the card of a text question; its page shows what people wrote, by a word list."""
    whole = [each for each in windows if asked.is_whole(each)]
    first, tasks = asked.first, counted(len(asked.text.tasks), "task")
    period = first.period(whole[0].start, whole[0].end) if whole else "No window of all tasks yet"
    return tag(
        "li",
        tag("h3", tag("a", isolated(asked.title), href=asked.path)),
        tag("p", f"{period}; {tasks}, of which a person is in one", class_="soft"),
        tag("p", "Which strings people wrote, of lists that nobody was shown.") if whole else None,
        budget(made, first.most_releases),
        class_="card",
    )


def _letters_card(asked: Asked, results: Sequence[Reading], made: int) -> Html:
    """Return the card of a spelling, whose buckets say nothing to a reader one by one."""
    period = results[-1].period if results else "No result yet"
    return tag(
        "li",
        tag("h3", tag("a", isolated(asked.title), href=asked.address())),
        tag("p", f"{period}; tasks of which a person is in one", class_="soft"),
        tag(
            "p",
            "Letters of frequent strings that no list has, one place in each task. ",
            tag("code", "prio survey results"),
            " makes strings of them.",
        ),
        budget(made, asked.most_releases),
        class_="card",
    )


def _card(asked: Asked, results: Sequence[Reading], made: int, changed: Changed | None) -> Html:
    heading = tag("h3", tag("a", isolated(asked.title), href=asked.address()))
    if not results:
        nothing = tag("p", "No result yet. ", tag("a", "Batches", href=f"{asked.path}/batches"))
        return tag("li", heading, nothing, budget(made, asked.most_releases), class_="card")
    latest = results[-1]
    shown = [each for each in latest.estimates if each.is_main] or list(latest.estimates)
    if len(shown) == 1:
        value, low, high = shown[0].written
        what = tag(
            "p",
            tag("span", f"{value} ", isolated(shown[0].unit), class_="big"),
            tag("br"),
            f"{shown[0].shows}, from {low} to {high} at {PERCENT} confidence",
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
    """Return what can and what cannot be concluded from the newest result and the one before."""
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
    """Return some labels and how many more there are; a single figure has no label."""
    named = [isolated(label) if label else escape("it") for label in labels[:_NAMED]]
    more = len(labels) - _NAMED
    if more > 0:
        return join((*(part for each in named for part in (each, ", ")), f"{more:,} more"))
    *first, last = named
    listed = [part for each in first for part in (each, ", ")][:-1]
    return join((*listed, " and ", last)) if first else last
