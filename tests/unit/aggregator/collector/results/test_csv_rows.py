"""CSV: what is read back, what spreadsheets would compute, and that it is written in one place."""

import csv
import io
import re
from pathlib import Path

import aggregator
from aggregator.collector.results.csv_rows import as_csv

PACKAGE = Path(aggregator.__file__).parent


def test_cells_are_read_back_by_name_and_none_is_empty() -> None:
    rows = [{"b": 'a "word", and\nanother', "a": 1.5}, {"a": None, "b": 7}]
    text = as_csv(["a", "b"], rows).decode()
    assert list(csv.DictReader(io.StringIO(text, newline=""))) == [
        {"a": "1.5", "b": 'a "word", and\nanother'},
        {"a": "", "b": "7"},
    ]


def test_no_cell_and_no_name_of_others_is_computed_and_numbers_are_numbers() -> None:
    text = as_csv(["=A1", "value"], [{"=A1": "\uff1dHYPERLINK(1)", "value": -5}]).decode()
    assert list(csv.reader(text.splitlines())) == [["'=A1", "value"], ["'\uff1dHYPERLINK(1)", "-5"]]


def test_halves_of_characters_that_no_encoding_has_become_question_marks() -> None:
    assert as_csv(["a"], [{"a": "x\ud800"}]) == b"a\r\nx?\r\n"


def test_nothing_else_writes_csv() -> None:
    """Else a label that is inert in one file would be computed in another."""
    writes = re.compile(r"csv\.(?:Dict)?[wW]riter\(|\.write_csv\(|savetxt\(")
    found = [
        str(path.relative_to(PACKAGE))
        for path in sorted(PACKAGE.rglob("*.py"))
        if writes.search(path.read_text(encoding="utf-8"))
    ]
    assert found == ["collector/results/csv_rows.py"]
