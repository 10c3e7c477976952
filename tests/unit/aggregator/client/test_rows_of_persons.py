"""A CSV file in which one person may have several rows."""

import io

import pytest

from aggregator.client import CellError, MeasurementReader
from aggregator.client.table_files.csv_tables import csv_table
from aggregator.vdaf.circuits import Histogram

READER = MeasurementReader(Histogram(4, 2))
ROWS = "person,bucket\nada,1\nbob,2\nada,3\n"


def test_without_the_column_each_row_is_a_different_persons() -> None:
    assert READER.read_table(csv_table(io.StringIO(ROWS)), ["bucket"]) == ([1, 2, 3], [])


def test_a_person_may_have_as_many_rows_as_the_task_allows() -> None:
    assert READER.read_table(csv_table(io.StringIO(ROWS)), ["bucket"], "person", 2) == (
        [1, 2, 3],
        ["ada", "bob", "ada"],
    )


def test_one_row_too_many_is_named_by_its_line_and_not_by_the_person() -> None:
    with pytest.raises(CellError, match="line 4, person: report 2 of one person") as refused:
        READER.read_table(csv_table(io.StringIO(ROWS)), ["bucket"], "person", 1)
    assert "ada" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bucket\n1\n", "column 'person'"),
        ("person,bucket\n,1\n", "line 2, person: names no person"),
    ],
)
def test_rows_that_name_no_person_are_refused(text: str, message: str) -> None:
    with pytest.raises(CellError, match=message):
        READER.read_table(csv_table(io.StringIO(text)), ["bucket"], "person")
