"""Builds markup from elements; everything that is not markup already is escaped."""

import html
import re
from collections.abc import Iterable, Sequence

_VOID = frozenset({"br", "circle", "input", "line", "link", "meta", "path", "polyline", "rect"})

_UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
"""Characters that neither HTML nor XML can hold."""

Attribute = str | int | float | bool | None

_LONG = 300
"""Other people's text that is longer gets a box that scrolls."""

_NARROW = 2
"""How many columns a phone has room for."""

_ROLES = {
    "table": "table",
    "group": "rowgroup",
    "row": "row",
    "head": "columnheader",
    "first": "rowheader",
    "cell": "cell",
}
"""The roles of a table's parts; stated, because browsers drop them if rows are shown as cards."""

_NUMBER = re.compile(r"[-<]? ?[0-9][0-9,]*(\.[0-9]+)?(e[-+]?[0-9]+)?")
_NO_NUMBER = frozenset({None, "", "none", "nothing", "unbounded"})


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


def escape(text: str) -> Html:
    """Return text as markup that shows it, for an element's content or an attribute's value."""
    if isinstance(text, Html):
        return text
    return Html(html.escape(legible(text)))


def legible(text: str) -> str:
    """Return text with a mark in place of each character that no document can hold."""
    return _UNFIT.sub("\N{REPLACEMENT CHARACTER}", text)


def tag(name: str, /, *children: str | None, **attributes: Attribute) -> Html:
    """Return an element.

    Args:
        name: The element's name; an element that can have no content has no end tag.
        children: Its content, in order; None is skipped.
        attributes: Its attributes, with `_` for `-` in names, and a trailing `_` if Python reserves
            the name. True gives an attribute without a value; None and False leave it out.
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
    """Return the concatenation of markup and text, as markup."""
    return Html("".join(escape(part) for part in parts if part is not None))


def isolated(text: str) -> Html:
    """Return all of other people's text, with its own writing direction, however long it is."""
    if len(text) <= _LONG or isinstance(text, Html):
        return tag("bdi", text)
    return tag("bdi", text, class_="long", tabindex=0)


def identifier(text: str) -> Html:
    """Return an id that shows only its beginning; a click selects all of it for copying."""
    return tag("code", text, class_="id", title=text)


def table(
    caption: str,
    names: Iterable[str],
    rows: Iterable[Iterable[str | None]],
    *,
    is_titled: bool = False,
) -> Html:
    """Return a table; the first cell of a row is its heading.

    Digits of numbers are aligned. On a phone, which would have to scroll a table of three or more
    columns, each row is shown as a card with named cells.

    Args:
        caption: What the table shows.
        names: The columns' names.
        rows: The cells.
        is_titled: Whether a heading above says the same, so that only screen readers need the
            caption.
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
    """Return no role: the parts of a table keep the roles that they have."""


def _side(column: Sequence[str | None]) -> str | None:
    """Return the class of a column's cells: "number" if it has numbers only."""
    said = [cell for cell in column if cell not in _NO_NUMBER]
    return "number" if said and all(cell and _NUMBER.fullmatch(cell) for cell in said) else None


def _name(key: str) -> str:
    return key.removesuffix("_").replace("_", "-")
