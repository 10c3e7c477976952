"""Workbooks of Excel, with the few parts that one needs."""

import dataclasses
import io
import zipfile
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta
from xml.sax.saxutils import escape

from aggregator.client.table_files.table import letters

_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_HEAD = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>'
_STYLES = (
    f'{_HEAD}<styleSheet xmlns="{_MAIN}"><fonts count="1"><font/></fonts>'
    '<fills count="1"><fill/></fills><borders count="1"><border/></borders>'
    '<cellStyleXfs count="1"><xf/></cellStyleXfs>'
    '<cellXfs count="2"><xf/><xf numFmtId="22" applyNumberFormat="1"/></cellXfs></styleSheet>'
)


@dataclasses.dataclass(frozen=True)
class Formula:
    """A cell that is computed, and its value as the file has it: None if it has none."""

    text: str
    value: object = None


def workbook(
    sheets: Mapping[str, Sequence[Sequence[object]]],
    *,
    since_1904: bool = False,
    is_to_be_computed: bool = False,
) -> bytes:
    """Return a workbook; dates and times of cells are days since 1900, or since 1904.

    If it is to be computed, values of formulas are nothing that anybody has computed.
    """
    epoch = datetime(1904, 1, 1) if since_1904 else datetime(1899, 12, 30)  # noqa: DTZ001  as files have times
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, text in _parts(list(sheets), since_1904, is_to_be_computed).items():
            archive.writestr(name, text)
        for number, rows in enumerate(sheets.values(), start=1):
            lines = "".join(_row(at, row, epoch) for at, row in enumerate(rows, start=1) if row)
            archive.writestr(
                f"xl/worksheets/sheet{number}.xml",
                f'{_HEAD}<worksheet xmlns="{_MAIN}"><sheetData>{lines}</sheetData></worksheet>',
            )
    return file.getvalue()


def _row(number: int, row: Sequence[object], epoch: datetime) -> str:
    cells = "".join(_cell(f"{letters(at)}{number}", each, epoch) for at, each in enumerate(row))
    return f'<row r="{number}">{cells}</row>'


def _cell(place: str, value: object, epoch: datetime) -> str:
    match value:
        case None:
            return ""
        case Formula(text, computed):
            kind = ' t="str"' if isinstance(computed, str) else ""
            written = "" if computed is None else escape(str(computed))
            return f'<c r="{place}"{kind}><f>{escape(text)}</f><v>{written}</v></c>'
        case bool():
            return f'<c r="{place}" t="b"><v>{int(value)}</v></c>'
        case int() | float():
            return f'<c r="{place}"><v>{value!r}</v></c>'
        case date():
            moment = value if isinstance(value, datetime) else datetime.combine(value, time())
            return f'<c r="{place}" s="1"><v>{(moment - epoch) / timedelta(days=1)!r}</v></c>'
        case _:
            text = escape(str(value))
            return f'<c r="{place}" t="inlineStr"><is><t xml:space="preserve">{text}</t></is></c>'


def _parts(names: Sequence[str], since_1904: bool, is_to_be_computed: bool) -> dict[str, str]:  # noqa: FBT001  of this file alone
    numbers = range(1, len(names) + 1)
    types = "".join(
        f'<Override PartName="/xl/worksheets/sheet{number}.xml" '
        'ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/>'
        for number in numbers
    )
    links = "".join(
        f'<Relationship Id="rId{number}" Type="{_OFFICE}/worksheet" '
        f'Target="worksheets/sheet{number}.xml"/>'
        for number in numbers
    )
    listed = "".join(
        f'<sheet name="{escape(name)}" sheetId="{number}" r:id="rId{number}"/>'
        for number, name in zip(numbers, names, strict=True)
    )
    return {
        "[Content_Types].xml": f'{_HEAD}<Types xmlns="{_PACKAGE}/content-types">'
        '<Default Extension="rels" '
        'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Default Extension="xml" ContentType="application/xml"/>'
        '<Override PartName="/xl/workbook.xml" ContentType="application/vnd.openxmlformats-'
        f'officedocument.spreadsheetml.sheet.main+xml"/>{types}</Types>',
        "_rels/.rels": f'{_HEAD}<Relationships xmlns="{_PACKAGE}/relationships"><Relationship '
        f'Id="rId1" Type="{_OFFICE}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'{_HEAD}<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}">'
        f'<workbookPr date1904="{int(since_1904)}"/><sheets>{listed}</sheets>'
        f'<calcPr fullCalcOnLoad="{int(is_to_be_computed)}"/></workbook>',
        "xl/_rels/workbook.xml.rels": f'{_HEAD}<Relationships xmlns="{_PACKAGE}/relationships">'
        f'{links}<Relationship Id="rId0" Type="{_OFFICE}/styles" Target="styles.xml"/>'
        "</Relationships>",
        "xl/styles.xml": _STYLES,
    }
