"""The possible answers to a question that takes one of several: labels, yes and no, or points."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from aggregator.client.survey.numbers import Unfit, number

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


class Labels:
    """One of some texts."""

    def __init__(self, labels: Sequence[str]) -> None:
        self.choices = labels
        self._places = {label: place for place, label in enumerate(labels)}
        if len(self._places) < len(labels):
            # Not by counting each: a hostile meaning may have very many labels.
            twice = next(label for place, label in enumerate(labels) if self._places[label] > place)
            raise ValueError(f"labels: {twice!r} is there twice")
        more = f" and {len(labels) - _SHOWN} more" if len(labels) > _SHOWN else ""
        self.said = f"one of {', '.join(map(repr, labels[:_SHOWN]))}{more}"

    def place(self, answer: object) -> int:
        """See `Alternatives`."""
        if isinstance(answer, str):
            for written in (answer, answer.strip()):  # a label may begin with a blank itself
                if written in self._places:
                    return self._places[written]
        raise Unfit(f"must be {self.said}")

    def data(self) -> dict[str, object]:
        """See `Alternatives`."""
        return {"labels": list(self.choices)}


class YesNo:
    """Yes or no, as text or as a truth value."""

    choices = ("yes", "no")
    _PLACES: Mapping[str, int] = {
        **dict.fromkeys(("yes", "true", "1"), 0),
        **dict.fromkeys(("no", "false", "0"), 1),
    }

    def place(self, answer: object) -> int:
        """See `Alternatives`."""
        if isinstance(answer, int) and answer in (0, 1):  # a larger number may be too long for text
            answer = str(int(answer))
        written = answer.strip().lower() if isinstance(answer, str) else ""
        if written not in self._PLACES:
            raise Unfit("must be yes or no, or true or false")
        return self._PLACES[written]

    def data(self) -> dict[str, object]:
        """See `Alternatives`."""
        return {"labels": list(self.choices)}


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
