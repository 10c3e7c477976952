"""A question on the page that is answered with options or numbers: its fields, and its data."""

from collections.abc import Mapping, Sequence
from fractions import Fraction

from aggregator.client.survey.answers import Some
from aggregator.client.survey.numbers import as_text
from aggregator.errors import ParameterError
from aggregator.steward.survey.form.texts import Text, Texts
from aggregator.steward.survey.questions.base import NumberField, Question
from aggregator.steward.survey.said import Own, Said

MOST_OPTIONS = 200
"""The most labels or columns of a question: nobody would read through more."""


class Part:
    """One question of the page; a `ParameterError` if it has more labels than a page shows.

    The question is given in each language, first its own. If hidden, it appears only once other
    questions are answered.
    """

    def __init__(
        self, number: int, questions: Sequence[Question], texts: Texts, *, is_hidden: bool
    ) -> None:
        self._number, self._question, self._texts = number, questions[0], texts
        self.is_hidden = is_hidden
        self._text = [Own(each.text or each.name) for each in questions]
        self._options = list(zip(*(each.options for each in questions), strict=True))
        self._numbers: list[tuple[NumberField, ...]] = list(
            zip(*(each.number_fields for each in questions), strict=True)
        )
        for what, count in ("labels", len(self._options)), ("columns", len(self._numbers)):
            if count > MOST_OPTIONS:
                raise ParameterError(
                    f"question {self._question.name}: a page shows at most {MOST_OPTIONS} {what}, "
                    f"not {count}"
                )

    @property
    def _field(self) -> NumberField | None:
        """The field of a number, if that is all that is asked."""
        if len(self._numbers) != 1 or self._numbers[0][0].label:
            return None
        return self._numbers[0][0]

    def _names(self) -> Mapping[str, str]:
        """Return the values of names in braces, in the words about this question."""
        if isinstance(self._question.simplest, Some):
            return {"most": str(self._question.simplest.most)}
        return range_names(self._field) if self._field else {}

    def data(self) -> dict[str, object]:
        """Return the question's data for the script."""
        found: dict[str, object] = {"text": self._texts.data(self._text), "names": self._names()}
        if self._numbers and self._numbers[0][0].is_in_range:
            found["range"] = self._numbers[0][0].grid.data()
        return found

    def html(self, place: int, count: int) -> str:
        """Return its fields; it is number `place` of the `count` questions shown at first."""
        is_some = isinstance(self._question.simplest, Some)
        kind = "checkbox" if is_some or self._numbers else "radio"
        fields = [self._option(kind, str(at), label) for at, label in enumerate(self._options)]
        if is_some:
            fields.append(self._option(kind, "none", Said("none")))
        fields += self._number_fields()
        fields.append(self._option(kind, "skip", Said("skip")))
        name = f"q{self._number}"
        return fieldset(
            self._texts,
            name,
            question=(self._text, place, count),
            hints=[self._hint()],
            fields="".join(fields),
            is_hidden=self.is_hidden,
        )

    def _number_fields(self) -> list[str]:
        if self._field is None:
            return [self._column(place, each) for place, each in enumerate(self._numbers)]
        name = f"q{self._number}"
        own = f"{name}-number"
        labelled = f'aria-labelledby="{name}-legend" {_described(own, f"{name}-hint", name)}'
        field = f"{_input(own, name)}{labelled}> {_unit(self._texts, own, self._numbers[0])}"
        return [f'<div class="amount">{field}</div>\n']

    def _column(self, place: int, fields: Sequence[NumberField]) -> str:
        name = f"q{self._number}"
        return labelled_number(self._texts, name, f"{name}-number-{place}", fields)

    def _hint(self) -> Said:
        match self._question.simplest:
            case Some(most=most) if most < len(self._options):
                return Said("choose_at_most", self._names())
            case Some():
                return Said("choose_some")
            case _ if self._field:
                return _of_range(self._field)
            case _:
                return Said("numbers" if self._numbers else "choose_one")

    def _option(self, kind: str, value: str, label: Text | Sequence[Text]) -> str:
        return option(self._texts, kind, f"q{self._number}", value, label)


def fieldset(
    texts: Texts,
    name: str,
    *,
    question: tuple[Sequence[Own], int, int],
    hints: Sequence[Text | Sequence[Text]],
    fields: str,
    is_hidden: bool,
) -> str:
    """Return the fields of a question, below its text, place and the number of questions."""
    text, place, count = question
    said = Said("question", {"number": str(place), "count": str(count)})
    legend = texts.tag("small", said) + texts.tag("bdi", text)
    below = " ".join(texts.tag("span", hint) for hint in hints)
    return (
        f'<fieldset aria-describedby="{name}-hint {name}-fault"{" hidden" if is_hidden else ""}>'
        f'<legend id="{name}-legend">{legend}</legend>\n'
        f'<p class="soft" id="{name}-hint">{below}</p>\n'
        f'<p class="fault" id="{name}-fault" hidden></p>\n{fields}</fieldset>\n'
    )


def option(texts: Texts, kind: str, name: str, value: str, label: Text | Sequence[Text]) -> str:
    """Return one of the options of a question."""
    return (
        f'<label class="option" for="{name}-{value}"><input type="{kind}" name="{name}" '
        f'id="{name}-{value}" value="{value}"> {texts.tag("span", label)}</label>\n'
    )


def labelled_number(texts: Texts, name: str, own: str, fields: Sequence[NumberField]) -> str:
    """Return the field of a number below its own label and range, given in each language."""
    label = texts.tag("bdi", [Own(each.label) for each in fields])
    box = f"{_input(own, name)}{_described(own, f'{own}-hint', name)}>"
    hint = texts.tag("span", _of_range(fields[0]), f' class="soft" id="{own}-hint"')
    return (
        f'<div class="column"><label for="{own}">{label}</label><div class="amount">{box} '
        f"{_unit(texts, own, fields)} {hint}</div></div>\n"
    )


def _unit(texts: Texts, own: str, fields: Sequence[NumberField]) -> str:
    """Return the unit of a field, which is read out with it."""
    return texts.tag("bdi", [Own(each.unit) for each in fields], f' id="{own}-unit"')


def _input(own: str, name: str) -> str:
    """Return the beginning of a field for a number."""
    return f'<input id="{own}" name="{name}-number" type="text" inputmode="decimal" '


def _described(own: str, hint: str, name: str) -> str:
    return f'aria-describedby="{own}-unit {hint} {name}-fault"'


def _of_range(field: NumberField) -> Said:
    """Return which numbers are possible."""
    names = range_names(field)
    return Said("number" if names["step"] == "1" else "number_in_steps", names)


def range_names(field: NumberField) -> dict[str, str]:
    """Return the values of names in braces, in the words about a number."""
    grid = field.grid
    step = Fraction(1) if field.is_in_range else grid.step
    return {"low": as_text(grid.low), "high": as_text(grid.high), "step": as_text(step)}
