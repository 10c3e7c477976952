"""Tables of answers are read whole, and every fault is named."""

import io
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from typing_extensions import override

from aggregator.client.table_files.cells import CellError
from aggregator.client.table_files.csv_tables import csv_table
from aggregator.client.table_files.formats import table_in
from aggregator.client.table_files.table import Table
from aggregator.steward.survey import Columns, Windows, read_answers, survey_from_toml
from aggregator.steward.survey.answers import Answers
from tests.support.surveys import VISITS, department

WINDOWS = Windows.of("week", datetime(2026, 11, 2, tzinfo=UTC))
QUESTIONS = tuple(
    asked.question
    for asked in survey_from_toml(
        VISITS
        + department()
        + """
[[question]]
name = "age"
kind = "number"
low = 0
high = 120
clip = true
"""
    ).questions
)
MONDAY = datetime(2026, 11, 2, tzinfo=UTC)


def read(path: Path, columns: Columns | None = None, delimiter: str | None = None) -> Answers:
    given = table_in(path, delimiter)
    return read_answers(given, QUESTIONS, WINDOWS, columns or Columns(time="day"))


def table(path: Path, text: str, encoding: str = "utf-8") -> Path:
    file = path / "answers.csv"
    file.write_text(text, encoding=encoding, newline="")
    return file


def test_answers_fall_into_windows(tmp_path: Path) -> None:
    text = (
        "day,department,age\n"
        "2026-11-02,surgery,40\n2026-11-08T23:59:59,medicine,30\n2026-11-09,surgery,1\n"
    )
    second = datetime(2026, 11, 9, tzinfo=UTC)
    assert read(table(tmp_path, text)).by_start == {
        MONDAY: [((0,), (40,)), ((1,), (30,))],
        second: [((0,), (1,))],
    }


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_dialect_is_recognized(tmp_path: Path, encoding: str, delimiter: str) -> None:
    text = "day,department,age\r\n2026-11-02,surgery,40\r\n".replace(",", delimiter)
    assert read(table(tmp_path, text, encoding)).count == 1


def test_a_table_is_read_from_a_pipe_which_cannot_go_back() -> None:
    class Pipe(io.StringIO):
        @override
        def seek(self, cookie: int, whence: int = 0, /) -> int:
            raise io.UnsupportedOperation

    given = csv_table(Pipe("day;department;age\n2026-11-02;surgery;40\n"))
    assert read_answers(given, QUESTIONS, WINDOWS, Columns(time="day")).count == 1


def test_missing_and_clipped_answers_are_counted(tmp_path: Path) -> None:
    text = "day,department,age\n2026-11-02,,40\n2026-11-02,surgery,\n2026-11-02,surgery,999\n"
    given = read(table(tmp_path, text))
    assert {name: read.missing for name, read in given.read.items()} == {"department": 1, "age": 1}
    assert {name: read.clipped for name, read in given.read.items()} == {"department": 0, "age": 1}


def test_who_answered_nothing_has_a_row_like_everybody_else(tmp_path: Path) -> None:
    """The leader counts reports: were there none of them, it would count those who answered."""
    text = "day,department,age\n2026-11-02,,\n2026-11-02,surgery,\n"
    assert read(table(tmp_path, text)).by_start == {MONDAY: [(None, None), ((0,), None)]}


def test_every_fault_is_named_by_row_and_column(tmp_path: Path) -> None:
    text = (
        "day,department,age\n2026-11-02,dentist,40\nyesterday,surgery,4\n2026-11-02,surgery,old\n"
    )
    with pytest.raises(CellError) as refusal:
        read(table(tmp_path, text))
    lines = str(refusal.value).splitlines()
    assert lines[0].startswith(
        "answers.csv, line 2, department: must be one of 'surgery', 'medicine'"
    )
    assert lines[1].startswith("answers.csv, line 3, day: must be a time")
    assert lines[2].startswith("answers.csv, line 4, age: must be a number, not 'old'")


def test_of_the_faults_of_one_column_five_are_shown_and_the_rest_counted(tmp_path: Path) -> None:
    text = "day,department,age\n" + "2026-11-02,dentist,1\n" * 48 + "2026-11-02,surgery,old\n"
    with pytest.raises(CellError) as refusal:
        read(table(tmp_path, text))
    lines = str(refusal.value).splitlines()
    assert [line.removeprefix("answers.csv, ").partition(":")[0] for line in lines] == [
        *(f"line {number}, department" for number in range(2, 7)),
        "and 43 more in department",
        "line 50, age",
    ]


def test_of_many_columns_with_faults_five_are_shown() -> None:
    names = [f"q{number}" for number in range(9)]
    questions = [
        asked.question
        for asked in survey_from_toml(
            VISITS + "".join(f'[[question]]\nname = "{n}"\nkind = "yes-no"\n' for n in names)
        ).questions
    ]
    text = ",".join(["day", *names]) + "\n" + ",".join(["2026-11-02", *["maybe"] * 9]) + "\n"
    with pytest.raises(CellError, match=r"and 4 in 4 other columns$") as refusal:
        read_answers(csv_table(io.StringIO(text)), questions, WINDOWS, Columns("day"))
    assert len(str(refusal.value).splitlines()) == 6


@pytest.mark.parametrize(
    ("time", "said"),
    [
        ("1762041600000", "not the number '1762041600000': say what it counts with --time-format"),
        ("9" * 40, "not the number"),
        ("9" * 5000, "not the number"),
        ("1965-01-01", "must be a time after 1970, not the time 1965-01-01 00:00:00"),
        ("0001-01-01", "must be a time after 1970"),
        ("1970-01-02", "must be a time after 1970"),  # its window begins before
    ],
)
def test_a_time_in_which_no_report_can_be_is_refused_by_its_row(
    tmp_path: Path, time: str, said: str
) -> None:
    with pytest.raises(CellError, match=f"^answers.csv, line 2, day: .*{said}"):
        read(table(tmp_path, f"day,department,age\n{time},surgery,4\n"))


def test_a_second_row_of_a_person_in_one_window_is_refused_without_naming_them(
    tmp_path: Path,
) -> None:
    columns = Columns(time="day", person="who")
    rows = "day,department,age,who\n2026-11-02,surgery,40,ann\n2026-11-09,surgery,40,ann\n"
    assert read(table(tmp_path, rows), columns).count == 2
    with pytest.raises(CellError, match="line 4, who: a second row of one person") as refusal:
        read(table(tmp_path, rows + "2026-11-03,surgery,40,ann\n"), columns)
    assert "ann" not in str(refusal.value)


@pytest.mark.parametrize("cell", ["17", " 17\t", 17, 17.0, Decimal("17.00")], ids=repr)
def test_a_person_has_one_name_in_tables_of_every_kind(cell: object) -> None:
    """Who was sent under a name before would be counted again under another."""
    columns = Columns(time="day", person="who")
    row: dict[str, object] = {"day": "2026-11-02", "department": "surgery", "age": "40"}
    row["who"] = cell
    given = read_answers(Table.of_rows([*row], [[*row.values()]]), QUESTIONS, WINDOWS, columns)
    assert [*given.persons.values()] == [["17"]]


@pytest.mark.parametrize(
    "cell", [None, " ", float("nan"), float("inf"), 17.5, 2.0**53, True, b"17", ["17"]], ids=repr
)
def test_what_names_no_person_is_refused(cell: object) -> None:
    columns = Columns(time="day", person="who")
    row: dict[str, object] = {"day": "2026-11-02", "department": "surgery", "age": "40"}
    row["who"] = cell
    with pytest.raises(CellError, match=r"^the table, line 2, who: names no person"):
        read_answers(Table.of_rows([*row], [[*row.values()]]), QUESTIONS, WINDOWS, columns)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("day,age\n2026-11-02,4\n", "column 'department': not in answers.csv"),
        ("a,b\n1,2\n", "columns 'day', 'department', 'age': not in answers.csv, which has a, b"),
        ("a,b\n", "columns 'day', 'department', 'age': not in answers.csv, which has a, b"),
        ("", "columns 'day', 'department', 'age': not in answers.csv, which has none"),
        ("day,day,department,age\n", "has it 2 times, as columns A and B"),
        ("day,department,age\n2026-11-02,surgery\n", "line 2: has 2 cells, not 3"),
        ('day,department,age\n2026-11-02,"surgery,4\n', "not CSV"),
    ],
)
def test_what_is_no_table_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(CellError, match=message):
        read(table(tmp_path, text))


def test_times_without_a_zone_are_of_the_zone_that_is_given(tmp_path: Path) -> None:
    text = "day,department,age\n2026-11-02T00:30:00,surgery,4\n"
    columns = Columns(time="day", zone=ZoneInfo("Europe/Berlin"))
    assert list(read(table(tmp_path, text), columns).by_start) == [
        datetime(2026, 10, 26, tzinfo=UTC)
    ]


def test_times_are_read_in_the_format_that_is_given(tmp_path: Path) -> None:
    text = "day,department,age\n05.11.2026 23:30,surgery,4\n"
    with pytest.raises(CellError, match=r'--time-format "%d.%m.%Y"'):
        read(table(tmp_path, text))
    columns = Columns(time="day", time_format="%d.%m.%Y %H:%M")
    assert list(read(table(tmp_path, text), columns).by_start) == [MONDAY]
    text += "2026-11-02,surgery,4\n"
    with pytest.raises(CellError, match=r"answers.csv, line 3, day: must be a time as %d"):
        read(table(tmp_path, text), columns)


def test_texts_that_mean_no_answer_are_counted_as_missing(tmp_path: Path) -> None:
    text = "day,department,age\n2026-11-02,k.A.,40\n2026-11-02,surgery, n/a \n"
    columns = Columns(time="day", missing=("k.A.", "n/a"))
    given = read(table(tmp_path, text), columns)
    assert [read.missing for read in given.read.values()] == [1, 1]
    assert given.count == 2


def test_parquet_is_read_with_its_own_types(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars", reason="polars is an extra")
    path = tmp_path / "answers.parquet"
    polars.DataFrame(
        {
            "day": [date(2026, 11, 2), date(2026, 11, 3)],
            "department": ["surgery", None],
            "age": [4, 5],
        }
    ).write_parquet(path)
    given = read(path)
    assert (given.count, given.read["department"].missing) == (2, 1)


def test_windows_begin_at_their_first_day_in_whole_units() -> None:
    assert (WINDOWS.time_precision, WINDOWS.offset) == (86400, 4 * 86400)
    now = datetime(2026, 11, 20, 12, tzinfo=UTC)
    assert WINDOWS.last(now) == datetime(2026, 11, 9, tzinfo=UTC)
    assert WINDOWS.describe(WINDOWS.last(now)) == "2026-11-09 to 2026-11-15"
