"""The overview: a card for each question with its latest result, its groups inside."""

from collections.abc import Sequence

from aggregator.collector.pages.asked import Asked
from aggregator.collector.pages.changes import Changed
from aggregator.collector.pages.cross import cross_table
from aggregator.collector.pages.question import FEWEST_WINDOWS
from aggregator.collector.pages.readings import Reading, Readings, Row
from aggregator.collector.pages.sentences import change, figure, headline
from aggregator.collector.pages.survey_costs import in_short, survey_cost
from aggregator.collector.pages.texts import (
    AskedText,
    CostsOfTexts,
    TextWindow,
    costs_of_texts,
    texts_in,
)
from aggregator.collector.pages.view import View, bar_charts, budget, unbroken
from aggregator.collector.store import count_collections
from aggregator.protocol.task import Task
from aggregator.service.storage.engine.states import CollectionState
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.web.pages.charts import Mark, trend
from aggregator.service.web.pages.html import Html, isolated, join, tag
from aggregator.steward.text.text_tasks import is_of_letters
from aggregator.written_times import counted

_WINDOWS = 24
"""The most windows in a trend."""

_BARS = 6
"""The most bars on a card."""


def overview(tx: Transaction, readings: Readings) -> View:
    """Return the overview of all questions of a collector."""
    questions = readings.asked(tx)
    texts = texts_in(questions)
    in_texts = {task.task_id for each in texts for task in each.text.tasks}
    known = costs_of_texts(tx, readings) if texts else {}
    # By survey task; the cards of other tasks stand together.
    heads: dict[str, Html | None] = {}
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
        group = "" if asked.meaning is None else asked.path
        titles[group] = asked.survey
        if group not in heads:
            heads[group] = _survey_head(asked, results, made, known) if group else None
        if asked.part is not None and asked.part.by:
            continue  # it is on its question's card
        tables = [readings.latest(tx, each, 1) for each in asked.tables] if latest else []
        by_group = [each for found in tables for each in found]
        card = (
            _letters_card(asked, results, made)
            if is_of_letters(asked.task)
            else _card(asked, results, made, changed, by_group)
        )
        cards.setdefault(group, []).append(card)
    groups = {title: group for group, title in titles.items() if title}
    for text in texts:
        group = groups.get(text.survey, "")
        titles.setdefault(group, "")
        heads.setdefault(group, None)
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
            heads[group],
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


def _survey_head(
    asked: Asked, results: Sequence[Reading], made: int, texts: CostsOfTexts
) -> Html | None:
    """Return what all questions of a survey share: period, reports, budget and cost to a person."""
    whole = survey_cost(asked, made, texts)
    cost = None if whole is None else in_short(whole, asked)
    batches = tag("a", "Batches", href=f"{asked.path}/batches")
    return join(
        [
            tag("p", *_period(results), f"A person pays {cost}. " if cost else None, batches),
            tag("p", whole.besides, class_="soft") if whole and whole.besides else None,
            budget(made, asked.most_releases),
        ]
    )


def _period(results: Sequence[Reading]) -> list[Html | str]:
    """Return of what the latest result is, and with which it is compared."""
    if not results:
        return ["No result yet. "]
    latest = results[-1]
    said = [unbroken(latest.period), f"; {latest.reports}"]
    if len(results) > 1:
        said += ["; compared with ", unbroken(results[-2].period)]
    return [*said, ". "]


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
        None if asked.survey else budget(made, first.most_releases),
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


def _card(
    asked: Asked,
    results: Sequence[Reading],
    made: int,
    changed: Changed | None,
    by_group: Sequence[Reading],
) -> Html:
    """Return a question's card; those of a survey share what `_survey_head` says."""
    own = None if asked.meaning is not None else budget(made, asked.most_releases)
    heading = tag("h3", tag("a", isolated(asked.title), href=asked.address()))
    if not results:
        nothing = tag("p", "No result yet. ", tag("a", "Batches", href=f"{asked.path}/batches"))
        return tag("li", heading, nothing if own else None, own, class_="card")
    latest = results[-1]
    bars, alone = latest.drawn
    more = len(bars) - _BARS
    return tag(
        "li",
        heading,
        tag("p", *_period(results), class_="soft") if own else None,
        tag("p", headline(latest), class_="headline"),
        *(chart.narrow for chart in bar_charts(bars[:_BARS], asked.title).values()),
        tag("p", f"and {more:,} more", class_="soft") if more > 0 else None,
        *(tag("p", figure(each)) for each in alone),
        change(changed, asked),
        _trends(results),
        *(_groups(each) for each in by_group),
        own,
        class_="card",
    )


def _groups(shown: Reading) -> Html | None:
    """Return a table by group, behind a summary."""
    made = cross_table(shown)
    if made is None:
        return None
    return tag("details", tag("summary", "By: ", isolated(shown.asked.group_title)), made)


def _trends(results: Sequence[Reading]) -> Html | None:
    """Return the figures of the card over time with intervals, those of one unit at one scale."""
    if len(results) < FEWEST_WINDOWS:
        return None
    main = results[-1].main[:_BARS]
    series: list[tuple[str, str, list[Mark]]] = []
    for each in main:
        shows, label = each.shows, each.quantity.label
        found = [reading.estimate_of(shows, label) for reading in results]
        marks = [one.mark for one in found if one is not None and one.shown.ends is not None]
        if len(marks) >= FEWEST_WINDOWS:
            series.append((f"{shows} {each.quantity.unit}", label or shows, marks))
    ends: dict[str, tuple[float, float]] = {}
    for kind, _, marks in series:
        least, most = ends.get(kind, (marks[0].low, marks[0].high))
        ends[kind] = (
            min(least, *(mark.low for mark in marks)),
            max(most, *(mark.high for mark in marks)),
        )
    lines = [
        tag(
            "li",
            trend(marks, f"{label} over {counted(len(marks), 'result')}", *ends[kind]),
            tag("span", isolated(label), class_="soft"),
        )
        for kind, label, marks in series
    ]
    return tag("ul", *lines, class_="trends") if lines else None
