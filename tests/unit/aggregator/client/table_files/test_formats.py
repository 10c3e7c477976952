"""A file is what its first bytes say, and text is in the encoding that is said."""

import gzip
import io
import re
import zipfile
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import polars as pl
import pyreadstat
import pytest

from aggregator.client.table_files import typed_files
from aggregator.client.table_files.cells import Cell, CellError, Labelled
from aggregator.client.table_files.formats import table_in, table_of
from aggregator.client.table_files.formulas import not_computed
from aggregator.client.table_files.laws import number_of, person_of, written_in
from aggregator.errors import ConfigurationError, ParameterError
from tests.support.workbooks import Formula, workbook

CSV = "time,dept\n2026-11-03,médecine\n"


def cells(data: bytes, *columns: str, **options: str) -> list[list[Cell]]:
    return [list(row) for _, row in table_of(data, "answers.csv", **options).read(columns)]


def test_text_is_utf_8_unless_its_encoding_is_said() -> None:
    for encoding in ("utf-8", "utf-8-sig"):
        assert cells(CSV.encode(encoding), "dept") == [["médecine"]]
        assert cells(CSV.encode(encoding), "dept", encoding="utf8") == [["médecine"]]
    for encoding in ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "windows-1252", "latin-1"):
        assert cells(CSV.encode(encoding), "dept", encoding=encoding) == [["médecine"]]


@pytest.mark.parametrize(
    ("encoding", "said"),
    [
        ("utf-16", "looks like UTF-16: give --encoding utf-16"),
        ("utf-16-le", "looks like UTF-16-LE: give --encoding utf-16-le"),
        ("utf-16-be", "looks like UTF-16-BE: give --encoding utf-16-be"),
        ("utf-32", "looks like UTF-32"),
        ("windows-1252", r"answers.csv: is not UTF-8 \(line 2 of the file\).* windows-1252"),
    ],
)
def test_another_encoding_is_recognized_and_not_guessed(encoding: str, said: str) -> None:
    with pytest.raises(CellError, match=said):
        cells(CSV.encode(encoding), "dept")


def test_an_encoding_that_the_file_does_not_have_is_refused() -> None:
    """It would make other letters of these, without a word."""
    for encoding in ("windows-1252", "latin-1", "utf-16"):
        with pytest.raises(CellError, match=r"answers.csv: is (UTF-8 and )?not"):
            cells(CSV.encode(), "dept", encoding=encoding)
    with pytest.raises(CellError, match="is UTF-16 and not"):
        cells(CSV.encode("utf-16"), "dept", encoding="windows-1252")
    for encoding in ("rot13", "base64", "nothing", "", "\0", "undefined", "ü"):
        with pytest.raises(ParameterError, match="encoding: there is no"):
            cells(CSV.encode(), "dept", encoding=encoding)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (gzip.compress(b"a", mtime=0), "compressed by gzip: unpack it"),
        (b"PK\x03\x04 anything", "a zip archive: unpack it"),
        (b"%PDF-1.7", "a PDF"),
        (b"<!DOCTYPE html><table>", "HTML or XML"),
        (b'{"a": 1}', "JSON"),
        (b'\xef\xbb\xbf{"a": 1}', "JSON"),
        (b'[\n  {"a": 1}]', "JSON"),
        (b"\r\n <html><table>", "HTML or XML"),
        (b"SQLite format 3\0", "an SQLite database"),
        (b"ARROW1\0\0", "Arrow"),
    ],
)
def test_what_is_no_table_is_called_by_its_name(data: bytes, said: str) -> None:
    with pytest.raises(CellError, match=f"answers.csv: is no table that can be read, but {said}"):
        cells(data, "dept")


@pytest.mark.parametrize(
    "data",
    [
        b"PAR1xx",
        b"$FL2xx",
        b"<stata_dta>xx",
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1xx",
        b"PK\x03\x04xl/",
    ],
)
def test_a_damaged_file_is_refused_by_its_name(data: bytes) -> None:
    with pytest.raises(CellError, match=r"^answers.csv: n"):
        cells(data, "dept")


@pytest.mark.parametrize(
    ("option", "said"),
    [("delimiter", "delimiter: answers.csv is a workbook"), ("encoding", "encoding: answers.csv")],
)
def test_an_option_that_a_format_does_not_have_is_refused(option: str, said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        cells(workbook({"A": [["dept"]]}), "dept", **{option: ";"})
    with pytest.raises(ParameterError, match=r"sheet: answers.csv is CSV"):
        cells(CSV.encode(), "dept", sheet="A")


def test_a_workbooks_cells_have_their_types_and_lines() -> None:
    day = datetime(2026, 11, 3)  # noqa: DTZ001  as workbooks have times
    sheet = [
        [],
        ["time", " name ", 5, "", None, "x"],
        [day, "e\u0301 ", 17.0, "", None, True],
        [],
        [day, None, 0.1 + 0.2, None, None, None],
    ]
    for since_1904 in (False, True):
        data = workbook({"notes": [], "A": sheet}, since_1904=since_1904)
        table = table_of(data, "a.xlsx")
        assert [*table.names] == ["time", "name", "5", "", "", "x"]
        assert [*table.read(["time", "name", "5"])] == [
            (3, [day, "é", Decimal(17)]),
            (5, [day, None, Decimal("0.3")]),
        ]


@pytest.mark.parametrize(
    ("stored", "said"),
    [
        (0.699999988079071, "0.7"),  # 0.7 in 32 bits, which pandas writes so
        (-36.599998474121094, "-36.6"),
        (0.7, "0.7"),
        (0.699999988079072, "0.699999988079072"),
        (0.000244140625, "0.000244140625"),
        (1234567.875, "1234567.875"),
        (1e300, "1e300"),
        (0.1 + 0.2, "0.3"),
    ],
)
def test_a_number_that_was_of_32_bits_before_is_what_it_was_written_as(
    stored: float, said: str
) -> None:
    assert cells(workbook({"A": [["x"], [stored]]}), "x") == [[Decimal(said)]]


def person_in(data: bytes) -> str:
    return person_of(cells(data, "who")[0][0], ".")


def stored(kind: str, value: float, tmp_path: Path) -> bytes:
    """Return a file with a whole number as programs store it."""
    path = tmp_path / "stored"
    if kind == "workbook":
        return workbook({"A": [["who"], [value]]})
    if kind.startswith("Float"):
        pl.DataFrame({"who": pl.Series([value], dtype=getattr(pl, kind))}).write_parquet(path)
    else:
        pyreadstat.write_sav(pl.DataFrame({"who": [float(value)]}), path)
    return path.read_bytes()


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("Float32", 2**24),
        ("Float32", 123456789),
        ("workbook", 2**53),
        ("Float64", 2**53),
        ("SPSS", 2**53),
    ],
)
def test_a_number_that_may_have_lost_its_last_digits_names_nobody(
    kind: str, value: int, tmp_path: Path
) -> None:
    data = stored(kind, value, tmp_path)
    with pytest.raises(CellError, match="names no person: a number of more digits"):
        person_in(data)
    with pytest.raises(CellError, match="must be text, not"):
        written_in(cells(data, "who")[0][0], ".")


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("Float32", 2**24 - 1),
        ("workbook", 2**53 - 1),
        ("Float64", 2**53 - 1),
        ("SPSS", 2**43),  # exactly a number of 32 bits, by chance
    ],
)
def test_a_number_of_all_its_digits_names_a_person(kind: str, value: int, tmp_path: Path) -> None:
    assert person_in(stored(kind, value, tmp_path)) == str(value)


def test_rows_of_blank_cells_are_none_in_csv_and_in_workbooks() -> None:
    rows = [["a", "b"], ["", " "], ["1", "2"], ["\u00a0", ""], ["", "3"], ["", ""]]
    text = "\n".join(",".join(row) for row in rows)
    for data in (text.encode(), workbook({"A": rows}), f"{text},,\n".encode()):
        table = table_of(data, "answers")
        assert [*table.read(["a", "b"])] == [(3, ["1", "2"]), (5, [None, "3"])]


def test_a_row_of_one_blank_cell_is_a_row_if_there_is_one_column() -> None:
    assert cells(b'a\n""\n1\n', "a") == [[None], ["1"]]


def test_a_formula_counts_as_the_value_that_a_spreadsheet_has_computed() -> None:
    book = workbook({"A": [["x", "y"], [Formula("20+21", 41), Formula('""', "")]]})
    assert cells(book, "x", "y") == [[Decimal(41), None]]


@pytest.mark.parametrize(
    ("formula", "options"),
    [(Formula("20+21"), {}), (Formula("20+21", 0), {"is_to_be_computed": True})],
)
def test_a_formula_that_nobody_has_computed_is_neither_empty_nor_0(
    formula: Formula, options: dict[str, bool]
) -> None:
    rows = [[], [None, "z", "x", "y"], [None, 1, formula, 5], [None, 2, 7, 5]]
    book = workbook({"notes": [], "A & <B>": rows, "C": [["x"]]}, **options)
    found = cells(book, "y", "x", sheet="A & <B>")
    assert found[1] == [Decimal(5), Decimal(7)]
    assert found[0][0] == Decimal(5)
    with pytest.raises(CellError, match=r"must be a number, not a formula without .* save it"):
        number_of(found[0][1], ".")


def test_a_title_above_the_names_is_what_a_missing_column_is_said_to_come_from() -> None:
    rows = [["Visits in 2026", "", ""], ["time", "a", "b"], ["2026-11-03", "1", "2"]]
    text = "\n".join(",".join(row) for row in rows)
    for data in (text.encode(), workbook({"A": rows})):
        with pytest.raises(
            CellError, match=r"has Visits in 2026 and 2 without names; .* delete the"
        ):
            cells(data, "a")


def test_a_sheet_is_named_if_there_are_several() -> None:
    data = workbook({"A": [["x"], [1]], "Bögen": [["x"], [2]]})
    with pytest.raises(CellError, match="has several sheets, 'A', 'Bögen': name one with --sheet"):
        cells(data, "x")
    assert cells(data, "x", sheet="Bo\u0308gen ") == [[Decimal(2)]]
    with pytest.raises(CellError, match="has no sheet 'C': it has 'A', 'Bögen'"):
        cells(data, "x", sheet="C")
    with pytest.raises(CellError, match=r"column 'x': not in answers.csv, which has none"):
        cells(workbook({"A": []}), "x")


@pytest.mark.parametrize("suffix", [".sav", ".dta"])
def test_files_of_spss_and_stata_have_labels_dates_and_missing_values(
    tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"answers{suffix}.csv"  # what it is called does not count
    frame = pl.DataFrame({"day": [date(2026, 11, 3), None], "dept": [2.0, 99.0], "word": ["é", ""]})
    if suffix == ".sav":
        pyreadstat.write_sav(
            frame,
            path,
            variable_value_labels={"dept": {2.0: " médecine", 99.0: "refused"}},
            missing_ranges={"dept": [99]},
        )
    else:
        frame = frame.with_columns(dept=pl.Series([2.0, None]))
        pyreadstat.write_dta(frame, path, variable_value_labels={"dept": {2: " médecine"}})
    dept, day = Labelled(Decimal(2), "médecine"), datetime(2026, 11, 3)  # noqa: DTZ001  as files have times
    assert [*table_in(path).read(["word", "dept", "day", "dept"])] == [
        (2, ("é", dept, day, dept)),
        (3, (None, None, None, None)),
    ]


def test_parquet_has_cells_of_its_own_types(tmp_path: Path) -> None:
    path = tmp_path / "answers"
    pl.DataFrame(
        {
            "a": pl.Series([0.1, None, float("nan")], dtype=pl.Float32),
            "b": pl.Series(["x", "y", None], dtype=pl.Categorical),
            "c": [["x", "y"], [], None],
            "d": pl.Series([Decimal("1.50"), None, Decimal(2)], dtype=pl.Decimal(10, 2)),
        }
    ).write_parquet(path)
    assert [row for _, row in table_in(path).read(["d", "a", "b", "c"])] == [
        (Decimal("1.5"), Decimal("0.1"), "x", ("x", "y")),
        (None, None, "y", ()),
        (Decimal(2), None, None, None),
    ]


def test_a_date_beyond_the_calendar_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "answers.parquet"
    pl.DataFrame({"day": pl.Series([10**8], dtype=pl.Int32).cast(pl.Date)}).write_parquet(path)
    with pytest.raises(CellError, match=r"answers.parquet: has a value that cannot be read"):
        [*table_in(path).read(["day"])]


def test_a_library_that_is_not_there_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(_: str) -> None:
        raise ImportError

    monkeypatch.setattr(typed_files.importlib, "import_module", missing)
    for data, said in (
        (workbook({"A": []}), r"a workbook needs python_calamine: .*\[tables\]"),
        (b"PAR1", r"Parquet needs polars: .*\[frames\]"),
        (b"$FL2", r"a file of SPSS needs pyreadstat: .*\[tables\]"),
        (b"<stata_dta>", r"a file of Stata needs pyreadstat: .*\[tables\]"),
    ):
        with pytest.raises(ConfigurationError, match=said):
            cells(data, "x")


def test_a_formula_is_found_whatever_prefix_a_program_gives_the_elements_of_a_sheet() -> None:
    book = workbook({"A": [["x"], [Formula("20+21")], [Formula("1", 1)]]})
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(book)) as old, zipfile.ZipFile(file, "w") as new:
        for name in old.namelist():
            text = old.read(name).decode()
            if name.startswith("xl/worksheets/"):
                text = re.sub(r"<(/?)(\w)", r"<\1x:\2", text).replace(" xmlns=", " xmlns:x=")
            new.writestr(name, text)
    assert not_computed(file.getvalue(), "A") == not_computed(book, "A") == {(2, 0)}
