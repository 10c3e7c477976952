"""What a table of answers says: one row per person and window."""

import dataclasses
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, date, datetime, time, tzinfo
from decimal import Decimal
from typing import TypeAlias

from aggregator.client.survey.answers import Answer
from aggregator.steward.survey.answer_table import AnswerTable, Row
from aggregator.steward.survey.cells import AnswerError, Cell, Reading, is_missing, shown
from aggregator.steward.survey.conditions import Conditional, asked_if, routing_of
from aggregator.steward.survey.questions import Question
from aggregator.steward.survey.windows import Windows

_MOST_OF_A_COLUMN = 5
_MOST_COLUMNS = 5
_EPOCH = datetime.fromtimestamp(0, UTC)
_EXACT = 2**53
"""Whole numbers below it are exact as floats."""


@dataclasses.dataclass(frozen=True, slots=True)
class Columns:
    """Which column of a table holds what.

    Attributes:
        time: The column with each row's time.
        person: The column that identifies each row's person; None if every row is another
            person's.
        of_question: The columns of questions that are not read from columns of their own names.
        decimal_mark: "." or ",".
        zone: The time zone of times that name none.
        time_format: The format of times in text, as `datetime.strptime` reads it; ISO 8601 or
            seconds since 1970 unless given.
        missing: Texts that mean no answer, besides an empty cell.
    """

    time: str
    person: str | None = None
    of_question: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    decimal_mark: str = "."
    zone: tzinfo = UTC
    time_format: str | None = None
    missing: Collection[str] = ()

    def moment(self, row: Row) -> datetime:
        """Return the time of a row, or raise `AnswerError`."""
        moment = _moment(row[self.time], self.time_format)
        return moment if moment.tzinfo else moment.replace(tzinfo=self.zone)

    def start(self, row: Row, windows: Windows) -> datetime:
        """Return the beginning of the window in which a row's time lies, or raise `AnswerError`."""
        moment = self.moment(row)
        try:
            start = windows.start(moment)
        except OverflowError:
            start = _EPOCH
        if start <= _EPOCH:
            raise AnswerError(f"must be a time after 1970, not {shown(moment.isoformat(' '))}")
        return start

    def person_of(self, row: Row) -> str:
        """Return whose row it is, by the column of persons, which there must be.

        A person has one name in tables of every kind: 17, "17 ", and 17.0, which a column of whole
        numbers has where some are missing. Raises `AnswerError`.
        """
        match row[self.person or ""]:
            case str(name) if name.strip():
                return name.strip()
            case float(number) if abs(number) < _EXACT and number.is_integer():
                return str(int(number))
            case Decimal() as amount if amount == amount.to_integral_value():
                return str(int(amount))
            case int(number) if not isinstance(number, bool):
                return str(number)
            case None | str():
                raise AnswerError("names no person")
            case _:
                raise AnswerError("names no person: must be text or a whole number")

    def is_missing(self, cell: Cell) -> bool:
        """Whether a cell holds no answer."""
        return is_missing(cell) or (isinstance(cell, str) and cell.strip() in self.missing)

    def of(self, question: Question) -> Sequence[str]:
        """Return the columns that a question is read from."""
        return self.of_question.get(question.name, question.columns)


Given: TypeAlias = tuple[Answer | None, ...]
"""What one person answered to each question; None for no answer."""


@dataclasses.dataclass(frozen=True, slots=True)
class Answers:
    """All answers in a table.

    Attributes:
        by_start: By the beginning of their window, the answers of each row, even if it has none.
        persons: Likewise whose row each is; empty if no column says so.
        missing: For each question's name, how many rows have no answer to it.
        clipped: For each question's name, how many numbers beyond the range count as the nearest.
    """

    by_start: Mapping[datetime, Sequence[Given]]
    persons: Mapping[datetime, Sequence[str]]
    missing: Mapping[str, int]
    clipped: Mapping[str, int]

    @property
    def count(self) -> int:
        """How many rows there are."""
        return sum(map(len, self.by_start.values()))


def read_answers(
    table: AnswerTable,
    questions: Sequence[Question],
    windows: Windows,
    columns: Columns,
    texts: Sequence[Conditional] = (),
) -> Answers:
    """Return all answers in a table, checked.

    A row without any answer stands for a person who gave none, and is kept: whether there is a
    report must not depend on answers.

    Args:
        table: One row for each person and window.
        questions: The questions, each read from its columns.
        windows: The windows, in each of which a person may have one row.
        columns: Which column holds what.
        texts: The text questions. What was written is not read here, only whether it was asked for.

    Raises:
        AnswerError: Names the columns that the table lacks, or the rows and columns of faults, at
            most five of a column; rows count from 1, without the line of column names. It names no
            person.
    """
    _check_columns(table.names, questions, columns)
    reader = _Reader(questions, windows, columns, texts)
    for number, row in enumerate(table.rows, start=1):
        reader.take(number, row)
    return reader.finish()


def _check_columns(names: Collection[str], questions: Sequence[Question], columns: Columns) -> None:
    wanted = [columns.time]
    wanted += [] if columns.person is None else [columns.person]
    for question in questions:
        wanted += columns.of(question)
    absent = [name for name in dict.fromkeys(wanted) if name not in names]
    if absent:
        plural = "s" if len(absent) > 1 else ""
        raise AnswerError(
            f"column{plural} {', '.join(map(repr, absent))}: not in the table, which has "
            f"{', '.join(names) or 'none'}; a question may stand in a column of another name "
            "(--column QUESTION=COLUMN)"
        )


class _Reader:
    """Reads row by row and collects the faults."""

    def __init__(
        self,
        questions: Sequence[Question],
        windows: Windows,
        columns: Columns,
        texts: Sequence[Conditional],
    ) -> None:
        self._questions, self._windows, self._columns = questions, windows, columns
        self._texts, self._routing = texts, routing_of(questions, texts)
        self._answers: dict[datetime, list[Given]] = {}
        self._missing: Counter[str] = Counter()
        self._clipped: Counter[str] = Counter()
        self._persons: dict[datetime, dict[str, None]] = {}
        self._readings: dict[tuple[str, tuple[Cell, ...]], Reading] = {}
        self._faults: dict[str, list[str]] = {}
        self._fault_counts: Counter[str] = Counter()

    def take(self, number: int, row: Row) -> None:
        try:
            start = self._columns.start(row, self._windows)
        except AnswerError as error:
            self._fault(number, self._columns.time, error)
            return
        self._check_person(number, row, start)
        before = self._fault_counts.total()
        given = tuple(self._answer(number, row, question) for question in self._questions)
        if self._routing.is_needed and self._fault_counts.total() == before:
            self._check_asked(number, given, row)
        self._answers.setdefault(start, []).append(given)

    def _answer(self, number: int, row: Row, question: Question) -> Answer | None:
        """Return the answer to a question; None if there is none, or a fault, which is recorded."""
        names = self._columns.of(question)
        cells: list[Cell] = [row[name] for name in names]  # type: ignore[misc]  # columns of answers hold no times
        if any(map(self._columns.is_missing, cells)):
            self._missing[question.name] += 1
            return None
        try:
            reading = self._reading(question, cells)
        except AnswerError as error:
            self._fault(number, ", ".join(names), error)
            return None
        self._clipped[question.name] += reading.is_clipped
        return reading.answer

    def _reading(self, question: Question, cells: Sequence[Cell]) -> Reading:
        """Read cells; equal text is read only once, because most of it recurs."""
        if not all(isinstance(cell, str) for cell in cells):
            return question.read(cells, self._columns.decimal_mark)
        key = question.name, tuple(cells)
        if key not in self._readings:
            self._readings[key] = question.read(cells, self._columns.decimal_mark)
        return self._readings[key]

    def finish(self) -> Answers:
        if self._faults:
            raise AnswerError("\n".join(self._fault_lines()))
        persons = {start: [*of_window] for start, of_window in self._persons.items()}
        return Answers(self._answers, persons, self._missing, self._clipped)

    def _check_person(self, number: int, row: Row, start: datetime) -> None:
        column = self._columns.person
        if column is None:
            return
        try:
            person = self._columns.person_of(row)
        except AnswerError as error:
            self._fault(number, column, error)
            return
        of_window = self._persons.setdefault(start, {})
        if person in of_window:
            message = f"a second row of one person in {self._windows.describe(start)}"
            self._fault(number, column, AnswerError(message))
        of_window[person] = None

    def _check_asked(self, number: int, given: Given, row: Row) -> None:
        for question, answer, is_asked in zip(
            self._questions, given, self._routing.asked(given), strict=True
        ):
            if answer is not None and not is_asked:
                self._not_asked(number, self._columns.of(question), question)
        asked = self._routing.asked_texts(given)
        for text in self._texts:
            names = self._columns.of_question.get(text.name, [text.name])
            cells: list[Cell] = [row[name] for name in names]  # type: ignore[misc]  # columns of answers hold no times
            if not asked[text.name] and not all(map(self._columns.is_missing, cells)):
                self._not_asked(number, names, text)

    def _not_asked(self, number: int, names: Sequence[str], question: Conditional) -> None:
        message = f"must be empty: it is asked only if {asked_if(question)}"
        self._fault(number, ", ".join(names), AnswerError(message))

    def _fault(self, number: int, column: str, error: AnswerError) -> None:
        self._fault_counts[column] += 1
        kept = self._faults.setdefault(column, [])
        if len(kept) < _MOST_OF_A_COLUMN:
            kept.append(f"row {number}, {column}: {error}")

    def _fault_lines(self) -> list[str]:
        """Return the faults by column, because a fault in one row is often in all rows."""
        lines = []
        for column in [*self._faults][:_MOST_COLUMNS]:
            lines += self._faults[column]
            if more := self._fault_counts.pop(column) - len(self._faults[column]):
                lines.append(f"and {more:,} more in {column}")
        if others := self._fault_counts.total():
            lines.append(f"and {others:,} in {len(self._fault_counts)} other columns")
        return lines


def _moment(cell: Cell | datetime | date, time_format: str | None) -> datetime:
    """Return a time; it has no zone if the cell names none."""
    match cell:
        case datetime():
            return cell
        case date():
            return datetime.combine(cell, time())
        case int() if not isinstance(cell, bool):
            return _since_1970(cell)
        case str() if time_format is not None:
            try:
                return datetime.strptime(cell.strip(), time_format)  # noqa: DTZ007  its zone follows
            except ValueError:
                raise AnswerError(f"must be a time as {time_format}, not {shown(cell)}") from None
        case str() if cell.strip().isdecimal():
            return _since_1970(cell)
        case str():
            try:
                return datetime.fromisoformat(cell.strip())
            except ValueError:
                raise AnswerError(
                    f"must be a time in ISO 8601 or seconds since 1970, not {shown(cell)}; give "
                    'another format, such as --time-format "%d.%m.%Y"'
                ) from None
        case _:
            raise AnswerError(f"must be a time, not {shown(str(cell))}")


def _since_1970(cell: str | int) -> datetime:
    try:
        return datetime.fromtimestamp(int(cell), UTC)
    except (ValueError, OverflowError, OSError):  # beyond what a calendar, C or an integer holds
        raise AnswerError(
            f"must be a time in seconds since 1970, not {shown(str(cell))}, which is too large; "
            "milliseconds have three digits more"
        ) from None
