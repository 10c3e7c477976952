"""Markup from elements: whatever is not markup already is escaped, wherever it stands."""

import html
import re
from collections.abc import Iterable, Sequence

_VOID = frozenset({"br", "circle", "input", "line", "link", "meta", "path", "polyline", "rect"})

_UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
"""Characters that neither HTML nor XML can hold."""

Attribute = str | int | float | bool | None

_LONG = 300
"""Characters of others' text from which on it gets a box that scrolls."""

_NARROW = 2
"""Columns that a phone has room for."""

_ROLES = {
    "table": "table",
    "group": "rowgroup",
    "row": "row",
    "head": "columnheader",
    "first": "rowheader",
    "cell": "cell",
}
"""Of the parts of a table, said because browsers forget them where rows are shown as cards."""

_NUMBER = re.compile(r"[-<]? ?[0-9][0-9,]*(\.[0-9]+)?(e[-+]?[0-9]+)?")
_NO_NUMBER = frozenset({None, "", "none", "nothing", "unbounded"})


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


def escape(text: str) -> Html:
    """Return text as markup that shows it, as an element's content or an attribute's value."""
    if isinstance(text, Html):
        return text
    return Html(html.escape(_UNFIT.sub("\N{REPLACEMENT CHARACTER}", text)))


def tag(name: str, /, *children: str | None, **attributes: Attribute) -> Html:
    """Return an element.

    Args:
        name: Of the element; one that can have no content is closed at once.
        children: Its content, in order; None is nothing.
        attributes: By their names, with `_` for `-` and one more at the end of a name that Python
            reserves. True stands for itself; None and False leave the attribute out.
    """
    written = "".join(
        f" {_name(key)}" if value is True else f' {_name(key)}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in _VOID:
        return Html(f"<{name}{written}/>")
    return Html(f"<{name}{written}>{join(children)}</{name}>")


def join(parts: Iterable[str | None]) -> Html:
    """Return markup and text one after the other, as markup."""
    return Html("".join(escape(part) for part in parts if part is not None))


def isolated(text: str) -> Html:
    """Return text of others, whose direction of writing stays its own; all of it, however long."""
    if len(text) <= _LONG or isinstance(text, Html):
        return tag("bdi", text)
    return tag("bdi", text, class_="long", tabindex=0)


def identifier(text: str) -> Html:
    """Return an id of which only the beginning is seen; a click selects all of it, to be copied."""
    return tag("code", text, class_="id", title=text)


def table(
    caption: str,
    names: Iterable[str],
    rows: Iterable[Iterable[str | None]],
    *,
    is_titled: bool = False,
) -> Html:
    """Return a table; the first cell of a row is its heading.

    The digits of numbers stand below each other. Where a table of three columns or more would have
    to be scrolled on a phone, each row is a card with the names of its cells.

    Args:
        caption: What it is.
        names: Of the columns.
        rows: The cells.
        is_titled: Whether a heading above says what it is, so that the caption is only read out.
    """
    listed, named = [tuple(row) for row in rows], tuple(names)
    sides = [_side(column) for column in zip(*listed, strict=True)] or [None] * len(named)
    is_wide = len(named) > _NARROW
    role = _ROLES.get if is_wide else _no_role
    head = tag(
        "tr",
        *(
            tag("th", name, scope="col", class_=side, role=role("head"))
            for name, side in zip(named, sides, strict=True)
        ),
        role=role("row"),
    )
    body = []
    for first, *others in listed:
        cells = (
            tag("td", cell, class_=side, role=role("cell"), data_name=name if is_wide else None)
            for cell, side, name in zip(others, sides[1:], named[1:], strict=True)
        )
        heading = tag("th", first, scope="row", class_=sides[0], role=role("first"))
        body.append(tag("tr", heading, *cells, role=role("row")))
    made = tag(
        "table",
        tag("caption", caption, class_="unseen" if is_titled else None),
        tag("thead", head, role=role("group")),
        tag("tbody", *body, role=role("group")),
        class_="cards-if-narrow" if is_wide else None,
        role=role("table"),
    )
    return tag("div", made, class_="scroll", tabindex=0, role="region", aria_label=caption)


def _no_role(_part: str) -> None:
    """Leave the parts of a table the roles that they have."""


def _side(column: Sequence[str | None]) -> str | None:
    """Return the class of a column's cells: "number" if it has numbers only."""
    said = [cell for cell in column if cell not in _NO_NUMBER]
    return "number" if said and all(cell and _NUMBER.fullmatch(cell) for cell in said) else None


def _name(key: str) -> str:
    return key.removesuffix("_").replace("_", "-")
