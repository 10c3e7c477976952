"""What one person answered, as the client of a survey puts it."""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

from aggregator.client.survey.answers import AnswerError, Entries
from aggregator.client.survey.numbers import Grid, Unfit, is_nothing
from aggregator.client.text.levels import Written

if TYPE_CHECKING:
    from aggregator.client.text.amounts import Amount


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """What one person answered at a time, read from a table.

    Attributes:
        entries: What the answers add to the entries of the survey's own report.
        texts: What they wrote, by the names of text questions; None for no answer. Where a number
            is asked for beside a string, both, the number in steps above the least; where strings
            are counted by another answer, both, of that the place of the label.
        seconds: When, in seconds since the epoch.
        person: Who; None if each row is another person's.
        secret: Of the person's link, where the survey counts only answers with one.
    """

    entries: Entries = dataclasses.field(repr=False)
    texts: Mapping[str, Written] = dataclasses.field(repr=False)
    seconds: int
    person: str | None = None
    secret: bytes | None = dataclasses.field(default=None, repr=False)


def written_in(
    answers: Mapping[str, object], name: str, amount: "Amount | None", *, is_asked: bool
) -> Written:
    """Return what a person wrote to a text question; None for nothing, and if it is not asked.

    Raises `AnswerError` if the question does not take it.
    """
    answer = answers.get(name)
    if is_nothing(answer):
        return None
    if amount is not None:
        # A hidden field may still hold what was written: an error would tell of it.
        return _with_amount(answer, name, amount.grid) if is_asked else None
    if not isinstance(answer, str):
        raise AnswerError(name, "must be text, or None for no answer")
    return answer if is_asked else None


def _with_amount(answer: object, name: str, grid: Grid) -> Written:
    """Return text with the steps of a number; None if one of them is missing."""
    if isinstance(answer, str):
        return None
    match answer:
        case [text, number] if is_nothing(text) or is_nothing(number):
            return None
        case [str(text), number]:
            try:
                return text, grid.place(number)
            except Unfit as unfit:
                raise AnswerError(name, str(unfit)) from None
        case _:
            pass
    raise AnswerError(name, "must be text and a number, or None for no answer")
