"""How many of those who were invited answered, window by window: N of P, beside every result."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aggregator.errors import ParameterError

if TYPE_CHECKING:
    from datetime import datetime

    from aggregator.client.survey.asked_survey import AskedSurvey
    from aggregator.collector import Collected
    from aggregator.steward.survey import Windows

Invited = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE",
        help="permits.list of `prio survey invite`: say of how many who were invited each window's "
        "answers are. Repeatable, for lists of several folders.",
    ),
]

Count = tuple["datetime", int, int]
"""A window's start, how many answered in it, and how many were invited."""


def invited_counts(
    files: Sequence[Path] | None, asked: "AskedSurvey", found: "Sequence[Collected]"
) -> list[Count]:
    """Return the counts of the windows that were collected of a survey's own task.

    What lists have more than once counts once. Raises `ParameterError` if the survey is not by
    invitation, or no list is of it.
    """
    from aggregator.collector.invited import invited_to, permits_in

    if files is None:
        return []
    task = asked.task
    if task is None or task.permits is None:
        raise ParameterError("invited: the survey has no report that counts by invitation")
    permits = permits_in(files)
    if task.permits.domain not in permits:
        raise ParameterError("invited: the list is of another survey")
    counts = []
    for each in found:
        people = invited_to(task, int(each.start.timestamp()), permits) or 0
        counts.append((each.start, each.batch().report_count, people))
    return counts


def invited_lines(counts: Sequence[Count], windows: "Windows") -> list[str]:
    """Return a line for each window."""
    return [
        f"{windows.describe(start)}: {answers:,} of {people:,} invited"
        for start, answers, people in counts
    ]


def invited_document(counts: Sequence[Count]) -> dict[str, object]:
    """Return the same for programs; nothing if no list was given."""
    shown = [
        {"window": start.isoformat(), "answers": answers, "invited": people}
        for start, answers, people in counts
    ]
    return {"invited": shown} if counts else {}
