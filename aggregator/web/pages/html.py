"""Markup from elements: whatever is not markup already is escaped, wherever it stands."""

import html
import itertools
import re
from collections.abc import Iterable, Sequence

_VOID = frozenset({"br", "circle", "input", "line", "link", "meta", "path", "polyline", "rect"})

_UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
"""Characters that neither HTML nor XML can hold."""

Attribute = str | int | float | bool | None

_LONG = 300
"""Characters of others' text from which on it gets a box that scrolls."""

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


def table(caption: str, names: Iterable[str], rows: Iterable[Iterable[str | None]]) -> Html:
    """Return a table that a narrow screen can scroll; the first cell of a row is its heading.

    The digits of numbers stand below each other.
    """
    listed = [tuple(row) for row in rows]
    sides = [_side(column) for column in zip(*listed, strict=True)]
    heads = itertools.zip_longest(names, sides)
    head = tag("tr", *(tag("th", name, scope="col", class_=side) for name, side in heads))
    body = []
    for first, *others in listed:
        cells = (tag("td", cell, class_=side) for cell, side in zip(others, sides[1:], strict=True))
        body.append(tag("tr", tag("th", first, scope="row", class_=sides[0]), *cells))
    made = tag("table", tag("caption", caption), tag("thead", head), tag("tbody", *body))
    return tag("div", made, class_="scroll", tabindex=0, role="region", aria_label=caption)


def _side(column: Sequence[str | None]) -> str | None:
    """Return the class of a column's cells: "number" if it has numbers only."""
    said = [cell for cell in column if cell not in _NO_NUMBER]
    return "number" if said and all(cell and _NUMBER.fullmatch(cell) for cell in said) else None


def _name(key: str) -> str:
    return key.removesuffix("_").replace("_", "-")
