"""The texts of a page in all its languages, by the places where they stand."""

from collections.abc import Mapping, Sequence
from html import escape

from aggregator.steward.survey.said import Own, Said

Words = Mapping[str, str]
Text = Own | Said
"""What a place says, in whatever language."""


class Texts:
    """Collects what a page says where, so that it can be said in another language.

    A place is written in the first language, with its number, by which the script finds what it
    says in others.

    Attributes:
        words: The strings of the page, in each language.
        places: What each place says, as the script reads it.
        own: The survey's own texts, each in all languages.
    """

    def __init__(self, words: Sequence[Words]) -> None:
        self.words = words
        self.places: list[object] = []
        self.own: list[tuple[str, ...]] = []
        self._numbers: dict[tuple[str, ...], int] = {}
        self._used: set[str] = set()

    def number(self, texts: Sequence[str]) -> int:
        """Return the number of a text of the survey's own, given in each language."""
        key = tuple(texts)
        if key not in self._numbers:
            self._numbers[key] = len(self.own)
            self.own.append(key)
        return self._numbers[key]

    def data(self, said: Text | Sequence[Text]) -> object:
        """Return what is said, the same in each language or one for each, as the script reads it.

        That is the number of a text of the survey's own; the name of a string; or a list of that
        name, its values and the number of a unit.
        """
        each = [said] * len(self.words) if isinstance(said, Own | Said) else said
        match each[0]:
            case Own():
                return self.number([one.text for one in each if isinstance(one, Own)])
            case Said(word=word, values=values, unit=unit):
                self._used.add(word)
                if not values:
                    return word
                given = {  # scripts have times in milliseconds
                    name: 1000 * each if isinstance(each, int) else each
                    for name, each in values.items()
                }
                units = [one.unit for one in each if isinstance(one, Said)]
                return [word, given, *([self.number(units)] if unit else [])]

    def tag(self, name: str, said: Text | Sequence[Text], more: str = "") -> str:
        """Return an element that says a text, with more attributes; written by no language's rules.

        What the steward wrote has the direction of its own letters.
        """
        place = len(self.places)
        self.places.append(self.data(said))
        first = said if isinstance(said, Own | Said) else said[0]
        text = first.text if isinstance(first, Own) else first.text(self.words[0])
        auto = ' dir="auto"' if isinstance(first, Own) and name != "bdi" else ""
        return f'<{name}{more}{auto} data-t="{place}">{escape(text)}</{name}>'

    def is_used(self, word: str) -> bool:
        """Return whether a string stands anywhere."""
        return word in self._used
