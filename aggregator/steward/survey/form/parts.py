"""A question on the page that is answered with options or numbers: its fields, and its data."""

from collections.abc import Mapping
from fractions import Fraction
from html import escape

from aggregator.client.survey.answers import Some
from aggregator.client.survey.numbers import as_text
from aggregator.errors import ParameterError
from aggregator.steward.survey.form.translations import filled
from aggregator.steward.survey.questions.base import NumberField, Question

MOST_OPTIONS = 200
"""The most labels or columns of a question: nobody would read through more."""

Words = Mapping[str, str]


class Part:
    """One question of the page; a `ParameterError` if it has more labels than a page shows.

    If hidden, it appears only once other questions are answered.
    """

    def __init__(self, number: int, question: Question, words: Words, *, is_hidden: bool) -> None:
        self._number, self._question, self._words = number, question, words
        self.is_hidden = is_hidden
        self._options, self._numbers = question.options(words), question.number_fields
        for what, count in ("labels", len(self._options)), ("columns", len(self._numbers)):
            if count > MOST_OPTIONS:
                raise ParameterError(
                    f"question {question.name}: a page shows at most {MOST_OPTIONS} {what}, "
                    f"not {count}"
                )

    @property
    def _text(self) -> str:
        return self._question.text or self._question.name

    def _names(self) -> dict[str, str]:
        """Return the values of names in braces, in the words about this question."""
        match self._question.simplest, self._numbers:
            case Some(most=most), _:
                return {"most": str(most)}
            case _, [NumberField(label="") as field]:
                return _range_names(field)
            case _:
                return {}

    def data(self) -> dict[str, object]:
        """Return the question's data for the script."""
        found: dict[str, object] = {"text": self._text, "names": self._names()}
        if self._numbers and self._numbers[0].is_in_range:
            found["range"] = self._numbers[0].grid.data()
        return found

    def html(self, words: Words, place: int, count: int) -> str:
        """Return its fields; it is number `place` of the `count` questions shown at first."""
        number = self._number
        said = filled(words["question"], number=str(place), count=str(count))
        is_some = isinstance(self._question.simplest, Some)
        kind = "checkbox" if is_some or self._numbers else "radio"
        fields = [self._option(kind, str(at), label) for at, label in enumerate(self._options)]
        if is_some:
            fields.append(self._option(kind, "none", words["none"]))
        fields += self._number_fields()
        fields.append(self._option(kind, "skip", words["skip"]))
        return (
            f'<fieldset aria-describedby="q{number}-hint q{number}-fault"'
            f"{' hidden' if self.is_hidden else ''}>"
            f'<legend id="q{number}-legend"><small>{escape(said)}</small>{escape(self._text)}'
            f'</legend>\n<p class="soft" id="q{number}-hint">{escape(self._hint())}</p>\n'
            f'<p class="fault" id="q{number}-fault" hidden></p>\n{"".join(fields)}</fieldset>\n'
        )

    def _number_fields(self) -> list[str]:
        match self._numbers:
            case [NumberField(label="", unit=unit)]:
                name = f"q{self._number}"
                own = f"{name}-number"
                labelled = (
                    f'aria-labelledby="{name}-legend" {_described(own, f"{name}-hint", name)}'
                )
                field = f"{_input(own, name)}{labelled}> {_unit(own, unit)}"
                return [f'<div class="amount">{field}</div>\n']
            case fields:
                return [self._column(place, field) for place, field in enumerate(fields)]

    def _column(self, place: int, field: NumberField) -> str:
        """Return the field of one number of several, below its own label and range."""
        name = f"q{self._number}"
        label, own = escape(field.label), f"{name}-number-{place}"
        said = escape(self._of_range(field))
        hint = f'<span class="soft" id="{own}-hint">{said}</span>'
        box = f"{_input(own, name)}{_described(own, f'{own}-hint', name)}>"
        return (
            f'<div class="column"><label for="{own}">{label}</label><div class="amount">{box} '
            f"{_unit(own, field.unit)} {hint}</div></div>\n"
        )

    def _hint(self) -> str:
        words = self._words
        match self._question.simplest, self._numbers:
            case Some(most=most), _:
                name = "choose_at_most" if most < len(self._options) else "choose_some"
                return filled(words[name], **self._names())
            case _, [NumberField(label="") as field]:
                return self._of_range(field)
            case _, [_, *_]:
                return words["numbers"]
            case _:
                return words["choose_one"]

    def _of_range(self, field: NumberField) -> str:
        """Return which numbers are possible, in words."""
        name = "number" if field.is_in_range or field.grid.step == 1 else "number_in_steps"
        return filled(self._words[name], **_range_names(field))

    def _option(self, kind: str, value: str, label: str) -> str:
        name = f"q{self._number}"
        return (
            f'<label class="option" for="{name}-{value}"><input type="{kind}" name="{name}" '
            f'id="{name}-{value}" value="{value}"> <span>{escape(label)}</span></label>\n'
        )


def _input(own: str, name: str) -> str:
    """Return the beginning of a field for a number."""
    return f'<input id="{own}" name="{name}-number" type="text" inputmode="decimal" '


def _unit(own: str, unit: str) -> str:
    """Return the unit of a field, which is read out with it."""
    return f'<span id="{own}-unit">{escape(unit)}</span>'


def _described(own: str, hint: str, name: str) -> str:
    return f'aria-describedby="{own}-unit {hint} {name}-fault"'


def _range_names(field: NumberField) -> dict[str, str]:
    grid = field.grid
    step = Fraction(1) if field.is_in_range else grid.step
    return {"low": as_text(grid.low), "high": as_text(grid.high), "step": as_text(step)}
