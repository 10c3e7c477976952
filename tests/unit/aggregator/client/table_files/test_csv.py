"""CSV as programs write it: the delimiter, the line of names, and the lines of messages."""

import io

import pytest

from aggregator.client.survey.alternatives import comparable
from aggregator.client.table_files.cells import CellError, text_cell
from aggregator.client.table_files.csv_tables import csv_table


def lines(text: str, *columns: str, delimiter: str | None = None) -> list[tuple[int, list[object]]]:
    table = csv_table(io.StringIO(text, newline=""), delimiter, "a.csv")
    return [(number, list(cells)) for number, cells in table.read(columns)]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=repr)
@pytest.mark.parametrize("before", ["", "sep=|{}", '"sep=|"{}'])
def test_lines_end_as_they_do_on_any_machine(end: str, before: str) -> None:
    text = end.join(['"a, b, c"|d', "1|2", "", "3|4", ""])
    assert lines(before.format(end) + text, "d", "a, b, c") == [(2, ["2", "1"]), (4, ["4", "3"])]


@pytest.mark.parametrize(
    "names",
    [
        '"a, b, or c";"d, e";x',
        '"said ""x, y, z"", then";"d";x',
        '"in two\nlines, or, three";"d";x',
        "a 5,2 inch;d;x",
        "a;d;x,y,z",
    ],
)
def test_delimiters_are_counted_outside_quotation_marks(names: str) -> None:
    table = csv_table(io.StringIO(names + "\n1;2;3\n"))
    if names.endswith("x"):
        assert len(table.names) == 3
        assert [*table.read(["x"])] == [(2, ["3"])]
    else:
        assert [*csv_table(io.StringIO(names + "\n1;2;3\n"), ";").read(["d"])] == [(2, ["2"])]


def test_a_quotation_mark_within_a_name_hides_no_rows() -> None:
    assert lines('5" pipes,d\n1,2\n3,4\n', "d") == [(2, ["2"]), (3, ["4"])]


def test_the_first_line_that_is_not_empty_has_the_names() -> None:
    assert lines("\n\r\na;b\n1;2\n", "b") == [(4, ["2"])]
    with pytest.raises(CellError, match=r"a.csv, line 5: has 1 cells, not 2"):
        lines("\n\r\na;b\n1;2\n1\n", "b")


def test_a_table_of_a_hundred_thousand_lines_in_one_quotation_is_refused_soon() -> None:
    with pytest.raises(CellError, match=r"a.csv, line 1: not CSV"):
        lines('a,"b\n' + "1,2\n" * 100_000, "a")


@pytest.mark.parametrize("text", ["", "\n", "\ufeff", "sep=;", "sep=;\n\n"], ids=repr)
def test_what_has_no_names_has_no_columns(text: str) -> None:
    with pytest.raises(CellError, match=r"column 'a': not in a.csv, which has"):
        lines(text, "a")


def test_another_delimiter_is_asked_for() -> None:
    with pytest.raises(CellError, match="is it separated by ';' and not by ','"):
        lines("a;b\n1;2\n", "b", delimiter=",")


def test_a_cell_of_very_many_accents_is_read_at_once_and_as_the_client_compares_it() -> None:
    """Python's own normal form would take hours."""
    marks = "e" + "\u0301\u0323" * 200_000
    assert text_cell(f" {marks} ") == comparable(marks)
