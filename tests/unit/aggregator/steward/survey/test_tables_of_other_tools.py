"""Tables as other tools write them say what they say there, or are refused."""

import io
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from aggregator.client.table_files.cells import CellError, Labelled
from aggregator.client.table_files.csv_tables import csv_table
from aggregator.client.table_files.formats import table_in
from aggregator.client.table_files.table import Table
from aggregator.errors import ParameterError
from aggregator.steward.survey import Columns, read_answers, survey_from_toml
from aggregator.steward.survey.answers import Answers, Given
from aggregator.steward.survey.named_columns import named_columns

DATA = Path(__file__).with_name("data") / "tables"
SURVEY = survey_from_toml((DATA / "base.toml").read_text(encoding="utf-8"))
TEXTS = survey_from_toml((DATA / "text.toml").read_text(encoding="utf-8"))
HEAD = "time,dept,age,likes,ok,stars,dist"
ROW = "2026-11-03,surgery,40,food,yes,3,0.6"
USUAL: Given = ((0,), (40,), (0,), (0,), (2,), (1,))
MONDAY = datetime(2026, 11, 2, tzinfo=UTC)


def read(table: Path | Table, columns: Columns | None = None, named: Sequence[str] = ()) -> Answers:
    given = table_in(table) if isinstance(table, Path) else table
    questions = [asked.question for asked in SURVEY.questions]
    chosen = columns or Columns("time")
    of_question = named_columns(named, {each.name for each in questions}, given)
    asked = Columns(
        chosen.time,
        chosen.person,
        of_question,
        chosen.decimal_mark,
        chosen.zone,
        chosen.time_format,
        chosen.missing,
    )
    return read_answers(given, questions, SURVEY.windows, asked)


def rows(
    table: Path | Table, columns: Columns | None = None, named: Sequence[str] = ()
) -> list[Given]:
    (found,) = read(table, columns, named).by_start.values()
    return list(found)


def changed(**cells: str) -> Table:
    """A table of one row like all others but for these cells; `_` stands for a comma."""
    named = dict(zip(HEAD.split(","), ROW.split(","), strict=True)) | cells
    lines = [",".join(named), ",".join(f'"{each}"' for each in named.values())]
    return csv_table(io.StringIO("\n".join(lines)))


def with_(**answers: object) -> Given:
    places = dict(zip(HEAD.split(",")[1:], USUAL, strict=True)) | answers
    return tuple(places.values())


@pytest.mark.parametrize(
    ("cell", "time_format"),
    [
        ("2026/11/03 3:08:47 PM GMT+1", "%Y/%m/%d %I:%M:%S %p GMT+1"),
        ("11/03/2026 15:08:47", "%m/%d/%Y %H:%M:%S"),
        ("03.11.2026 15:08", "%d.%m.%Y %H:%M"),
        ("03/11/2026 15:08", "%d/%m/%Y %H:%M"),
        ("2026-11-03T15:08:47", None),  # KoBo
        ("2026-11-03 15:08:47", None),  # Qualtrics
    ],
)
def test_times_of_the_tools_in_the_document_are_read_as_it_says(
    cell: str, time_format: str | None
) -> None:
    document = (Path(__file__).parents[5] / "docs/tables.md").read_text(encoding="utf-8")
    assert time_format is None or f'"{time_format}"' in document
    assert list(read(changed(time=cell), Columns("time", time_format=time_format)).by_start) == [
        MONDAY
    ]


def test_every_option_of_microsoft_forms_is_followed_by_the_separator() -> None:
    assert rows(DATA / "microsoft-forms/in.csv") == [
        with_(likes=(0, 1)),
        with_(likes=(2,), ok=(1,)),
    ]


@pytest.mark.parametrize("cell", ["food;quiet;", "food ; quiet", " quiet;food", ";food;;quiet"])
def test_a_list_in_a_cell_may_have_blanks_and_separators_too_many(cell: str) -> None:
    assert rows(changed(likes=cell)) == [with_(likes=(0, 1))]


def test_a_cell_of_separators_alone_is_no_answer_that_there_is() -> None:
    with pytest.raises(CellError, match="must be one of"):
        rows(changed(likes=";"))


def test_empty_columns_beside_an_excel_table_are_not_read() -> None:
    columns = Columns("time", decimal_mark=",")
    assert rows(DATA / "excel/in.csv", columns) == [
        USUAL,
        ((2,), (41,), (1,), (1,), (1,), (2,)),
    ]
    assert rows(DATA / "excel/noempty.csv", columns) == [USUAL]


def test_only_columns_that_are_read_must_be_unique() -> None:
    assert rows(DATA / "form-tool/in.csv") == [USUAL]
    twice = csv_table(io.StringIO(f"{HEAD},age\n{ROW},41\n"))
    with pytest.raises(
        CellError, match="column 'age': the table has it 2 times, as columns C and H"
    ):
        read(twice)


@pytest.mark.parametrize("line", ["sep=;\n", '"sep=;"\r\n', "SEP=;\r\n"])
def test_the_line_by_which_excel_knows_the_delimiter_is_no_line_of_names(line: str) -> None:
    assert rows(DATA / "excel-sep/in.csv") == [USUAL]
    table = csv_table(io.StringIO(line + f"{HEAD}\n{ROW}\n".replace(",", ";").replace("40", "x")))
    with pytest.raises(CellError, match="line 2, age"):
        read(table)


@pytest.mark.parametrize(
    ("cell", "mark", "place"),
    [
        (".6", ".", 1),
        ("0.6", ".", 1),
        ("+.6", ".", 1),
        ("6e-1", ".", 1),
        ("5.", ".", 3),
        ("5.0", ".", 3),
        (",6", ",", 1),
        ("5,", ",", 3),
        ("0,60", ",", 1),
        (".7", ".", 2),
        ("0.7000", ".", 2),
    ],
)
def test_numbers_are_written_as_statistical_programs_do(cell: str, mark: str, place: int) -> None:
    given = rows(changed(dist=cell), Columns("time", decimal_mark=mark))
    assert given == [with_(dist=(place,))]


def test_numbers_of_spss_are_read() -> None:
    assert rows(DATA / "spss-numbers/in.csv") == [USUAL, with_(dist=(2,))]


@pytest.mark.parametrize(
    ("cell", "mark"),
    [
        ("1,234", "."),
        ("1.234", ","),
        ("1'234", "."),
        ("1 234", "."),
        (".", "."),
        ("50%", "."),
        ("\u22125", "."),
        ("1/2", "."),
        ("0x10", "."),
        ("Inf", "."),
        ("1_0", "."),
        ("\u0661", "."),
        ("1e400", "."),
        ("True", "."),
    ],
)
def test_what_is_no_number_is_refused(cell: str, mark: str) -> None:
    with pytest.raises(CellError, match="line 2, dist: must be a number"):
        read(changed(dist=cell), Columns("time", decimal_mark=mark))


@pytest.mark.parametrize("label", ["me\u0301decine", "médecine", " médecine\u00a0"])
def test_a_label_is_the_same_in_another_normal_form(label: str) -> None:
    assert rows(DATA / "macos/in.csv") == [with_(dept=(1,))]
    assert rows(changed(dept=label)) == [with_(dept=(1,))]


@pytest.mark.parametrize(
    ("column", "cell"),
    [
        *(("age", each) for each in ("NA", "n/a", "-", ".", "NULL", "nan", "#N/A", "#DIV/0!")),
        *(("age", each) for each in ("-99", "999", "-8.0", "-1", "??")),
        *(("dept", each) for each in ("NA", "k. A.", "99", "None", "--")),
        *(("ok", each) for each in ("-1", "NaN", "9")),
        ("stars", "88"),
        ("likes", "missing"),
    ],
)
def test_who_has_a_code_for_no_answer_is_told_how_to_name_it(column: str, cell: str) -> None:
    with pytest.raises(CellError, match="means no answer, give --missing=") as refused:
        read(changed(**{column: cell}))
    (code,) = shlex.split(str(refused.value).rpartition("--missing=")[2])
    given = read(changed(**{column: cell}), Columns("time", missing=(code,)))
    assert (given.read[column].missing, given.unseen) == (1, [])


@pytest.mark.parametrize("cell", ["food, quiet", "food quiet", "food|staff"])
def test_a_list_divided_by_something_else_is_told_what_divides_it(cell: str) -> None:
    with pytest.raises(CellError, match="labels in one cell have ';' between them"):
        read(changed(likes=cell))


def test_the_names_of_columns_are_the_same_in_another_normal_form() -> None:
    head = HEAD.replace("age", '" a\u0302ge\u00a0in\nyears "')
    table = csv_table(io.StringIO(f"{head}\n{ROW}\n"))
    assert rows(table, named=["age=\u00e2ge in years"]) == [USUAL]


def test_a_person_is_one_person_with_and_without_a_decimal_point() -> None:
    by_person = Columns("time", "person")
    with pytest.raises(CellError, match="line 3, person: a second row of one person"):
        read(DATA / "pandas-persons/in.csv", by_person)


def persons(*cells: object, mark: str = ".") -> list[str]:
    (given,) = read(
        Table.of_rows(
            ["person", *HEAD.split(",")],
            [[cell, *ROW.replace("0.6", "1").split(",")] for cell in cells],
        ),
        Columns("time", "person", decimal_mark=mark),
    ).persons.values()
    return list(given)


@pytest.mark.parametrize("cell", ["17", " 17", "17.0", "17.", "17.000", 17, 17.0], ids=repr)
def test_digits_are_one_name_however_they_are_written(cell: object) -> None:
    assert persons(cell) == ["17"]


def test_what_is_not_digits_alone_is_compared_as_text() -> None:
    assert persons("007", "7", "1.10", "1.1", "17a", "1e5", "A", "a", "+7") == [
        *("007", "7", "1.10", "1.1", "17a", "1e5", "A", "a", "+7")
    ]
    assert persons("e\u0301") == ["é"]
    assert persons("-0", "17,0", "18.0", mark=",") == ["0", "17", "18"]
    assert persons("9007199254740993", 2**60) == ["9007199254740993", str(2**60)]


@pytest.mark.parametrize(
    ("cell", "mark"),
    [
        ("9007199254740992.0", "."),
        (float(2**53), "."),
        (1e300, "."),
        ("1.23457E+15", "."),
        ("#N/A", "."),
        (" #REF! ", "."),
        ("17.000", ","),
        (17.5, "."),
        ("", "."),
        ("\u00a0", "."),
        (None, "."),
        (True, "."),
        (datetime(2026, 11, 3), "."),  # noqa: DTZ001  as files have times
    ],
    ids=repr,
)
def test_digits_that_were_cut_off_or_grouped_name_nobody(cell: object, mark: str) -> None:
    with pytest.raises(CellError, match="line 2, person: names no person"):
        persons(cell, mark=mark)


@pytest.mark.parametrize(
    "cell", ["\u200f17", "17\u200b", "\ufeffann", "ann\u00ad", "17\x08"], ids=ascii
)
def test_a_name_with_what_nobody_sees_at_its_ends_is_refused(cell: str) -> None:
    with pytest.raises(CellError, match=r"names no person: .* invisible U\+[0-9A-F]{4}; delete it"):
        persons(cell)
    assert persons("a\u200cb") == ["a\u200cb"]


def test_a_code_that_is_text_names_nobody_and_a_number_may_be_a_persons() -> None:
    table = Table.of_rows(
        ["person", *HEAD.split(",")], [[each, *ROW.split(",")] for each in ("99", "n/a")]
    )
    with pytest.raises(CellError, match=r"line 3, person: names no person$"):
        read(table, Columns("time", "person", missing=("99", "n/a")))


@pytest.mark.parametrize("file", ["codes/int.parquet", "codes/float.parquet"])
def test_codes_mean_no_answer_where_they_are_numbers(file: str) -> None:
    given = read(DATA / file, Columns("time", missing=("99", "-9", "n/a")))
    assert [row[1] for row in given.by_start[MONDAY]] == [None, (40,), (50,), None]
    assert given.unseen == ["-9", "n/a"]
    assert given.read["age"].missing == 2


@pytest.mark.parametrize(
    ("code", "cell", "mark"),
    [
        ("99", 99, "."),
        ("99.0", 99, "."),
        ("99", 99.0, "."),
        ("99", "99.0", "."),
        (" 99 ", "99.", "."),
        ("99", "99,0", ","),
        ("9,5", "9,50", ","),
        ("9.5", 9.5, "."),
        ("médecine", "me\u0301decine", "."),
        ("-9", -9.0, "."),
    ],
    ids=repr,
)
def test_a_code_is_the_same_in_every_spelling(code: str, cell: object, mark: str) -> None:
    row = dict(zip(HEAD.split(","), ROW.replace("0.6", "1").split(","), strict=True)) | {
        "age": cell
    }
    table = Table.of_rows(list(row), [list(row.values())])
    given = read(table, Columns("time", missing=(code,), decimal_mark=mark))
    assert (given.read["age"].missing, given.unseen) == (1, [])


def test_a_code_is_another_text_with_a_leading_zero() -> None:
    survey = survey_from_toml(
        (DATA / "base.toml").read_text(encoding="utf-8").replace('"surgery"', '"099"')
    )
    questions = [asked.question for asked in survey.questions]
    table = changed(dept="099")
    given = read_answers(table, questions, survey.windows, Columns("time", missing=("99",)))
    assert given.read["dept"].missing == 0


@pytest.mark.parametrize("file", ["double.parquet", "in.parquet"])
def test_a_number_of_32_bits_is_what_it_was_written_as(file: str) -> None:
    given = rows(DATA / "float32" / file)
    assert [row[-1] for row in given] == [(2,), (1,), (3,), (0,)]


@pytest.mark.parametrize("file", ["in.csv", "in.parquet", "bool.parquet"])
def test_yes_and_no_are_read_where_a_gap_made_them_numbers(file: str) -> None:
    given = rows(DATA / "pandas-yes-no" / file)
    assert [row[3] for row in given] == [(0,), (1,), None, (0,)]


@pytest.mark.parametrize(
    "cell", ["Y", "yes", "TRUE", "1", "1.0", "1.", " true ", True, 1, 1.0], ids=repr
)
def test_yes_is_written_in_many_ways(cell: object) -> None:
    row = dict(zip(HEAD.split(","), ROW.split(","), strict=True)) | {"ok": cell}
    assert rows(Table.of_rows(list(row), [list(row.values())])) == [USUAL]


@pytest.mark.parametrize(
    ("cell", "place"),
    [
        *((each, 0) for each in ("WAHR", "Vrai", "verdadero", "Ja", "oui", "Sí", "si\u0301")),
        *((each, 1) for each in ("FALSCH", "faux", "falso", "Nein", "non", "n\u00e3o")),
    ],
)
def test_yes_and_no_are_read_in_the_languages_of_spreadsheets(cell: str, place: int) -> None:
    assert rows(changed(ok=cell)) == [with_(ok=(place,))]


def labelled(**cells: Labelled) -> list[Given]:
    row = dict(zip(HEAD.split(","), ROW.split(","), strict=True)) | cells
    table = Table("the table", list(row), lambda at: iter([(2, [[*row.values()][n] for n in at])]))
    return rows(table)


@pytest.mark.parametrize(
    ("value", "label", "place"),
    [(0, "Ja", 0), (1, "Nein", 1), (2, "No", 1), (1, "oui", 0), ("Y", "Tak", 0)],
)
def test_the_label_of_a_code_says_yes_or_no(value: int | str, label: str, place: int) -> None:
    code = Decimal(value) if isinstance(value, int) else value
    assert labelled(ok=Labelled(code, label)) == [with_(ok=(place,))]


def test_a_code_whose_label_says_neither_is_not_guessed() -> None:
    with pytest.raises(CellError, match=r"ok: must be yes or no, not '1' \('Nem'\): label the"):
        labelled(ok=Labelled(Decimal(1), "Nem"))


@pytest.mark.parametrize(
    "cells",
    [
        {"age": Labelled(Decimal(3), "30-40")},
        {"age": Labelled(Decimal(1), "0,5 years")},
        {"stars": Labelled(Decimal(1), "5")},
        {"dist": Labelled(Decimal(1), "2 km")},
    ],
    ids=str,
)
def test_a_code_is_no_number_if_its_label_is_another(cells: dict[str, Labelled]) -> None:
    with pytest.raises(CellError, match="must be a"):
        labelled(**cells)


def test_a_point_of_a_scale_with_other_labels_may_be_the_opposite() -> None:
    text = (DATA / "base.toml").read_text(encoding="utf-8")
    named = text.replace("high = 5", 'high = 2\nlow = 1\nlabels = ["bad", "good"]')
    stars = survey_from_toml(named).questions[4].question
    assert [
        stars.read([each]).answer for each in ("good", Decimal(1), Labelled(Decimal(1), "good"))
    ] == [(1,), (0,), (1,)]
    with pytest.raises(
        CellError, match=r"'bad', 'good', not '1' \('sehr gut'\): label the numbers"
    ):
        stars.read([Labelled(Decimal(1), "sehr gut")])


def test_a_number_is_one_whatever_its_label_says_of_it() -> None:
    words = {"age": Labelled(Decimal(40), "40 or more"), "stars": Labelled(Decimal(3), "so so")}
    assert labelled(**words) == [USUAL]


@pytest.mark.parametrize("cell", ["perhaps", "t", "on", "2", "10", 2, 0.5, "yes no"], ids=repr)
def test_what_is_neither_yes_nor_no_is_refused(cell: object) -> None:
    row = dict(zip(HEAD.split(","), ROW.split(","), strict=True)) | {"ok": cell}
    with pytest.raises(CellError, match="line 2, ok: must be yes or no"):
        rows(Table.of_rows(list(row), [list(row.values())]))


def test_limesurveys_table_is_read_with_a_column_for_each_label() -> None:
    columns = Columns("submitdate", missing=("N/A",))
    given = read(
        DATA / "limesurvey/in.csv",
        columns,
        ["likes=likes[food],likes[quiet],likes[staff]"],
    )
    old = datetime(1979, 12, 31, tzinfo=UTC)
    assert given.by_start == {MONDAY: [USUAL], old: [((0,), None, None, (1,), (2,), (1,))]}


@pytest.mark.parametrize("quotes", ["", '"'])
def test_a_column_whose_name_is_a_sentence_can_be_named(quotes: str) -> None:
    named = [
        f"dept={quotes}Which department, ward, or unit, if any, were you in?{quotes}",
        f"age={quotes}age, in years, today{quotes}",
    ]
    assert rows(DATA / "limesurvey-texts/in.csv", named=named) == [USUAL]
    assert rows(DATA / "limesurvey-texts/eq.csv", named=["ok=x=y"]) == [USUAL]


def test_a_name_that_may_be_one_column_or_two_is_refused() -> None:
    table = csv_table(io.StringIO('a,b,"a,b"\n1,2,3\n'))
    with pytest.raises(ParameterError, match="may be one column or 2: put each name in quotation"):
        named_columns(["likes=a,b"], {"likes"}, table)
    assert named_columns(['likes="a,b"'], {"likes"}, table) == {"likes": ["a,b"]}
    assert named_columns(['likes="a","b"'], {"likes"}, table) == {"likes": ["a", "b"]}


@pytest.mark.parametrize("text", ["likes", "likes=", "other=a"])
def test_what_names_no_column_of_a_question_is_refused(text: str) -> None:
    with pytest.raises(ParameterError, match=r"^column: "):
        named_columns([text], {"likes"}, csv_table(io.StringIO("a\n")))


EACH = "likes=likes_food,likes_quiet,likes_staff"


@pytest.mark.parametrize(
    ("file", "likes"),
    [("all.csv", [(0, 1, 2)]), ("gap.csv", [(0,), (1, 2)]), ("num.csv", [(0,)])],
)
@pytest.mark.parametrize("named", [EACH, "likes=likes_staff,likes_quiet,likes_food"])
def test_a_column_for_each_label_is_read_in_whatever_order(
    file: str, likes: list[tuple[int, ...]], named: str
) -> None:
    given = rows(DATA / "column-each" / file, named=[named])
    assert given == [with_(likes=each) for each in likes]


@pytest.mark.parametrize(
    ("cells", "likes"),
    [
        ("Y,,", (0,)),
        ("yes,no,no", (0,)),
        ("1,0,0", (0,)),
        ("1.0,0.0,0.0", (0,)),
        ("TRUE,FALSE,FALSE", (0,)),
        ("x,,X", (0, 2)),
        ("food,,staff", (0, 2)),
        ("Checked,Unchecked,Unchecked", (0,)),
        ("0,0,0", ()),
        (",,", None),
        ("n/a,n/a,n/a", None),
        ("n/a,Y,n/a", (1,)),
    ],
)
def test_a_label_is_chosen_or_not_in_the_words_of_many_tools(
    cells: str, likes: tuple[int, ...] | None
) -> None:
    head = HEAD.replace("likes", "a,b,c")
    table = csv_table(io.StringIO(f"{head}\n{ROW.replace('food', cells)}\n"))
    given = rows(table, Columns("time", missing=("n/a",)), ["likes=a", "likes=b,c"])
    assert given == [with_(likes=likes)]


@pytest.mark.parametrize("cells", ["quiet,,", "maybe,,", "2,0,0"])
def test_what_stands_in_the_column_of_another_label_is_refused(cells: str) -> None:
    head = HEAD.replace("likes", "a,b,c")
    table = csv_table(io.StringIO(f"{head}\n{ROW.replace('food', cells)}\n"))
    with pytest.raises(CellError, match="line 2, a, b, c: must be empty, yes or no, or 'food' in"):
        rows(table, named=["likes=a,b,c"])


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("stars=stars,age", "stars: is read from one column, not from 2"),
        ("age=age,stars", "age: is read from one column, not from 2"),
        ("likes=likes,age", "likes: is read from one column, or from 3, one for each label, and"),
        ("likes=food,b,quiet", "column 'quiet' seems to be of 'quiet', and stands for 'staff'"),
    ],
)
def test_columns_that_a_question_does_not_have_are_refused_before_any_row(
    named: str, said: str
) -> None:
    table = Table(
        "the table", [*HEAD.split(","), "food", "b", "quiet"], lambda _: iter([(0, [])] * 9)
    )
    with pytest.raises(CellError, match=said):
        rows(table, named=[named])


@pytest.mark.parametrize("file", ["in.csv", "float.parquet", "int.parquet"])
def test_what_people_wrote_is_one_text_in_every_format(file: str) -> None:
    questions = [asked.question for asked in TEXTS.questions]
    columns = Columns("time", "person")
    given = read_answers(
        table_in(DATA / "postcodes" / file), questions, TEXTS.windows, columns, TEXTS.texts
    )
    assert given.written[MONDAY][0] == {"code": "10115"}


@pytest.mark.parametrize("cell", [1.5, True, datetime(2026, 11, 3), ["a"], b"a", "#N/A"], ids=repr)  # noqa: DTZ001  as files have times
def test_what_is_no_text_is_not_hashed_as_python_shows_it(cell: object) -> None:
    table = Table.of_rows(["time", "person", "ok", "code"], [["2026-11-03", 1, "yes", cell]])
    questions = [asked.question for asked in TEXTS.questions]
    with pytest.raises(CellError, match="line 2, code: must be text"):
        read_answers(table, questions, TEXTS.windows, Columns("time", "person"), TEXTS.texts)


def test_the_day_of_an_hl7_message_is_that_day() -> None:
    assert list(read(DATA / "hl7/basic.csv").by_start) == [MONDAY]


def test_the_zone_that_a_cell_names_holds() -> None:
    columns = Columns("time", zone=ZoneInfo("America/New_York"), time_format="%Y-%m-%d %H:%M:%S %Z")
    assert list(read(DATA / "zone/in.csv", columns).by_start) == [MONDAY]


def test_the_people_of_two_tables_have_the_same_names() -> None:
    for file in ("first.csv", "second.csv"):
        table = table_in(DATA / "two-calls" / file)
        columns = Columns("time", "person", {"ok": ["smoker"], "code": ["brand"]})
        questions = [asked.question for asked in TEXTS.questions]
        given = read_answers(table, questions, TEXTS.windows, columns, TEXTS.texts)
        assert [*given.persons.values()] == [["17", "18"]]


def test_a_long_cell_in_a_column_that_nobody_reads_does_not_stop_a_table() -> None:
    trace = "52.5 13.4 0 0;" * 20_000
    assert rows(csv_table(io.StringIO(f"{HEAD},trace\n{ROW},{trace}\n"))) == [USUAL]


def test_a_line_is_the_one_that_a_spreadsheet_shows() -> None:
    head = HEAD.replace("dept", '"dept\nin full"')
    text = f'{head}\n\n"2026-\n11-03",surgery,40,food,yes,3,0.6\n{ROW.replace("40", "old")}\n'
    with pytest.raises(CellError) as refused:
        rows(csv_table(io.StringIO(text)), named=["dept=dept\nin full"])
    lines = str(refused.value).splitlines()
    assert [line.partition(": ")[0] for line in lines if line.startswith("the")] == [
        "the table, line 3, time",
        "the table, line 4, age",
    ]


def test_cells_that_excel_adds_at_the_end_are_none_and_other_widths_are_refused() -> None:
    assert rows(csv_table(io.StringIO(f"{HEAD}\n{ROW},,\n"))) == [USUAL]
    with pytest.raises(
        CellError, match=r"line 2: has 8 cells, not 7; if the line of names has none"
    ):
        rows(csv_table(io.StringIO(f"{HEAD}\n1,{ROW}\n")))
    with pytest.raises(CellError, match=r"line 2: not CSV: .* is written twice"):
        rows(csv_table(io.StringIO(f'{HEAD}\n"a\\"b",{ROW}\n')))
