"""What a steward filled in, checked: every field is bounded, so that every answer is quick."""

import dataclasses
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from fractions import Fraction
from functools import cached_property
from typing import Final, get_args

from aggregator.dp.by_section import Base
from aggregator.dp.discrete_laplace import PureDpDiscreteLaplace
from aggregator.errors import ParameterError
from aggregator.steward.planner.fields import Fields, short
from aggregator.steward.planner.survey_file import TomlValue, table
from aggregator.steward.planner.survey_question import question_table
from aggregator.steward.survey import Budget, Question, Survey, Windows, survey_from_toml

RHO = "\N{GREEK SMALL LETTER RHO}"

_NOISY: Final[Mapping[str, type[Base]]] = {kind.name: kind for kind in get_args(Base)}

NOISES: Final = {name: kind.offered or name for name, kind in _NOISY.items()}
"""The kinds of noise that a survey may have."""

SHAPES: Final = {
    "falling": "fewer and fewer of each",
    "bell": "most in the middle",
    "even": "as many of each",
}
"""How made-up answers are distributed."""

GOALS: Final = {"error": "the wanted error", "strength": "the allowed privacy loss"}

DEFAULTS: Final[Mapping[str, str]] = {
    "text": "How was your workload this month?",
    "kind": "choice",
    "labels": "too little\nlittle\nright\nmuch\ntoo much",
    "at_most": "",
    "low": "1",
    "high": "5",
    "step": "1",
    "unit": "",
    "edges": "0, 10, 20, 40, 80",
    "columns": "hours of work, 0, 80, 1, h\ndays away, 0, 31, 1, d",
    "regions": "North\n  Harbour\n  Hill\nSouth\n  Market\n  Mill",
    "people": "1800",
    "window": "4 weeks",
    "windows": "13",
    "first": "",
    "title": "A survey",
    "asked": "the people who are asked",
    "goal": "error",
    "error": "3",
    "strength": "0.16",
    "mechanism": PureDpDiscreteLaplace.name,
    "delta": "0.000001",
    "shape": "falling",
}
"""The fields of the form, with their initial values."""

MOST_PEOPLE = 10**9
MOST_WINDOWS = 1000
LEAST_STRENGTH = Fraction(1, 1000)
MOST_STRENGTH = 20
_DAY = 86400
_YEAR = 365 * _DAY


@dataclasses.dataclass(frozen=True)
class Draft:
    """A planned question; made by `Draft.of`.

    Attributes:
        question_toml: The question's table in a survey file.
        window: The length of a window, as a survey file says it.
        windows: How many windows there are to be.
        people: How many answer in a window, at least.
        error: The wanted half-width of a 95 % interval, as a part of the largest figure; None if
            the strength is given instead.
        strength: The epsilon, or rho, of one window; None if the error is given.
        delta: The delta of a year.
    """

    question_toml: str
    title: str
    asked: str
    window: str
    windows: int
    first: date
    people: int
    mechanism: str
    error: Fraction | None
    strength: Fraction | None
    delta: Fraction
    shape: str

    @classmethod
    def of(cls, fields: Mapping[str, str], today: date) -> "Draft":
        """Read a form; a missing field has its value in `DEFAULTS`.

        Args:
            fields: Their texts, by name.
            today: If no first day is named, the first window begins on a later day than this.

        Raises:
            ParameterError: Names the field and its limit.
        """
        form = Fields({**DEFAULTS, **fields})
        wants_error = form.one_of("goal", GOALS) == "error"
        asked = f"[[question]]\n{table(question_table(form))}"
        draft = cls(
            question_toml=asked,
            title=form.text("title"),
            asked=form.text("asked"),
            window=form.text("window"),
            windows=form.whole("windows", 1, MOST_WINDOWS),
            first=_first(form.text("first"), today),
            people=form.whole("people", 1, MOST_PEOPLE),
            mechanism=form.one_of("mechanism", NOISES),
            error=form.number("error", 0, 100) / 100 if wants_error else None,
            strength=None if wants_error else form.number("strength", 0, MOST_STRENGTH),
            delta=form.number("delta", 0, 1),
            shape=form.one_of("shape", SHAPES),
        )
        if draft.strength is not None and draft.strength < LEAST_STRENGTH:
            raise ParameterError(f"strength must be at least {float(LEAST_STRENGTH)}")
        if not Fraction(1, 10**15) <= draft.delta <= Fraction(1, 100):
            raise ParameterError("delta must be from 1e-15 to 0.01")
        _ = draft.question, draft.releases
        return draft

    @cached_property
    def question(self) -> Question:
        """The question, with its labels or ranges."""
        return self.survey(Fraction(1)).questions[0].question

    @cached_property
    def releases(self) -> int:
        """How many of the planned windows are in a year."""
        seconds = Windows.of(self.window, datetime.combine(self.first, time(), UTC)).seconds
        if seconds < _DAY:
            raise ParameterError("window must be a day at least: a page counts a year of them")
        return min(self.windows, max(1, _YEAR // seconds))

    def budget(self, strength: Fraction) -> Budget:
        """Return the budget of each window of a survey of this question."""
        return Budget(
            epsilon=None if self.is_of_rho else strength,
            rho=strength if self.is_of_rho else None,
            windows=self.windows,
        )

    @property
    def is_of_rho(self) -> bool:
        """Whether the noise has a rho instead of an epsilon."""
        return _NOISY[self.mechanism].parameter_names[0] == "rho"

    def survey_toml(self, strength: Fraction) -> str:
        """Return the survey file whose windows have that epsilon or rho."""
        budget = self.budget(strength).model_dump(mode="json", exclude_none=True)
        head: dict[str, TomlValue] = {
            "title": self.title,
            "asked": self.asked,
            "window": self.window,
        }
        sizes: dict[str, TomlValue] = {"min_batch_size": self.people}
        if 2 * self.people > 10**6:  # the default of a survey file
            sizes["max_reports"] = 2 * self.people
        return (
            f"{table(head)}first = {self.first.isoformat()}\n{table(sizes)}\n"
            f"[budget]\n{table(budget)}\n{self.question_toml}"
        )

    def survey(self, strength: Fraction) -> Survey:
        """Return the survey in `survey_toml`, checked, or raise `ParameterError`."""
        return survey_from_toml(self.survey_toml(strength))


def _first(text: str, today: date) -> date:
    """Return the day on which a window begins: the one named, or the next Monday."""
    if not text:
        return date.fromordinal(today.toordinal() + 7 - today.weekday())
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ParameterError(
            f"first must be a date such as 2026-11-02, not {short(text)}"
        ) from None
