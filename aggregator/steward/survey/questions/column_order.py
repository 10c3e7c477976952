"""Which of several columns is whose, by what they are called."""

import re
from collections.abc import Sequence

from aggregator.client.survey.alternatives import comparable
from aggregator.client.table_files.cells import CellError

_END = r"[\s\])}>\"']*$"


def in_order(question: str, columns: Sequence[str], labels: Sequence[str]) -> list[int]:
    """Return, for each label, the place of its column.

    A column belongs to the label that its name is, or ends with, or has in it. If no name has one,
    columns stand in the order of the labels. Raises `CellError` if some names contradict that.
    """
    named = [_label_of(column, labels) for column in columns]
    if sorted(place for place in named if place is not None) == list(range(len(labels))):
        return [named.index(place) for place in range(len(labels))]
    for at, place in enumerate(named):
        if place not in (None, at):
            raise CellError(
                f"{question}: column {columns[at]!r} seems to be of {labels[place or 0]!r}, and "
                f"stands for {labels[at]!r}: give the columns in the order of {', '.join(labels)}"
            )
    return list(range(len(labels)))


def _label_of(column: str, labels: Sequence[str]) -> int | None:
    """Return the place of the one label that a column's name has; None if it is not clear."""
    name = comparable(column).casefold()
    written = [re.escape(comparable(label).casefold()) for label in labels]
    for after in (_END, r"(?![^\W_])"):
        found = [
            place
            for place, label in enumerate(written)
            if re.search(r"(?<![^\W_])" + label + after, name)
        ]
        longest = max((len(labels[place]) for place in found), default=0)
        found = [place for place in found if len(labels[place]) == longest]
        if len(found) == 1:
            return found[0]
    return None
