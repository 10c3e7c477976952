"""The text of a table's bytes: UTF-8, or in another encoding if that is said."""

import codecs
import io
from collections.abc import Iterator

from aggregator.client.table_files.cells import CellError
from aggregator.errors import ParameterError

_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_BEGINNING = 1024
_UTF_8 = "utf-8"


def text_lines(data: bytes, encoding: str | None, source: str) -> Iterator[str]:
    """Return the lines of a table's bytes, which are UTF-8 unless an encoding is given.

    Raises `CellError` if they are in another encoding, which is named if it can be recognized, and
    `ParameterError` if there is no such encoding.
    """
    named = None if encoding is None else _known(encoding)
    marked = next((name for mark, name in _MARKS.items() if data.startswith(mark)), None)
    if named is None or named == _UTF_8:
        text = _utf_8(data, marked, source)
    else:
        text = _other(data, named, marked, source)
    return iter(io.StringIO(text.removeprefix("\ufeff"), newline=""))


def _known(encoding: str) -> str:
    try:
        found = codecs.lookup(encoding)
        "".encode(found.name)
    except (LookupError, ValueError):  # none, or none of text; a zero byte
        raise ParameterError(
            f"encoding: there is no {encoding!r}; known are utf-8, utf-16, windows-1252 and others"
        ) from None
    return found.name.removesuffix("-sig")


def _utf_8(data: bytes, marked: str | None, source: str) -> str:
    beginning = data[:_BEGINNING]
    if marked is None and b"\0" in beginning:
        # Every second byte of western text in UTF-16 is zero.
        even, odd = beginning[::2].count(0), beginning[1::2].count(0)
        marked = "utf-16-be" if even > odd else "utf-16-le"
    if marked is not None:
        raise CellError(
            f"{source}: is not UTF-8 but looks like {marked.upper()}: give --encoding {marked}, or "
            "save it as UTF-8"
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = data.count(b"\n", 0, error.start) + 1
        # `from None`: the cause contains the bytes.
        raise CellError(
            f"{source}: is not UTF-8 (line {number} of the file): save it as UTF-8, or if it is "
            "of a western Windows, give --encoding windows-1252"
        ) from None


def _other(data: bytes, named: str, marked: str | None, source: str) -> str:
    is_utf_8 = data.startswith(codecs.BOM_UTF8) or (
        marked is None and b"\0" not in data and not data.isascii() and _is_utf_8(data)
    )
    if is_utf_8 or (marked is not None and not named.startswith(marked)):
        raise CellError(
            f"{source}: is {(marked or _UTF_8).upper()} and not {named}: give --encoding "
            f"{marked or _UTF_8}"
        )
    if named.startswith(("utf-16", "utf-32")) and b"\0" not in data and data:
        raise CellError(f"{source}: is not {named}, in which the end of a line has a zero byte")
    try:
        return data.decode(named)
    except UnicodeError as error:
        at = f" (byte {error.start + 1})" if isinstance(error, UnicodeDecodeError) else ""
        raise CellError(f"{source}: is not {named}{at}") from None


def _is_utf_8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
