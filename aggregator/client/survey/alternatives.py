"""The possible answers to a question that takes one of several: labels, yes and no, or points."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from aggregator.client.survey.numbers import Unfit, number, truth
from aggregator.client.text.strings import composed

_SHOWN = 8


class Alternatives(Protocol):
    """The possible answers of a question that takes one of several."""

    @property
    def choices(self) -> Sequence[str]:
        """What the answers are called."""

    def place(self, answer: object) -> int:
        """Return the place of an answer among them, or raise `Unfit`."""

    def data(self) -> dict[str, object]:
        """Return the answers as JSON data, for other interpreters."""


def comparable(label: str) -> str:
    """Return what a label is compared by: its NFC, without the blanks at its ends."""
    return composed(label.strip())


class Labels:
    """One of some texts; ValueError if two are the same label."""

    def __init__(self, labels: Sequence[str]) -> None:
        self.choices = labels
        self._places = dict[str, int]()
        for place, label in enumerate(labels):
            # Not by counting each: a hostile meaning may have very many labels.
            first = labels[self._places.setdefault(comparable(label), place)]
            if first != label:
                raise ValueError(
                    f"labels: {first!a} and {label!a} are the same label: neither blanks "
                    "at its ends nor how its accents are encoded make another"
                )
        if len(self._places) < len(labels):
            twice = next(
                label
                for place, label in enumerate(labels)
                if self._places[comparable(label)] < place
            )
            raise ValueError(f"labels: {twice!r} is there twice")
        more = f" and {len(labels) - _SHOWN} more" if len(labels) > _SHOWN else ""
        self.said = f"one of {', '.join(map(repr, labels[:_SHOWN]))}{more}"

    def place(self, answer: object) -> int:
        """See `Alternatives`."""
        if isinstance(answer, str):
            place = self._places.get(comparable(answer))
            if place is not None:
                return place
        raise Unfit(f"must be {self.said}")

    def data(self) -> dict[str, object]:
        """See `Alternatives`."""
        return {"labels": list(self.choices)}


class YesNo:
    """Yes or no, as text, as a truth value, or as 1 and 0."""

    choices = ("yes", "no")
    _PLACES: Mapping[str, int] = {
        **dict.fromkeys(("yes", "true"), 0),
        **dict.fromkeys(("no", "false"), 1),
    }

    def place(self, answer: object) -> int:
        """See `Alternatives`."""
        written = answer.strip().lower() if isinstance(answer, str) else ""
        if written in self._PLACES:
            return self._PLACES[written]
        with suppress(Unfit):
            given = truth(answer)
            value = number(answer) if given is None else given
            if value in (0, 1):
                return 1 - int(value)
        raise Unfit("must be yes or no, or true or false")

    def data(self) -> dict[str, object]:
        """See `Alternatives`."""
        return {"labels": list(self.choices), "is_truth": True}


class Points:
    """A whole number of a scale, or the label of one."""

    def __init__(self, low: int, high: int, labels: Sequence[str]) -> None:
        self._low, self._high = low, high
        self._labels = Labels(labels) if labels else None

    @property
    def choices(self) -> Sequence[str]:
        """See `Alternatives`."""
        if self._labels is not None:
            return self._labels.choices
        return [str(point) for point in range(self._low, self._high + 1)]

    def place(self, answer: object) -> int:
        """See `Alternatives`."""
        said = f"must be a whole number from {self._low} to {self._high}"
        if self._labels is not None:
            said += f", or {self._labels.said}"
            if isinstance(answer, str):
                try:
                    return self._labels.place(answer)
                except Unfit:
                    pass  # a number, perhaps
        try:
            value = number(answer)
        except Unfit:
            raise Unfit(said) from None
        if value.denominator != 1 or not self._low <= value <= self._high:
            raise Unfit(said)
        return int(value) - self._low

    def data(self) -> dict[str, object]:
        """See `Alternatives`."""
        named = self._labels.data() if self._labels is not None else {}
        return {"points": [self._low, self._high], **named}
