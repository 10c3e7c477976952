"""`prio upload --csv` reads tables by the rules of `prio survey upload`."""

import io

import pytest

from aggregator.client import CellError, MeasurementReader
from aggregator.client.table_files.csv_tables import csv_table
from aggregator.client.table_files.formats import table_of
from aggregator.vdaf.circuits import Histogram, Sum, SumVec
from tests.support.workbooks import workbook

SUM = MeasurementReader(Sum(20))


def test_the_delimiter_and_excels_line_are_recognized() -> None:
    assert SUM.read_table(csv_table(io.StringIO("sep=;\nid;n;;\n1;7;;\n")), ["n"]) == ([7], [])
    book = workbook({"A": [["id", "n"], [1, 7.0]]})
    assert SUM.read_table(table_of(book, "a.xlsx"), ["n"], "id") == ([7], ["1"])


@pytest.mark.parametrize(("cell", "mark"), [("7.0", "."), (" 7 ", "."), ("+7", "."), ("7,0", ",")])
def test_a_whole_number_is_written_in_many_ways(cell: str, mark: str) -> None:
    table = csv_table(io.StringIO(f"n;x\n{cell};\n"))
    assert SUM.read_table(table, ["n"], decimal_mark=mark) == ([7], [])


@pytest.mark.parametrize("cell", ["1_0", "0x7", "7.5", "", "7,000", "\u0667", "1e1000"])
def test_what_is_no_whole_number_is_refused_by_its_line(cell: str) -> None:
    with pytest.raises(CellError, match="the table, line 2, n: must be an integer"):
        SUM.read_table(csv_table(io.StringIO(f"n;x\n{cell};y\n")), ["n"])


def test_a_bucket_is_the_same_in_another_normal_form() -> None:
    reader = MeasurementReader(Histogram(2, 1), ["médecine", "2"])
    table = csv_table(io.StringIO("n\nme\u0301decine\n2.0\n"))
    assert reader.read_table(table, ["n"]) == ([0, 1], [])


def test_17_and_17_point_0_are_one_person() -> None:
    table = csv_table(io.StringIO("n,who\n1,17\n2,17.0\n"))
    with pytest.raises(CellError, match="line 3, who: report 2 of one person"):
        SUM.read_table(table, ["n"], "who")


def test_columns_that_a_measurement_does_not_have_are_refused_before_any_row() -> None:
    table = csv_table(io.StringIO("a,b\nx,y\n"))
    with pytest.raises(CellError, match="column: 1 make a measurement, not 2"):
        SUM.read_table(table, ["a", "b"])
    with pytest.raises(CellError, match="column: 3 make a measurement, not 2"):
        MeasurementReader(SumVec(3, 20, 2)).read_table(table, ["a", "b"])
