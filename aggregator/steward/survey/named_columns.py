"""Which columns of a table are named for which question, as `QUESTION=COLUMN`."""

import csv
from collections.abc import Collection, Iterable

from aggregator.client.table_files.table import Table, name_of
from aggregator.errors import ParameterError


def named_columns(
    given: Iterable[str], questions: Collection[str], table: Table
) -> dict[str, list[str]]:
    """Return each question's columns, from texts such as `likes=food,quiet`.

    What stands for a question is the name of one column if there is one of that name; otherwise
    names between commas, a name with a comma in quotation marks. A question may be named again for
    more columns. Raises `ParameterError` if a text is another thing, or of no question.
    """
    found: dict[str, list[str]] = {}
    for text in given:
        question, equals, columns = text.partition("=")
        question = question.strip()
        if not equals or not columns.strip():
            raise ParameterError(f"column: must be QUESTION=COLUMN, not {text!r}")
        if question not in questions:
            raise ParameterError(f"column: the survey has no question {question!r}")
        found.setdefault(question, []).extend(_split(columns, text, table))
    return found


def _split(columns: str, text: str, table: Table) -> list[str]:
    try:
        (parts,) = csv.reader([columns], strict=True, skipinitialspace=True)
    except (csv.Error, ValueError):
        if table.has(columns):
            return [columns]
        raise ParameterError(f"column: {text!r}: quotation marks that do not match") from None
    names = [name_of(part) for part in parts]
    if not table.has(columns):
        return names
    if len(names) > 1 and all(map(table.has, names)):
        raise ParameterError(
            f"column: {text!r}: may be one column or {len(names)}: put each name in quotation marks"
        )
    return [columns]
