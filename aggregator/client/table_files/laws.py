"""What a cell's value means where a number, a truth value, a label, a person or text is expected.

docs/tables.md states these rules for people. All raise `CellError`, which says what is allowed.
"""

import re
import shlex
import unicodedata
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction

from aggregator.client.table_files.cells import (
    Cell,
    CellError,
    Inexact,
    Labelled,
    Truth,
    plain,
    shown,
    text_cell,
)

_NUMBER = {
    mark: re.compile(
        rf"[+-]?(?:[0-9]{{1,30}}(?:[{mark}][0-9]{{0,30}})?|[{mark}][0-9]{{1,30}})"
        r"(?:[eE][+-]?[0-9]{1,3})?"
    )
    for mark in (".", ",")
}
_MOST_DIGITS = 30
"""How many digits a name may have that is a number."""
_FLOATS = range(-324, 309)
"""The exponents that floats have."""
_WHOLE = {mark: re.compile(rf"(-?(?:0|[1-9][0-9]*))([{mark}]0*)?") for mark in (".", ",")}
_THOUSANDS = re.compile(r"-?[1-9][0-9]{0,2}(?:\.[0-9]{3})+")
_SCIENTIFIC = re.compile(r"[+-]?[0-9](?:[.,][0-9]+)?[eE]\+[0-9]+")
_ERRORS = frozenset(
    {"#N/A", "#REF!", "#VALUE!", "#NAME?", "#DIV/0!", "#NULL!", "#NUM!", "#SPILL!", "#CALC!"}
)
"""What a spreadsheet writes into CSV where a cell could not be computed."""
_NO_ANSWER = re.compile(
    r"[-\u2013\u2014.?]+|#?n/?a|n\.a\.|null|none|nan|nil|missing|k\.? ?a\.?|#[a-z0-9/]+[!?]?"
    r"|-?(?:7{1,4}|8{1,4}|9{1,4})(?:\.0*)?|-[1-6](?:\.0*)?",
    re.IGNORECASE,
)
"""What tools write for no answer, or for a reason why there is none."""
_EXACT = 2**53
"""Whole numbers below it are exact as floats."""
_TRUTHS = {
    **dict.fromkeys(("yes", "y", "true", "1"), True),
    **dict.fromkeys(("no", "n", "false", "0"), False),
    # German, French, Spanish, Italian, Portuguese and Dutch: as people label answers, and as
    # spreadsheets in these languages write truth values into CSV.
    **dict.fromkeys(("ja", "oui", "sí", "si", "sì", "sim"), True),
    **dict.fromkeys(("nein", "non", "não", "nee"), False),
    **dict.fromkeys(("wahr", "vrai", "verdadero", "vero", "verdadeiro", "waar"), True),
    **dict.fromkeys(("falsch", "faux", "falso", "onwaar"), False),
}
_LEADING_NUMBER = re.compile(r"[+-]?[0-9]+(?:[.,][0-9]+)?")


def number_of(cell: Cell, mark: str) -> Fraction:
    """Return the exact number that a cell is; `mark` is the decimal mark of text, "." or ",".

    A code whose label begins with another number, as 3 for 30-40, is none.
    """
    match cell:
        case Labelled(of_label, label):
            number = number_of(of_label, mark)
            said = _LEADING_NUMBER.match(label)
            if said and Fraction(said[0].replace(",", ".")) != number:
                raise CellError(f"must be a number, not {shown(cell)}, whose label is another one")
            return number
        case Decimal():
            value: Decimal | None = cell
        case str() if _NUMBER[mark].fullmatch(cell):
            value = Decimal(cell.replace(",", "."))
        case _:
            value = None
    if value is None or (value and value.adjusted() not in _FLOATS):
        grouped = isinstance(cell, str) and re.fullmatch(r"[+-]?[0-9.,'\s]+", cell)
        hint = f"; its decimal mark is {mark!r}, and digits are not grouped" if grouped else ""
        raise CellError(f"must be a number, not {shown(cell)}{hint}")
    return Fraction(value)


def truth_of(cell: Cell, mark: str) -> bool | None:
    """Return the truth value that a cell writes: yes, Y, true or 1, and their opposites.

    1 or 0 with a label that says neither is None: it may be of a list that begins with yes.
    """
    match cell:
        case Truth():
            return cell is Truth.TRUE
        case Decimal():
            return {Decimal(1): True, Decimal(0): False}.get(cell)
        case Labelled(value, label):
            by_label = truth_of(label, mark)
            is_code = by_label is None and isinstance(value, str)
            return truth_of(value, mark) if is_code else by_label
        case str():
            if _NUMBER[mark].fullmatch(cell):
                return truth_of(Decimal(cell.replace(",", ".")), mark)
            whole = _whole_in(cell, mark)
            return _TRUTHS.get(cell.lower() if whole is None else whole[0])
        case _:
            return None


def words_of(cell: Cell, mark: str) -> tuple[str, ...]:
    """Return what a cell may be called, the likeliest first: its text, or its number's digits."""
    match cell:
        case str():
            whole = _whole_in(cell, mark)
            return (cell,) if whole is None else (cell, whole[0])
        case Decimal():
            return (plain(cell),) if abs(cell.adjusted()) <= _MOST_DIGITS else ()
        case Labelled(value, label):
            return (label, *words_of(value, mark))
        case _:
            return ()


def person_of(cell: Cell, mark: str) -> str:
    """Return the name of a person, the same in tables of every kind.

    Digits without a leading zero are one name with or without `.0`; other text is as it stands.
    """
    match cell:
        case None:
            raise CellError("names no person")
        case str() if cell in _ERRORS:
            raise CellError(f"names no person: {cell} is an error of a spreadsheet")
        case str():
            whole = _whole_in(cell, mark)
            if whole is None and mark == "," and _THOUSANDS.fullmatch(cell):
                raise CellError("names no person: its points may group digits, or be decimal marks")
            if whole is None and _SCIENTIFIC.fullmatch(cell):
                raise CellError("names no person: a number from which digits are cut off")
            if whole is not None and whole[1] and abs(int(whole[0])) >= _EXACT:
                raise CellError("names no person: a float of 2^53 or more, which is inexact")
            return _visible(cell) if whole is None else whole[0]
        case Labelled(value, _):
            return person_of(value, mark)
        case Decimal() if cell == cell.to_integral_value() and cell.adjusted() <= _MOST_DIGITS:
            return _exact_digits(cell, "names no person")
        case _:
            raise CellError("names no person: must be text or a whole number")


def written_in(cell: Cell, mark: str) -> str:
    """Return what a person wrote, which is hashed: text, or the digits of a whole number."""
    match cell:
        case None:
            return ""
        case str() if cell in _ERRORS:
            raise CellError(f"must be text, not {cell}, which is an error of a spreadsheet")
        case str():
            whole = _whole_in(cell, mark)
            return cell if whole is None else whole[0]
        case Labelled(_, label):
            return label
        case Decimal() if cell == cell.to_integral_value() and cell.adjusted() <= _MOST_DIGITS:
            return _exact_digits(cell, f"must be text, not {shown(cell)}")
        case _:
            raise CellError(f"must be text or a whole number, not {shown(cell)}")


class MissingCodes:
    """Texts and numbers that mean no answer, besides empty cells."""

    def __init__(self, codes: Iterable[str], mark: str = ".") -> None:
        self._mark = mark
        self._codes = {self._key(cell): each for each in codes if (cell := text_cell(each))}
        self._unseen = dict.fromkeys(self._codes.values())

    def has(self, cell: Cell) -> bool:
        """Whether a cell means no answer."""
        if cell is None:
            return True
        if not self._codes:
            return False
        keys = [self._key(cell)]
        if isinstance(cell, Labelled):
            keys.append(self._key(cell.label))
        found = [self._codes[key] for key in keys if key in self._codes]
        for code in found:
            self._unseen.pop(code, None)
        return bool(found)

    def hint(self, cells: Iterable[Cell]) -> str:
        """Return how to say that a cell means no answer, if one of these looks as if it did."""
        for cell in cells:
            value = cell.value if isinstance(cell, Labelled) else cell
            written = plain(value) if isinstance(value, Decimal) else value
            if isinstance(written, str) and _NO_ANSWER.fullmatch(written):
                return f"; if {written} means no answer, give --missing={shlex.quote(written)}"
        return ""

    def has_text(self, cell: Cell) -> bool:
        """Whether a cell is a code that is no number: such a code names nobody."""
        return isinstance(cell, str) and isinstance(self._key(cell), str) and self.has(cell)

    @property
    def unseen(self) -> list[str]:
        """The codes that no cell was, so far."""
        return list(self._unseen)

    def _key(self, cell: Cell) -> object:
        """Return what is the same for equal numbers, and else the value."""
        match cell:
            case Labelled(value, _):
                return self._key(value)
            case str() if _NUMBER[self._mark].fullmatch(cell) and not _has_leading_zero(cell):
                return Decimal(cell.replace(",", "."))
            case _:
                return cell


def _visible(name: str) -> str:
    """Return a name, or raise `CellError` if what nobody sees would make another of it."""
    for end in (name[0], name[-1]):
        if unicodedata.category(end) in ("Cf", "Cc"):
            raise CellError(
                f"names no person: begins or ends with the invisible U+{ord(end):04X}; delete it"
            )
    return name


def _exact_digits(whole: Decimal, fault: str) -> str:
    """Return the digits of a whole number, or raise `CellError` if a float may have changed it."""
    if isinstance(whole, Inexact) or (whole.as_tuple().exponent != 0 and abs(whole) >= _EXACT):
        raise CellError(f"{fault}: a number of more digits than its file keeps exactly")
    return plain(whole)


def _has_leading_zero(text: str) -> bool:
    digits = text.lstrip("+-")
    return len(digits) > 1 and digits[0] == "0" and digits[1].isdigit()


def _whole_in(text: str, mark: str) -> tuple[str, bool] | None:
    """Return the digits of a whole number, and whether a decimal mark follows; None if it is none.

    With a decimal comma `17.0` is a whole number as well, but `17.000` may be 17 thousand.
    """
    found = _WHOLE[mark].fullmatch(text)
    if found is None and mark == "," and not _THOUSANDS.fullmatch(text):
        found = _WHOLE["."].fullmatch(text)
    return None if found is None else (_digits(found[1]), bool(found[2]))


def _digits(whole: str) -> str:
    return "0" if whole == "-0" else whole
