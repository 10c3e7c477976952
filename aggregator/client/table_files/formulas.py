"""Formulas of an Excel workbook whose values are not in the file, as programs write them.

A library reads such a cell as empty, or as the 0 that stands there until a spreadsheet has computed
it: either would count without a word.
"""

import html
import io
import re
import zipfile

_IN = r"(?:\w+:)?"  # a namespace, which some programs write out
_FORMULA = re.compile(
    rf"<{_IN}c\b([^>]*)>\s*<{_IN}f\b[^>]*?(?:/>|>[^<]*</{_IN}f>)"
    rf"\s*(?:<{_IN}v\b[^>]*?(?:/>|>([^<]*)</{_IN}v>))?"
)
_PLACE = re.compile(r'\br="([A-Z]{1,3})([0-9]{1,7})"')
_IS_TEXT = re.compile(r'\bt="str"')
_IS_TO_BE_COMPUTED = re.compile(rf'<{_IN}calcPr\b[^>]*\bfullCalcOnLoad="(?:1|true)"')
_SHEET = re.compile(rf"<{_IN}sheet\b[^>]*>")
_RELATION = re.compile(rf"<{_IN}Relationship\b[^>]*>")


def not_computed(data: bytes, sheet: str) -> frozenset[tuple[int, int]]:
    """Return the lines and places of a sheet's cells whose values nobody has computed.

    Lines count from 1 and places from 0; none in formats other than .xlsx.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            book = archive.read("xl/workbook.xml").decode()
            relations = archive.read("xl/_rels/workbook.xml.rels").decode()
            text = archive.read(_part(book, relations, sheet)).decode()
    except (KeyError, ValueError, NotImplementedError, RuntimeError, zipfile.BadZipFile):
        return frozenset()  # another format, or damaged: whose reader says so
    is_all = _IS_TO_BE_COMPUTED.search(book) is not None
    return frozenset(
        (int(place[2]), _number(place[1]))
        for cell in (_FORMULA.finditer(text))
        if is_all or not (cell[2] or _IS_TEXT.search(cell[1]))
        if (place := _PLACE.search(cell[1]))
    )


def _part(book: str, relations: str, sheet: str) -> str:
    """Return the name of a sheet's part in the archive, or raise KeyError."""
    keys = {_attribute(tag, "name"): _attribute(tag, r"\w+:id") for tag in _SHEET.findall(book)}
    tags = _RELATION.findall(relations)
    targets = {_attribute(tag, "Id"): _attribute(tag, "Target") for tag in tags}
    target = targets[keys[sheet]]
    return target.removeprefix("/") if target.startswith("/") else f"xl/{target}"


def _attribute(tag: str, name: str) -> str:
    found = re.search(rf'\s{name}="([^"]*)"', tag)
    return html.unescape(found[1]) if found else ""


def _number(letters: str) -> int:
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - ord("A") + 1
    return number - 1
