"""What a survey's collections say: labelled figures with intervals."""

from collections.abc import Sequence
from datetime import UTC, datetime
from fractions import Fraction
from typing import TYPE_CHECKING

from aggregator.protocol.task import Task
from aggregator.results import Batch, Quantity, Table
from aggregator.results.values import DEFAULT_CONFIDENCE
from aggregator.survey.designs import Figure
from aggregator.survey.meaning import Meaning

if TYPE_CHECKING:
    from aggregator.results.tables import Cell


def figures(task: Task, batch: Batch) -> list[Figure]:
    """Return what a batch of a survey's task says.

    Raises:
        ParameterError: The task is of no survey, or a value is withheld.
    """
    return Meaning.of_task(task).design.figures_of(batch)


def table(
    results: Sequence[tuple[Task, Batch]],
    confidence: Fraction = DEFAULT_CONFIDENCE,
    title: str = "",
) -> Table:
    """Return every figure of some results in one table, with its window and question.

    Args:
        results: Of tasks of a survey, in the order of the rows.
        confidence: Of each interval by itself.
        title: Of the table.

    Raises:
        ParameterError: A task is of no survey, or a value is withheld.
    """
    quantities: list[Quantity] = []
    windows, questions, shows, reports = list[str](), list[str](), list[str](), list[int]()
    for task, batch in results:
        meaning = Meaning.of_task(task)
        start = meaning.windows.start(datetime.fromtimestamp(batch.start, UTC))
        for figure in meaning.design.figures_of(batch):
            quantities.append(figure.quantity)
            windows.append(meaning.windows.describe(start))
            questions.append(meaning.question.name)
            shows.append(figure.shows)
            reports.append(batch.report_count)
    columns: dict[str, Sequence[Cell]] = {
        "window": windows,
        "question": questions,
        "shows": shows,
        "reports": reports,
    }
    return Table(quantities, columns, confidence, title=title)
