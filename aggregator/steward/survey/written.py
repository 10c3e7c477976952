"""What people wrote in answer to a survey's text questions, in a table of all their answers."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TypeAlias

from aggregator.steward.survey.answer_table import AnswerTable, Row
from aggregator.steward.survey.answers import Columns
from aggregator.steward.survey.cells import AnswerError, Cell
from aggregator.steward.survey.windows import Windows

Written: TypeAlias = dict[datetime, dict[str, dict[str, str]]]
"""By the window's beginning and the question: what each person wrote, "" for nothing."""


def with_written(
    table: AnswerTable, names: Mapping[str, str], windows: Windows, columns: Columns
) -> tuple[AnswerTable, Written]:
    """Return a table that collects what people wrote while `read_answers` reads it.

    `names` has the column of each text question. Raises `AnswerError` if there is none.
    """
    if not names:
        return table, {}
    for question, column in names.items():
        if column not in table.names:
            raise AnswerError(
                f"column {column!r}: not in the table; the question may stand in a column of "
                f"another name (--column {question}=COLUMN)"
            )
    written: Written = {}

    def rows() -> Iterator[Row]:
        for row in table.rows:
            try:
                start, person = columns.start(row, windows), columns.person_of(row)
            except AnswerError:
                pass  # the reader of the other answers reports it
            else:
                _take(row, person, names, columns, written.setdefault(start, {}))
            yield row

    return AnswerTable(table.names, rows()), written


def _take(
    row: Row,
    person: str,
    names: Mapping[str, str],
    columns: Columns,
    of_window: dict[str, dict[str, str]],
) -> None:
    for question, column in names.items():
        cell: Cell = row[column]  # type: ignore[assignment]  # columns of answers hold no times
        is_answer = not columns.is_missing(cell)
        of_window.setdefault(question, {})[person] = str(cell) if is_answer else ""
