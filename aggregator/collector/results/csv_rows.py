"""Writes CSV, for pages, commands and notebooks."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence

from aggregator.untrusted_text import defused


def as_csv(names: Sequence[str], rows: Iterable[Mapping[str, str | int | float | None]]) -> bytes:
    """Return rows as CSV in UTF-8, below a line of column names; None is an empty cell.

    A text that a spreadsheet would compute gets an apostrophe in front: labels and names come from
    others, but people who open the file trust it.
    """
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    writer.writerow(map(defused, names))
    writer.writerows(
        [defused(cell) if isinstance(cell, str) else cell for cell in map(row.get, names)]
        for row in rows
    )
    return file.getvalue().encode(errors="replace")
