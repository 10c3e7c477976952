"""What in the text of others acts on who looks at it."""

import pytest

from aggregator.untrusted_text import defused, escaped, first_unsafe_member, is_unsafe


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31m", r"\x1b[31m"),
        ("a\rb\tc\x00", r"a\rb\tc\x00"),
        ("\x7f\x9b", r"\x7f\x9b"),
        ("\u2028", r"\u2028"),
        ("\ud800", r"\ud800"),
    ],
)
def test_what_acts_is_shown_as_an_escape(text: str, shown: str) -> None:
    assert (escaped(text), is_unsafe(text)) == (shown, True)


@pytest.mark.parametrize(
    "text", ["", "größer ½", "नमस्ते", "\u200c\u200d\u200e", "👩\u200d🌾", "\\x1b"]
)
def test_words_of_every_language_are_left(text: str) -> None:
    assert (escaped(text), is_unsafe(text)) == (text, False)


def test_what_turns_a_line_is_shown_as_an_escape_and_is_no_fault() -> None:
    assert escaped("a\u202eb\u2066") == r"a\u202eb\u2066"
    assert not is_unsafe("a\u202eb\u2066")


def test_more_than_a_line_is_shown_as_lines_and_is_no_line() -> None:
    assert escaped("one\ntwo") == "one\ntwo"
    assert is_unsafe("one\ntwo")


def test_the_member_of_a_document_is_named_wherever_it_is() -> None:
    deep: object = "\x1b"
    for _ in range(10_000):
        deep = [deep]
    assert first_unsafe_member({"labels": deep}) == "labels"
    assert first_unsafe_member({"labels": [{"\x1b": 1}]}) == "labels"
    assert first_unsafe_member({"text": "one\ntwo", "n": 1}, {"text"}) is None
    assert first_unsafe_member({"text": "one\ntwo"}) == "text"
    assert first_unsafe_member({"text": "one\n\x1b"}, {"text"}) == "text"


@pytest.mark.parametrize("sign", ["=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20"])
@pytest.mark.parametrize("before", ["", " ", "\u00a0", "\u3000 "])
def test_a_cell_that_a_spreadsheet_would_compute_begins_with_an_apostrophe(
    sign: str, before: str
) -> None:
    assert defused(f"{before}{sign}1+1") == f"'{before}{sign}1+1"


@pytest.mark.parametrize("cell", ["\t1", "\r1", "\n1", "\n=1"])
def test_a_cell_that_begins_between_cells_or_lines_does_so_too(cell: str) -> None:
    assert defused(cell) == f"'{cell}"


@pytest.mark.parametrize("cell", ["", "1+1", "a=b", "'=1", " surgery", "größer ½", "\u22125"])
def test_any_other_cell_is_left(cell: str) -> None:
    assert defused(cell) == cell
