"""What a table of answers says: one row per person and window."""

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import TypeAlias

from aggregator.client.survey.answers import Answer
from aggregator.client.survey.numbers import Grid, Unfit
from aggregator.client.table_files.cells import Cell, CellError, shown
from aggregator.client.table_files.laws import number_of, written_in
from aggregator.client.table_files.table import Line, Table
from aggregator.client.text.levels import Written, labelled
from aggregator.steward.survey.columns import Columns
from aggregator.steward.survey.conditions import Conditional, asked_if, routing_of
from aggregator.steward.survey.questions import Question
from aggregator.steward.survey.read_counts import TEXT_AND_NUMBER, ReadCounts, Seen
from aggregator.steward.survey.windows import Windows

_MOST_OF_A_COLUMN = 5
_MOST_COLUMNS = 5
_MOST_KEPT = 100_000
_HINT = "; a question may stand in a column of another name (--column QUESTION=COLUMN)"

Given: TypeAlias = tuple[Answer | None, ...]
"""What one person answered to each question; None for no answer."""


@dataclasses.dataclass(frozen=True, slots=True)
class Answers:
    """All answers in a table.

    Attributes:
        by_start: By the beginning of their window, the answers of each row, even if it has none.
        persons: Likewise whose row each is; empty if no column says so.
        written: Likewise what each row has for each text question, "" or None for nothing; empty if
            there are no text questions.
        read: For each question's name, what was read; that of text questions, too.
        unseen: Codes for a missing answer that no cell was.
    """

    by_start: Mapping[datetime, Sequence[Given]]
    persons: Mapping[datetime, Sequence[str]]
    written: Mapping[datetime, Sequence[Mapping[str, Written]]]
    read: Mapping[str, ReadCounts]
    unseen: Sequence[str]

    @property
    def count(self) -> int:
        """How many rows there are."""
        return sum(map(len, self.by_start.values()))


def read_answers(
    table: Table,
    questions: Sequence[Question],
    windows: Windows,
    columns: Columns,
    texts: Sequence[Conditional] = (),
    beside: Mapping[str, Grid | str] = MappingProxyType({}),
) -> Answers:
    """Return all answers in a table, checked.

    A row without any answer stands for a person who gave none, and is kept: whether there is a
    report must not depend on answers.

    Args:
        table: One row for each person and window.
        questions: The questions, each read from its columns.
        windows: The windows, in each of which a person may have one row.
        columns: Which column holds what.
        texts: The text questions.
        beside: The numbers that are possible beside the text, for those that ask for one, or the
            question by whose answers it is counted, for those that are.

    Raises:
        CellError: Names the columns that the table lacks, a question that is not read from the
            columns given, or the lines and columns of faults, at most five of a column. It names no
            person.
        ParameterError: A format of times is none.
    """
    reader = _Reader(table.source, questions, windows, columns, texts, beside)
    table = dataclasses.replace(table, hint=table.hint or _HINT)
    for line in table.read(reader.wanted):
        reader.take(line)
    return reader.finish()


class _Asked:
    """A question, where its cells are in a line, and what was read from cells of it so far."""

    def __init__(self, question: Question, columns: Sequence[str], first: int) -> None:
        self.question = question
        self.columns = columns
        self.place = first
        self.end = first + len(columns)
        self.seen: dict[Cell | tuple[Cell, ...], Seen] = {}
        self.counts = ReadCounts(columns, question.parts)

    def make_room(self) -> None:
        """Forget what was read, once it is counted: a table may have many different numbers."""
        self.counts.add(self.seen.values())
        self.seen.clear()


class _Reader:
    """Reads line by line and collects the faults."""

    def __init__(
        self,
        source: str,
        questions: Sequence[Question],
        windows: Windows,
        columns: Columns,
        texts: Sequence[Conditional],
        beside: Mapping[str, Grid | str],
    ) -> None:
        self._source, self._windows, self._columns = source, windows, columns
        self._routing = routing_of(questions, texts)
        self.wanted = [columns.time]
        """The columns of a line: the time, the person, those of questions, and of texts."""
        self._persons_at = None if columns.person is None else len(self.wanted)
        self.wanted += [] if columns.person is None else [columns.person]
        self._asked = []
        for question in questions:
            own = columns.of(question)
            self._asked.append(_Asked(question, own, len(self.wanted)))
            self.wanted += own
        self._grids = {name: each for name, each in beside.items() if isinstance(each, Grid)}
        self._by = {name: each for name, each in beside.items() if isinstance(each, str)}
        names = [question.name for question in questions]
        self._groups = {name: names.index(each) for name, each in self._by.items()}
        self._texts = dict[str, tuple[int, Conditional]]()
        self._text_counts = dict[str, ReadCounts]()
        for text in texts:
            its = columns.of_text(text, has_amount=text.name in self._grids)
            parts = TEXT_AND_NUMBER if text.name in self._grids else ()
            self._texts[text.name] = len(self.wanted), text
            self._text_counts[text.name] = ReadCounts(its, parts, by=self._by.get(text.name, ""))
            self.wanted += its
        self._starts: dict[Cell, datetime] = {}
        self._answers: dict[datetime, list[Given]] = {}
        self._written: dict[datetime, list[Mapping[str, Written]]] = {}
        self._persons: dict[datetime, dict[str, None]] = {}
        self._faults: dict[str, list[str]] = {}
        self._fault_counts: Counter[str] = Counter()

    def take(self, line: Line) -> None:
        number, cells = line
        try:
            start = self._start(cells[0])
        except CellError as error:
            self._fault(number, self._columns.time, error)
            return
        self._take_person(number, cells, start)
        before = self._fault_counts.total()
        given = tuple([self._answer(number, cells, asked) for asked in self._asked])
        written = {name: self._text(number, cells, name, given) for name in self._texts}
        if self._routing.is_needed and self._fault_counts.total() == before:
            self._check_asked(number, given, written)
        self._answers.setdefault(start, []).append(given)
        if written:
            self._written.setdefault(start, []).append(written)

    def finish(self) -> Answers:
        if self._faults:
            raise CellError("\n".join(self._fault_lines()))
        read = dict(self._text_counts)
        for asked in self._asked:
            asked.make_room()
            read[asked.question.name] = asked.counts
        persons = {start: [*of_window] for start, of_window in self._persons.items()}
        return Answers(self._answers, persons, self._written, read, self._columns.codes.unseen)

    def _start(self, cell: Cell) -> datetime:
        start = self._starts.get(cell)
        if start is None:
            if len(self._starts) > _MOST_KEPT:
                self._starts.clear()
            start = self._starts[cell] = self._columns.start(cell, self._windows)
        return start

    def _answer(self, number: int, cells: Sequence[Cell], asked: _Asked) -> Answer | None:
        """Return the answer to a question; None if there is none, or a fault, which is recorded."""
        is_one = asked.end == asked.place + 1
        key = cells[asked.place] if is_one else tuple(cells[asked.place : asked.end])
        seen = asked.seen.get(key)
        if seen is None:
            if len(asked.seen) > _MOST_KEPT:
                asked.make_room()
            seen = asked.seen[key] = self._read(asked, cells[asked.place : asked.end])
        seen.count += 1
        if seen.fault is not None:
            self._fault(number, ", ".join(asked.columns), seen.fault)
        return seen.answer

    def _read(self, asked: _Asked, cells: Sequence[Cell]) -> Seen:
        """Read cells; equal ones are read only once, because most of them recur."""
        has = self._columns.codes.has
        given = [None if has(cell) else cell for cell in cells]
        if asked.question.is_missing(given):
            return Seen()
        try:
            reading = asked.question.read(given, self._columns.decimal_mark)
        except CellError as error:
            return Seen(fault=CellError(f"{error}{self._columns.codes.hint(given)}"))
        return Seen(reading.answer, reading.given, is_clipped=reading.is_clipped)

    def _text(self, number: int, cells: Sequence[Cell], name: str, given: Given) -> Written:
        at = self._texts[name][0]
        if name in self._grids:
            return self._with_amount(number, cells[at : at + 2], name, self._grids[name])
        written = self._words(number, cells[at], name)
        if name not in self._groups:
            self._text_counts[name].add_text(written)
            return written
        chosen = given[self._groups[name]]
        self._text_counts[name].add_text(written, counts=chosen is not None)
        return labelled(written, chosen[0]) if written and chosen else None

    def _with_amount(
        self, number: int, cells: Sequence[Cell], name: str, grid: Grid
    ) -> tuple[str, int] | None:
        """Return text and the steps of a number; None if there is only one of them, or a fault."""
        counts, codes, mark = (
            self._text_counts[name],
            self._columns.codes,
            self._columns.decimal_mark,
        )
        value, steps, column = None, 0, counts.columns[0]
        try:
            written = "" if codes.has(cells[0]) else written_in(cells[0], mark)
            column = counts.columns[1]
            if not codes.has(cells[1]):
                value = number_of(cells[1], mark)
                steps = grid.place(value)
        except CellError as error:
            self._fault(number, column, CellError(f"{error}{codes.hint(cells[1:])}"))
            return None
        except Unfit as unfit:
            hint = "; `clip = true` would take the nearest"
            self._fault(number, column, CellError(f"{unfit}, not {shown(cells[1])}{hint}"))
            return None
        counts.add_amount(written, value, grid)
        return None if value is None or not written else (written, steps)

    def _words(self, number: int, cell: Cell, name: str) -> str:
        try:
            written = (
                ""
                if self._columns.codes.has(cell)
                else written_in(cell, self._columns.decimal_mark)
            )
        except CellError as error:
            self._fault(number, self._text_counts[name].columns[0], error)
            return ""
        return written

    def _take_person(self, number: int, cells: Sequence[Cell], start: datetime) -> None:
        if self._persons_at is None:
            return
        column = self.wanted[self._persons_at]
        try:
            person = self._columns.person_in(cells[self._persons_at])
        except CellError as error:
            self._fault(number, column, error)
            return
        of_window = self._persons.setdefault(start, {})
        if person in of_window:
            message = f"a second row of one person in {self._windows.describe(start)}"
            self._fault(number, column, CellError(message))
        of_window[person] = None

    def _check_asked(self, number: int, given: Given, written: Mapping[str, Written]) -> None:
        for asked, answer, is_asked in zip(
            self._asked, given, self._routing.asked(given), strict=True
        ):
            if answer is not None and not is_asked:
                self._not_asked(number, asked.columns, asked.question)
        for name, is_asked in self._routing.asked_texts(given).items():
            if written.get(name) and not is_asked:
                self._not_asked(number, self._text_counts[name].columns, self._texts[name][1])

    def _not_asked(self, number: int, names: Sequence[str], question: Conditional) -> None:
        message = f"must be empty: it is asked only if {asked_if(question)}"
        self._fault(number, ", ".join(names), CellError(message))

    def _fault(self, number: int, column: str, error: CellError) -> None:
        self._fault_counts[column] += 1
        kept = self._faults.setdefault(column, [])
        if len(kept) < _MOST_OF_A_COLUMN:
            kept.append(f"{self._source}, line {number}, {column}: {error}")

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
