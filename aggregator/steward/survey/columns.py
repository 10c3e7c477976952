"""Which column of a table of answers holds what, and how its cells are read."""

import dataclasses
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from functools import cached_property
from typing import Final

from aggregator.client.table_files.cells import Cell, CellError, shown
from aggregator.client.table_files.laws import MissingCodes, person_of
from aggregator.client.table_files.table import name_of
from aggregator.client.table_files.times import TimeReader
from aggregator.errors import ParameterError
from aggregator.protocol.permit_codes import code_of, secret_of
from aggregator.steward.survey.conditions import Conditional
from aggregator.steward.survey.questions import Question
from aggregator.steward.survey.windows import Windows

AMOUNT: Final = "_amount"
"""What the column of a number is called beside a text question's, after that one's name."""

_EPOCH = datetime.fromtimestamp(0, UTC)


@dataclasses.dataclass(frozen=True)
class Columns:
    """Which column of a table holds what.

    Attributes:
        time: The column with each row's time.
        person: The column that identifies each row's person; None if every row is another
            person's.
        of_question: The columns of questions that are not read from columns of their own names.
        decimal_mark: "." or ",".
        zone: The time zone of times that name none.
        time_format: The format of times, as `TimeReader.of` takes it.
        missing: Texts and numbers that mean no answer, besides an empty cell.
        are_links: Whether the column of persons has their personal links, or the codes of these.
    """

    time: str
    person: str | None = None
    of_question: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    decimal_mark: str = "."
    zone: tzinfo = UTC
    time_format: str | None = None
    missing: Collection[str] = ()
    are_links: bool = False

    @cached_property
    def times(self) -> TimeReader:
        """What reads the column of times; `ParameterError` if its format is none."""
        return TimeReader.of(self.time_format, self.zone)

    @cached_property
    def codes(self) -> MissingCodes:
        """What means no answer."""
        return MissingCodes(self.missing, self.decimal_mark)

    def start(self, cell: Cell, windows: Windows) -> datetime:
        """Return the beginning of the window in which a time lies, or raise `CellError`."""
        moment = self.times.moment(cell)
        try:
            start = windows.start(moment)
        except OverflowError:
            start = _EPOCH
        if start <= _EPOCH:
            raise CellError(f"must be a time after 1970, not {shown(moment)}")
        return start

    def person_in(self, cell: Cell) -> str:
        """Return whose row it is, by its cell in the column of persons, or raise `CellError`.

        A code that is a number may be a person's name: it is of another column. Of a link it is
        the code, in whatever way it is written.
        """
        if self.are_links:
            return _code_in(cell)
        if self.codes.has_text(cell):
            raise CellError("names no person")
        return person_of(cell, self.decimal_mark)

    def of(self, question: Question) -> Sequence[str]:
        """Return the columns that a question is read from, in the order in which it takes them.

        Raises `CellError` if it is not read from so many, or one is given twice.
        """
        given = self.of_question.get(question.name, question.columns)
        if twice := [name for name, count in Counter(map(name_of, given)).items() if count > 1]:
            raise CellError(f"{question.name}: column {twice[0]!r} is given more than once")
        return [given[place] for place in question.order(given)]

    def of_text(self, text: Conditional, *, has_amount: bool) -> Sequence[str]:
        """Return the column that a text question is read from, and then that of the number, if any.

        Raises `CellError` if so many are not given.
        """
        usual = [text.name, f"{text.name}{AMOUNT}"] if has_amount else [text.name]
        given = self.of_question.get(text.name, usual)
        if len(given) != len(usual):
            said = "two columns, of text and of a number" if has_amount else "one column"
            raise CellError(f"{text.name}: is read from {said}, not from {len(given)}")
        return given


def _code_in(cell: Cell) -> str:
    try:
        return code_of(secret_of(cell if isinstance(cell, str) else ""))
    except ParameterError as error:
        raise CellError(str(error)) from None
