"""A question on the page that is answered with options or numbers: its fields, and its data."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from html import escape

from aggregator.client.survey.numbers import Grid, as_text
from aggregator.errors import ParameterError
from aggregator.steward.survey.form.translations import filled
from aggregator.steward.survey.questions.base import Question
from aggregator.steward.survey.questions.labels import Choice, Multiple, YesNo
from aggregator.steward.survey.questions.numbers import Bins, Number, Scale
from aggregator.steward.survey.questions.trees import Hierarchy
from aggregator.steward.survey.questions.vectors import Column, Vector

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
        self._labels = _labels_of(question, words)
        fields, what = len(self._labels), "labels"
        if isinstance(question, Vector):
            fields, what = len(question.entries), "columns"
        if fields > MOST_OPTIONS:
            raise ParameterError(
                f"question {question.name}: a page shows at most {MOST_OPTIONS} {what}, "
                f"not {fields}"
            )

    @property
    def _text(self) -> str:
        return self._question.text or self._question.name

    def _names(self) -> dict[str, str]:
        """Return the values of names in braces, in the words about this question."""
        match self._question:
            case Number(low=low, high=high, step=step):
                return _range_names(low, high, step)
            case Hierarchy(low=Fraction() as low, high=Fraction() as high):
                return _range_names(low, high)
            case Multiple(labels=labels, at_most=at_most):
                return {"most": str(at_most or len(labels))}
            case _:
                return {}

    def data(self) -> dict[str, object]:
        """Return the question's data for the script."""
        found: dict[str, object] = {"text": self._text, "names": self._names()}
        match self._question:
            case Hierarchy(low=Fraction() as low, high=Fraction() as high, leaves=int() as leaves):
                # A number is written, and the leaf that it is in is counted.
                grid = Grid(low, (high - low) / leaves, leaves, self._question.clip)
                found["range"] = grid.data()
            case _:
                pass
        return found

    def html(self, words: Words, place: int, count: int) -> str:
        """Return its fields; it is number `place` of the `count` questions shown at first."""
        number, question = self._number, self._question
        said = filled(words["question"], number=str(place), count=str(count))
        is_some = isinstance(question, Multiple)
        numbers = self._number_fields()
        kind = "checkbox" if is_some or numbers else "radio"
        fields = [self._option(kind, str(value), label) for value, label in enumerate(self._labels)]
        if is_some:
            fields.append(self._option(kind, "none", words["none"]))
        fields += numbers
        fields.append(self._option(kind, "skip", words["skip"]))
        return (
            f'<fieldset aria-describedby="q{number}-hint q{number}-fault"'
            f"{' hidden' if self.is_hidden else ''}>"
            f'<legend id="q{number}-legend"><small>{escape(said)}</small>{escape(self._text)}'
            f'</legend>\n<p class="soft" id="q{number}-hint">{escape(self._hint())}</p>\n'
            f'<p class="fault" id="q{number}-fault" hidden></p>\n{"".join(fields)}</fieldset>\n'
        )

    def _number_fields(self) -> list[str]:
        name = f"q{self._number}"
        match self._question:
            case Vector(entries=columns):
                return [self._column(place, column) for place, column in enumerate(columns)]
            case Number(unit=unit) | Hierarchy(regions=(), unit=unit):
                own = f"{name}-number"
                labelled = (
                    f'aria-labelledby="{name}-legend" {_described(own, f"{name}-hint", name)}'
                )
                field = f"{_input(own, name)}{labelled}> {_unit(own, unit)}"
                return [f'<div class="amount">{field}</div>\n']
            case _:
                return []

    def _column(self, place: int, column: Column) -> str:
        """Return the field of one number of several, below its own label and range."""
        name = f"q{self._number}"
        label, own = escape(column.name), f"{name}-number-{place}"
        said = escape(self._of_range(column.low, column.high, column.step))
        hint = f'<span class="soft" id="{own}-hint">{said}</span>'
        field = f"{_input(own, name)}{_described(own, f'{own}-hint', name)}>"
        return (
            f'<div class="column"><label for="{own}">{label}</label><div class="amount">{field} '
            f"{_unit(own, column.unit)} {hint}</div></div>\n"
        )

    def _hint(self) -> str:
        words = self._words
        match self._question:
            case Number(low=low, high=high, step=step):
                return self._of_range(low, high, step)
            case Hierarchy(low=Fraction() as low, high=Fraction() as high):
                return self._of_range(low, high)
            case Vector():
                return words["numbers"]
            case Multiple(labels=labels, at_most=at_most):
                is_bound = at_most is not None and at_most < len(labels)
                name = "choose_at_most" if is_bound else "choose_some"
                return filled(words[name], **self._names())
            case _:
                return words["choose_one"]

    def _of_range(self, low: Fraction, high: Fraction, step: Fraction = Fraction(1)) -> str:
        """Return which numbers are possible, in words."""
        name = "number" if step == 1 else "number_in_steps"
        return filled(self._words[name], **_range_names(low, high, step))

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


def _range_names(low: Fraction, high: Fraction, step: Fraction = Fraction(1)) -> dict[str, str]:
    return {"low": as_text(low), "high": as_text(high), "step": as_text(step)}


def _labels_of(question: Question, words: Words) -> Sequence[str]:
    """Return the labels that a person chooses from; none where numbers are written."""
    match question:
        case Choice(labels=labels) | Multiple(labels=labels):
            return labels
        case YesNo():
            return (words["yes"], words["no"])
        case Scale(choices=labels):
            return labels
        case Bins(choices=labels, unit=unit):
            return [f"{label} {unit}".rstrip() for label in labels]
        case Hierarchy(regions=(_, *_)):
            return question.paths
        case _:
            return ()
