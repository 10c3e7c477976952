"""Reads pages as a browser without scripts would: elements, attributes and text."""

import dataclasses
from html.parser import HTMLParser

from typing_extensions import override


@dataclasses.dataclass
class Element:
    """One element of a page, with all the text in it."""

    name: str
    attributes: dict[str, str]
    text: str = ""


class Page(HTMLParser):
    """All elements of a page in their order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[Element] = []
        self._open: list[Element] = []
        self.feed(text)
        self.close()

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.elements.append(element)
        self._open.append(element)

    @override
    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self._open.pop()

    @override
    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop().name == tag, f"</{tag}> closes another element"

    @override
    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.text += data

    def all(self, name: str) -> list[Element]:
        return [each for each in self.elements if each.name == name]

    def form(self, action: str) -> dict[str, str]:
        """Return the hidden fields of the first form with this action."""
        start = next(
            place
            for place, each in enumerate(self.elements)
            if each.name == "form" and each.attributes.get("action") == action
        )
        fields: dict[str, str] = {}
        for each in self.elements[start + 1 :]:
            if each.name == "form":
                break
            if each.name == "input" and each.attributes.get("type") == "hidden":
                fields[each.attributes["name"]] = each.attributes["value"]
        return fields
