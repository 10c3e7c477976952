"""A sheet for a meeting: one question, one chart, one sentence, on one page of paper."""

from collections.abc import Mapping

from aggregator.collector.guarantee import promise
from aggregator.collector.pages.asked import Asked
from aggregator.collector.pages.cross import cross_rows
from aggregator.collector.pages.question import named_result, result_charts
from aggregator.collector.pages.readings import Readings, Row
from aggregator.collector.pages.sentences import headline
from aggregator.collector.pages.survey_costs import in_short, survey_cost
from aggregator.collector.pages.texts import costs_of_texts
from aggregator.collector.pages.view import View, unbroken
from aggregator.collector.store import count_collections
from aggregator.dap.problems import UnrecognizedCollectionJob
from aggregator.dp.utility import PERCENT
from aggregator.service.storage.engine.states import CollectionState
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.web.pages.html import isolated, tag

_MOST_BARS = 16
"""The most bars that one page of paper has room for."""


def sheet(tx: Transaction, readings: Readings, asked: Asked, chosen: Mapping[str, str]) -> View:
    """Return a question's sheet; its rows are the cross table of a table by group.

    The address may choose `result`, a collection's id. Raises `UnrecognizedCollectionJob` if there
    is no such result.
    """
    results = readings.latest(tx, asked)
    if not results:
        raise UnrecognizedCollectionJob("the question has no result yet")
    shown = named_result(results, chosen.get("result"))
    is_table = asked.part is not None and bool(asked.part.by)
    drawn, charts = result_charts(shown, _MOST_BARS)
    made = count_collections(tx, asked.task.task_id.value, CollectionState.FINISHED)
    whole = survey_cost(asked, made, costs_of_texts(tx, readings))
    cost = None if whole is None else in_short(whole, asked)
    content = [
        None if is_table else tag("p", headline(shown), class_="big"),
        *drawn,
        tag(
            "p",
            isolated(f"{asked.survey}, ") if asked.survey else None,
            unbroken(shown.period),
            f". {shown.reports}",
            f"; {PERCENT} intervals are for the noise alone, which both aggregators added so that "
            "no answer can be told. "
            if shown.intervals
            else ". ",
            f"A person pays {cost}." if cost else f"{promise(shown.result)}.",
            class_="soft",
        ),
        tag(
            "p",
            "It prints on one sheet. ",
            tag("a", "The question", href=asked.address(result=shown.name)),
            class_="off-paper",
        ),
    ]
    document: dict[str, object] = {
        "question": asked.title,
        "survey": asked.survey,
        "task_id": str(asked.task.task_id),
        "collection_id": shown.name,
    }

    def rows() -> list[Row]:
        return cross_rows(shown) if is_table else shown.rows

    return View(asked.title, content, document, rows, charts)
