"""A survey's title and questions in another language, by their places: for its page only."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from aggregator.steward.survey.about import About
from aggregator.steward.survey.questions import Question
from aggregator.steward.survey.questions.base import check_labels
from aggregator.steward.survey.questions.trees import Hierarchy, Region
from aggregator.steward.survey.questions.vectors import Vector
from aggregator.steward.survey.said import Own

if TYPE_CHECKING:
    from aggregator.client.text.amounts import Amount

_CONFIG = ConfigDict(frozen=True, extra="forbid", strict=True)


class TranslatedColumn(BaseModel):
    """A column of a vector, as it is called in another language."""

    model_config = _CONFIG

    name: str = Field(min_length=1)
    unit: str = ""


class TranslatedAmount(BaseModel):
    """The number beside one's own words, as it is asked for in another language."""

    model_config = _CONFIG

    text: str = Field(min_length=1)
    unit: str = ""


class TranslatedQuestion(BaseModel):
    """A question in another language, with as many labels, regions and columns, in their order."""

    model_config = _CONFIG

    text: str = Field(min_length=1)
    labels: tuple[str, ...] = Field(default=(), strict=False)
    unit: str = ""
    regions: tuple[Region, ...] = Field(default=(), strict=False)
    column: tuple[TranslatedColumn, ...] = Field(default=(), strict=False)
    amount: TranslatedAmount | None = None


class Translation(BaseModel):
    """All that a survey says, in another language."""

    model_config = _CONFIG

    title: str = Field(min_length=1, max_length=100)
    about: About = About()
    question: Mapping[str, TranslatedQuestion] = {}

    @property
    def digest(self) -> str:
        """SHA-256, in hexadecimal, of the title and the questions."""
        # Without an amount, what is said of a question has no place for one.
        said = self.model_dump(mode="json", exclude={"about"}, exclude_none=True)
        text = json.dumps(said, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


def translated(question: Question, into: TranslatedQuestion) -> Question:
    """Return a question as it is asked in another language; for pages only.

    Raises ValueError if something is missing, or there is more than the question has.
    """
    own = {name: getattr(question, name) for name in type(question).model_fields}
    labels, unit = own.get("labels", ()), own.get("unit", "")
    _check("labels", labels, into.labels)
    _check("unit", unit and [unit], into.unit and [into.unit])
    own |= {"text": into.text, **_given(labels=into.labels, unit=into.unit)}
    regions = question.regions if isinstance(question, Hierarchy) else ()
    _check("regions", regions, into.regions)
    if _shape(regions) != _shape(into.regions):
        raise ValueError("regions: must have as many regions below each, in the same order")
    columns = question.entries if isinstance(question, Vector) else ()
    _check("column", columns, into.column)
    _check("amount", (), [into.amount] if into.amount else ())
    for column, other in zip(columns, into.column, strict=True):
        _check(f"column {other.name}: unit", column.unit, other.unit and column.unit)
    entries = [
        column.model_copy(update=other.model_dump())
        for column, other in zip(columns, into.column, strict=True)
    ]
    own |= _given(regions=into.regions, entries=tuple(entries))
    made = type(question).model_construct(**own)
    options = [each.text for each in made.options if isinstance(each, Own)]
    for names in options, [each.name for each in into.column]:
        if names:
            check_labels(names, least=1)
    return made


def check_written(into: TranslatedQuestion, amount: "Amount | None") -> None:
    """Refuse more or less than a question has that people answer in their own words.

    That is its text, and the number beside it if one is asked for. Raises ValueError.
    """
    for name in into.model_fields_set - {"text", "amount"}:
        _check(name, (), getattr(into, name))
    _check("amount", [amount] if amount else (), [into.amount] if into.amount else ())
    if amount and into.amount:
        unit, other = amount.unit, into.amount.unit
        _check("amount: unit", [unit] if unit else (), [other] if other else ())


def _given(**values: object) -> dict[str, object]:
    return {name: value for name, value in values.items() if value}


def _check(name: str, own: Sequence[object], given: Sequence[object]) -> None:
    """Refuse fewer or more than the question has, by a ValueError."""
    if own and not given:
        raise ValueError(f"{name}: missing")
    if given and not own:
        raise ValueError(f"{name}: the question has none")
    if len(own) != len(given):
        raise ValueError(f"{name}: must be {len(own)}, in the same order, not {len(given)}")


def _shape(regions: Sequence[Region]) -> object:
    return [_shape(each.below) for each in regions]
