"""One frame says the same in every format and every spelling in which programs write it."""

import csv
import io
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import pyreadstat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.client.table_files.formats import table_of
from aggregator.steward.survey import Columns, read_answers, survey_from_toml
from aggregator.steward.survey.answers import Answers
from tests.support.workbooks import workbook

SURVEY = survey_from_toml(
    """
title = "Visits"
asked = "patients"
window = "day"
first = 2026-11-02
min_batch_size = 100
[budget]
epsilon = "2"
windows = 52
[[question]]
name = "dept"
kind = "choice"
labels = ["surgery", "médecine", "3"]
[[question]]
name = "age"
kind = "number"
low = 0
high = 120
[[question]]
name = "dist"
kind = "bins"
edges = [0, 0.1, 0.3, 0.5, 0.7, 1, 10]
[[question]]
name = "ok"
kind = "yes-no"
[[question]]
name = "likes"
kind = "multiple"
labels = ["food", "quiet"]
[[question]]
name = "code"
kind = "text"
epsilon = "1"
"""
)
QUESTIONS = [asked.question for asked in SURVEY.questions]
MISSING = 99
COLUMNS = Columns("time", "person", missing=(str(MISSING), "n/a"))
DAY = datetime(2026, 11, 3)  # noqa: DTZ001  as files have times
NAMES = ("time", "person", "dept", "age", "dist", "ok", "likes", "code")

Cell = Any  # a value of Python, by its column
Frame = Mapping[str, Sequence[Cell]]


@st.composite
def frames(draw: st.DrawFn) -> Frame:
    """Columns of values as Python has them; persons and codes are numbers, which most formats
    write in several ways."""
    persons = draw(st.lists(st.integers(0, 2**53 - 1), min_size=1, max_size=6, unique=True))

    def column(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(st.none() | values, min_size=len(persons), max_size=len(persons)))

    minutes = st.integers(0, 10 * 24 * 60)
    times = [draw(minutes.map(lambda each: DAY + timedelta(minutes=each))) for _ in persons]
    return {
        "time": times,
        "person": persons,
        "dept": column(st.sampled_from(["surgery", "médecine", "3"])),
        "age": column(st.integers(0, 120)),
        "dist": column(st.sampled_from([0.1, 0.3, 0.7, 0.25, 1.0, 0.5, 9.99])),
        "ok": column(st.booleans()),
        "likes": column(st.sampled_from(["food", "quiet", "food;quiet", "none"])),
        "code": column(st.integers(0, 99_999)),
    }


def text(
    frame: Frame,
    write: Callable[[str, Cell], str],
    delimiter: str = ",",
    encoding: str = "utf-8",
    head: str = "",
) -> bytes:
    file = io.StringIO(newline="")
    writer = csv.writer(file, delimiter=delimiter)
    writer.writerow(frame)
    for row in zip(*frame.values(), strict=True):
        writer.writerow([write(name, cell) for name, cell in zip(frame, row, strict=True)])
    return (head + file.getvalue()).encode(encoding)


def plain(name: str, cell: Cell) -> str:
    return "" if cell is None else cell.isoformat() if name == "time" else str(cell)


def of_pandas(name: str, cell: Cell) -> str:
    """As it writes columns that a gap made floats, and booleans."""
    match name, cell:
        case _, None:
            return ""
        case "person" | "age" | "code" | "ok", _:
            return str(float(cell))
        case _:
            return str(cell)


def german(name: str, cell: Cell) -> str:
    match name, cell:
        case _, None:
            return " "
        case "dist" | "age", _:
            return f" {float(cell)}".replace(".", ",")
        case "time", _:
            return str(cell.strftime("%Y%m%d%H%M"))
        case "likes", _:
            return f"{cell};"
        case _:
            return str(cell)


def statistical(name: str, cell: Cell) -> str:  # noqa: PLR0911  one for each column
    match name, cell:
        case "age", None:
            return f"{MISSING}."
        case _, None:
            return "n/a"
        case "dist", _:
            return str(cell).removeprefix("0").removesuffix("0")
        case "ok", _:
            return "Y" if cell else "N"
        case "time", _:
            return f"{cell:%Y-%m-%d %H:%M:%S} UTC"
        case "person", _:
            return f" {cell}."
        case _:
            return unicodedata.normalize("NFD", str(cell))


def parquet(frame: Frame, **types: type[pl.DataType]) -> bytes:
    made = pl.DataFrame(dict(frame)).with_columns(
        [pl.col(name).cast(kind) for name, kind in types.items()]
    )
    file = io.BytesIO()
    made.write_parquet(file)
    return file.getvalue()


def of_program(frame: Frame, suffix: str) -> bytes:
    """As SPSS and Stata have it: numbers and yes are floats, and departments codes with labels."""
    codes = {"surgery": 1.0, "médecine": 2.0, "3": 3.0, None: None}
    floats = ("person", "age", "ok", "code")
    given = {
        name: [None if each is None else float(each) for each in column]
        if name in floats
        else column
        for name, column in frame.items()
    }
    given["dept"] = [codes[each] for each in frame["dept"]]
    kinds = dict.fromkeys([*floats, "dept", "dist"], pl.Float64)
    made = pl.DataFrame(given, schema_overrides={**kinds, "likes": pl.String}).with_columns(
        pl.col("likes").fill_null("")
    )
    labels = {"dept": {code: label for label, code in codes.items() if code is not None}}
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"answers{suffix}"
        write = pyreadstat.write_sav if suffix == ".sav" else pyreadstat.write_dta
        write(made, path, variable_value_labels=labels)
        return path.read_bytes()


def read(data: bytes, columns: Columns = COLUMNS, encoding: str | None = None) -> Answers:
    table = table_of(data, "answers", encoding=encoding)
    return read_answers(table, QUESTIONS, SURVEY.windows, columns, SURVEY.texts)


def said(found: Answers) -> tuple[object, ...]:
    return found.by_start, found.persons, found.written


FORMATS: dict[str, Callable[[Frame], Answers]] = {
    "pandas": lambda frame: read(text(frame, of_pandas)),
    "semicolons": lambda frame: read(
        text(frame, german, ";", "utf-8-sig", head="sep=;\r\n"),
        Columns("time", "person", decimal_mark=","),
    ),
    "statistical": lambda frame: read(text(frame, statistical, "\t")),
    "utf-16": lambda frame: read(text(frame, plain, encoding="utf-16"), encoding="utf-16"),
    "windows": lambda frame: read(text(frame, plain, encoding="cp1252"), encoding="windows-1252"),
    "parquet": lambda frame: read(parquet(frame)),
    "parquet of floats": lambda frame: read(
        parquet(
            frame,
            person=pl.Float64,
            age=pl.Float32,
            dist=pl.Float32,
            ok=pl.Float64,
            code=pl.Float64,
        )
    ),
    "parquet of codes": lambda frame: read(
        parquet({**frame, "age": [MISSING if each is None else each for each in frame["age"]]})
    ),
    "excel": lambda frame: read(workbook({"A": [NAMES, *zip(*frame.values(), strict=True)]})),
    "excel-1904": lambda frame: read(
        workbook(
            {"empty": [], "A": [[], NAMES, *zip(*frame.values(), strict=True), [None, ""]]},
            since_1904=True,
        )
    ),
    "spss": lambda frame: read(of_program(frame, ".sav")),
    "stata": lambda frame: read(of_program(frame, ".dta")),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
@settings(deadline=None, max_examples=40)
@given(frame=frames())
def test_a_frame_says_the_same_in_every_format(name: str, frame: Frame) -> None:
    frame = {**frame, "age": [None if each == MISSING else each for each in frame["age"]]}
    if any(each == MISSING for each in frame["code"]):
        frame = {**frame, "code": [None if each == MISSING else each for each in frame["code"]]}
    assert said(FORMATS[name](frame)) == said(read(text(frame, plain)))


def test_times_are_of_the_given_zone_in_every_format() -> None:
    frame: Frame = {name: [None] for name in NAMES} | {"time": [DAY], "person": [1]}
    for name, of_format in FORMATS.items():
        assert list(of_format(frame).by_start) == [DAY.replace(tzinfo=UTC)], name
